"""How agents of a team answer first and answer again: what a controlled comparison asks anew."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from .seat import Seat
from .transcript import Task, Turn

Hear = Callable[[str, Sequence[Turn]], Sequence[Turn]]
"""What the agent of this name is shown of turns: all of them in the team's own dialogue."""


def hear_all(agent: str, turns: Sequence[Turn]) -> Sequence[Turn]:
    """Show an agent everything, as in the team's own dialogue."""
    return turns


@dataclass(frozen=True)
class Exchange:
    """What a protocol declares about the answers of its agents, as `exchange()` of its class.

    Everybody else in a transcript, such as a judge, decides and has no vote.

    Args:
        members: names of the agents who answer first and may answer again.
        again: `(task, recorded, hear)` lets the members answer again, in the team's own prompts
            and by its own rules, until it would ask whoever decides. `recorded` begins with the
            first answers, and `hear` says what each agent is shown of the turns. It returns the
            first answers and all later turns. None: no member reads anything of another.
        first: `(task)` asks every member anew, hearing nobody. None: the recorded first answers
            were given so.
        turns: seats with the fewest and the most turns per question that `again` takes.
        stances: whether peers hear answers of each other, so that hearing the answers alone is
            something else than hearing nobody.
    """

    members: Sequence[str]
    again: Callable[[Task, Sequence[Turn], Hear], Awaitable[list[Turn]]] | None = None
    first: Callable[[Task], Awaitable[list[Turn]]] | None = None
    turns: Sequence[tuple[Seat, float, float]] = ()
    stances: bool = True
