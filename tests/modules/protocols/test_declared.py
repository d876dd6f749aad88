"""Protocols that `seat` and `solve` declare, such as a moderated debate."""

import asyncio
import inspect
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Unpack

import dspy
import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution

import folkmoot as fm
from folkmoot.modules.protocols.declared import Said, Shared
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
            heard = {"round": round, "discussion": turns}
            said = await fm.together(speaker.ask(task, **heard) for speaker in self.speakers)
            turns += said
            if fm.all_agree([turn.answer for turn in said], task.kind):
                ended = {"rounds": round, "consensus_round": round}
                return fm.prediction_of(task, said[0].answer, "agreement", turns, **ended)
        verdict = await self.moderator.ask(task, round=round, discussion=turns)
        heard = [*turns, verdict]
        prediction = fm.prediction_of(task, verdict.answer, "moderator", heard, rounds=round)
        prediction["sure"] = verdict.outputs["sure"]
        return prediction


class Typed(fm.Declared):
    def seat(
        self, strict: bool = True, most: int | None = None, level: Literal[1, 2] | None = None
    ) -> None:
        self.agent = fm.Seat("agent", Debater)


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
    asked = {"debaters": 3, "max_rounds": 3, "sampling": {"temperature": 0.5}}
    assert program.describe() == {"program": "debate", "prompt_layout": "role_first", **asked}
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
        (Typed, ["false", "5"], {"strict": False, "most": 5}),
        (Typed, ["", "", "2"], {"level": 2}),
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


def at_least_one(name: str, value: int) -> int:
    if value < 1:
        raise fm.UserError(f"{name} is {value}: give at least 1")
    return value


class Panel(fm.Declared, name="panel", order=("rule",)):
    """One whose settings type checkers know."""

    def __init__(
        self,
        experts: Annotated[int, at_least_one, IntDistribution(1, 3)] = 2,
        rule: Annotated[str, Said.CHANGED, CategoricalDistribution(("first", "last"))] = "first",
        **shared: Unpack[Shared],
    ) -> None:
        self.agents = [fm.Seat(f"expert {number}", Debater) for number in range(experts)]
        self.chair = fm.Seat("chair", Moderator, sampling={"top_p": 0.5})

    async def solve(self, task: fm.Task) -> dspy.Prediction:
        verdict = await self.chair.ask(task)
        return fm.prediction_of(task, verdict.answer, "chair", [verdict])


class LoudPanel(Panel):
    def __init__(self) -> None:
        super().__init__(3, rule="last")


def test_the_constructor_itself_may_say_who_takes_part() -> None:
    parameters = list(inspect.signature(Panel.__init__).parameters)
    assert parameters == ["self", "experts", "rule", "lms", "sampling", "prompt_layout", "prompts"]
    assert list(Panel.protocol.space) == ["rule", "experts", "prompt_layout"]
    assert Panel.protocol.space["rule"].default == "first"
    # What one seat alone has, and a setting that is as ever, are not described.
    described = Panel(sampling={"temperature": 0.5}).describe()
    assert described == {"program": "panel", "experts": 2, "sampling": {"temperature": 0.5}}
    assert Panel(rule="last").describe()["rule"] == "last"
    assert Panel(1, lms={"chair": dspy.LM("openai/x")}).chair.predict.lm.model == "openai/x"


def test_a_variant_of_a_protocol_is_described_as_that_protocol_and_its_class() -> None:
    described = LoudPanel().describe()
    assert (described["program"], described["experts"]) == ("panel", 3)
    assert str(described["class"]).endswith(":LoudPanel")


class Relay(fm.Declared, name="relay", holds=("members",)):
    """One made of other programs; the first that answers is right."""

    def seat(self, members: Sequence[fm.Program], most: int = 2) -> None:
        pass

    async def solve(self, task: fm.Task) -> dspy.Prediction:
        raise NotImplementedError


def test_a_protocol_may_hold_programs(tmp_path: Path) -> None:
    relay = Relay([Debate(3), fm.SingleAgent("cot", prompt_layout="role_first")])
    described = relay.describe()
    members = [part.describe() for part in relay.members]
    assert described == {"program": "relay", "members": members, "most": 2}
    assert described["members"][1]["prompt_layout"] == "role_first"  # its own
    relay.save(tmp_path)
    loaded = fm.load_program(tmp_path, protocols={"debate": Debate, "relay": Relay})
    assert loaded.describe() == described
    layout = Relay([Debate()], prompt_layout="role_first").members[0].prompt_layout
    assert layout == "role_first"


class Hides(fm.Declared):
    def seat(self, agents: int = 2) -> None:
        self.agents = [fm.Seat("agent", Debater) for _ in range(agents)]


class Seatless(fm.Declared):
    pass


def shadowing(name: str) -> None:
    """A protocol with a setting of that name."""

    class Shadows(fm.Declared):
        exec(f"def seat(self, {name}: int = 2) -> None: ...")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Debate(rounds=2), "'rounds'.*its settings are debaters, max_rounds"),
        (lambda: Panel(expert=3), "panel cannot be built.*'expert'.*settings are experts, rule"),  # type: ignore[call-arg]
        (lambda: Panel(0), "experts is 0: give at least 1"),
        (lambda: Roles(), "roles cannot be built .*'roles'"),
        (lambda: Debate(sampling={"temp": 1}), "no sampling setting 'temp'"),
        (lambda: Debate(lms={"judge": object()}), "no agent 'judge'"),
        (lambda: Hides(), "self.agents, which is a setting"),
        (lambda: shadowing("turns"), "Shadows has a setting 'turns'"),
        (lambda: shadowing("history"), "Shadows has a setting 'history'"),
        (lambda: shadowing("lms"), "Shadows has a setting 'lms'"),
        (lambda: Debate.protocol.read(["many"]), "'many' is not a number"),
        (lambda: Typed.protocol.read(["", "many"]), "'many' is not a number"),
        (lambda: Typed.protocol.read(["maybe"]), "no strict 'maybe': choose among true, false"),
        (lambda: Typed.protocol.read(["", "", "3"]), "no level '3': choose among 1, 2"),
        (lambda: Relay([Debate()], sampling={"top_p": 0.5}), "set it on the programs"),
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
        lms = {"debater 1": model(server, "m0"), "debater 2": model(server, "m1")}
        lms["moderator"] = model(server, "m2")
        found = Debate(lms=lms, max_rounds=1)(question="Where?", choices=["bank", "mall"])
    assert (found.answer, found.decided_by, found["sure"]) == ("B", "moderator", "yes")


def test_a_step_that_prepares_an_answer_has_typed_outputs_too(scripted: ScriptedServer) -> None:
    class Counting(fm.Signature):
        """Count the words."""

        words: int = dspy.OutputField()
        answer: str = dspy.OutputField()

    scripted.reply = lambda body: json.dumps({"words": 3, "answer": "three"})
    seat = fm.Seat("counter", Counting, lm=model(scripted))
    turn = asyncio.run(seat.work(fm.Task("How many words?", None, None, "span"), "count"))
    assert (turn.step, turn.answer) == ("count", None)
    assert turn.outputs == {"words": 3, "answer": "three"}
