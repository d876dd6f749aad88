"""Which strategies did well on questions like this one: the tracker (MARL-GAT, sections 4.3 and
4.8).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..base.errors import UserError
from .settings import Share, Whole, check_fields

NEUTRAL = 0.5
"""The score of a strategy that was never tried on a question like this one."""

ROUNDING = 1e-6
"""How far the cosine of a question with itself may be from 1."""

Scores = npt.NDArray[np.float64]
Embeddings = npt.NDArray[np.floating]


@dataclass(frozen=True)
class TrackerSettings:
    """How the tracker forgets and what it calls alike; the paper names no values.

    `alpha`: share of a new result in a score, above 0 up to 1; `similar`: least cosine similarity
    of a stored question that counts; `top_k`: how many of those at most; `merge`: similarity from
    which a question shares the entry of a stored one. Raises UserError unless 0 < similar <= merge
    <= 1 and top_k >= 1.
    """

    alpha: Share = 0.1
    similar: Share = 0.6
    top_k: Whole = 10
    merge: Share = 0.95

    def __post_init__(self) -> None:
        check_fields(self)
        if self.similar > self.merge:
            raise UserError(
                f"similar is {self.similar} and merge {self.merge}: give 0 < similar <= merge <= 1."
            )


class StrategyTracker:
    """One memory for all agents: M stored questions (M, D), the score of each of S strategies there
    (M, S).

    Raises ValueError for an embedding of another width, or one that is zero or not finite.
    """

    def __init__(
        self, strategies: int, width: int, settings: TrackerSettings | None = None
    ) -> None:
        self.settings = settings or TrackerSettings()
        self._size = 0
        # Rows beyond _size are room to grow: they double, so that adding stays cheap.
        self._questions = np.zeros((16, width), dtype=np.float32)
        self._scores = np.full((16, strategies), NEUTRAL)
        self._tried = np.zeros((16, strategies), dtype=bool)

    def __len__(self) -> int:
        """How many questions are stored; near-duplicates count once."""
        return self._size

    def scores(self, question: Embeddings) -> Scores:
        """S[s, q], (S,), each 0 to 1, for a question embedding (D,).

        The mean of the stored scores over the at most top_k most similar questions with a cosine of
        at least `similar`, weighted by that cosine; equal cosines in the order stored. A strategy
        that was not tried on any of them is neutral, 0.5.
        """
        cosines = self._cosines(_unit(question))
        nearest = np.argsort(-cosines, kind="stable")[: self.settings.top_k]
        nearest = nearest[cosines[nearest] >= self.settings.similar]
        weights = np.where(self._tried[nearest], cosines[nearest, None], 0.0)
        total = weights.sum(axis=0)
        mean = (weights * self._scores[nearest]).sum(axis=0) / np.where(total > 0, total, 1.0)
        return np.where(total > 0, np.clip(mean, 0.0, 1.0), NEUTRAL)

    def update(self, question: Embeddings, strategy: int, correct: bool) -> None:
        """Note whether `strategy` (0 to S - 1) was right on this question (MARL-GAT, equation 7).

        S <- (1 - alpha) S + alpha correct, from 0.5 the first time, in the entry of the most
        similar stored question if its cosine is at least `merge`, else in an entry of its own.
        """
        if not 0 <= strategy < self._scores.shape[1]:
            raise ValueError(f"there are {self._scores.shape[1]} strategies, no number {strategy}")
        unit = _unit(question)
        cosines = self._cosines(unit)
        entry = int(cosines.argmax()) if self._size else 0
        if not self._size or cosines[entry] < self.settings.merge - ROUNDING:
            entry = self._add(unit)
        alpha = self.settings.alpha
        self._scores[entry, strategy] = (1 - alpha) * self._scores[entry, strategy] + alpha * bool(
            correct
        )
        self._tried[entry, strategy] = True

    def state(self) -> dict[str, npt.NDArray[np.generic]]:
        """All that was learned: `questions` (M, D) of length 1, `scores` (M, S), `tried` (M, S)."""
        rows = slice(self._size)
        return {
            "questions": self._questions[rows].copy(),
            "scores": self._scores[rows].copy(),
            "tried": self._tried[rows].copy(),
        }

    @classmethod
    def from_state(
        cls, state: Mapping[str, npt.NDArray[np.generic]], settings: TrackerSettings | None = None
    ) -> "StrategyTracker":
        """The tracker that `state()` describes, whose arrays fit together."""
        questions, scores, tried = (state[name] for name in ("questions", "scores", "tried"))
        tracker = cls(scores.shape[1], questions.shape[1], settings)
        tracker._size = len(questions)
        tracker._questions = np.array(questions, dtype=np.float32)
        tracker._scores = np.array(scores, dtype=np.float64)
        tracker._tried = np.array(tried, dtype=bool)
        return tracker

    def _cosines(self, unit: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        if unit.shape != self._questions.shape[1:]:
            raise ValueError(f"embeddings are {self._questions.shape[1]} wide, not {unit.shape}")
        return self._questions[: self._size] @ unit

    def _add(self, unit: npt.NDArray[np.float32]) -> int:
        if self._size == len(self._questions):
            more = max(16, self._size)
            self._questions = np.pad(self._questions, ((0, more), (0, 0)))
            self._scores = np.pad(self._scores, ((0, more), (0, 0)), constant_values=NEUTRAL)
            self._tried = np.pad(self._tried, ((0, more), (0, 0)))
        self._questions[self._size] = unit
        self._size += 1
        return self._size - 1


def _unit(question: Embeddings) -> npt.NDArray[np.float32]:
    wide = np.asarray(question, dtype=np.float64)
    length = float(np.linalg.norm(wide))
    if wide.ndim != 1 or not np.isfinite(length) or length == 0:
        raise ValueError("a question embedding is one row of finite numbers, not all zero")
    return (wide / length).astype(np.float32)
