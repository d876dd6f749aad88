"""Seats ask LMs by one request, whoever watches: where nobody does, DSPy's threads are left out."""

import json
from typing import Any

import dspy
import pytest
from dspy.clients.base_lm import GLOBAL_HISTORY
from dspy.utils.callback import BaseCallback

import folkmoot as fm
from folkmoot.modules.agents.adapter import ProfileAdapter
from folkmoot.modules.agents.seat import Seat
from folkmoot.modules.agents.transcript import Task
from folkmoot.modules.base.sync import run_sync

CHOICES = {"A": "bank", "B": "mall"}
UNWATCHED = {"disable_history": True, "trace": None}


class Watcher(BaseCallback):
    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        self.seen.append(instance.model)


def team(url: str, **sampling: Any) -> fm.Deliberation:
    program = fm.Deliberation(["intuitive", "critic"], sampling={"temperature": 0, **sampling})
    demo = {"question": "Where is money?", "choices": CHOICES, "explanation": "So.", "answer": "A"}
    program.agents[0].predict.demos = [dspy.Example(demo)]
    program.set_lm(fm.lm("openai/m", api_base=url, seed=3))
    return program


def ask(program: fm.Deliberation, **settings: Any) -> dict[str, Any]:
    with dspy.context(**settings):
        return dict(program(question="Where is cash?", choices=CHOICES))


@pytest.mark.parametrize("watching", ["history", "trace", "usage", "callbacks", "lm"])
def test_whoever_watches_sees_every_call_and_changes_nothing(scripted: Any, watching: str) -> None:
    scripted.reply = lambda body: (
        json.dumps({"answer": "?"})
        if "could not be used" not in str(body)
        else json.dumps({"explanation": "so", "critique": "no", "answer": "B"})
    )
    program, watcher = team(scripted.url, stop=["END"], max_tokens=50), Watcher()
    short = ask(program, **UNWATCHED)
    calls = len(scripted.bodies)
    lms = [agent.predict.lm for agent in program.agents]
    settings: dict[str, Any] = {
        "history": {"disable_history": False},
        "trace": {"trace": []},
        "usage": {"track_usage": True},
        "callbacks": {"callbacks": [watcher]},
        "lm": {},
    }[watching]
    if watching == "lm":
        lms[1].callbacks = [watcher]
    assert ask(program, **{**UNWATCHED, **settings}) == short
    assert scripted.bodies[calls:] == scripted.bodies[:calls]
    if watching == "history":
        assert len({entry["uuid"] for lm in lms for entry in lm.history}) == calls
        assert program.history == [entry for entry in GLOBAL_HISTORY if entry in lms[0].history]
        # the entry that DSPy itself makes of an equal call
        ours = lms[0].history[0]
        lms[0](ours["request"])
        theirs = lms[0].history[-1]
        alike = theirs.keys() - {"timestamp", "uuid", "cost_details"}
        assert {name: str(ours[name]) for name in alike} == {
            name: str(theirs[name]) for name in alike
        }, f"DSPy {dspy.__version__} keeps other histories"
    if watching == "trace":
        assert len(settings["trace"]) > 0
    if watching in ("callbacks", "lm"):
        assert len(watcher.seen) == calls


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


class Named(dspy.Signature):  # type: ignore[misc]
    """Say on what base you answer."""

    question: str = dspy.InputField()
    base: str = dspy.OutputField()
    answer: str = dspy.OutputField()


@pytest.mark.parametrize("disable_history", [True, False])
def test_an_output_has_any_name(scripted: Any, disable_history: bool) -> None:
    """`dspy.Prediction` has an argument of this one's name."""
    scripted.reply = lambda _: json.dumps({"base": "a book", "answer": "money"})
    seat = Seat("reader", Named, lm=fm.lm("openai/m", api_base=scripted.url))
    settings = {**UNWATCHED, "adapter": ProfileAdapter(), "warn_on_type_mismatch": False}
    with dspy.context(**settings | {"disable_history": disable_history}):
        turn = run_sync(seat.ask, Task("What is cash?", kind="span"))
    assert turn.outputs == {"base": "a book", "answer": "money"}
