"""Rules for accepting answers: a threshold that bounds their error, and a watch for drift.

All pure. Scores say how sure an answer is; a negative score means that the answer cannot stand.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

FIRST_SHARE, STEP = 0.15, 0.025
"""The sequence of tests begins with that share of the questions answered, and adds that much."""

RESAMPLES = 200
ALARM = 100.0
"""By Ville's inequality, the wealth reaches this with probability 1/100 at most without drift."""

SLOPES, JUMP = (-1.8, 0.0, 1.8), 0.01


class Threshold(NamedTuple):
    """The lowest score with which an answer is accepted, and the errors of such answers in the
    calibration.

    `errors` of the `kept` answers were wrong; `bound` is the upper limit of their error, 0 to 1.
    """

    score: float
    kept: int
    errors: int
    bound: float


def fewest_kept(max_error: float, confidence: float) -> int:
    """Return the fewest answers, all of them right, that show the bound: 14 for 20% at 95%."""
    # Rounding must not ask for one answer more than the bound needs.
    return math.ceil(math.log(1 - confidence) / math.log1p(-max_error) - 1e-9)


def error_bound(errors: int, kept: int, confidence: float) -> float:
    """Return the exact upper limit of an error rate by Clopper and Pearson (1934), one-sided."""
    from scipy.special import betaincinv

    return 1.0 if errors >= kept else float(betaincinv(errors + 1, kept - errors, confidence))


def threshold_for(
    scores: Scores, right: Flags, max_error: float, confidence: float
) -> Threshold | None:
    """Return the lowest threshold that a fixed sequence of exact tests passes; None if it passes
    none.

    The sequence begins with the 15% of the questions (Q,) that have the highest scores, or with as
    many as could show the bound at all, and adds 2.5% at each step; equal scores go together. It
    ends with the first test that fails, so that all tests together have the error probability of
    one. Source: fixed-sequence testing as in Angelopoulos et al. (2021), "Learn then Test".
    """
    order = np.argsort(-scores, kind="stable")
    ranked, wrong = scores[order], np.cumsum(~right[order])
    n = len(scores)
    passed: Threshold | None = None
    count = max(FIRST_SHARE * n, float(fewest_kept(max_error, confidence)))
    while (place := math.ceil(count - 1e-9)) <= n and ranked[place - 1] >= 0:
        score = float(ranked[place - 1])
        kept = int((ranked >= score).sum())
        # Of all that stand with this score, the last has the errors so far.
        errors = int(wrong[kept - 1])
        bound = error_bound(errors, kept, confidence)
        if bound > max_error:
            break
        passed = Threshold(score, kept, errors, bound)
        if kept == n:
            break
        # Equal scores may already have taken in more than the step adds.
        count = min(max(count, kept) + STEP * n, n)
    return passed


def share_never(scores: Scores, right: Flags, max_error: float, confidence: float) -> float:
    """Return the share of calibrations with as many questions that find no threshold, by a
    bootstrap.
    """
    draws = np.random.default_rng(0).integers(len(scores), size=(RESAMPLES, len(scores)))
    missed = [
        threshold_for(scores[rows], right[rows], max_error, confidence) is None for rows in draws
    ]
    return float(np.mean(missed))


class DriftWatch:
    """Bets, question by question, that scores are not like those of the calibration.

    A conformal test martingale: the rank of each score among all before it, ties drawn, is uniform
    while the questions are exchangeable. Each of three bets multiplies its wealth by 1 + slope x
    (rank - 1/2), and a part of the wealth changes bets at each step. Source: Vovk et al. (2021),
    "Retrain or not retrain: conformal test martingales for change-point detection".
    """

    def __init__(self, scores: Iterable[float]) -> None:
        self._seen = sorted(scores)
        self._wealth = [1 / len(SLOPES)] * len(SLOPES)
        self.drifted = False

    def see(self, score: float, draw: float) -> bool:
        """Add a score; returns whether drift has been found. `draw`, uniform in 0 to 1, breaks
        ties.
        """
        below, upto = bisect_left(self._seen, score), bisect_right(self._seen, score)
        rank = (below + draw * (upto - below + 1)) / (len(self._seen) + 1)
        insort(self._seen, score)
        moved = JUMP * sum(self._wealth) / len(SLOPES)
        self._wealth = [
            ((1 - JUMP) * part + moved) * (1 + slope * (rank - 0.5))
            for part, slope in zip(self._wealth, SLOPES, strict=True)
        ]
        self.drifted = self.drifted or sum(self._wealth) >= ALARM
        return self.drifted
