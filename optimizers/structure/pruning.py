"""Growing subsets of questions: when a trial is compared, and when it is stopped."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from ...modules.statistics.statistics import bootstrap_mean, mcnemar_exact

FIRST_RUNG = 10  # the fewest questions for a comparison
SHARE = 8  # the first rung has one eighth of the questions, each next one twice as many
ALPHA = 0.05

Scores = Sequence[float | None]
"""A score of 0 to 1 for each question, in the study's order; None where it failed."""


def rungs(questions: int) -> list[int]:
    """Return the numbers of questions after which a trial is compared, the last being all of them.

    Examples: 200 gives 25, 50, 100, 200; 15 gives 10, 15; 8 gives 8.
    """
    sizes = []
    size = max(FIRST_RUNG, -(-questions // SHARE))
    while size < questions:
        sizes.append(size)
        size *= 2
    return [*sizes, questions]


def worth_going_on(trial: Scores, best: Scores, questions: int) -> bool:
    """Return whether to continue a trial that differs from a finished one only in rounds or votes.
    From a quarter of all `questions` on, it has to be ahead of the best so far, since the finished
    trial has shown most of its result, and a study should not pay for each such trial in full.
    """
    if len(trial) < FIRST_RUNG or 4 * len(trial) < questions:
        return True
    return sum(a - b for a, b in _both(trial, best)) > 0


def _both(trial: Scores, best: Scores) -> list[tuple[float, float]]:
    """Return the scores of the two on the questions that neither failed on."""
    pairs = zip(trial, best, strict=False)
    return [(a, b) for a, b in pairs if a is not None and b is not None]


def behind(trial: Scores, best: Scores, rungs_planned: int) -> bool:
    """Return whether a trial is worse than the best so far, by a paired test on the questions that
    both have answered.

    Right-or-wrong scores take McNemar's exact test, other scores the bootstrap of the mean
    difference. Both are one-sided at `ALPHA / rungs_planned` (Bonferroni over the comparisons of
    one trial), so a trial that is as good as the best is stopped early with a probability of at
    most `ALPHA`. Questions that failed in either are left out.
    """
    pairs = _both(trial, best)
    differences = [a - b for a, b in pairs]
    if sum(differences) >= 0:
        return False
    level = ALPHA / max(1, rungs_planned)
    if set(chain.from_iterable(pairs)) <= {0, 1}:
        only_trial, only_best = differences.count(1), differences.count(-1)
        # Half of the two-sided p: that the trial is the worse one is known from above.
        return mcnemar_exact(only_trial, only_best) / 2 < level
    return bootstrap_mean(differences, seed=0, resamples=2_000, confidence=1 - 2 * level).high < 0
