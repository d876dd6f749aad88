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


def verdict(contests: Sequence[Rivalry], simplest: str) -> list[str]:
    """A sentence for each comparison, such as `the group's vote does not beat a plain vote: +0.3
    points [-0.4, +1.0]`. If none is won, another sentence names the `simplest` alternative.
    """
    sentences, won = [], False
    for who, rival, difference in contests:
        value, low, high = (
            f"{round(100 * difference[end], 1) + 0.0:+.1f}" for end in ("value", "low", "high")
        )
        verb = "is worse than" if difference["high"] < 0 else "does not beat"
        if difference["low"] > 0:
            verb, won = "beats", True
        sentences.append(f"{who} {verb} {rival}: {value} points [{low}, {high}]")
    if contests and not won:
        sentences.append(f"nothing that was learned helps on these questions: take {simplest}")
    return sentences
