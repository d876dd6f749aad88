"""Splits what a team gains over one of its agents into parts along one path. All pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from ...modules.reading.voting import Key, majority

PARTS: Mapping[str, tuple[str, str]] = {
    "sampling": ("first", "vote"),
    "re_evaluation": ("vote", "isolated"),
    "presence": ("isolated", "placebo"),
    "content": ("placebo", "last"),
    "decider": ("last", "team"),
}
"""Each part with the two levels whose difference it is: the second less the first."""

LEVELS = ("first", "vote", "isolated", "placebo", "last", "team")
"""The path from one first answer on average to the answer of the team."""

DISCORDANT = 0.13
"""The share of questions on which two levels of recorded teams differ: with it, 200 questions give
an interval of 5 points to both sides, and 1,300 one of 2.
"""


class GainPart(NamedTuple):
    """A mean of paired differences with the ends of its 95% interval."""

    value: float
    low: float
    high: float


def expected_vote(
    answers: Sequence[str | None], score: Callable[[str], float], key: Key = str
) -> float:
    """The score that a vote of these answers has on average if a tie is settled by lot; 0 if nobody
    answered.
    """
    leading = majority(answers, key=key).leading
    return fmean(map(score, leading)) if leading else 0.0


def gain_part(differences: Sequence[float], unit: float = 1.0) -> GainPart:
    """The mean of paired differences, each in -unit … unit, with its 95% interval.

    One win and one loss of weight ½ are added, since few questions differ where a part is small,
    and a variance of nothing but zeros would be 0:

        c = Σd / (n + 1),  s² = (Σd² + unit² - (n + 1) c²) / n,  c ± t(n - 1) s / sqrt(n + 1)

    A single question tells nothing. Raises ValueError without a difference.
    """
    n = len(differences)
    value = round(fmean(differences), 12)  # equal scores may differ in their last bit
    if n < 2:
        return GainPart(value, -unit, unit)
    centre = math.fsum(differences) / (n + 1)
    squares = math.fsum(one * one for one in differences) + unit * unit
    variance = max(0.0, squares - (n + 1) * centre * centre) / n
    half = _t(n - 1) * math.sqrt(variance / (n + 1))
    return GainPart(value, max(-unit, centre - half), min(unit, centre + half))


def _t(freedom: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, 0.975))


def half_width(n: int, discordant: float = DISCORDANT) -> float:
    """How far the interval of a part reaches to both sides with n questions."""
    return _t(n - 1) * math.sqrt((n * discordant + 1) / (n * (n + 1))) if n > 1 else 1.0


def gain_parts(
    levels: Mapping[str, Sequence[float]], unit: float = 1.0
) -> dict[str, GainPart | None]:
    """The parts of PARTS; None for one of which a level is missing.

    `levels` has the score of every question at each level, in one order.
    """

    def between(low: str, high: str) -> GainPart | None:
        if low not in levels or high not in levels:
            return None
        pairs = zip(levels[high], levels[low], strict=True)
        return gain_part([after - before for after, before in pairs], unit)

    return {name: between(*ends) for name, ends in PARTS.items()}
