"""Self-consistency: samples that differ, drawn at the same time, cached apart, and counted."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import folkmoot as fm

QUESTION = {
    "question": "Where are savings kept?",
    "choices": {"A": "bank", "B": "library", "C": "mall"},
}


def in_turn(*answers: str) -> Callable[[dict[str, Any]], str]:
    """Replies with these answers in the order of arrival, over and over."""
    said: list[str] = []

    def reply(_: dict[str, Any]) -> str:
        said.append(answers[len(said) % len(answers)])
        return json.dumps({"reasoning": f"thought {len(said)}", "answer": said[-1]})

    return reply


def by_seed(*answers: str) -> Callable[[dict[str, Any]], str]:
    """The answer that the seed of a request picks, whatever the order of arrival."""
    return lambda body: json.dumps({"reasoning": "so", "answer": answers[body["seed"] - 1]})


def ready(
    scripted: Any, samples: int | None = None, lm: dict[str, Any] | None = None, **settings: Any
) -> Any:
    program = fm.SingleAgent("self_consistency", samples=samples, **settings)
    program.set_lm(fm.lm("openai/scripted", api_base=scripted.url, **(lm or {})))
    return program


def test_ten_samples_of_chain_of_thought_and_the_majority(scripted: Any) -> None:
    scripted.reply = in_turn("B", "A", "A")
    prediction = ready(scripted)(**QUESTION)
    assert len(scripted.bodies) == 10
    for body in scripted.bodies:
        assert (body["temperature"], body["top_p"]) == (0.8, 0.5)
        assert list(body["response_format"]["json_schema"]["schema"]["properties"]) == [
            "reasoning",
            "answer",
        ]
    assert (prediction.answer, prediction.decided_by, prediction.rounds) == ("A", "majority", 1)
    assert prediction.usage["calls"] == 10
    assert prediction.usage["cached_calls"] == 0
    turns = prediction.transcript
    assert {(turn["agent"], turn["round"]) for turn in turns} == {("self_consistency", 1)}
    assert len({turn["text"] for turn in turns}) == 10
    assert sorted(turn["answer"] for turn in turns) == ["A"] * 6 + ["B"] * 4


def test_samples_are_asked_for_at_the_same_time(scripted: Any) -> None:
    scripted.delay = 0.05
    ready(scripted, 6)(**QUESTION)
    assert scripted.most_at_once == 6


def test_an_lm_with_a_seed_gets_another_one_for_each_sample(scripted: Any) -> None:
    ready(scripted, 4, lm={"seed": 7})(**QUESTION)
    assert sorted(body["seed"] for body in scripted.bodies) == [8, 9, 10, 11]


@pytest.mark.parametrize(
    ("answers", "winner", "tied"),
    [
        (("B", "A", "A", "B"), "B", True),  # the earliest sample's
        (("A", "B", "B", "C"), "B", False),
        (("?", "?", "?", "C"), "C", False),  # what cannot be read does not count
        (("C",), "C", False),
    ],
)
def test_ties_and_abstentions(
    scripted: Any, answers: tuple[str, ...], winner: str, tied: bool
) -> None:
    scripted.reply = by_seed(*answers)
    scripted.delay = 0.001
    prediction = ready(scripted, len(answers), lm={"seed": 0})(**QUESTION)
    assert (prediction.answer, prediction.tied, prediction.decided_by) == (winner, tied, "majority")
    read = [None if answer == "?" else answer for answer in answers]
    assert prediction.answers == {"self_consistency": read}


def test_samples_are_recorded_apart_and_a_larger_number_adds_only_its_own(
    scripted: Any, tmp_path: Path
) -> None:
    scripted.reply = in_turn("A", "B", "A")
    questions = [fm.Question(id="1", answer="A", **QUESTION)]
    lm = fm.lm("openai/scripted", api_base=scripted.url)

    def run(samples: int, out: str, **options: Any) -> dict[str, Any]:
        program = fm.SingleAgent("self_consistency", samples=samples)
        (row,) = fm.evaluate(
            program, questions, out=tmp_path / out, tracking=False, **{"lm": lm, **options}
        ).rows
        return row

    first = run(3, "three", record=tmp_path / "record")
    again = run(3, "again", lm=fm.lm(f"replay/{tmp_path / 'three'}"))
    assert len(scripted.bodies) == 3
    texts = [turn["text"] for turn in first["transcript"]]
    assert [turn["text"] for turn in again["transcript"]] == texts
    more = run(5, "five", record=tmp_path / "record")
    assert len(scripted.bodies) == 5
    assert [turn["text"] for turn in more["transcript"]][:3] == texts
    assert more["usage"]["cached_calls"] == 3
