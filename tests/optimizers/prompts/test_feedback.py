"""Feedback on an answer: who was right, who swayed whom, what deciders missed, quoted."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import folkmoot as fm
from folkmoot.optimizers.prompts.feedback import feedback, quoted
from folkmoot.optimizers.prompts.metric import OptimizerMetric

CHOICES = {"A": "bank", "B": "library", "C": "mall"}
WHERE = fm.Question(id="1", question="Where?", choices=CHOICES, answer="B")
SPAN = fm.Question(id="2", question="Who?", kind="span", answer="Ada Lovelace the Countess")


def turn(
    agent: str, round: int, answer: str | None, text: str = "because", **more: Any
) -> dict[str, Any]:
    return {"agent": agent, "round": round, "answer": answer, "text": text, **more}


def told(
    answer: str | None, *turns: dict[str, Any], seat: str | None = None, by: str = "judge"
) -> list[str]:
    said = {"answer": answer, "decided_by": by, "transcript": list(turns)}
    return feedback(WHERE, said, seat).splitlines()


A, B, C = 'A ("bank")', 'B ("library")', 'C ("mall")'


def test_who_swayed_whom() -> None:
    first = [turn("x", 1, "B"), turn("y", 1, "A"), turn("z", 1, "C")]
    lines = told("A", *first, turn("x", 2, "A"), turn("z", 2, "B"))
    misled = f"x was misled from the right {B} to the wrong {A} in round 2"
    assert f"{misled}, after y had said so." in lines
    # x no longer says B
    assert f"z was won over from the wrong {C} to the right {B} in round 2." in lines
    assert not [line for line in lines if line.startswith("y was")]
    two = told("A", turn("x", 1, "A"), turn("y", 1, "A"), turn("z", 1, "B"), turn("z", 2, "A"))
    misled = f"z was misled from the right {B} to the wrong {A} in round 2"
    assert f"{misled}, after x and y had said so." in two


def test_what_the_judge_ignored() -> None:
    turns = turn("x", 1, "B"), turn("y", 1, "A"), turn("z", 1, "B")
    wrong = told("A", *turns, turn("judge", 1, "A"))
    assert f"judge decided for the wrong {A}, although x and z had given the right {B}." in wrong
    right = told("B", *turns, turn("judge", 1, "B"))
    assert f"judge decided for the right {B}, although y had said otherwise." in right
    silent = told("B", *turns, turn("judge", 1, None), by="fallback:majority")
    assert f"judge gave no readable decision, although x and z had given the right {B}." in silent
    lines = told("A", turn("x", 1, "A"), turn("judge", 1, "A"))
    assert not [line for line in lines if "judge decided" in line]


@given(st.text(max_size=2000))
def test_what_lms_said_stays_one_harmless_line(text: str) -> None:
    line = quoted(text)
    assert "\n" not in line
    assert len(line) <= 302
    assert line.count('"') == 2
    for mark in ("<<<", ">>>", "[[ ##", "<|im_end|>"):
        assert mark not in quoted(f"{mark}{text}{mark}")
    said = {"answer": "A", "decided_by": "x", "transcript": [turn("x", 1, "A", text, raw=text)]}
    lines = feedback(WHERE, said, "x")
    assert len(lines.splitlines()) == 3 + bool(text)


def test_each_way_of_asking_the_metric() -> None:
    seen: list[Any] = []
    metric = OptimizerMetric(
        lambda question, said, score: seen.append((question.id, score)), {"program.seat": "judge"}
    )
    said = {"answer": "A", "decided_by": "judge", "transcript": [turn("judge", 1, "A", "so")]}
    assert metric(WHERE, said) == 0.0
    assert metric(WHERE, None) == 0.0
    assert seen == [("1", 0.0), ("1", 0.0)]
    assert metric(WHERE, said, []) is False
    assert metric(SPAN, {"answer": "Ada Lovelace"}, []) is True
    judged = metric(WHERE, said, [], "program.seat", [])
    assert (judged.score, judged.feedback.splitlines()[-1]) == (0.0, 'judge argued: "so"')
    assert len(seen) == 2, "only scores are counted, no demonstrations and no feedback"


def test_gepa_is_told(scripted: Any) -> None:
    from planted import compiled, is_proposal, of_instructions

    scripted.reply = of_instructions()
    program = fm.Deliberation(["intuitive", "reasoner"], tie_break="judge", max_rounds=1)
    compiled(scripted.url, optimizer="gepa", program=program, train=8, validation=0)
    asked = [json.dumps(body) for body in scripted.bodies if is_proposal(body)]
    assert asked
    assert all("The right answer is" in text and "You are " in text for text in asked)
