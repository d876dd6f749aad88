"""When to ask the team: learns a router's rule from questions that both programs have answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...modules.network.weights import Numbers, Right
from ...modules.protocols.router import ALWAYS, NEVER, SIGNS, Rule
from ..statistics.noninferiority import CONFIDENCE, score_limits

FOLDS = 5
PENALTIES = (1.0, 10.0, 100.0)
THRESHOLDS = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
"""Candidate thresholds on the expected gain in accuracy from which on the team is asked; few, to
limit overfitting.
"""

DOUBTS = ("agreement", "unreadable")
"""The signs of the smaller rule; the larger rule uses all signs."""


@dataclass(frozen=True)
class Answered:
    """Q questions that a cheap program and the team have answered; arrays are of shape (Q,).

    `cheap`, `team`: who was right. `together`: whether a router that asks both is right.
    `cheap_cost` and `team_cost`: the costs of each, in one unit.
    """

    signs: Sequence[Mapping[str, float]]
    cheap: Right
    team: Right
    together: Right
    cheap_cost: Numbers
    team_cost: Numbers

    def right(self, routed: Right) -> Right:
        """Which questions are right when the team is asked on the questions `routed`."""
        return np.where(routed, self.together, self.cheap)

    def cost(self, routed: Right) -> float:
        """The mean cost per question when the team is asked on the questions `routed`."""
        return float((self.cheap_cost + np.where(routed, self.team_cost, 0.0)).mean())


@dataclass(frozen=True)
class Learnt:
    """A rule, and what cross-validation says of it: accuracy, cost per question, and the share
    routed, from 0 to 1.
    """

    rule: Rule
    accuracy: float
    cost: float
    share: float


def learn_rule(
    answers: Answered, margin: float, *, seed: int, confidence: float = CONFIDENCE
) -> Learnt:
    """The cheapest rule that is non-inferior to the team under cross-validation.

    A rule predicts the gain in accuracy from asking the team by a ridge regression of `together -
    cheap` (-1, 0 or 1) on the signs. Every question's gain is predicted from other questions (five
    folds). With these predictions, each of the THRESHOLDS, and `never`, has a cost and a one-sided
    lower limit of its difference to the team, which must lie above -margin. The penalty is the one
    with the smallest squared error. Of equally cheap rules the one that routes less wins, then the
    one with fewer signs. The result is `always`, the team alone, if no rule is both non-inferior to
    the team and cheaper.
    """
    n = len(answers.team)
    best = Learnt(ALWAYS, float(answers.team.mean()), float(answers.team_cost.mean()), 1.0)
    nobody = np.zeros(n, dtype=bool)
    if _holds(answers, nobody, margin, confidence) and answers.cost(nobody) < best.cost:
        # no rule can cost less
        return Learnt(NEVER, float(answers.cheap.mean()), answers.cost(nobody), 0.0)
    if n < 2 * FOLDS:
        return best
    gain = answers.together.astype(float) - answers.cheap
    fold = np.random.default_rng(seed).permutation(n) % FOLDS
    for names in (DOUBTS, SIGNS):
        table = np.array([[row[name] for name in names] for row in answers.signs], dtype=float)
        guesses = {penalty: _held_out(table, gain, fold, penalty) for penalty in PENALTIES}
        penalty = min(PENALTIES, key=lambda one: float(((guesses[one] - gain) ** 2).sum()))
        for threshold in reversed(THRESHOLDS):
            routed = guesses[penalty] >= threshold
            cost = answers.cost(routed)
            if cost < best.cost and _holds(answers, routed, margin, confidence):
                rule = rule_of(names, *ridge(table, gain, penalty), threshold)
                best = Learnt(rule, float(answers.right(routed).mean()), cost, float(routed.mean()))
    return best


def ridge(table: Numbers, gain: Numbers, penalty: float) -> tuple[Numbers, float]:
    """Weights (S,) and bias of the ridge regression of gain (Q,) on table (Q, S), for unscaled
    signs. The regression itself uses signs scaled to mean 0 and deviation 1. Weights below 1e-12,
    and those of constant signs, are 0. The bias is not penalised.
    """
    mean, deviation = table.mean(axis=0), table.std(axis=0)
    varies = deviation > 1e-12
    deviation = np.where(varies, deviation, 1.0)
    scaled = (table - mean) / deviation * varies
    inner = scaled.T @ scaled + penalty * np.eye(table.shape[1])
    weights = np.linalg.solve(inner, scaled.T @ (gain - gain.mean())) / deviation * varies
    weights = np.where(np.abs(weights) < 1e-12, 0.0, weights)
    return weights, float(gain.mean() - mean @ weights)


def rule_of(names: Sequence[str], weights: Numbers, bias: float, threshold: float) -> Rule:
    """The rule in the form that a router takes, without signs of weight 0."""
    kept = {name: float(weight) for name, weight in zip(names, weights, strict=True) if weight}
    return {"weights": kept, "bias": bias, "threshold": threshold}


def _held_out(
    table: Numbers, gain: Numbers, fold: npt.NDArray[np.int64], penalty: float
) -> Numbers:
    """The gain of every question (Q,), predicted from the questions of the other folds."""
    predicted = np.empty(len(gain))
    for held in range(FOLDS):
        rest = fold != held
        weights, bias = ridge(table[rest], gain[rest], penalty)
        predicted[~rest] = table[~rest] @ weights + bias
    return predicted


def _holds(answers: Answered, routed: Right, margin: float, confidence: float) -> bool:
    right = answers.right(routed)
    gained, lost = int((right & ~answers.team).sum()), int((answers.team & ~right).sum())
    return score_limits(gained, lost, len(right), confidence).low > -margin
