"""The tracker: which strategies were right on similar questions (MARL-GAT, 4.3 and 4.8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..base.errors import UserError
from .settings import CheckedFields, Share, Whole

NEUTRAL = 0.5
"""The score of a strategy that was never tried on a question like this one."""

ROUNDING = 1e-6
"""How far the cosine of a question with itself may be from 1."""

Scores = npt.NDArray[np.float64]
Embeddings = npt.NDArray[np.floating]


@dataclass(frozen=True)
class TrackerSettings(CheckedFields):
    """Settings of the tracker's forgetting and similarity; the paper gives no values.

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
        super().__post_init__()
        if self.similar > self.merge:
            raise UserError(
                f"similar is {self.similar} and merge {self.merge}: give 0 < similar <= merge <= 1."
            )


@dataclass
class StrategyTracker:
    """One memory for all agents: M stored questions (M, D) of length 1, how well each of S
    strategies did there, `means` (M, S), and whether it was `tried` there (M, S).
    """

    settings: TrackerSettings
    questions: npt.NDArray[np.float32]
    means: Scores
    tried: npt.NDArray[np.bool_]

    @classmethod
    def empty(cls, strategies: int, width: int, settings: TrackerSettings) -> StrategyTracker:
        table = (0, strategies)
        return cls(
            settings, np.zeros((0, width), np.float32), np.zeros(table), np.zeros(table, bool)
        )

    def scores(self, question: Embeddings) -> Scores:
        """S[s, q], (S,), each 0 to 1, for a question embedding (D,).

        The mean of the stored scores over the at most top_k most similar questions with a cosine of
        at least `similar`, weighted by that cosine; equal cosines in the order stored. A strategy
        that was not tried on any of them is neutral, 0.5.
        """
        # Both have length 1, so that their product is the cosine.
        cosines = self.questions @ _unit(question)
        nearest = np.argsort(-cosines, kind="stable")[: self.settings.top_k]
        nearest = nearest[cosines[nearest] >= self.settings.similar]
        weights = np.where(self.tried[nearest], cosines[nearest, None], 0.0)
        total = weights.sum(axis=0)
        # Nothing is divided by 0: a strategy without a weight becomes neutral below.
        mean = (weights * self.means[nearest]).sum(axis=0) / np.where(total > 0, total, 1.0)
        return np.where(total > 0, np.clip(mean, 0.0, 1.0), NEUTRAL)

    def update(self, question: Embeddings, strategy: int, correct: bool) -> None:
        """Note whether `strategy` (0 to S - 1) was right on this question (MARL-GAT, equation 7).

        S <- (1 - alpha) S + alpha correct, from 0.5 the first time, in the entry of the most
        similar stored question if its cosine is at least `merge`, else in an entry of its own.
        """
        unit = _unit(question)
        cosines = self.questions @ unit
        # With merge = 1, the same question again still has to find its own entry.
        if cosines.max(initial=-1.0) < self.settings.merge - ROUNDING:
            self.questions = np.vstack([self.questions, unit])
            self.means = np.pad(self.means, ((0, 1), (0, 0)), constant_values=NEUTRAL)
            self.tried = np.pad(self.tried, ((0, 1), (0, 0)))
            entry = len(cosines)
        else:
            entry = int(cosines.argmax())
        change = self.settings.alpha * (correct - self.means[entry, strategy])
        self.means[entry, strategy] += change
        self.tried[entry, strategy] = True


def _unit(question: Embeddings) -> npt.NDArray[np.float32]:
    wide = np.asarray(question, dtype=np.float64)
    return (wide / np.linalg.norm(wide)).astype(np.float32)
