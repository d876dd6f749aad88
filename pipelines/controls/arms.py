"""The arms of controls as programs: the team's agents under other conditions, and one agent in
their place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import dspy

from ...modules.agents.exchange import Exchange, Hear
from ...modules.agents.transcript import Task, Turn
from ...modules.base.calls import ASKER
from ...modules.protocols.program import Program, SeatTurns, prediction_of
from ...modules.protocols.single import SingleAgent
from ...modules.reading.voting import vote_among
from ...signatures.controls import ONE_CONTEXT
from .dialogues import FIRST, Dialogues

SELF_CONSISTENT, THINKING, ONE = "self_consistency", "thinking", "one_context"
ARMS: Mapping[str, str] = {
    FIRST: "each agent answers afresh, hearing nobody, since it spoke in turn",
    "isolated": "each agent answers again, seeing only what it said itself",
    "placebo": "each agent answers again, shown what peers said about another question",
    "stance": "each agent answers again, shown only the bare answers of its peers",
    ONE: "one call plays all agents",
    SELF_CONSISTENT: "one agent, asked as often as the team's bill pays for",
    THINKING: "one agent that thinks for as many tokens as the team did",
}
BESIDE = ("stance", ONE, SELF_CONSISTENT, THINKING)
"""Those that stand beside the path, and can be left out."""


def exchange_of(team: Program) -> Exchange:
    """What a team declares. Raises LookupError for one that does not."""
    if (exchange := team.exchange()) is None:
        raise LookupError("its protocol does not say in exchange() how its agents answer again")
    return exchange


class AnsweringAgain(Program):
    """The team from its first answers on, its agents shown what the arm lets them hear; the arm
    `first` asks for fresh first answers alone.
    """

    def __init__(self, arm: str, team: Program, dialogues: Dialogues, **about: Any) -> None:
        super().__init__()
        self.arm, self.team, self.dialogues, self.about = arm, team, dialogues, about
        self.prompt_layout, self.verbatim = team.prompt_layout, team.verbatim

    def describe(self) -> dict[str, Any]:
        return {"program": f"controls {self.arm}", "team": self.team.describe(), **self.about}

    def turns(self) -> list[SeatTurns]:
        """Agents whose first answers agree do not go on; of fresh answers nobody knows that yet."""
        exchange, firsts = exchange_of(self.team), self.dialogues.first.values()
        told = exchange.turns or [(seat, 1, 1) for seat in self.team.seats().values()]
        if self.arm == FIRST:
            return [(seat, 1, 1) for seat, _, _ in told]
        differing = [len({turn.answer for turn in turns}) > 1 for turns in firsts]
        share = 1.0 if exchange.first is not None else fmean(differing)
        return [(seat, share * low, share * high) for seat, low, high in told]

    async def solve(self, task: Task) -> dspy.Prediction:
        name, exchange = ASKER.get().question or task.key, exchange_of(self.team)
        if self.arm == FIRST and exchange.first is not None:
            turns = await exchange.first(task)
        elif exchange.again is not None and name in self.dialogues.first:
            steps = [turn for turn in self.dialogues.turns[name] if turn.step is not None]
            recorded = [*self.dialogues.first[name], *steps]
            turns = await exchange.again(task, recorded, self._hear(name))
        else:
            raise LookupError("there are no first answers to go on from")
        last = [turn.answer for turn in self.dialogues.ends(turns)[1]]
        return prediction_of(task, vote_among(last, task.kind).answer, "majority", turns)

    def _hear(self, name: str) -> Hear:
        """What an agent is shown of turns in this arm, over the question of that id."""
        placebo = self.arm == "placebo"
        elsewhere = self.dialogues.elsewhere(name, self.about["seed"]) if placebo else ()

        def hear(agent: str, turns: Sequence[Turn]) -> list[Turn]:
            heard: list[Turn] = []
            for turn in turns:
                if turn.agent == agent:
                    heard.append(turn)
                elif self.arm == "stance":
                    heard.append(replace(turn, text=""))
                else:
                    heard += _in_its_place(turn, elsewhere)
            return heard

        return hear


def _in_its_place(turn: Turn, elsewhere: Sequence[Turn]) -> list[Turn]:
    """What the same agent said elsewhere in the same round, or in the last one before it."""
    own = [one for one in elsewhere if (one.agent, one.step) == (turn.agent, turn.step)]
    before = [one for one in own if one.round <= turn.round]
    return [replace(other, round=turn.round) for other in [*own[:1], *before][-1:]]


def one_context(team: Program, members: Sequence[str]) -> SingleAgent:
    """One agent that plays all agents of a team in one reply."""
    seats = {seat.name: seat for seat in team.seats().values() if seat.name in members}
    roles = {
        name: " ".join(one.predict.signature.instructions.split()) for name, one in seats.items()
    }
    first, rounds = next(iter(seats.values())).predict, getattr(team, "max_rounds", 1)
    told = ONE_CONTEXT.format(
        rounds="1 round" if rounds == 1 else f"{rounds} rounds or until they agree",
        speakers="\n".join(f"{name}: {text}" for name, text in roles.items()),
    )
    return SingleAgent("cot", prompts={"cot": told}, lm=first.lm, sampling=first.config)
