"""The arms of controls as programs: the team's agents under other conditions, or one agent instead
of them.
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
from ...modules.base.saved_file import Described
from ...modules.protocols.program import Program, SeatTurns, prediction_of
from ...modules.protocols.single import SingleAgent
from ...modules.reading.voting import vote_among
from ...signatures.controls import ONE_CONTEXT
from .dialogues import FIRST, SELF_CONSISTENT, Dialogues

THINKING, ONE = "thinking", "one_context"
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
"""The optional arms, which are not part of the path."""


def exchange_of(team: Program) -> Exchange:
    """Return the `exchange()` of a team. Raises LookupError for a team without one."""
    if (exchange := team.exchange()) is None:
        raise LookupError("its protocol does not say in exchange() how its agents answer again")
    return exchange


class AnsweringAgain(Program):
    """The team from its first answers on; its agents are shown only what the arm allows. The arm
    `first` asks only for fresh first answers.
    """

    def __init__(self, arm: str, team: Program, dialogues: Dialogues, **about: Any) -> None:
        super().__init__()
        self.arm, self.team, self.dialogues, self.about = arm, team, dialogues, about
        # In another layout than the team's own, the answers would differ for that alone.
        self.prompt_layout, self.verbatim = team.prompt_layout, team.verbatim

    def describe(self) -> Described:
        return {"program": f"controls {self.arm}", "team": self.team.describe(), **self.about}

    def turns(self) -> list[SeatTurns]:
        """Return the turns of each seat, fewest and most; agents that agree at first do not
        go on.
        """
        exchange, firsts = exchange_of(self.team), self.dialogues.first.values()
        planned = exchange.turns or [(seat, 1, 1) for seat in self.team.seats().values()]
        if self.arm == FIRST:
            return [(seat, 1, 1) for seat, _, _ in planned]
        share = 1.0
        # Whether fresh first answers will differ is not known before they are asked for.
        if exchange.first is None:
            share = fmean(len({turn.answer for turn in turns}) > 1 for turns in firsts)
        return [(seat, share * low, share * high) for seat, low, high in planned]

    async def solve(self, task: Task) -> dspy.Prediction:
        name, exchange = ASKER.get().question or task.key, exchange_of(self.team)
        if self.arm == FIRST and exchange.first is not None:
            turns = await exchange.first(task)
        elif exchange.again is not None and name in self.dialogues.first:
            turns = self.dialogues.turns[name]
            later = [turn for turn in turns if turn.step is not None or turn.round > 1]
            # With the first answers of this arm's own branch, which may be fresh ones.
            recorded = [*self.dialogues.first[name], *later]
            turns = await exchange.again(task, recorded, self._hear(name))
        else:
            raise LookupError("there are no first answers to go on from")
        # Only members of the team have a vote: a judge of the recorded dialogue is left out.
        _, last = self.dialogues.ends(turns)
        vote = vote_among([turn.answer for turn in last], task.kind)
        return prediction_of(task, vote.answer, "majority", turns)

    def _hear(self, name: str) -> Hear:
        """Return the turns that an agent is shown in this arm, for the question with this id."""
        elsewhere: Sequence[Turn] = ()
        if self.arm == "placebo":
            elsewhere = self.dialogues.elsewhere(name, self.about["seed"])

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
    """Return the same agent's turn of the other dialogue in the same round, or the last one before
    it.
    """
    own = [other for other in elsewhere if (other.agent, other.step) == (turn.agent, turn.step)]
    if not own:
        return []
    nearest = own[0]
    for other in own:
        if other.round <= turn.round:
            nearest = other
    return [replace(nearest, round=turn.round)]


def one_context(team: Program, members: Sequence[str]) -> SingleAgent:
    """Return one agent that plays all agents of a team in one reply."""
    seats = {seat.name: seat for seat in team.seats().values() if seat.name in members}
    speakers = []
    for name, seat in seats.items():
        instructions = " ".join(seat.predict.signature.instructions.split())
        speakers.append(f"{name}: {instructions}")
    first, rounds = next(iter(seats.values())).predict, "1 round"
    if (most := getattr(team, "max_rounds", 1)) > 1:
        rounds = f"{most} rounds or until they agree"
    prompt = ONE_CONTEXT.format(rounds=rounds, speakers="\n".join(speakers))
    return SingleAgent("cot", prompts={"cot": prompt}, lm=first.lm, sampling=first.config)
