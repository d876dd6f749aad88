"""Statistics of pairs: two programs on the same questions, two raters of the same things."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, SupportsFloat

from .statistics import (
    Difference,
    Estimate,
    check_share,
    finite,
    percentile_bootstrap,
    quantile,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def tango(only_a: int, only_b: int, n: int, confidence: float = 0.95) -> Difference:
    """Return the difference of two accuracies on the same n questions, with Tango's score interval.

    `only_a` and `only_b` count the questions that only one of the two got right. The interval holds
    every difference d that the score test does not reject: with b = only_a and c = only_b,

        |b - c - n d| <= z sqrt(n (2 q + d (1 - d)))

    where q is the most likely probability of "only b" if the difference is d, the larger root of
    2n q^2 + ((2n + c - b) d - b - c) q - c d (1 - d) = 0. It covers also where few questions
    differ, where a bootstrap has no variance. Source: Tango 1998, "Equivalence test and confidence
    interval for the difference in proportions for the paired-sample design", section 3.

    Raises ValueError for counts that n questions cannot have.
    """
    check_share("confidence", confidence)
    if min(only_a, only_b) < 0 or only_a + only_b > n or n < 1:
        raise ValueError(f"{only_a} and {only_b} are no counts of {n} questions")
    return score_interval(only_a, only_b, n, quantile((1 + confidence) / 2))


def score_interval(only_a: int, only_b: int, n: int, z: float) -> Difference:
    """Return Tango's interval with this quantile of the score test."""
    # The lower end is the upper end of the opposite difference, b - a.
    high = _tango_end(only_a, only_b, n, z)
    low = -_tango_end(only_b, only_a, n, z)
    return Difference((only_a - only_b) / n, low, high)


def _tango_end(b: int, c: int, n: int, z: float) -> float:
    """Return the largest difference that the score test does not reject, by bisection."""
    inside, outside = (b - c) / n, 1.0
    for _ in range(60):
        tried = (inside + outside) / 2
        # The estimate of the probability of "only b" that is most likely under this difference.
        slope = (2 * n + c - b) * tried - b - c
        product = -c * tried * (1 - tried)
        root = (math.sqrt(max(0.0, slope * slope - 8 * n * product)) - slope) / (4 * n)
        variance = n * (2 * root + tried * (1 - tried))
        if variance > 0 and (n * tried - b + c) > z * math.sqrt(variance):
            outside = tried
        else:
            inside = tried
    return inside


def minimum_detectable_difference(
    n: int, discordant: float = 0.08, power: float = 0.8, alpha: float = 0.05
) -> float:
    """Return the smallest true difference of two accuracies, 0 to 1, that n paired questions show
    with this power.

    Two-sided McNemar test by its normal approximation (Connor 1987, "Sample size for testing
    differences in proportions for the paired-sample design"): the d that solves

        d sqrt(n) = z(1 - alpha / 2) sqrt(s) + z(power) sqrt(s - d^2)

    where s is the share of discordant questions, those that only one of the two gets right. s is
    `discordant`, or d where d is larger, since a difference cannot exceed its discordant share. 1.0
    when n is too small to show even a difference of 1. Examples: 660 questions show 0.031 at the
    default 8 % discordant, and 0.05 at 21 %. Raises ValueError for n < 1 or a share outside 0 to 1.
    """
    if n < 1:
        raise ValueError(f"n must be at least 1, not {n}")
    check_share("power", power)
    check_share("alpha", alpha)
    if power <= alpha:
        raise ValueError(f"power must be above alpha, not {power} with alpha {alpha}")
    if not 0 < discordant <= 1:
        raise ValueError(f"discordant must lie above 0 and up to 1, not {discordant}")
    z_alpha, z_power = quantile(1 - alpha / 2), quantile(power)
    # Even d = s = 1 is then too small.
    if n < z_alpha**2:
        return 1.0
    # Squared, the equation is quadratic in d / sqrt(s); this is its root of the right sign.
    root = math.sqrt(n + z_power**2 - z_alpha**2)
    ratio = (z_alpha * math.sqrt(n) + z_power * root) / (n + z_power**2)
    difference = ratio * math.sqrt(discordant)
    # No difference exceeds its discordant share: s is then d itself.
    if difference > discordant:
        difference = ratio**2
    return min(1.0, difference)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values adjusted by Holm's step-down method (1979), in the same order, each at
    most 1.

    Raises ValueError for a value outside 0 to 1.
    """
    if not all(0 <= p <= 1 for p in p_values):
        raise ValueError("every p value must lie between 0 and 1")
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = largest
    return adjusted


def paired_bootstrap(
    a: Sequence[SupportsFloat], b: Sequence[SupportsFloat], *, seed: int, resamples: int = 10_000
) -> Difference:
    """mean(a) - mean(b) of scores on the same questions, with its 95 % percentile bootstrap
    interval.

    `a[i]` and `b[i]` are the two scores of question i (any unit; right or wrong as True or False):
    questions are resampled together with both scores. The order of the questions does not matter.
    Raises ValueError for lengths that differ, no question, a score that is not finite, or fewer
    than one resample.
    """
    if len(a) != len(b):
        raise ValueError(f"paired scores must be of the same questions: {len(a)} and {len(b)}")
    return Difference(*percentile_bootstrap(finite(a) - finite(b), seed, resamples, 0.95))


def cohens_kappa(
    one: Sequence[bool], other: Sequence[bool], *, seed: int, resamples: int = 2_000
) -> Estimate:
    """Return Cohen's kappa (1960) of two raters of the same things, with its 95 % percentile
    bootstrap interval.

        kappa = (agreement - chance) / (1 - chance)

    where chance is the agreement of independent raters with the same rates of yes. 1 is full
    agreement, 0 is agreement by chance; the result is 0, too, where both always give the same
    rating. Raises ValueError for lengths that differ and no thing.
    """
    if len(one) != len(other) or not len(one):
        raise ValueError(f"ratings must be of the same things: {len(one)} and {len(other)}")
    import numpy as np

    counts = np.bincount(2 * np.asarray(one, dtype=int) + np.asarray(other, dtype=int), minlength=4)
    drawn = np.random.default_rng(seed).multinomial(len(one), counts / len(one), size=resamples)
    low, high = np.quantile(_kappa(drawn), [0.025, 0.975])
    return Estimate(float(_kappa(counts[None])[0]), float(low), float(high))


def _kappa(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return kappa of each row of counts: both no, only the second yes, only the first yes, both
    yes.
    """
    import numpy as np

    shares = counts / counts.sum(axis=1, keepdims=True)
    first, second = shares[:, 2] + shares[:, 3], shares[:, 1] + shares[:, 3]
    chance = first * second + (1 - first) * (1 - second)
    agreed = shares[:, 0] + shares[:, 3]
    kappa: npt.NDArray[np.float64] = np.where(
        chance < 1, (agreed - chance) / np.where(chance < 1, 1 - chance, 1), 0.0
    )
    return kappa
