"""Statistics by resampling: bootstrap intervals, and Cohen's kappa with one."""

import math
from collections.abc import Sequence
from typing import Any, SupportsFloat

import numpy as np
import numpy.typing as npt

from .statistics import Difference, Estimate, check_share, wilson

_CELLS = 4_000_000  # numbers in memory while resampling: 32 MB


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
    return Difference(*_bootstrap(_finite(a) - _finite(b), seed, resamples, 0.95))


def bootstrap_mean(
    values: Sequence[SupportsFloat], *, seed: int, resamples: int = 10_000, confidence: float = 0.95
) -> Estimate:
    """The mean of `values` (any unit) with its percentile bootstrap interval; their order does not
    matter.

    Raises ValueError for no value, a value that is not finite, fewer than one resample, or a
    confidence outside 0 to 1.
    """
    check_share("confidence", confidence)
    return Estimate(*_bootstrap(_finite(values), seed, resamples, confidence))


def mean_estimate(values: Sequence[float], *, seed: int) -> Estimate:
    """The mean of scores with its 95% interval: Wilson's where each is 0 or 1, else the percentile
    bootstrap's.
    """
    if set(values) <= {0.0, 1.0}:
        right, n = int(sum(values)), len(values)
        return Estimate(right / n if n else 0.0, *wilson(right, n))
    return bootstrap_mean(values, seed=seed)


def cohens_kappa(
    one: Sequence[bool], other: Sequence[bool], *, seed: int, resamples: int = 2_000
) -> Estimate:
    """Cohen's kappa (1960) of two raters of the same things, with its 95 % percentile bootstrap
    interval.

        kappa = (agreement - chance) / (1 - chance)

    where chance is the agreement of independent raters with the same rates of yes. 1 is full
    agreement, 0 is agreement by chance; the result is 0, too, where both always give the same
    rating. Raises ValueError for lengths that differ and no thing.
    """
    if len(one) != len(other) or not len(one):
        raise ValueError(f"ratings must be of the same things: {len(one)} and {len(other)}")
    counts = np.bincount(2 * np.asarray(one, dtype=int) + np.asarray(other, dtype=int), minlength=4)
    drawn = np.random.default_rng(seed).multinomial(len(one), counts / len(one), size=resamples)
    low, high = np.quantile(_kappa(drawn), [0.025, 0.975])
    return Estimate(float(_kappa(counts[None])[0]), float(low), float(high))


def _kappa(counts: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Kappa of each row of counts: both no, only the second yes, only the first yes, both yes."""
    shares = counts / counts.sum(axis=1, keepdims=True)
    first, second = shares[:, 2] + shares[:, 3], shares[:, 1] + shares[:, 3]
    chance = first * second + (1 - first) * (1 - second)
    agreed = shares[:, 0] + shares[:, 3]
    kappa: npt.NDArray[np.float64] = np.where(
        chance < 1, (agreed - chance) / np.where(chance < 1, 1 - chance, 1), 0.0
    )
    return kappa


def _bootstrap(
    values: npt.NDArray[np.float64], seed: int, resamples: int, confidence: float
) -> tuple[float, float, float]:
    """Mean and percentile interval, computed in chunks of bounded memory; values are sorted, so
    their order does not matter.
    """
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, not {resamples}")
    rng = np.random.default_rng(seed)
    distinct, counts = np.unique(values, return_counts=True)
    n, few = len(values), 4 * len(distinct) < len(values)
    ordered = np.repeat(distinct, counts)
    means = np.empty(resamples)
    step = max(1, _CELLS // (len(distinct) if few else n))
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        # drawing the count of each distinct value gives the same distribution with far less work
        if few:
            drawn = rng.multinomial(n, counts / n, size=size) @ distinct / n
        else:
            drawn = ordered[rng.integers(0, n, size=(size, n))].mean(axis=1)
        means[start : start + size] = drawn
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return math.fsum(ordered) / n, float(low), float(high)


def _finite(values: Sequence[SupportsFloat]) -> npt.NDArray[np.float64]:
    array = np.asarray([float(value) for value in values])
    if not len(array):
        raise ValueError("at least one value is needed")
    if not np.isfinite(array).all():
        raise ValueError("every value must be a finite number")
    return array
