"""The fair opponent where answers cannot be voted on: one agent asked several times, and a pick."""

import json
from pathlib import Path
from typing import Any

import pytest
from acting import CHECK, REPAIRED, Says, add_task, needs_bwrap, programs
from children import BARE
from cli_helpers import folkmoot
from completions import completion

import folkmoot as fm
from folkmoot.pipelines.testing.replies import filled
from folkmoot.pipelines.testing.server import ScriptedServer, wanted_fields

USAGE = {"prompt_tokens": 100, "completion_tokens": 100, "total_tokens": 200}
OPEN = [fm.Question(id=f"q{n}", question=f"Say {n}.", kind="open", answer="x") for n in range(9)]


@pytest.fixture
def runs(tmp_path: Path) -> Any:
    """The folders of one agent and of a crew that asks three times, and the options of both."""
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text("".join(json.dumps(add_task(f"t{n}").to_row()) + "\n" for n in range(4)))
    programs(tmp_path)
    with ScriptedServer(Says()) as server:
        options = ["--check", CHECK, "--api-base", server.url, "--price", "openai/m=1,10"]
        options += ["--lm", "openai/m", "--sandbox", "none"]
        for name in ("solo", "crew"):
            spec = f"cmd:{BARE} {tmp_path / name}.py"
            given = [*options, "--no-track", "--no-cache", "--out", str(tmp_path / name)]
            ended = folkmoot("evaluate", spec, "--data", str(tasks), *given)
            assert ended.exit_code == 0, ended.output
        server.requests.clear()
        yield [str(tmp_path / "solo"), str(tmp_path / "crew"), "--match-budget"], options, server


@needs_bwrap
def test_a_crew_is_matched_by_the_first_agent_and_a_pick(runs: Any, tmp_path: Path) -> None:
    arguments, options, server = runs
    solo, crew, match = arguments
    for words, said in (
        ((crew, match, *options), "name the run of a program that works alone"),
        ((solo, crew, match, *options[2:-2]), "give --check (check=…) again"),
        ((solo, crew, "--check", CHECK), "--check says how to run a baseline, but none is asked"),
    ):
        assert said in folkmoot("compare", *words).stderr
    assert server.bodies == []
    ended = folkmoot("compare", *arguments, *options, "--json")
    assert ended.exit_code == 0, ended.output
    assert "3 samples per question, 12 samples" in ended.stderr
    assert "an LM that picks one of its answers" in ended.stderr
    (matched,) = (tmp_path / "crew" / "match-budget").iterdir()
    baseline = fm.load_run(matched)
    assert matched.name == "3-samples"
    assert baseline.summary.usage["calls"] == len(server.bodies)
    assert {row["decided_by"] for row in baseline.rows} == {"pick"}
    assert baseline.score == 1.0
    compared = fm.compare(*arguments[:2])
    assert [run.name for run in compared.runs] == ["solo", "crew", "1 agent, same budget"]
    (tmp_path / "solo.py").write_text("# another one\n")
    ended = folkmoot("compare", *arguments, *options)
    assert f"the program of {solo} has changed since" in ended.stderr


def test_open_answers_are_picked_from_and_the_picks_are_on_the_bill() -> None:
    asked = {"picks": 0, "said": 0}

    def says(body: dict[str, Any]) -> Any:
        fields = wanted_fields(body)
        picks = "best" in fields
        asked["picks" if picks else "said"] += 1
        said = dict.fromkeys(fields, "because")
        said |= {"comparison": "c", "best": "1"} if picks else {"answer": f"x {asked['said']}"}
        reply = {name: said[name] for name in fields}
        return 200, {}, completion(json.dumps(reply), usage=USAGE)

    with ScriptedServer(says) as server:
        lm = fm.lm("openai/m", api_base=server.url, price=(1e-6, 1e-6))
        options: Any = {"metric": lambda question, answer: 1.0, "tracking": False}
        team = fm.Deliberation(["intuitive", "reasoner", "critic"], max_rounds=2)
        run = fm.evaluate(team, OPEN, lm=lm, cache=False, **options)
        before = len(server.bodies)
        asked.update(picks=0, said=0)
        baseline = fm.match_budget(run, OPEN, lm=lm, metric=options["metric"])
        made = len(server.bodies) - before
    match: Any = baseline.summary.run["settings"]["match-budget"]
    assert match["cost_per_sample"] == pytest.approx(1.5 * 200e-6)  # two samples and a pick
    samples = baseline.summary.run["program"]["samples"]
    assert samples * match["cost_per_sample"] <= 1.1 * match["cost_per_question"]
    assert asked["picks"] == 8 + 9
    assert made == 8 * 3 + 9 * (samples + 1)
    assert baseline.summary.usage["calls"] == 9 * (samples + 1)


@pytest.mark.nightly
@needs_bwrap
def test_controls_split_a_crew_against_one_agent_at_its_bill(runs: Any) -> None:
    (solo, crew, _), options, server = runs
    ended = folkmoot("controls", crew, "--baseline", solo, *options, "--no-track", "--json")
    assert ended.exit_code == 0, ended.output
    found = json.loads(ended.stdout)
    assert found["calls"] == len(server.bodies)
    assert "a program whose agents are not known" in ended.stderr
    parts = {name: part["value"] for name, part in found["parts"].items()}
    assert 0 < found["levels"]["first"] < 1  # of three samples, every second is right
    assert found["levels"]["vote"] == found["levels"]["team"] == 1.0
    assert parts["sampling"] == pytest.approx(1 - found["levels"]["first"])  # the pick
    assert found["talk"]["value"] == 0.0  # what the team adds to the pick
    assert found["arms"]["any_of_several"]["score"] == 1.0
    assert " from a pick among several, 0.0 [" in found["sentence"]
    shown = folkmoot("controls", crew, "--baseline", solo, *options, "--no-track")
    assert "+ the team" in shown.stdout
    assert found["calls"] == len(server.bodies)
    ended = folkmoot("controls", crew, *options, "--no-track")
    assert "give --answer-file" in ended.stderr


@needs_bwrap
@pytest.mark.nightly
def test_controls_of_agents_who_talk_on_tasks_check_every_answer() -> None:
    asked = 0

    def says(body: dict[str, Any]) -> str:
        nonlocal asked
        asked += 1
        answer = REPAIRED if asked % 3 == 0 else f"# {asked}\n"
        return filled(body, answer, "because")

    tasks = [add_task(f"t{number}") for number in range(4)]
    options: Any = {"check": CHECK, "answer_file": "add.py", "tracking": False}
    with ScriptedServer(says) as server:
        lm = fm.lm("openai/m", api_base=server.url, price=(1e-6, 1e-5))
        team = fm.Deliberation(["intuitive", "reasoner"], max_rounds=2, opening="blind")
        run = fm.evaluate(team, tasks, lm=lm, cache=False, concurrency=1, **options)
        controls = fm.controls(run, questions=tasks, lm=lm, **options)
    firsts = [[turn["answer"] for turn in row["transcript"][:2]] for row in run.rows]
    right = [[REPAIRED.strip() in (answer or "") for answer in pair] for pair in firsts]
    assert controls.levels["first"] == pytest.approx(sum(map(sum, right)) / 8)
    assert controls.scores["any_of_several"] == pytest.approx(sum(map(any, right)) / 4)
    assert {"self_consistency", "stance", "one_context"} <= controls.arms.keys()
    gain = run.score - controls.levels["first"]
    assert sum(part.value for part in controls.steps.values()) == pytest.approx(gain)
