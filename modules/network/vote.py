"""Learned vote weights of the network's agents."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .weights import Numbers


@dataclass(frozen=True)
class VoteWeights:
    """The weight of every vote: agent i with strategy s weighs base[i, s] and, where weights depend on the
    question's embedding e, slopes[i, s] . (e - centre) more.

    `base` (N, S); `slopes` (N, S, D) and `centre` (D,), or neither.
    """

    base: Numbers
    slopes: Numbers | None = None
    centre: Numbers | None = None

    def at(self, vector: npt.NDArray[np.floating]) -> Numbers:
        """The weights (N, S) for a question with this embedding (D,)."""
        if self.slopes is None or self.centre is None:
            return self.base
        weights: Numbers = self.base + self.slopes @ (np.asarray(vector, dtype=np.float64) - self.centre)
        return weights
