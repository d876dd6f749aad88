"""Protocols that `seat` and `solve` declare, such as a moderated debate."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import dspy
import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution

import folkmoot as fm
from folkmoot.modules.protocols.registry import declared
from folkmoot.pipelines.testing.base import model
from folkmoot.pipelines.testing.contract import ProtocolContract
from folkmoot.pipelines.testing.server import ScriptedServer


class Debater(fm.Signature):
    """You debate. Defend what you believe, unless another argument is better."""

    argument: str = dspy.OutputField()
    answer: str = dspy.OutputField()


class Moderator(fm.Signature):
    """You moderate a debate that ended without agreement. Weigh the arguments and decide."""

    sure: Literal["yes", "no"] = dspy.OutputField()
    answer: str = dspy.OutputField()


class Debate(fm.Declared, name="debate"):
    def seat(
        self,
        debaters: Annotated[int, IntDistribution(2, 4)] = 2,
        max_rounds: Annotated[int, IntDistribution(1, 3)] = 3,
    ) -> None:
        self.speakers = [fm.Seat(f"debater {number + 1}", Debater) for number in range(debaters)]
        self.moderator = fm.Seat("moderator", Moderator)

    async def solve(self, task: fm.Task) -> dspy.Prediction:
        turns: list[fm.Turn] = []
        for round in range(1, self.max_rounds + 1):
            said = await fm.together(
                speaker.ask(task, round=round, discussion=turns) for speaker in self.speakers
            )
            turns += said
            if fm.all_agree([turn.answer for turn in said], task.kind):
                return fm.prediction_of(
                    task, said[0].answer, "agreement", turns, rounds=round, consensus_round=round
                )
        verdict = await self.moderator.ask(task, round=round, discussion=turns)
        prediction = fm.prediction_of(
            task, verdict.answer, "moderator", [*turns, verdict], rounds=round
        )
        prediction["sure"] = verdict.outputs["sure"]
        return prediction


class Roles(fm.Declared):
    def seat(
        self,
        roles: Sequence[str],
        weight: float = 1.0,
        *,
        rule: Annotated[str, CategoricalDistribution(("first", "last"))] = "first",
    ) -> None:
        self.agents = [fm.Seat(role, Debater) for role in roles]

    async def solve(self, task: fm.Task) -> dspy.Prediction:
        turns = [await agent.ask(task) for agent in self.agents]
        return fm.prediction_of(task, turns[0].answer, self.rule, turns)


class TestDebate(ProtocolContract):
    def program(self) -> fm.Program:
        return Debate(3, max_rounds=2)


def test_all_that_a_protocol_needs_follows_from_seat() -> None:
    parameters = list(inspect.signature(Debate.__init__).parameters)
    assert parameters[1:3] == ["debaters", "max_rounds"]
    assert {"lms", "sampling", "prompts", "prompt_layout"} < set(parameters)
    program = Debate(3, sampling={"temperature": 0.5}, prompt_layout="role_first")
    assert program.describe() == {
        "program": "debate",
        "prompt_layout": "role_first",
        "debaters": 3,
        "max_rounds": 3,
        "sampling": {"temperature": 0.5},
    }
    assert list(Debate.protocol.space) == ["debaters", "max_rounds", "prompt_layout"]
    assert {seat.predict.config["temperature"] for seat in program.seats().values()} == {0.5}
    assert program.most_turns() == 12  # four seats in three rounds


@pytest.mark.parametrize(
    ("kind", "parts", "wanted"),
    [
        (Debate, [], {}),
        (Debate, ["4"], {"debaters": 4}),
        (Debate, ["", "2"], {"max_rounds": 2}),
        (Roles, ["a, b", "0.5"], {"roles": ["a", "b"], "weight": 0.5}),
    ],
)
def test_short_specs(kind: type[fm.Declared], parts: list[str], wanted: dict[str, Any]) -> None:
    protocol = declared(kind.protocol.name, kind)
    assert protocol.read(parts) == wanted
    if wanted:
        assert wanted.items() <= protocol.make(**wanted).describe().items()


def test_a_keyword_of_seat_is_a_setting_that_can_be_tuned() -> None:
    assert Roles.protocol.name == "roles"
    assert Roles(["a"], rule="last").describe()["rule"] == "last"
    assert "rule" in Roles.protocol.space


class Hides(fm.Declared):
    def seat(self, agents: int = 2) -> None:
        self.agents = [fm.Seat("agent", Debater) for _ in range(agents)]


class Seatless(fm.Declared):
    pass


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Debate(rounds=2), "'rounds'.*its settings are debaters, max_rounds"),
        (lambda: Roles(), "roles cannot be built .*'roles'"),
        (lambda: Debate(sampling={"temp": 1}), "no sampling setting 'temp'"),
        (lambda: Debate(lms={"judge": object()}), "no agent 'judge'"),
        (lambda: Hides(), "self.agents, which is a setting"),
        (lambda: Debate.protocol.read(["many"]), "'many' is no int"),
    ],
)
def test_a_mistake_is_one_sentence(make: Callable[[], object], said: str) -> None:
    with pytest.raises(fm.UserError, match=said):
        make()


def test_a_protocol_without_seats_says_what_is_missing() -> None:
    with pytest.raises(NotImplementedError, match="Seatless has no seat"):
        Seatless()


def test_turns_have_the_typed_outputs_of_their_signature() -> None:
    def reply(body: dict[str, Any]) -> str:
        fields = {
            "m0": {"argument": "so", "answer": "A"},
            "m1": {"argument": "no", "answer": "B"},
            "m2": {"sure": "yes", "answer": "B"},
        }
        return json.dumps(fields[body["model"]])

    with ScriptedServer(reply) as server:
        lms = {
            "debater 1": model(server, "m0"),
            "debater 2": model(server, "m1"),
            "moderator": model(server, "m2"),
        }
        found = Debate(lms=lms, max_rounds=1)(question="Where?", choices=["bank", "mall"])
    assert (found.answer, found.decided_by, found["sure"]) == ("B", "moderator", "yes")


def test_saved_it_is_loaded_by_its_name(tmp_path: Path) -> None:
    Debate(4).save(tmp_path / "saved")
    loaded = fm.load_program(tmp_path / "saved", protocols={"debate": Debate})
    assert loaded.describe() == Debate(4).describe()
