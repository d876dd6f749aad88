"""Repeats of a question: the variance of its answers, and the best number of repeats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, variance
from typing import NamedTuple


class Spread(NamedTuple):
    """Variances of scores: `within` a question (between its repeats) and `between` questions."""

    within: float
    between: float


def spread_of(scores: Sequence[Sequence[float]]) -> Spread:
    """Return the variance within and between questions, from the scores of each one's repeats.

    Unbiased, as in a one-way analysis of variance; the variance between questions is never below
    0. Raises ValueError unless two questions have two repeats each.
    """
    repeated = [values for values in scores if len(values) > 1]
    if len(repeated) < 2:
        raise ValueError("two questions need at least two repeats each")
    freedom = sum(len(values) - 1 for values in repeated)
    means = [fmean(values) for values in repeated]
    squares = (
        (value - mean) ** 2
        for values, mean in zip(repeated, means, strict=True)
        for value in values
    )
    within = math.fsum(squares) / freedom
    # Means of few repeats also differ by chance, which is no difference between questions.
    noise = within * fmean(1 / len(values) for values in repeated)
    return Spread(within, max(0.0, variance(means) - noise))


def best_repeats(spread: Spread, question: float = 0.0, repeat: float = 1.0) -> float:
    """Return the number of repeats with the least standard error at a given cost:

        K* = sqrt(within / between * question / repeat)

    Args: question: the cost of one more question without its answers, such as its label. repeat:
    the cost of one answer, in the same unit. The result is 0 where a question costs only its calls:
    then new questions come first, and repeats are useful only when no questions are left. It is
    infinite where questions do not differ. Raises ValueError for a negative price, or a repeat that
    costs nothing.
    """
    if question < 0 or repeat <= 0:
        raise ValueError("a question must not cost less than 0, and a repeat more than 0")
    if spread.between <= 0:
        return math.inf if spread.within > 0 else 0.0
    return math.sqrt(spread.within / spread.between * question / repeat)
