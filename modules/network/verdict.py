"""Whether a network is worth its calls, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Rivalry(NamedTuple):
    """Two rivals, named as in a sentence, and by how much `who` is better, in shares of 1 with the
    ends of the 95 % interval: `value`, `low` and `high`.
    """

    who: str
    rival: str
    difference: Mapping[str, float]

    @property
    def won(self) -> bool:
        """Whether `who` is better by more than chance."""
        return self.difference["low"] > 0

    def sentence(self) -> str:
        """Such as `the group's vote does not beat a plain vote: +0.3 points [-0.4, +1.0]`."""
        value, low, high = (
            f"{round(100 * self.difference[end], 1) + 0.0:+.1f}" for end in ("value", "low", "high")
        )
        if self.won:
            verb = "beats"
        elif self.difference["high"] < 0:
            verb = "is worse than"
        else:
            verb = "does not beat"
        return f"{self.who} {verb} {self.rival}: {value} points [{low}, {high}]"


def verdict(contests: Sequence[Rivalry], simplest: str) -> list[str]:
    """A sentence for each contest; where all are lost or undecided, one more that names what does
    as well.

    `simplest` is what the user is left with then. Empty without a contest.
    """
    found = [contest.sentence() for contest in contests]
    if contests and not any(contest.won for contest in contests):
        found.append(f"nothing that was learned helps on these questions: take {simplest}")
    return found
