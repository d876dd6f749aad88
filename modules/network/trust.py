"""How far agents trust one another, and how right and wrong answers change it (MARL-GAT, section
4.8).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..base.errors import UserError
from ..reading.voting import LOWEST_TRUST
from .settings import Size, check_fields

HIGHEST_TRUST = 0.95
"""The upper bound of trust."""

START = 0.5
"""Trust between two agents that nobody has seen answer."""

Trust = npt.NDArray[np.float64]
Right = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TrustRates:
    """How much one question moves trust; all three at least 0.

    `delta_t`: gain when both agents are right; `delta_d`: loss when one is; `delta_p`: loss when
    neither is. The paper names no values. Raises UserError unless all are finite and delta_d <
    delta_p.
    """

    delta_t: Size = 0.05
    delta_d: Size = 0.02
    delta_p: Size = 0.05

    def __post_init__(self) -> None:
        check_fields(self)
        if self.delta_d >= self.delta_p:
            raise UserError(
                f"delta_d ({self.delta_d}) must be below delta_p ({self.delta_p}): "
                "trust falls less when one of two agents errs than when both do."
            )


def initial_trust(n: int) -> Trust:
    """Trust (n, n) before the first question: 0.5 for every pair, diagonal 0."""
    trust = np.full((n, n), START)
    np.fill_diagonal(trust, 0.0)
    return trust


def update_trust(trust: Trust, correct: Right, rates: TrustRates) -> Trust:
    """Trust (N, N) after one question that agent i answered `correct[i]`, (N,); an abstention is
    not correct.

    For each pair (MARL-GAT, section 4.8): both right +delta_t (1 - T) / (1 - T_min), T_min = 0.1;
    one right -delta_d; neither -delta_p; then clipped to 0.1 to 0.95. A symmetric matrix stays
    symmetric and the diagonal is 0. Raises ValueError when the shapes do not fit or a value is not
    finite.
    """
    right = _checked(trust, correct)
    both, neither = right[:, None] & right[None, :], ~right[:, None] & ~right[None, :]
    loss = np.where(neither, rates.delta_p, rates.delta_d)
    return _clipped(np.where(both, trust + _gain(trust, rates), trust - loss))


def update_directional(trust: Trust, correct: Right, rates: TrustRates) -> Trust:
    """The same with T[i, j] the trust that agent i has earned from j: it moves with i's own answer
    alone.

    Right: +delta_t (1 - T) / (1 - T_min); wrong: -delta_d, whatever j answered. Not symmetric; an
    agent's row is about that agent, so that its vote weight stays the mean of its row.
    """
    right = _checked(trust, correct)
    return _clipped(np.where(right[:, None], trust + _gain(trust, rates), trust - rates.delta_d))


def averaged_trust(average: Trust, trust: Trust, seen: int) -> Trust:
    """The mean over time: `average` (N, N) over `seen` questions before, and `trust` (N, N) after
    one more.

    Late questions count no more than early ones. With seen = 0 it is `trust`. Raises ValueError for
    shapes that differ or a negative count.
    """
    if seen < 0 or average.shape != trust.shape:
        raise ValueError(
            f"an average over {seen} questions of shape {average.shape} cannot take {trust.shape}"
        )
    return average + (trust - average) / (seen + 1)


def _gain(trust: Trust, rates: TrustRates) -> Trust:
    return rates.delta_t * (1 - trust) / (1 - LOWEST_TRUST)


def _clipped(trust: Trust) -> Trust:
    clipped = np.clip(trust, LOWEST_TRUST, HIGHEST_TRUST)
    np.fill_diagonal(clipped, 0.0)
    return clipped


def _checked(trust: Trust, correct: Right) -> Right:
    right = np.asarray(correct)
    if right.dtype != np.bool_ or right.ndim != 1:
        raise ValueError(
            f"correct must hold one truth value an agent, not {right.dtype} of {right.shape}"
        )
    if trust.shape != (len(right), len(right)):
        raise ValueError(
            f"{len(right)} agents need {len(right)} x {len(right)} trust, not {trust.shape}"
        )
    if not np.isfinite(trust).all():
        raise ValueError("every trust value must be a finite number")
    return right
