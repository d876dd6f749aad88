"""The statistics of one program: intervals, and the exact tests behind them. All functions are
pure. NumPy is imported once something is resampled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple, SupportsFloat

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

FEWEST = 20
"""The smallest number of questions before any decision of a contest."""

_CELLS = 4_000_000  # numbers in memory while resampling: 32 MB


class Interval(NamedTuple):
    """The ends of a confidence interval."""

    low: float
    high: float


class Difference(NamedTuple):
    """mean(a) - mean(b) with the ends of its interval."""

    difference: float
    low: float
    high: float


class Estimate(NamedTuple):
    """A value with the ends of its 95% interval."""

    value: float
    low: float
    high: float


def wilson(successes: int, n: int, confidence: float = 0.95) -> Interval:
    """Return Wilson's score interval of a rate, both ends 0 to 1; (0, 1) for n = 0.

    Source: Wilson (1927), without continuity correction. Raises ValueError unless 0 <= successes <=
    n and 0 < confidence < 1.
    """
    check_share("confidence", confidence)
    if not 0 <= successes <= n:
        raise ValueError(f"successes must lie between 0 and n, not {successes} of {n}")
    if n == 0:
        return Interval(0.0, 1.0)
    z = quantile((1 + confidence) / 2)
    rate = successes / n
    centre = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    # Exactly 0 and 1 at the ends, where rounding would leave a trace.
    low = 0.0 if successes == 0 else max(0.0, centre - half)
    high = 1.0 if successes == n else min(1.0, centre + half)
    return Interval(low, high)


def mcnemar_exact(only_a: int, only_b: int) -> float:
    """Return the two-sided exact p of equal accuracy of two programs, from the numbers of questions
    that only one got right.

    McNemar's test by the binomial distribution with probability one half; 1.0 when no question
    tells the two apart. Raises ValueError for a negative count.
    """
    if only_a < 0 or only_b < 0:
        raise ValueError(f"counts cannot be negative: {only_a} and {only_b}")
    if only_a == only_b:
        return 1.0
    # The distribution is symmetric, so both tails are alike.
    fewer, n = min(only_a, only_b), only_a + only_b
    # Exact whole numbers of so many digits take long.
    if n > 1000:
        from scipy.special import bdtr

        return min(1.0, 2 * float(bdtr(fewer, n, 0.5)))
    tail: int = sum(math.comb(n, k) for k in range(fewer + 1))
    return min(1.0, tail / int(2 ** (n - 1)))


def mcnemar_midp(only_a: int, only_b: int) -> float:
    """Return the two-sided mid-p of equal accuracy of two programs, from the counts of
    `mcnemar_exact`. Half of the probability of the observed counts is included: the exact test is
    conservative, since its p takes few values (Fagerland, Lydersen and Laake 2013, "The McNemar
    test for binary matched-pairs data: mid-p and asymptotic are better than exact conditional").
    Raises ValueError for a negative count.
    """
    if only_a == only_b:
        return mcnemar_exact(only_a, only_b)
    fewer, n = min(only_a, only_b), only_a + only_b
    # The binomial probability of these counts, by logarithms: n! has no float beyond n = 170.
    log_ways = math.lgamma(n + 1) - math.lgamma(fewer + 1) - math.lgamma(n - fewer + 1)
    return mcnemar_exact(only_a, only_b) - math.exp(log_ways - n * math.log(2))


def bootstrap_mean(
    values: Sequence[SupportsFloat], *, seed: int, resamples: int = 10_000, confidence: float = 0.95
) -> Estimate:
    """Return the mean of `values` (any unit) with its percentile bootstrap interval; their order
    does not matter.

    Raises ValueError for no value, a value that is not finite, fewer than one resample, or a
    confidence outside 0 to 1.
    """
    check_share("confidence", confidence)
    return Estimate(*percentile_bootstrap(finite(values), seed, resamples, confidence))


def mean_estimate(values: Sequence[float], *, seed: int) -> Estimate:
    """Return the mean of scores with its 95% interval: Wilson's where each is 0 or 1, else the
    percentile bootstrap's.
    """
    if set(values) <= {0.0, 1.0}:
        right, n = int(sum(values)), len(values)
        return Estimate(right / max(n, 1), *wilson(right, n))
    return bootstrap_mean(values, seed=seed)


def percentile_bootstrap(
    values: npt.NDArray[np.float64], seed: int, resamples: int, confidence: float
) -> tuple[float, float, float]:
    """Return mean and percentile interval, computed in chunks of bounded memory; values are sorted,
    so their order does not matter.
    """
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, not {resamples}")
    import numpy as np

    rng = np.random.default_rng(seed)
    distinct, counts = np.unique(values, return_counts=True)
    n, few = len(values), 4 * len(distinct) < len(values)
    ordered = np.repeat(distinct, counts)
    means = np.empty(resamples)
    columns = len(distinct) if few else n
    step = max(1, _CELLS // columns)
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


def finite(values: Sequence[SupportsFloat]) -> npt.NDArray[np.float64]:
    """Return the values as an array. Raises ValueError for none, and for one that is not finite."""
    import numpy as np

    array = np.asarray(list(map(float, values)))
    if not len(array):
        raise ValueError("at least one value is needed")
    if not np.isfinite(array).all():
        raise ValueError("every value must be a finite number")
    return array


def check_share(name: str, value: float) -> None:
    if not 0 < value < 1:
        raise ValueError(f"{name} must lie between 0 and 1, not {value}")


def quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution."""
    return NormalDist().inv_cdf(probability)
