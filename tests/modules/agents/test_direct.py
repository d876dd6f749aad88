"""Calls that nobody watches take a shorter way; it asks, answers and fails as DSPy's own."""

from __future__ import annotations

import json
from typing import Any

import dspy
import pytest
from dspy.utils.callback import BaseCallback

import folkmoot as fm
from folkmoot.modules.agents import direct
from folkmoot.pipelines.base.journal import to_json

CHOICES = {"A": "bank", "B": "mall"}
UNWATCHED = {"disable_history": True, "trace": None}


class Watcher(BaseCallback):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_module_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        self.seen.append(type(instance).__name__)


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call of a predictor was asked without DSPy in between."""
    ways: list[bool] = []
    whole = direct.predict_directly

    async def noted(predict: Any, given: Any) -> Any:
        prediction = await whole(predict, given)
        ways.append(prediction is not None)
        return prediction

    monkeypatch.setattr("folkmoot.modules.agents.seat.predict_directly", noted)
    return ways


def team(url: str, **sampling: Any) -> fm.Deliberation:
    program = fm.Deliberation(["intuitive", "critic"], sampling={"temperature": 0, **sampling})
    demo = {
        "question": "Where is money?",
        "choices": CHOICES,
        "explanation": "It is kept.",
        "answer": "A",
    }
    program.agents[0].predict.demos = [dspy.Example(demo)]
    program.set_lm(fm.lm("openai/m", api_base=url, seed=3))
    return program


def ask(program: fm.Deliberation, **settings: Any) -> dict[str, Any]:
    with dspy.context(**settings):
        return dict(program(question="Where is cash?", choices=CHOICES))


def test_both_ways_send_and_give_the_same(scripted: Any, ways: list[bool]) -> None:
    scripted.reply = lambda body: (
        json.dumps({"answer": "?"})
        if "could not be used" not in str(body)
        else json.dumps({"explanation": "so", "critique": "no", "answer": "B"})
    )
    program = team(scripted.url, stop=["END"], max_tokens=50)
    long = ask(program)
    half = len(ways)
    short = ask(program, **UNWATCHED)
    assert ways == [False] * half + [True] * half
    assert short == long
    assert scripted.bodies[:half] == scripted.bodies[half:]


@pytest.mark.parametrize(
    "watching",
    [{"trace": []}, {"disable_history": False}, {"track_usage": True}, {"callbacks": [Watcher()]}],
    ids=lambda setting: next(iter(setting)),
)
def test_whoever_watches_sees_every_call(
    scripted: Any, ways: list[bool], watching: dict[str, Any]
) -> None:
    settings = {**UNWATCHED, **watching}
    ask(team(scripted.url), **settings)
    assert ways
    assert not any(ways)
    for watcher in settings.get("callbacks", ()):
        assert watcher.seen.count("SeatPredict") == len(ways)
    if settings["trace"] is not None:
        assert len(settings["trace"]) == len(ways)


def test_a_seats_own_callback_sees_its_calls(scripted: Any, ways: list[bool]) -> None:
    program, watcher = team(scripted.url), Watcher()
    program.agents[1].predict.callbacks = [watcher]
    ask(program, **UNWATCHED)
    assert ways == [True, False]
    assert watcher.seen == ["SeatPredict"]


def test_instructions_changed_in_place_are_told(scripted: Any) -> None:
    program = team(scripted.url)
    kept = program.agents[0].predict.signature
    program.agents[0].predict.signature = kept.with_instructions("Think of ships.")
    ask(program, **UNWATCHED)
    program.agents[0].predict.signature.instructions = "Think of trains."
    ask(program, **UNWATCHED)
    requests = [body["messages"][-1]["content"] for body in scripted.bodies]
    assert "Think of ships." in requests[0]
    assert any("Think of trains." in text for text in requests[1:])


def test_a_wrong_setting_is_refused_on_both_ways(scripted: Any) -> None:
    for settings in ({}, UNWATCHED):
        with pytest.raises(ValueError, match="temperature"):
            ask(team(scripted.url, temperature=5), **settings)
    assert not scripted.bodies


@pytest.mark.parametrize(
    "value", ["é中\u2028", "half \ud800 pair", 2**70, {1: "one"}, [None, True, 0.1]]
)
def test_json_reads_back_as_pythons_own(value: Any) -> None:
    assert json.loads(to_json({"it": value})) == json.loads(json.dumps({"it": value}))
    assert b"\n" not in to_json({"it": value})
