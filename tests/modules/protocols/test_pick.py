"""The vote `pick`: an LM says which of several answers is best."""

import json
from pathlib import Path
from typing import Any

import dspy
import pytest
from refusals import refused
from scripted_lm import scripted_lm

import folkmoot as fm
from folkmoot.modules.protocols.saved import hashes
from folkmoot.pipelines.programs.resolve import program_of
from folkmoot.pipelines.testing.contract import ProtocolContract
from folkmoot.pipelines.testing.replies import filled
from folkmoot.pipelines.testing.server import wanted_fields

CHOICES = {"A": "a flask", "B": "a sieve", "C": "a net"}


class Asked:
    """Members answer as their instruction says; the picker gives these replies one by one."""

    def __init__(self, answers: dict[str, str], best: list[str]) -> None:
        self.answers, self.best = answers, best
        self.seen: list[str] = []

    def __call__(self, body: dict[str, Any]) -> str:
        fields = wanted_fields(body)
        if "best" in fields:
            self.seen.append(json.dumps(body["messages"]))
            return json.dumps({"comparison": "one holds water", "best": self.best.pop(0)})
        text = json.dumps(body["messages"])
        answer = next(said for name, said in self.answers.items() if name in text)
        return filled(body, answer, f"since {answer} fits")


def scripted(program: Any, first: str, second: str, best: list[str]) -> tuple[Any, Asked]:
    asked = Asked({"You are Ann": first, "You are Ben": second}, best)
    program.set_lm(scripted_lm(asked))
    return program, asked


def ensemble(*said: Any, **more: Any) -> tuple[Any, Asked]:
    prompts = [{"cot": f"You are {name}."} for name in ("Ann", "Ben")]
    members = [fm.SingleAgent("cot", prompts=each) for each in prompts]
    return scripted(fm.Ensemble(members, vote="pick", **more), *said)


def talk(*said: Any, **more: Any) -> tuple[Any, Asked]:
    prompts = {"intuitive": "You are Ann.", "critic": "You are Ben."}
    how: Any = {"max_rounds": 1, "prompts": prompts, **more}
    return scripted(fm.Deliberation(["intuitive", "critic"], "pick", **how), *said)


def test_the_picked_candidate_is_the_answer() -> None:
    program, asked = ensemble("A", "B", ["2"])
    prediction = program(question="What holds soup?", choices=CHOICES)
    picked = prediction.transcript[-1]
    assert (picked["agent"], picked["round"], picked["text"]) == ("pick", 2, "one holds water")
    assert prediction.answer == picked["answer"] in ("A", "B")
    assert (prediction.decided_by, prediction.usage["calls"]) == ("pick", 3)
    (prompt,) = asked.seen
    places = [prompt.index("candidate 1"), prompt.index("candidate 2")]
    assert places == sorted(places)


def test_equal_candidates_are_one_and_need_no_call() -> None:
    program, asked = ensemble("A", "A", [])
    prediction = program(question="What holds soup?", choices=CHOICES)
    assert (prediction.answer, prediction.usage["calls"], asked.seen) == ("A", 2, [])


@pytest.mark.parametrize(
    ("replies", "calls", "readable"),
    [(["both", "candidate 1"], 4, True), (["1 or 2", "3"], 4, False), (["Candidate 2."], 3, True)],
)
def test_no_candidate_is_asked_once_more(replies: list[str], calls: int, readable: bool) -> None:
    program, _ = ensemble("A", "B", list(replies))
    prediction = program(question="What holds soup?", choices=CHOICES)
    assert prediction.usage["calls"] == calls
    assert (prediction.answer is not None) == readable
    assert prediction.decided_by == ("pick" if readable else "none")


def test_open_answers_are_picked_too_and_cut_to_their_share() -> None:
    long = "water " * 6000
    program, asked = ensemble(long, "soup", ["1"])
    prediction = program(question="What is in the flask?", kind="open")
    assert prediction.answer is not None
    assert len(asked.seen[0]) < 20_000


def test_it_is_found_by_name_saved_and_reported(tmp_path: Path) -> None:
    program = program_of("ensemble:simple,cot:pick")
    assert "pick" in program.seats()
    predict = program.seats()["pick"].predict
    predict.signature = predict.signature.with_instructions("Take the shorter one.")
    program.save(tmp_path)
    loaded = fm.load_program(tmp_path)
    assert loaded.seats()["pick"].predict.signature.instructions == "Take the shorter one."
    seeded = fm.Ensemble(["simple", "cot"], vote="pick", seed=7)
    assert hashes(seeded)["program_hash"] != hashes(program)["program_hash"]
    seeded.save(tmp_path / "seeded")
    assert fm.load_program(tmp_path / "seeded").seed == 7
    refused("a pick has no ties", fm.Ensemble, ["cot", "cot"], vote="pick", tie_break="first")
    questions = [fm.Question(id="q", question="What holds soup?", choices=CHOICES, answer="A")]
    program, _ = ensemble("A", "B", ["1"])
    run = fm.evaluate(program, questions, tracking=False, progress=False)
    assert len(run.summary.report["member_accuracy"]) == 2


class TestPick(ProtocolContract):
    def program(self) -> dspy.Module:
        return fm.Ensemble(["simple", "cot"], vote="pick")


@pytest.mark.parametrize("kind", ["choice", "open"])
def test_agents_who_do_not_agree_get_a_pick(kind: str, tmp_path: Path) -> None:
    answers = ("A", "B") if kind == "choice" else ("in a flask", "in a sieve")
    program, asked = talk(*answers, ["2"])
    choices = CHOICES if kind == "choice" else None
    prediction = program(question="What holds soup?", choices=choices, kind=kind)
    assert (prediction.decided_by, prediction.usage["calls"]) == ("pick", 3)
    assert prediction.transcript[-1]["agent"] == "pick"
    assert prediction.answer == prediction.transcript[-1]["answer"]
    assert prediction.answer in answers
    again = fm.replay(prediction)
    assert (again.answer, again.decided_by) == (prediction.answer, "pick")
    assert fm.replay(prediction, tie_break="majority").answer == answers[0]
    refused("no judge was asked", fm.replay, prediction, tie_break="judge")
    assert set(program.seats()) == {"intuitive", "critic", "pick"}
    fm.Deliberation(["intuitive", "critic"], "pick").save(tmp_path)
    assert fm.load_program(tmp_path).tie_break == "pick"
    assert len(asked.seen) == 1


@pytest.mark.parametrize("make", [ensemble, talk])
def test_the_order_is_drawn_by_the_seed(make: Any) -> None:
    answers = set()
    for seed in range(8):
        program, _ = make("A", "B", ["1"], seed=seed)
        answers.add(program(question="What holds soup?", choices=CHOICES).answer)
    assert answers == {"A", "B"}
    assert hashes(make("A", "B", [], seed=1)[0]) != hashes(make("A", "B", [], seed=2)[0])


@pytest.mark.nightly
class TestTalkWithAPick(ProtocolContract):
    def program(self) -> dspy.Module:
        return fm.Deliberation(["intuitive", "critic"], "pick")
