"""Differences over questions that come in clusters: passages, templates, subjects."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple, SupportsFloat

from .statistics import mcnemar_midp

FEW = 20
"""With fewer clusters the interval is too narrow: about 7% of true differences lie outside it, not
5%.
"""


class Clustered(NamedTuple):
    """A mean over clusters, with the ends of its interval and its two-sided p against 0."""

    mean: float
    low: float
    high: float
    p: float
    clusters: int


def clustered_mean(
    values: Sequence[SupportsFloat], clusters: Sequence[Hashable], confidence: float = 0.95
) -> Clustered:
    """Return the mean of `values` (any unit), whose errors may be correlated within a cluster.

    The cluster-robust variance CR1 of a regression on a constant, with Student's t of G - 1 degrees
    of freedom (Cameron and Miller 2015, "A practitioner's guide to cluster-robust inference"):

        se^2 = G / (G - 1) / n^2 * sum over clusters of (sum of values[i] - mean)^2

    as statsmodels' OLS with `cov_type="cluster"`, `use_correction` and `use_t`. Where every cluster
    has the same non-zero mean, se is 0, and p is that of a sign test with all clusters on one side
    (`mcnemar_midp`).

    Raises ValueError for lengths that differ, fewer than two clusters, or a confidence outside 0 to
    1.
    """
    from scipy.special import stdtr, stdtrit

    if len(values) != len(clusters):
        raise ValueError(f"{len(values)} values need as many clusters, not {len(clusters)}")
    residuals = dict.fromkeys(clusters, 0.0)
    if len(residuals) < 2:
        raise ValueError("at least two clusters are needed")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    scores = [float(value) for value in values]
    groups, n, mean = len(residuals), len(scores), math.fsum(scores) / len(scores)
    # Deviations are summed within a cluster first: alike ones do not cancel, and widen the
    # interval.
    for score, cluster in zip(scores, clusters, strict=True):
        residuals[cluster] += score - mean
    squares = math.fsum(residual**2 for residual in residuals.values())
    error = math.sqrt(groups / (groups - 1) * squares) / n
    if error <= 1e-12 * max(1.0, abs(mean)):
        return Clustered(mean, mean, mean, mcnemar_midp(groups, 0) if mean else 1.0, groups)
    around = error * float(stdtrit(groups - 1, (1 + confidence) / 2))
    p = 2 * float(stdtr(groups - 1, -abs(mean) / error))
    return Clustered(mean, mean - around, mean + around, p, groups)
