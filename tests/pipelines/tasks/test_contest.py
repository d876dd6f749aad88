"""A contest of programs that act: the fair opponent picks, and tasks have limits of their own."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from acting import REPAIRED, add_task, done, needs_bwrap
from completions import completion

import folkmoot as fm
from folkmoot.pipelines.testing.server import ScriptedServer, wanted_fields

pytestmark = needs_bwrap

CHECKS = "import sys, add; sys.exit(add.add(2, 3) != 5)"
ASK = """
import json, os, sys, urllib.request
asked = json.load(sys.stdin)
def ask(text):
    body = json.dumps({'model': 'm', 'messages': [{'role': 'user', 'content': text}]})
    sent = urllib.request.Request(os.environ['OPENAI_BASE_URL'] + '/chat/completions',
        body.encode(), {'Content-Type': 'application/json'})
    return json.load(urllib.request.urlopen(sent))['choices'][0]['message']['content']
"""
SOLO = f"""said = ask(asked['id'])
open('add.py', 'w').write({REPAIRED!r} if said == 'right' else said)
"""
CREW = f"for n in range(3): ask(asked['id'] + str(n))\nopen('add.py', 'w').write({REPAIRED!r})\n"


class Says:
    """Every second reply to a task is right; the picker takes the candidate that is."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.picks = 0

    def __call__(self, body: dict[str, Any]) -> Any:
        text = body["messages"][-1]["content"]
        if "candidate 1" in json.dumps(body["messages"]):
            self.picks += 1
            assert wanted_fields(body)
            first = text.index("candidate 1"), text.index("candidate 2")
            best = "1" if "+    return a + b" in text[first[0] : first[1]] else "2"
            return 200, {}, completion(json.dumps({"comparison": "c", "best": best}))
        self.asked[text] += 1
        return 200, {}, completion("right" if self.asked[text] % 2 == 0 else f"wrong {text}")


def programs(folder: Path) -> tuple[fm.Command, fm.Command]:
    for name, code in (("solo", SOLO), ("crew", CREW)):
        (folder / f"{name}.py").write_text(ASK + code)
    solo, crew = (f"{sys.executable} {folder / name}.py" for name in ("solo", "crew"))
    return fm.Command(solo), fm.Command(crew)


def raced(folder: Path, **options: Any) -> tuple[fm.Contest, Says]:
    solo, crew = programs(folder)
    tasks = [add_task(f"t{number}") for number in range(6)]
    for number, task in enumerate(tasks):
        task.question = f"{number}: {task.question}"
    says = Says()
    with ScriptedServer(says) as server:
        lm = fm.lm("openai/m", api_base=server.url, price=(1e-6, 1e-5))
        check = fm.Check(f"{sys.executable} -c {CHECKS!r}", seconds=20)
        contest = fm.contest(
            tasks, lm=lm, baseline=solo, added={"crew": crew}, check=check, tracking=False,
            out=folder / "contest", **options,
        )  # fmt: skip
    return contest, says


def test_the_fair_opponent_of_a_crew_is_the_baseline_with_a_pick(tmp_path: Path) -> None:
    contest, says = raced(tmp_path)
    places = {place["name"]: place for place in contest.result["standings"]}
    (picked,) = [name for name in places if "3 times, picked" in name]
    assert set(places) >= {"solo", "crew", picked}
    assert places["crew"]["right"] == 1.0
    assert places["solo"]["right"] == 0.0
    assert places[picked]["right"] == 1.0
    assert places[picked]["fair"]
    (ceiling,) = [name for name in places if name.startswith("any of 3 right")]
    assert (places[ceiling]["right"], places[ceiling]["calls"]) == (1.0, places[picked]["calls"])
    assert says.picks == 6
    rows = fm.load_run(contest.folder / "runs" / contest.result["runs"][picked]).rows
    assert len({turn["answer"] for turn in rows[0]["transcript"][:3]}) == 2
    assert rows[0]["usage"]["calls"] == 4


def test_a_visible_check_takes_the_first_that_passes(tmp_path: Path) -> None:
    contest, says = raced(tmp_path, visible_check=f"{sys.executable} -c {CHECKS!r}")
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
        check = fm.Check(f"{sys.executable} -c {CHECKS!r}")
        run = done(solo, lm=lm, check=check, repeats=2, out=tmp_path / "run")
        assert len(server.bodies) == 2
    assert {row["correct"] for row in run.rows} == {False, True}


@pytest.mark.parametrize("limit", [{"max_calls_per_task": 2}, {"max_usd_per_task": 7e-5}])
def test_a_task_has_a_limit_of_its_own(tmp_path: Path, limit: dict[str, Any]) -> None:
    solo, crew = programs(tmp_path)
    tasks = [add_task(f"t{number}") for number in range(3)]
    check = fm.Check(f"{sys.executable} -c {CHECKS!r}")
    for program, errors, calls in ((crew, 3, 2), (solo, 0, 1)):
        with ScriptedServer(Says()) as server:
            lm = fm.lm("openai/m", api_base=server.url, price=(1e-6, 1e-5))
            run = done(program, tasks, lm=lm, check=check, **limit)
            assert len(server.bodies) == 3 * calls
        assert run.summary.counts.errors == errors
        assert [row["usage"]["calls"] for row in run.rows] == [calls] * 3
        for row in run.rows:
            assert (row["error"] or "").startswith("over its limit of" if errors else "")


def test_a_limit_in_money_needs_a_price(tmp_path: Path) -> None:
    solo, _ = programs(tmp_path)
    with ScriptedServer(Says()) as server:
        lm = fm.lm("openai/m", api_base=server.url)
        with pytest.raises(fm.UserError, match="m has no price, so --max-usd-per-task cannot"):
            done(solo, lm=lm, check="true", max_usd_per_task=1.0)
        assert len(server.bodies) == 1
