"""How a protocol lets its agents answer again, for controlled comparisons of what talking adds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from .seat import Seat
from .transcript import Task, Turn

Hear = Callable[[str, Sequence[Turn]], Sequence[Turn]]
"""(agent's name, turns so far) → the turns that this agent is shown."""


def hear_all(agent: str, turns: Sequence[Turn]) -> Sequence[Turn]:
    """Show an agent everything, as in the team's own dialogue."""
    return turns


@dataclass(frozen=True)
class Exchange:
    """What a protocol's `exchange()` declares.

    Args:
        members: names of the agents who answer first and may answer again.
        again: `(task, recorded, hear)` lets the members answer again, as often as in the `recorded`
            dialogue, and returns the first answers and all later turns. None: members do not read
            each other.
        first: `(task)` asks every member for a fresh answer; None where the recorded first answers
            were blind.
        turns: each agent that `again` asks, with the fewest and the most turns that it takes.
        stances: whether members read each other's answers.
    """

    members: Sequence[str]
    again: Callable[[Task, Sequence[Turn], Hear], Awaitable[list[Turn]]] | None = None
    first: Callable[[Task], Awaitable[list[Turn]]] | None = None
    turns: Sequence[tuple[Seat, float, float]] = ()
    stances: bool = True
