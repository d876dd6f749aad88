"""Chooses the strategies of a group of agents from its policies' scores (MARL-GAT, section 4.4).
Pure.
"""

import hashlib
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Scores = npt.NDArray[np.floating]


class StrategyDraw(NamedTuple):
    """The strategy of each agent, (N,), and which strategies it could choose from, (N, S)."""

    strategies: npt.NDArray[np.intp]
    open: npt.NDArray[np.bool_]


def softmax(scores: Scores) -> npt.NDArray[np.float64]:
    """Return the softmax over the last dimension, in double precision."""
    wide = np.asarray(scores, dtype=np.float64)
    powers = np.exp(wide - wide.max(axis=-1, keepdims=True))
    probabilities: npt.NDArray[np.float64] = powers / powers.sum(axis=-1, keepdims=True)
    return probabilities


def draw(
    scores: Scores, *, rng: np.random.Generator | None = None, distinct: bool = False
) -> StrategyDraw:
    """Return one strategy for each agent from scores (N, S): drawn from their softmax, or the
    likeliest without `rng`.

    With `distinct`, agents choose one after the other among the strategies that none before them
    has, and from all of them again when none is left. Equal scores go by index.
    """
    n, s = scores.shape
    strategies, open_ = np.zeros(n, dtype=np.intp), np.ones((n, s), dtype=bool)
    for i in range(n):
        # Every S agents have taken each strategy once, and the next one may take any again.
        if distinct and i % s:
            open_[i] = open_[i - 1]
            open_[i, strategies[i - 1]] = False
        strategies[i] = _one(np.where(open_[i], scores[i], -np.inf), rng)
    return StrategyDraw(strategies, open_)


def random_for(seed: int, key: str) -> np.random.Generator:
    """Return a random generator for one question, independent of draws for other questions."""
    # Not Python's own hash, which differs from process to process.
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng([seed, *np.frombuffer(digest, dtype=np.uint32).tolist()])


def _one(scores: Scores, rng: np.random.Generator | None) -> int:
    if rng is None:
        return int(scores.argmax())
    reached = softmax(scores).cumsum()
    # Not past the last one that is open, should rounding leave the sum below 1.
    last = int(np.flatnonzero(np.isfinite(scores))[-1])
    return min(int(np.searchsorted(reached, rng.random() * reached[-1], side="right")), last)
