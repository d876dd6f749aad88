"""Splits a team's gain over one of its agents into parts along one path. All functions are pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from ..reading.voting import Key, majority
from .paired import tango
from .statistics import Estimate

LEVELS = ("first", "vote", "isolated", "placebo", "last", "team")
"""The path from the mean of the first answers to the team's answer."""

PARTS = ("sampling", "re_evaluation", "presence", "content", "decider")
"""The part between each level and the next."""

DISCORDANT = 0.13
"""The share of questions on which two levels of recorded teams differ. With it, 200 questions give
an interval of ±5 points, and 1,300 questions one of ±2.
"""


def expected_vote(
    answers: Sequence[str | None], score: Callable[[str], float], key: Key = str
) -> float:
    """Return the expected score of a vote of these answers, ties broken at random; 0 without
    any.
    """
    leading = majority(answers, key=key).leading
    return fmean(map(score, leading)) if leading else 0.0


def gain_part(
    before: Sequence[float],
    after: Sequence[float],
    unit: float = 1.0,
    confidence: float = 0.95,
) -> Estimate:
    """Return the mean paired difference of the scores `after` minus `before`, with its interval.

    One win and one loss of weight ½ are added to the n differences d in -unit … unit, since few
    questions differ where a part is small, and only zeros would give no variance:

        c = Σd / (n + 1),  s² = (Σd² + unit² - (n + 1) c²) / n,  c ± t(n - 1) s / sqrt(n + 1)

    With a single question, the interval is as wide as possible. Raises ValueError for lengths that
    differ and no question.
    """
    differences = [high - low for low, high in zip(before, after, strict=True)]
    n = len(differences)
    value = round(fmean(differences), 12)  # equal scores may differ in their last bit
    if n < 2:
        return Estimate(value, -unit, unit)
    centre = math.fsum(differences) / (n + 1)
    squares = math.fsum(difference * difference for difference in differences) + unit * unit
    half = _half(n, max(0.0, squares - (n + 1) * centre * centre), confidence)
    return Estimate(value, max(-unit, centre - half), min(unit, centre + half))


def paired_difference(
    before: Sequence[float], after: Sequence[float], unit: float = 1.0, confidence: float = 0.95
) -> Estimate:
    """Return the mean of the scores `after` minus `before`, with Tango's interval where every
    question is right or wrong, else with that of `gain_part`, which raises the same errors.
    """
    if unit != 1 or not {*before, *after} <= {0, 1}:
        return gain_part(before, after, unit, confidence)
    both = list(zip(before, after, strict=True))
    won, lost = both.count((0, 1)), both.count((1, 0))
    return Estimate(*tango(won, lost, len(both), confidence))


def half_width(n: int) -> float:
    """Return the half-width of the interval of a small part with n questions."""
    return _half(n, n * DISCORDANT + 1) if n > 1 else 1.0


def _half(n: int, squares: float, confidence: float = 0.95) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, (1 + confidence) / 2)) * math.sqrt(squares / (n * (n + 1)))


def gain_parts(levels: Mapping[str, Sequence[float]], unit: float = 1.0) -> dict[str, Estimate]:
    """Return the parts of PARTS, without those for which a level is missing.

    `levels` has the score of every question at each level, in one order.
    """
    return {
        name: gain_part(levels[low], levels[high], unit)
        for name, (low, high) in zip(PARTS, pairwise(LEVELS), strict=True)
        if low in levels and high in levels
    }
