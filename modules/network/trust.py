"""How far agents trust one another, and how right and wrong answers change it (MARL-GAT, section
4.8).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..base.errors import UserError
from ..reading.voting import DecideTie, Ties, weighted
from .settings import CheckedFields, Size

LOWEST_TRUST = 0.1
"""The lower bound of trust, and the weight of an agent that nobody is connected to."""

HIGHEST_TRUST = 0.95
"""The upper bound of trust."""

START = 0.5
"""Trust between two agents that nobody has seen answer."""

Trust = npt.NDArray[np.float64]
Right = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TrustRates(CheckedFields):
    """How much one question moves trust; all three at least 0.

    `delta_t`: gain when both agents are right; `delta_d`: loss when one is; `delta_p`: loss when
    neither is. The paper names no values. Raises UserError unless all are finite and delta_d <
    delta_p.
    """

    delta_t: Size = 0.05
    delta_d: Size = 0.02
    delta_p: Size = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.delta_d >= self.delta_p:
            raise UserError(
                f"delta_d ({self.delta_d}) must be below delta_p ({self.delta_p}): "
                "trust falls less when one of two agents errs than when both do."
            )


def initial_trust(n: int) -> Trust:
    """Return trust (n, n) before the first question: 0.5 for every pair, diagonal 0."""
    trust = np.full((n, n), START)
    np.fill_diagonal(trust, 0.0)
    return trust


def update_trust(trust: Trust, correct: Right, rates: TrustRates) -> Trust:
    """Return trust (N, N) after one question that agent i answered `correct[i]`, (N,); an
    abstention is not correct.

    For each pair (MARL-GAT, section 4.8): both right +delta_t (1 - T) / (1 - T_min), T_min = 0.1;
    one right -delta_d; neither -delta_p; then clipped to 0.1 to 0.95. A symmetric matrix stays
    symmetric and the diagonal is 0.
    """
    # One right and one wrong is what is neither of these two.
    both = correct[:, None] & correct[None, :]
    neither = ~correct[:, None] & ~correct[None, :]
    loss = np.where(neither, rates.delta_p, rates.delta_d)
    return _clipped(np.where(both, trust + _gain(trust, rates), trust - loss))


def update_directional(trust: Trust, correct: Right, rates: TrustRates) -> Trust:
    """Return the same with T[i, j] the trust that agent i has earned from j: it moves with i's own
    answer alone.

    Right: +delta_t (1 - T) / (1 - T_min); wrong: -delta_d, whatever j answered. Not symmetric; an
    agent's row is about that agent, so that its vote weight stays the mean of its row.
    """
    return _clipped(np.where(correct[:, None], trust + _gain(trust, rates), trust - rates.delta_d))


def averaged_trust(average: Trust, trust: Trust, seen: int) -> Trust:
    """Return the mean over time: `average` (N, N) over `seen` questions before, and `trust` (N, N)
    after one more.

    Late questions count no more than early ones. With seen = 0 it is `trust`.
    """
    return average + (trust - average) / (seen + 1)


def _gain(trust: Trust, rates: TrustRates) -> Trust:
    return rates.delta_t * (1 - trust) / (1 - LOWEST_TRUST)


def _clipped(trust: Trust) -> Trust:
    clipped = np.clip(trust, LOWEST_TRUST, HIGHEST_TRUST)
    # Clipping has lifted it, too, and an agent's trust in itself must not count in a mean.
    np.fill_diagonal(clipped, 0.0)
    return clipped


class Consensus(NamedTuple):
    """The group's answer with its probability, every answer's probability, and each agent's weight
    (N,).
    """

    answer: str | None
    probability: float
    probabilities: dict[str, float]
    weights: npt.NDArray[np.float64]


def trust_consensus(
    answers: Sequence[str | None],
    trust: npt.NDArray[np.float64],
    adjacency: npt.NDArray[np.generic],
) -> Consensus:
    """Return the trust-weighted vote of N connected agents (MARL-GAT, consensus).

    `trust` (N, N) holds T, `adjacency` (N, N) is true or non-zero where two agents are connected;
    diagonals do not count. With N_i = {j != i : T_ij > 0 and i, j connected} agent i weighs W_i =
    mean of T_ij over N_i, or 0.1, the lower trust bound, without a neighbour. An answer's score is
    the sum of its supporters' weights; probabilities are the softmax of the scores over the answers
    given. The highest wins; of equal scores, the answer whose first supporter has the lower index.
    Abstentions (None) have no score; when all abstain the answer is None, its probability 0. Raises
    ValueError for matrices of another shape or with values that are not finite.
    """
    n = len(answers)
    matrix, edges = np.asarray(trust, dtype=np.float64), np.asarray(adjacency) != 0
    if {matrix.shape, edges.shape} != {(n, n)} or not np.isfinite(matrix).all():
        raise ValueError(
            f"{n} agents need {n} x {n} finite trust values, and an adjacency of that shape"
        )
    neighbours = edges & (matrix > 0) & ~np.eye(n, dtype=bool)
    degree = neighbours.sum(axis=1)
    total = np.where(neighbours, matrix, 0.0).sum(axis=1)
    weights = np.where(degree > 0, total / np.maximum(degree, 1), LOWEST_TRUST)
    return weighted_consensus(answers, weights)


def weighted_consensus(
    answers: Sequence[str | None],
    weights: npt.NDArray[np.float64],
    decide_tie: DecideTie | None = None,
) -> Consensus:
    """Return the vote of `trust_consensus` from the weight of each of N agents, (N,), of any sign.

    Raises ValueError as `weighted` does.
    """
    weight_of = np.asarray(weights, dtype=np.float64)
    decide_tie = decide_tie or Ties().decider("")
    winner, scores, _ = weighted(answers, weight_of.tolist(), decide_tie=decide_tie)
    if winner is None:
        return Consensus(None, 0.0, {}, weight_of)
    # Relative to the highest score, or large scores could overflow.
    powers = {answer: math.exp(score - scores[winner]) for answer, score in scores.items()}
    whole = math.fsum(powers.values())
    probabilities = {answer: power / whole for answer, power in powers.items()}
    return Consensus(winner, probabilities[winner], probabilities, weight_of)
