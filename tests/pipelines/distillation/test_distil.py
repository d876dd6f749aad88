"""Distilling a team: what is planted is found, what cannot be shown is said, and nothing is paid
twice.
"""

from __future__ import annotations

import json
import math
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cli_helpers import folkmoot, isolate, lm, rows_of, write
from mortal import Forked, distil_in_child, questions

import folkmoot as fm
from folkmoot.optimizers.statistics.noninferiority import (
    score_limits,
)
from folkmoot.pipelines.distillation.distil import Distilled
from folkmoot.pipelines.distillation.plan import plan_distil
from folkmoot.pipelines.distillation.request import DistilRequest
from folkmoot.pipelines.lms.ledger import totals
from folkmoot.pipelines.testing.replies import filled
from folkmoot.pipelines.testing.server import Reply, ScriptedServer

Pick = Callable[[int, str, dict[str, Any]], bool]
TWO, THREE = ["intuitive", "critic"], ["intuitive", "critic", "retriever"]


pytestmark = pytest.mark.usefixtures("home")


# The statistics
# ---------------------------------------------------------------------------------------------


def likeliest(d: float, gained: int, lost: int, n: int) -> float:
    """The share of lost questions at which the counts are likeliest, given the difference; by
    trying.
    """
    shares = np.linspace(max(0.0, -d), (1 - d) / 2, 200_001)[1:-1]
    logs = (
        gained * np.log(shares + d)
        + lost * np.log(shares)
        + (n - gained - lost) * np.log(1 - 2 * shares - d)
    )
    return float(shares[np.argmax(logs)])


@pytest.mark.parametrize(
    ("gained", "lost", "n"), [(3, 7, 100), (1, 4, 50), (10, 10, 40), (9, 2, 30)]
)
def test_the_limits_are_where_the_score_is_z(gained: int, lost: int, n: int) -> None:
    low, high = score_limits(gained, lost, n)
    for d, sign in ((low, 1), (high, -1)):
        variance = n * (2 * likeliest(d, gained, lost, n) + d * (1 - d))
        assert (gained - lost - n * d) / math.sqrt(variance) == pytest.approx(
            sign * 1.6449, abs=1e-3
        )


def test_inferior_programs_pass_one_time_in_twenty() -> None:
    draw = np.random.default_rng(0).multinomial(200, [0.05, 0.10, 0.85], size=3000)
    passed = [score_limits(int(gained), int(lost), 200).low > -0.05 for gained, lost, _ in draw]
    assert np.mean(passed) == pytest.approx(0.05, abs=0.012)


# A team and its rivals
# --------------------------------------------------------------------------------------


def world(alone: Pick, together: Pick = lambda *_: True) -> Reply:
    """Agents that are right where the functions say so: `alone`, or in view of what others said.

    A function gets the question's number, the fields of the reply, and the request's body.
    """

    def reply(body: dict[str, Any]) -> str:
        text = body["messages"][-1]["content"]
        number = int(re.findall(r"Question (\d+)\?", text)[-1])
        fields = body["response_format"]["json_schema"]["schema"]["properties"]
        right = (together if ", round 1" in text else alone)(number, "+".join(fields), body)
        return filled(body, "ABC"[(number + (not right)) % 3])

    return reply


def alone_cot(number: int, fields: str, body: dict[str, Any]) -> bool:
    """Step by step everything is right; other agents alone err on one question in four."""
    return fields == "reasoning+answer" or number % 4 != 0


def alone_doubts(number: int, fields: str, body: dict[str, Any]) -> bool:
    """One question in five is too hard; of its samples every other one is right."""
    sampled = body.get("top_p") is not None
    return number % 5 != 0 or (sampled and body["seed"] % 2 == 0)


class Team:
    """A recorded deliberation on the scripted server, and what distils it."""

    def __init__(
        self, server: ScriptedServer, reply: Reply, n: int = 120, roles: Sequence[str] = TWO
    ) -> None:
        server.reply = reply
        self.server, self.questions = server, questions(n)
        self.lm = fm.lm("openai/scripted", api_base=server.url, seed=0)
        program = fm.Deliberation(roles, max_rounds=2)
        self.run = fm.evaluate(program, self.questions, lm=self.lm, out="team", tracking=False)
        server.requests.clear()

    def distil(self, margin: float = 0.08, **options: Any) -> Distilled:
        options = {"lm": self.lm, "tracking": False, "out": "found", **options}
        run, asked = options.pop("run", self.run), options.pop("questions", self.questions)
        return fm.distil(run, asked, margin=margin, **options)


@pytest.fixture
def cot(scripted: ScriptedServer) -> Team:
    return Team(scripted, world(alone_cot), n=80)


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Team, Distilled]]:
    """A team that one agent can stand in for, distilled; to be looked at only."""
    folder = tmp_path_factory.mktemp("solved")
    with ScriptedServer() as server, pytest.MonkeyPatch.context() as patch:
        isolate(folder, patch)
        team = Team(server, world(alone_cot))
        yield team, team.distil(out=folder / "found")


def test_one_agent_that_is_as_good_is_found(solved: tuple[Team, Distilled]) -> None:
    cot, found = solved
    programs = found.report["programs"]
    assert (found.keep, found.report["chosen"]) == ("single", "cot")
    assert found.single is not None
    assert found.single.describe()["strategy"] == "cot"
    assert programs["single"]["against_team"]["verdict"] == "non-inferior"
    assert programs["single"]["accuracy"]["value"] == programs["team"]["accuracy"]["value"] == 1
    assert programs["single"]["against_team"]["confidence"] == 0.95
    assert programs["single"]["calls"] == 1
    assert programs["team"]["calls"] > 2
    assert programs["single"]["tokens"] < programs["team"]["tokens"] / 2
    assert re.match(
        r"Use the single agent \(cot\): [34]\d% of the team's tokens per question\.", repr(found)
    )
    tried = {one["name"]: one["against_team"]["verdict"] for one in found.report["candidates"]}
    assert tried["simple"] == tried["role-intuitive"] == tried["role-critic"] == "inferior"
    assert found.report["router"]["rule"] == "never"
    assert (found.report["paid"]["calls"], cot.server.bodies[0]["seed"]) == (
        len(cot.server.bodies),
        0,
    )


def test_the_parts_are_apart_and_the_team_is_never_asked(solved: tuple[Team, Distilled]) -> None:
    cot, found = solved
    parts = found.report["parts"]
    ids = {
        name: {row["id"] for row in rows_of(found.folder / name / "cot")}
        for name in ("selection", "held-out")
    }
    assert not ids["selection"] & ids["held-out"]
    assert not set(parts["shown"]) & (ids["selection"] | ids["held-out"])
    assert len(parts["shown"]) == 4
    assert len(ids["selection"]) == parts["selection"] == 56
    assert len(ids["held-out"]) == parts["held_out"] == 60
    assert not any(", round 1" in body["messages"][-1]["content"] for body in cot.server.bodies)


def test_answers_on_record_are_not_paid_again(solved: tuple[Team, Distilled]) -> None:
    cot, found = solved
    folder = found.folder / "selection/role-intuitive"
    assert totals(folder).calls == 0
    assert all(row["usage"]["cached_calls"] == 1 for row in rows_of(folder))
    (price,) = [
        one["tokens"] for one in found.report["candidates"] if one["name"] == "role-intuitive"
    ]
    asked = [body for body in cot.server.bodies if "explanation" in str(body["response_format"])]
    assert all(len(body["messages"]) > 2 for body in asked)
    assert 100 < price < found.report["programs"]["team"]["tokens"]


@pytest.mark.nightly
def test_where_samples_differ_the_router_asks_the_team(scripted: ScriptedServer) -> None:
    team = Team(scripted, world(alone_doubts), roles=THREE)
    found = team.distil()
    programs, router = found.report["programs"], found.report["router"]
    held = json.loads(Path("found/distil.json").read_text())["router"]["share_routed"]
    tested = rows_of(Path("found/held-out/self_consistency-2"))
    hard = sum(int(row["id"].removeprefix("q")) % 5 == 0 for row in tested)
    assert (found.keep, router["cheap"]) == ("router", "self_consistency-2")
    assert list(router["rule"]["weights"]) == ["agreement"]
    assert held["value"] == pytest.approx(hard / 60)
    assert programs["router"]["accuracy"]["value"] == programs["team"]["accuracy"]["value"] == 1
    assert programs["cheap"]["accuracy"]["value"] == pytest.approx(1 - hard / 60)
    assert programs["router"]["calls"] < programs["team"]["calls"]
    assert programs["router"]["tokens"] < programs["team"]["tokens"]
    assert router["branches"]["team"]["n"] == hard
    assert found.report["skipped"] == ["self_consistency-2-4-shown", "self_consistency-3-4-shown"]
    assert f"sends {hard / 60:.0%} of the questions to the team and is non-inferior" in repr(found)
    # The router itself, asked anew, does what the recorded answers foretold.
    assert found.router is not None
    again = fm.evaluate(
        fm.load_program("found/router"), team.questions[:40], lm=team.lm, tracking=False
    )
    assert again.accuracy == 1
    assert again.summary.report["share_routed"] == 0.2


def test_too_few_questions_are_named_before_anything_is_asked(scripted: ScriptedServer) -> None:
    team = Team(scripted, world(alone_cot), n=40)
    plan = plan_distil(
        DistilRequest(team.run, team.questions, margin=0.02, lm=team.lm, out="found")
    )
    (note,) = plan.report["notes"]
    assert "for that it takes 133, so 266 in the run" in note
    assert not team.server.bodies
    found = team.distil(0.02)
    assert found.keep == "team"
    needed = found.report["programs"]["single"]["against_team"]["needed"]
    assert f"about {needed:,} would be needed in the last test, so {2 * needed:,} in" in repr(found)
    assert len(team.server.bodies) <= plan.most_calls


def test_the_same_command_again_asks_nothing_and_says_the_same(cot: Team) -> None:
    first = cot.distil()
    cot.server.requests.clear()
    again = cot.distil()
    assert not cot.server.bodies
    assert again.report == first.report


def test_a_cheaper_lm_takes_the_teams_place_and_the_router_keeps_both(
    scripted: ScriptedServer,
) -> None:
    team = Team(scripted, world(alone_doubts), roles=THREE)
    other = fm.lm("openai/smaller", api_base=scripted.url, seed=0, price=(1e-6, 1e-6))
    team.lm.engine.engine.prices = (1e-5, 1e-5)
    program = fm.Deliberation(THREE, max_rounds=2)
    program.assign(dict.fromkeys(program.seats(), team.lm))
    found = team.distil(lm=other, team=program, cache=False)
    assert found.report["notes"] == [
        "The team ran on openai/scripted, the candidates on openai/smaller: name another LM with "
        "--lm to see what that does alone."
    ]
    assert found.router is not None
    names = {name: seat.predict.lm.model for name, seat in found.router.seats().items()}
    assert names.pop("self_consistency") == "openai/smaller"
    assert set(names.values()) == {"openai/scripted"}
    assert {body["model"] for body in scripted.bodies} == {"smaller"}  # the team is not asked


def test_money_counts_where_it_is_known(scripted: ScriptedServer) -> None:
    scripted.reply = world(alone_cot)
    asked = questions(60)
    priced = fm.lm("openai/scripted", api_base=scripted.url, price=(1e-6, 3e-6))
    run = fm.evaluate(
        fm.Deliberation(TWO, max_rounds=2), asked, lm=priced, out="team", tracking=False
    )
    found = fm.distil(run, asked, lm=priced, margin=0.2, out="found", tracking=False)
    assert found.report["unit"] == "money"
    team, single = found.report["programs"]["team"], found.report["programs"]["single"]
    assert 0 < single["cost_usd"] < team["cost_usd"]
    (intuitive,) = [one for one in found.report["candidates"] if one["name"] == "role-intuitive"]
    assert intuitive["cost_usd"] > 0  # though its answers were on record


# Stops
# --------------------------------------------------------------------------------------------------


def test_a_budget_is_a_ceiling_and_a_larger_one_goes_on(cot: Team) -> None:
    stopped = cot.distil(budget="100 calls")
    assert len(cot.server.bodies) == 100
    assert (stopped.single, stopped.router, stopped.report["keep"]) == (None, None, None)
    assert "budget 100 calls spent" in stopped.report["stopped"]
    assert [one["name"] for one in stopped.report["candidates"]] == [
        *("simple", "cot", "role-intuitive")  # the last from the team's own record
    ]
    assert cot.distil(budget="100 calls").report["stopped"]
    assert len(cot.server.bodies) == 100
    whole = cot.distil(budget="5000 calls")
    assert whole.keep == "single"
    assert len(cot.server.bodies) == whole.report["paid"]["calls"]
    shutil.rmtree("found")
    cot.server.requests.clear()
    straight = cot.distil()
    assert straight.report == whole.report


def killed_and_resumed(folder: Path, server: ScriptedServer, deaths: Sequence[int]) -> None:
    """Kill a distillation after so many calls, several times; the same command ends as without any
    kill.
    """
    team = Team(server, world(alone_cot), n=48)
    straight = team.distil(0.2, out="straight")
    needed = len(server.bodies)
    server.requests.clear()
    server.delay = 0.002
    killed = 0
    for calls in deaths:
        process = Forked(target=distil_in_child, args=(server.url, folder))
        start = len(server.requests)
        process.start()
        while process.is_alive() and len(server.requests) - start < calls:
            time.sleep(0.002)
        process.kill()
        process.join(10)
        killed += process.exitcode == -signal.SIGKILL
    assert killed
    resumed = team.distil(0.2)
    assert len(server.bodies) <= needed + 8 * killed
    alike = [
        {key: value for key, value in one.report.items() if key != "paid"}
        for one in (straight, resumed)
    ]
    assert alike[0] == alike[1]
    # A call counts from when it is sent: one that a death cut short may have come to nobody.
    assert len(server.bodies) <= resumed.report["paid"]["calls"] <= len(server.bodies) + 8 * killed


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(4))
def test_killed_many_times(tmp_path: Path, scripted: ScriptedServer, seed: int) -> None:
    killed_and_resumed(tmp_path, scripted, np.random.default_rng(seed).integers(1, 60, 5).tolist())


# What is refused
# --------------------------------------------------------------------------------------------


def test_runs_that_cannot_be_distilled(scripted: ScriptedServer, tmp_path: Path) -> None:
    team = Team(scripted, world(alone_cot), n=24)
    alone = fm.evaluate(
        fm.SingleAgent("cot"), team.questions, lm=team.lm, tracking=False, out="alone"
    )
    with pytest.raises(
        fm.UserError, match=r"took 1.0 calls per question, and no single agent takes fewer"
    ):
        team.distil(run=alone)
    with pytest.raises(fm.UserError, match="not those that team ran on"):
        team.distil(questions=questions(24, grade=lambda _: "3"))
    with pytest.raises(fm.UserError, match="does not note where its questions come from"):
        team.distil(questions=None)
    for margin in (0, 1, -0.02, 2, True):
        with pytest.raises(fm.UserError, match="give a share of the questions"):
            team.distil(margin)
    few = fm.evaluate(fm.Deliberation(TWO), questions(3), lm=team.lm, tracking=False)
    with pytest.raises(fm.UserError, match=r"too few to split: at least 4 .* about 266"):
        team.distil(0.02, run=few, questions=questions(3))
    asked = len(scripted.bodies)
    with pytest.raises(fm.UserError, match="no folder nowhere"):
        team.distil(run="nowhere")
    lines = Path("team/results.jsonl").read_text().splitlines(True)
    Path("team/results.jsonl").write_text("".join(lines[:20]))
    with pytest.raises(fm.UserError, match="not finished: 4 of its 24 questions have no row"):
        team.distil(run="team")
    assert len(scripted.bodies) == asked


def test_the_team_answers_with_the_prompts_that_it_had(scripted: ScriptedServer) -> None:
    scripted.reply = world(alone_cot)
    asked, lm = questions(24), fm.lm("openai/scripted", api_base=scripted.url)
    program = fm.labelled_demos(fm.Deliberation(TWO, max_rounds=2), asked[:2], 2)
    run = fm.evaluate(program, asked, lm=lm, out="team", tracking=False)
    with pytest.raises(fm.UserError, match="the team passed is not the program of team"):
        fm.distil(run, asked, lm=lm, margin=0.2, team=fm.Deliberation(TWO), tracking=False)
    for team, out in ((None, None), (program, "given")):
        found = fm.distil(run, asked, lm=lm, margin=0.2, team=team, out=out, tracking=False)
        assert found.router is not None
        assert len(found.router.team.predictors()[0].demos) == 2
    assert Path("team/distil").is_dir()


def test_failed_answers_count_as_wrong_and_are_asked_for_again(cot: Team) -> None:
    sound, broken = world(alone_cot), set[int]()

    def flaky(body: dict[str, Any]) -> Any:
        number = int(re.findall(r"Question (\d+)\?", body["messages"][-1]["content"])[-1])
        if number % 8 == 1 and len(broken) < 3:
            broken.add(number)
        return (400, {}, {"error": {"message": "too odd"}}) if number in broken else sound(body)

    cot.server.reply = flaky
    first = cot.distil(0.3)
    errors = sum(one["errors"] for one in first.report["candidates"])
    assert 0 < errors <= first.report["errors"]
    assert f"{first.report['errors']} answers of single agents failed" in repr(first)
    cot.server.reply = sound
    again = cot.distil(0.3)
    assert (again.report["errors"], again.keep) == (0, "single")
    assert "failed" not in repr(again)


# The command
# ------------------------------------------------------------------------------------------------


@pytest.fixture
def talk(tmp_path: Path, scripted: ScriptedServer) -> ScriptedServer:
    """A team's run on disk, as the command line wrote it."""
    scripted.reply = world(alone_cot)
    write(tmp_path / "q.jsonl", *(dict(one.to_row()) for one in questions(80)))
    spec = "deliberation:intuitive,critic:judge"
    words = ["--no-track", "--out", "talk", "--set", "max_rounds=2"]
    done = folkmoot("evaluate", spec, "--data", "q.jsonl", *lm(scripted), *words)
    assert done.exit_code == 0, done.stderr
    scripted.requests.clear()
    return scripted


def test_the_command_gives_advice(talk: ScriptedServer) -> None:
    done = folkmoot("distil", "talk", "--margin", 10, "--out", "d", *lm(talk), "--no-track")
    assert done.exit_code == 0, done.stderr
    assert "Use the single agent (cot)" in done.stdout
    assert "programs and figures: d" in done.stdout
    assert "at most" in done.stderr
    assert "Note: " not in done.stderr
    answered = folkmoot(
        "evaluate", "d/single", "--data", "q.jsonl", *lm(talk), "--no-track", "--json"
    )
    assert json.loads(answered.stdout)["scores"]["accuracy"]["value"] == 1
