"""A contest of programs that act: the fair opponent picks, and tasks have limits of their own."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from acting import CHECK, Says, add_task, done, needs_bwrap, programs

import folkmoot as fm
from folkmoot.modules.base.calls import Usage
from folkmoot.pipelines.contest.card import winner_commands
from folkmoot.pipelines.contest.contest import save_winner
from folkmoot.pipelines.contest.entrants import Entrant, fair_opponent
from folkmoot.pipelines.contest.money import task_prices
from folkmoot.pipelines.contest.plan import plan_contest
from folkmoot.pipelines.contest.request import ContestRequest
from folkmoot.pipelines.testing.server import ScriptedServer

pytestmark = needs_bwrap


def four_tasks() -> list[fm.Question]:
    tasks = [add_task(f"t{number}") for number in range(4)]
    for number, task in enumerate(tasks):
        task.question = f"{number}: {task.question}"
    return tasks


def raced(folder: Path, **options: Any) -> tuple[fm.Contest, Says]:
    solo, crew = programs(folder)
    tasks, says = four_tasks(), Says()
    with ScriptedServer(says) as server:
        lm = fm.lm("openai/m", api_base=server.url, price=(1e-6, 1e-5))
        check = fm.Check(CHECK, seconds=20, sandbox="none")
        contest = fm.contest(
            tasks, lm=lm, baseline=solo, added={"crew": crew}, check=check, tracking=False,
            out=folder / "contest", **options,
        )  # fmt: skip
    return contest, says


def test_a_crews_opponent_has_a_pick(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contest, says = raced(tmp_path, progress=True)
    places = {place["name"]: place for place in contest.result["standings"]}
    (picked,) = [name for name in places if "3 times, picked" in name]
    assert set(places) >= {"solo", "crew", picked}
    assert places["crew"]["right"] == 1.0
    assert places["solo"]["right"] == 0.0
    assert places[picked]["right"] == 1.0
    assert places[picked]["fair"]
    (ceiling,) = [name for name in places if name.startswith("any of 3 right")]
    assert (places[ceiling]["right"], places[ceiling]["calls"]) == (1.0, places[picked]["calls"])
    assert says.picks == 4
    rows = fm.load_run(contest.folder / "runs" / contest.result["runs"][picked]).rows
    assert len({turn["answer"] for turn in rows[0]["transcript"][:3]}) == 2
    assert rows[0]["usage"]["calls"] == 4
    assert not winner_commands(contest)  # it would act on the user's own folder
    # The price of a task is said as soon as the pilot is answered, and when it goes on.
    first = capsys.readouterr().err.splitlines()[0]
    assert re.match(
        r"try  3/4 questions.* a task costs \S+ USD \(median\), .*; 1 left: about", first
    )
    solo, crew = programs(tmp_path)
    request = ContestRequest(
        four_tasks(), lm=fm.lm("openai/m", api_key="k"),
        baseline=solo, added={"crew": crew}, check="true", out=contest.folder,
    )  # fmt: skip
    assert "so far: a task costs" in "\n".join(plan_contest(request).lines())


def test_a_winner_that_holds_a_command_is_named_and_not_saved(tmp_path: Path) -> None:
    command = fm.Command("python3 solo.py")
    picked = fair_opponent(Entrant("solo", command, fm.lm("openai/m", api_key="k")), 3, "task")
    for winner in (replace(picked, spec=None), replace(picked, program=command)):
        assert not save_winner(winner, tmp_path / "winner", four_tasks())
        assert "which no file can hold" in (tmp_path / "winner" / "WINNER.txt").read_text()


def test_the_price_of_a_task_is_a_median_and_a_ninth_decile() -> None:
    bills = [[Usage(calls=1, cost_usd=cost), Usage(calls=1)] for cost in (0.01, 0.02, 1.02)]
    assert task_prices(bills[:2], 9) == ""
    prices = "a task costs 0.02 USD (median), 0.82 USD (90th percentile)"
    assert task_prices(bills, 10) == f"{prices}; 10 left: about 3.5 USD"
    assert "0.04 USD (median)" in task_prices(bills, 9, again=True)
    unpriced = [[Usage(calls=calls)] for calls in (1, 2, 30)]
    assert task_prices(unpriced, 2).startswith("a task costs 2 calls (median), 24 calls")


@pytest.mark.nightly
def test_a_visible_check_takes_the_first_that_passes(tmp_path: Path) -> None:
    contest, says = raced(tmp_path, visible_check=CHECK)
    (name,) = [one["name"] for one in contest.result["standings"] if one["fair"]]
    assert name == "solo, 3 times, the first that passes the visible check"
    assert says.picks == 0
    rows = fm.load_run(contest.folder / "runs" / contest.result["runs"][name]).rows
    assert {row["decided_by"] for row in rows} == {"visible check"}


def test_without_an_answer_file_a_contest_needs_a_program_that_acts(tmp_path: Path) -> None:
    tasks = [fm.Question(id=f"t{n}", question=f"Do {n}.", kind="task") for n in range(4)]
    with pytest.raises(fm.UserError, match="give --baseline 'cmd:…', or --answer-file PATH"):
        fm.contest(tasks, lm=fm.lm("openai/m", api_key="k"), check="true", tracking=False)


def test_repeats_of_a_command_are_samples_of_their_own(tmp_path: Path) -> None:
    solo, _ = programs(tmp_path)
    with ScriptedServer(Says()) as server:
        lm = fm.lm("openai/m", api_base=server.url, price=(1e-6, 1e-5))
        check = fm.Check(CHECK, sandbox="none")
        run = done(solo, lm=lm, check=check, repeats=2, out=tmp_path / "run")
        assert len(server.bodies) == 2
    assert {row["correct"] for row in run.rows} == {False, True}


@pytest.mark.parametrize("limit", [{"max_calls_per_task": 2}, {"max_usd_per_task": 7e-5}])
def test_a_task_has_a_limit_of_its_own(tmp_path: Path, limit: dict[str, Any]) -> None:
    solo, crew = programs(tmp_path)
    tasks = [add_task(f"t{number}") for number in range(3)]
    check = fm.Check(CHECK, sandbox="none")
    for program, errors, calls in ((crew, 3, 2), (solo, 0, 1)):
        with ScriptedServer(Says()) as server:
            lm = fm.lm("openai/m", api_base=server.url, price=(1e-6, 1e-5))
            run = done(program, tasks, lm=lm, check=check, **limit)
            assert len(server.bodies) == 3 * calls
        assert run.summary.counts.errors == errors
        assert [row["usage"]["calls"] for row in run.rows] == [calls] * 3
        for row in run.rows:
            assert (row["error"] or "").startswith("over its limit of" if errors else "")
            assert row["transcript"]


def test_a_limit_in_money_needs_a_price(tmp_path: Path) -> None:
    solo, _ = programs(tmp_path)
    with ScriptedServer(Says()) as server:
        lm = fm.lm("openai/m", api_base=server.url)
        with pytest.raises(fm.UserError, match="m has no price, so --max-usd-per-task cannot"):
            done(solo, lm=lm, check="true", max_usd_per_task=1.0)
        assert len(server.bodies) == 1
