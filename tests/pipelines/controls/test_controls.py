"""Controls of recorded teams: arms, exact sums, ties, budgets, resuming, imports, damaged files."""

import json
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import dspy
import pytest
from children import wait_for_requests
from cli_helpers import child, evaluate, folkmoot, write
from refusals import refused
from scripted_lm import scripted_lm

import folkmoot as fm
from folkmoot.modules.agents.exchange import Hear
from folkmoot.modules.agents.profile import Profile
from folkmoot.modules.agents.seat import Seat
from folkmoot.modules.agents.transcript import Task, Turn
from folkmoot.modules.protocols.program import prediction_of
from folkmoot.modules.statistics.controls import PARTS, expected_vote, gain_part, half_width
from folkmoot.pipelines.controls.card import KIND
from folkmoot.pipelines.controls.plan import plan_controls
from folkmoot.pipelines.controls.request import ControlsRequest
from folkmoot.pipelines.testing.replies import filled, text_of
from folkmoot.pipelines.testing.server import ScriptedServer, wanted_fields
from folkmoot.signatures.roles import Intuitive, Reasoner

COLOURS = {"A": "red", "B": "blue", "C": "green"}
QUESTIONS = []
for number, answer in enumerate("ABC" * 4):
    text = f"What is the colour of flag {number}?"
    QUESTIONS.append(fm.Question(id=f"q{number}", question=text, choices=COLOURS, answer=answer))
ROLES = ["intuitive", "reasoner", "critic"]
QUIETLY: Any = {"tracking": False, "progress": False}


class Scripted:
    """An LM that ignores its peers: right in three of five replies, drawn anew in every call."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.lm = scripted_lm(self.reply)

    def reply(self, body: dict[str, Any]) -> str:
        text = text_of(body)
        self.prompts.append(text)
        number = int(re.search(r"flag (\d+)", text)[1])  # type: ignore[index]
        draw = random.Random(len(self.prompts))
        right = draw.random() < 0.6
        return filled(body, "ABC"[number % 3] if right else draw.choice("ABC"), f"said {number}")

    @property
    def calls(self) -> int:
        return len(self.prompts)


def recorded(
    scripted: Scripted, out: Path, opening: str = "blind", rounds: int = 3, **more: Any
) -> Any:
    team = fm.Deliberation(ROLES, "judge", rounds, opening=opening)
    given: Any = {"lm": scripted.lm, "settings": {"data": "riddles"}, **QUIETLY, **more}
    return fm.evaluate(team, QUESTIONS, out=out, **given)


def controls(run: Any, scripted: Scripted, **more: Any) -> fm.Controls:
    return fm.controls(run, lm=scripted.lm, **QUIETLY, **more)


def test_parts_sum_to_the_gain_and_each_arm_is_told_its_own(tmp_path: Path) -> None:
    scripted = Scripted()
    run = recorded(scripted, tmp_path / "run")
    before = scripted.calls
    found = controls(run, scripted)
    result = found.to_dict()
    assert list(result["parts"]) == list(PARTS)
    assert sum(part["value"] for part in result["parts"].values()) == result["total"]["value"]
    levels = result["levels"]
    assert result["total"]["value"] == pytest.approx(levels["team"] - levels["first"])
    assert levels["team"] == pytest.approx(run.score)
    asked, start = {}, before
    for name in ("isolated", "placebo", "stance"):
        arm = fm.load_run(tmp_path / "run/controls/arms" / name)
        assert arm.summary.run.settings.data == "riddles", "as MLflow names its data set"
        count = sum(row["usage"]["calls"] or 0 for row in arm.rows)
        asked[name] = [heard_in(prompt) for prompt in scripted.prompts[start : start + count]]
        start += count
    firsts = [[turn["answer"] for turn in row["transcript"][:3]] for row in run.rows]
    contested = sum(len(set(answers)) > 1 for answers in firsts)
    for name, prompts in asked.items():
        assert 3 * contested <= len(prompts) <= 6 * contested, name
    for number, heard in asked["isolated"]:
        assert len({speaker for speaker, _ in heard}) == 1
        assert all(f"said {number}\n" in text for _, text in heard)
    for number, heard in asked["placebo"]:
        foreign = [text for _, text in heard if f"said {number}\n" not in text]
        assert len(foreign) >= 2
        assert all(re.search(r"Answer: (red|blue|green)", text) for text in foreign)
    for _, heard in asked["stance"]:
        assert sum("said" not in text for _, text in heard) >= 2
        assert all("Answer: " in text for _, text in heard)


def heard_in(prompt: str) -> tuple[int, list[tuple[str, str]]]:
    """The question of a prompt, and who is quoted in it to have said what."""
    number = int(re.search(r"flag (\d+)", prompt)[1])  # type: ignore[index]
    quoted = re.findall(r"<<<(\w+), round \d+\n(.*?)>>>", prompt, re.DOTALL)
    return number, quoted


def test_agents_who_spoke_in_turn_answer_afresh(tmp_path: Path) -> None:
    scripted = Scripted()
    run = recorded(scripted, tmp_path / "run", "in_turn")
    before = scripted.calls
    found = controls(run, scripted, arms=["none"])
    fresh = [heard for _, heard in map(heard_in, scripted.prompts[before : before + 36])]
    assert fresh == [[]] * 36
    assert set(found.arms) == {"isolated", "placebo", "best_member"}
    assert "content" in found.parts


def test_the_same_call_asks_nothing_twice_and_arms_can_be_chosen(tmp_path: Path) -> None:
    scripted = Scripted()
    run = recorded(scripted, tmp_path / "run")
    first = controls(run, scripted, arms=["one_context"])
    calls = scripted.calls
    assert "stance" not in first.arms
    assert "one_context" in first.arms
    again = controls(tmp_path / "run", scripted, without=["stance,self_consistency,thinking"])
    assert scripted.calls == calls
    assert again.to_dict()["parts"] == first.to_dict()["parts"]
    lines = KIND.card(again.folder).lines()
    (part,) = [line for line in lines if line.startswith("what peers say: ")]
    assert "%" not in part  # a difference, not a share
    refused("one_context", controls, run, scripted, arms=["one_contxt"])
    refused("differs", controls, run, scripted, seed=1)
    with pytest.raises(fm.UserError, match="not an LM of"):
        fm.controls(run, lm=scripted_lm(scripted.reply, "openai/other"), tracking=False)


def test_an_lm_that_sees_no_instructions_plays_no_other_agents(tmp_path: Path) -> None:
    """A warning was about the prompt of that arm, which the user had not written."""
    plain = Profile(layout="plain", answer_form="text")
    lm = scripted_lm(lambda _: " It seems so.\nAnswer: red", profile=plain)
    team = fm.Deliberation(ROLES, "majority", 2, opening="blind")
    run = fm.evaluate(team, QUESTIONS, lm=lm, out=tmp_path, tracking=False, progress=False)
    plan = plan_controls(ControlsRequest(run, lm=lm, tracking=False))
    assert "instructions" in plan.missing["one_context"]
    assert (list(plan.warnings), "one_context" in plan.arms) == ([], False)


def test_a_budget_ends_it_and_more_money_goes_on(tmp_path: Path) -> None:
    scripted = Scripted()
    run = recorded(scripted, tmp_path / "run")
    before = scripted.calls
    short = controls(run, scripted, budget="40 calls", arms=["none"])
    assert scripted.calls - before <= 40
    assert short.stopped
    assert "budget" in short.stopped
    whole = controls(run, scripted, budget="400 calls", arms=["none"])
    assert whole.stopped is None
    assert whole.to_dict()["questions"] == len(QUESTIONS)
    rows = (tmp_path / "run/controls/arms/placebo/results.jsonl").read_text().splitlines()
    assert len(rows) == len(QUESTIONS)


def test_arms_are_asked_what_the_team_has_answered(tmp_path: Path) -> None:
    scripted = Scripted()
    run = recorded(scripted, tmp_path / "run", budget="30 calls", concurrency=1)
    assert 0 < len(run.rows) < len(QUESTIONS)
    found = controls(run, scripted, arms=["one_context"], questions=QUESTIONS)
    assert (found.stopped, found.questions) == (None, len(run.rows))
    for arm in ("isolated", "placebo", "one_context"):
        rows = (tmp_path / f"run/controls/arms/{arm}/results.jsonl").read_text().splitlines()
        assert len(rows) == len(run.rows)


def test_an_imported_dialogue_tells_vote_talk_and_decider_without_a_call(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    lines = []
    for number in range(20):
        last = "A" if number < 15 else "B"
        turns = [[0, "a", "A"], [0, "b", "B"], [1, "a", last], [1, "b", last]]
        about = {"question_id": f"q{number}", "run": "team", "gold": "A"}
        lines.append({**about, "final": last, "final_correct": last == "A", "turns": turns})
    log.write_text("\n".join(map(json.dumps, lines)))
    fm.import_log(log, out=tmp_path / "imported")
    done = folkmoot("controls", str(tmp_path / "imported/team"), "--json", "--no-track")
    told = json.loads(done.stdout)
    assert told["parts"]["sampling"]["value"] == 0
    assert told["parts"]["content"] == {"value": None, "low": None, "high": None}
    assert told["talk"]["value"] == pytest.approx(0.25)
    assert told["total"]["value"] == pytest.approx(0.25)
    assert told["arms"]["best_member"]["score"] == 1
    assert ", +25.0" in told["sentence"]
    assert "\ntalk: +25.0 points" in folkmoot("show", told["out"]).stdout
    reported = folkmoot("report", str(tmp_path / "imported/team"), "--json").stdout
    assert "from talk" in reported + (tmp_path / "imported/team/report.html").read_text()


class TwoOpinions(fm.Program):
    """A protocol of a user's own: two agents answer apart, then each reads the other once."""

    def __init__(self) -> None:
        super().__init__()
        self.agents = [Seat("intuitive", Intuitive), Seat("reasoner", Reasoner)]

    def describe(self) -> dict[str, Any]:
        return {"program": "two_opinions"}

    def exchange(self) -> fm.Exchange:
        return fm.Exchange(["intuitive", "reasoner"], self.again)

    async def again(self, task: Task, recorded: Any, hear: Hear) -> list[Turn]:
        first = list(recorded[:2])
        second = [
            await agent.ask(task, round=2, discussion=hear(agent.name, first))
            for agent in self.agents
        ]
        return [*first, *second]

    async def solve(self, task: Task) -> dspy.Prediction:
        first = [await agent.ask(task) for agent in self.agents]
        turns = await self.again(task, first, lambda _, turns: turns)
        return prediction_of(task, turns[-1].answer, "reasoner", turns, rounds=2)


def test_a_protocol_of_ones_own_declares_its_exchange(tmp_path: Path) -> None:
    scripted = Scripted()
    run = fm.evaluate(TwoOpinions(), QUESTIONS, lm=scripted.lm, out=tmp_path, **QUIETLY)
    before = scripted.calls
    found = controls(run, scripted, arms=["stance"])
    assert scripted.calls - before == 3 * 2 * len(QUESTIONS)
    assert list(found.parts) == list(PARTS)


def test_reasoners_who_never_read_each_other_need_no_call_on_the_path(tmp_path: Path) -> None:
    scripted = Scripted()
    team = fm.CausalConsistency(3, 1)
    run = fm.evaluate(team, QUESTIONS, lm=scripted.lm, out=tmp_path, tracking=False, progress=False)
    before = scripted.calls
    found = controls(run, scripted, arms=["none"])
    assert scripted.calls == before
    assert found.parts["presence"] == found.parts["content"]
    assert found.parts["content"].value == 0


def test_a_worker_hears_its_peers_through_the_suggestion_alone(tmp_path: Path) -> None:
    """The supervisor sends the first worker back once; the arms send it back without its words."""
    prompts: list[str] = []
    judged: dict[str, int] = {}

    def reply(body: dict[str, Any]) -> str:
        text = text_of(body)
        prompts.append(text)
        number = re.search(r"flag (\d+)", text)[1]  # type: ignore[index]
        fields = wanted_fields(body)
        if "decision" in fields:
            judged[number] = judged.get(number, 0) + 1
            decision = "retry" if judged[number] == 1 else "accept"
            told = {"decision": decision, "worker": "bold", "suggestion": f"look at {number}"}
            return json.dumps({name: told.get(name, "because") for name in fields})
        return json.dumps(dict.fromkeys(fields, "because") | {"action": "Finish[A]"})

    lm = scripted_lm(reply)
    flags = fm.CorpusEnvironment([{"title": "Flags", "text": "Flags are red."}])
    team = fm.SupervisedTeam(["bold", "cautious"], flags)
    run = fm.evaluate(team, QUESTIONS[:3], lm=lm, out=tmp_path, tracking=False, progress=False)
    before = len(prompts)
    found = fm.controls(run, lm=lm, arms=["none"], tracking=False, progress=False)
    isolated, placebo = prompts[before : before + 3], prompts[before + 3 : before + 6]
    assert len(prompts) == before + 6
    assert not any("look at" in prompt for prompt in isolated)
    for prompt in placebo:
        number, advised = re.search(r"flag (\d+)", prompt)[1], re.search(r"look at (\d+)", prompt)  # type: ignore[index]
        assert advised[1] != number
    assert list(found.parts) == list(PARTS)


def words_of(home: Path, server: ScriptedServer, *more: Any) -> tuple[tuple[Any, ...], int]:
    """The command for a recorded run, and how many calls it takes at most."""
    write(home / "questions.jsonl", *(dict(question.to_row()) for question in QUESTIONS))
    how = ("--set", "opening=blind", "--out", "run")
    spec = "deliberation:intuitive,reasoner,critic:judge"
    evaluate(server, "questions.jsonl", *how, program=spec, code=0)
    words = ("controls", "run", "--api-base", server.url, "--arms", "stance", *more)
    plan = folkmoot(*words, "--dry-run", "--json", code=0)
    return words, sum(json.loads(plan.stdout)["calls"].values())


def test_on_the_command_line(home: Path) -> None:
    scripted = Scripted()
    with ScriptedServer(scripted.reply) as server:
        words, most = words_of(home, server, "--threads", 1)
        before = scripted.calls
        done = folkmoot(*words, "--no-track", "--json", code=0)
        assert json.loads(done.stdout)["questions"] == len(QUESTIONS)
        assert 10 < scripted.calls - before <= most
        calls = scripted.calls
        again = folkmoot(*words, "--no-track", "--json")
        assert scripted.calls == calls
        assert json.loads(again.stdout)["parts"] == json.loads(done.stdout)["parts"]
        refused = folkmoot(*words, "--lm", "openai/other")
        assert (refused.exit_code, "is not an LM of run" in refused.stderr) == (2, True)


def test_a_damaged_result_is_one_sentence_and_the_report_does_without(tmp_path: Path) -> None:
    scripted = Scripted()
    run = recorded(scripted, tmp_path / "run")
    controls(run, scripted, arms=["none"])
    for text in ("{", '{"result": {"parts": 3}}', "[" * 10_000):
        (tmp_path / "run/controls/controls.json").write_text(text)
        fm.report(run, tracking=False)
        refused("controls", controls, run, scripted, arms=["none"])


def test_one_agent_has_nothing_to_split(tmp_path: Path) -> None:
    scripted = Scripted()
    run = fm.evaluate(fm.SingleAgent("cot"), QUESTIONS, lm=scripted.lm, out=tmp_path, **QUIETLY)
    refused("two or more agents", controls, run, scripted)


def test_ties_are_split_and_intervals_widen_where_few_questions_differ() -> None:
    score = {"A": 1.0, "B": 0.0, "C": 0.0}.__getitem__
    assert expected_vote(["A", "B", None], score) == 0.5
    assert expected_vote(["A", "B", "B"], score) == 0
    assert expected_vote([None, None], score) == 0
    nothing = gain_part([0.0] * 200, [0.0] * 200)
    assert nothing.value == 0
    assert nothing.low < -0.005
    assert nothing.high == -nothing.low
    assert gain_part([0.0], [1.0]) == (1, -1, 1)
    assert half_width(200) == pytest.approx(0.05, abs=0.002)
    assert half_width(1_300) == pytest.approx(0.02, abs=0.001)


@pytest.mark.nightly
def test_killed_on_the_command_line_it_goes_on(home: Path) -> None:
    scripted = Scripted()
    with ScriptedServer(scripted.reply) as server:
        words, most = words_of(home, server, "--concurrency", 1)
        server.delay, before = 0.05, scripted.calls
        process = subprocess.Popen(child(*words), stderr=subprocess.DEVNULL)
        wait_for_requests(server, before + 10)
        process.kill()
        process.wait()
        done = folkmoot(*words, "--no-track", "--json", code=0)
        assert json.loads(done.stdout)["questions"] == len(QUESTIONS)
        assert 10 < scripted.calls - before <= most + 1  # one was under way
