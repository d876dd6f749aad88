"""The arms of a controlled comparison as programs: the team under other conditions, and one agent
in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import dspy

from ...modules.agents.exchange import Exchange
from ...modules.agents.seat import Seat
from ...modules.agents.transcript import Task, Turn
from ...modules.base.calls import ASKER
from ...modules.protocols.program import Program, SeatTurns, prediction_of
from ...modules.reading.voting import vote_among
from ...signatures.controls import ROUNDS, OneContext
from .dialogues import FIRST, Dialogues

ARMS: Mapping[str, str] = {
    FIRST: "each agent answers afresh, hearing nobody, since it spoke in turn",
    "isolated": "each agent answers again, seeing only what it said itself",
    "placebo": "each agent answers again, shown what peers said about another question",
    "stance": "each agent answers again, shown only the bare answers of its peers",
    "one_context": "one call plays all agents",
    "self_consistency": "one agent, asked as often as the team's bill pays for",
    "thinking": "one agent that thinks for as many tokens as the team did",
}
BESIDE = ("stance", "one_context", "self_consistency", "thinking")
"""Those that stand beside the path, and can be left out."""


class TeamArm(Program):
    """One arm over a team: asked as the team is, and described by the arm, the team and the
    record.
    """

    def __init__(self, arm: str, team: Program, about: Mapping[str, Any]) -> None:
        super().__init__()
        self.arm, self.team, self.about = arm, team, dict(about)
        self.prompt_layout, self.verbatim = team.prompt_layout, team.verbatim

    def describe(self) -> dict[str, Any]:
        return {"program": f"controls {self.arm}", "team": self.team.describe(), **self.about}


class AnsweringAgain(TeamArm):
    """The team from its first answers on, its agents shown what the arm lets them hear; `first`
    asks for fresh first answers alone.
    """

    def __init__(
        self,
        arm: str,
        team: Program,
        exchange: Exchange,
        dialogues: Dialogues,
        about: Mapping[str, Any],
    ) -> None:
        super().__init__(arm, team, about)
        self.dialogues, self.stances = dialogues, exchange.stances
        told = exchange.turns or [(seat, 1, 1) for seat in team.seats().values()]
        self.spoken = [(seat.name, low, high) for seat, low, high in told]

    def turns(self) -> list[SeatTurns]:
        """Agents whose first answers agree do not go on; of fresh ones nobody knows yet."""
        seats = {seat.name: seat for seat in self.team.seats().values()}
        if self.arm == FIRST:
            return [(seats[name], 1, 1) for name, _, _ in self.spoken]
        share = self.dialogues.contested()
        return [(seats[name], share * low, share * high) for name, low, high in self.spoken]

    async def solve(self, task: Task) -> dspy.Prediction:
        name = ASKER.get().question or task.key
        exchange = self.team.exchange()
        assert exchange is not None
        assert exchange.again is not None
        if self.arm == FIRST:
            assert exchange.first is not None
            turns = await exchange.first(task)
        elif name not in self.dialogues.first:  # its first answers failed
            turns = []
        else:
            first = self.dialogues.first[name]
            recorded = [turn for turn in self.dialogues.turns[name] if turn.step is not None]
            turns = await exchange.again(task, [*first, *recorded], self._hear(name))
        last = self.dialogues.ends(turns)[1]
        vote = vote_among([turn.answer for turn in last], task.kind)
        return prediction_of(task, vote.answer, "majority", turns)

    def _hear(self, name: str) -> Any:
        """What an agent is shown of turns in this arm, over the question of that id."""
        elsewhere: Sequence[Turn] = ()
        if self.arm == "placebo":
            elsewhere = self.dialogues.elsewhere(name, self.about["seed"])

        def shown(turn: Turn) -> Turn | None:
            if self.arm == "stance":
                return replace(turn, text="")
            return _in_its_place(turn, elsewhere)  # nothing where the arm is isolated

        def hear(agent: str, turns: Sequence[Turn]) -> list[Turn]:
            heard = (turn if turn.agent == agent else shown(turn) for turn in turns)
            return [turn for turn in heard if turn is not None]

        return hear


def _in_its_place(turn: Turn, elsewhere: Sequence[Turn]) -> Turn | None:
    """What the same agent said elsewhere in the same round, or in the last one before it."""
    own = [one for one in elsewhere if (one.agent, one.step) == (turn.agent, turn.step)]
    if not own:
        return None
    other = next((one for one in reversed(own) if one.round <= turn.round), own[0])
    return replace(other, round=turn.round)


class PlayingAll(TeamArm):
    """One call that plays all agents of a team."""

    def __init__(
        self, arm: str, team: Program, members: Sequence[str], about: Mapping[str, Any]
    ) -> None:
        super().__init__(arm, team, about)
        seats = {seat.name: seat for seat in team.seats().values()}
        roles = {name: seats[name] for name in members if name in seats}
        first = next(iter(roles.values()))
        self.seat = Seat(arm, OneContext, lm=first.predict.lm, sampling=first.predict.config)
        self.notes: list[dict[str, Any]] = [
            _told(name, " ".join(seat.predict.signature.instructions.split()))
            for name, seat in roles.items()
        ]
        if rounds := getattr(team, "max_rounds", None):
            self.notes.append(_told(ROUNDS, f"at most {rounds}"))

    def turns(self) -> list[SeatTurns]:
        return [(self.seat, 1, 1)]

    async def solve(self, task: Task) -> dspy.Prediction:
        turn = await self.seat.ask(task, notes=self.notes)
        return prediction_of(task, turn.answer, "single", [turn])


def _told(title: str, text: str) -> dict[str, Any]:
    """A note that the agent may follow."""
    return {"title": title, "text": text, "advice": True}
