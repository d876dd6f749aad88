"""Fits the policies without a graph, kNN and regression, to the answers of a training."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from ...modules.network.rivals import RIVALS, Rival
from ...modules.network.state import NetworkState
from .known_answers import UNKNOWN, KnownAnswers

_NEIGHBOURS = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0)
_PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0, 300.0)
_BASE_PENALTY = 0.1  # keeps the odds of a strategy that is always right finite
_FOLDS = 5


class Lesson(NamedTuple):
    """What policies see of Q questions, (Q, D), and where A agents were right and were asked, (Q,
    A, S), as 0 and 1.
    """

    inputs: Tensor
    right: Tensor
    asked: Tensor

    def of(self, rows: npt.NDArray[np.intp]) -> Lesson:
        return Lesson(*(part[torch.from_numpy(rows)] for part in self))


def fit_rival(state: NetworkState, vectors: npt.NDArray[np.floating], known: KnownAnswers) -> Rival:
    """Return the policies of the kind `config.policy`, from what is known of questions with
    embeddings (Q, D).

    How many neighbours, or how strongly slopes are held to 0, is what makes the answers to held-out
    training questions likeliest, in cross-validation.
    """
    config = state.config
    asked = known.codes != UNKNOWN
    right = known.correct & asked
    # Copies of one LM differ by chance alone, so that what any of them did counts for all.
    if config.alike:
        asked, right = asked.any(axis=1, keepdims=True), right.any(axis=1, keepdims=True)
    tables = (torch.from_numpy(table).float() for table in (right, asked))
    lesson = Lesson(state.inputs(vectors), *tables)
    candidates, learn = _KINDS[config.policy]

    def fitted(rows: npt.NDArray[np.intp], candidate: float) -> Rival:
        tensors = learn(lesson.of(rows), candidate)
        return RIVALS[config.policy](config, state.width, tensors)

    every = np.arange(len(vectors))
    losses = np.zeros(len(candidates))
    for fold in range(_FOLDS if len(every) >= 2 * _FOLDS else 0):
        held = lesson.of(every[fold::_FOLDS])
        for place, candidate in enumerate(candidates):
            rival = fitted(np.delete(every, every[fold::_FOLDS]), candidate)
            losses[place] += float(_loss(rival.log_odds(held.inputs), held))
    return fitted(every, candidates[int(losses.argmin())])


def _loss(log_odds: Tensor, lesson: Lesson) -> Tensor:
    """Return the negative log-likelihood of the answers that were asked for."""
    return functional.binary_cross_entropy_with_logits(
        log_odds, lesson.right, lesson.asked, reduction="sum"
    )


def _neighbours(lesson: Lesson, count: float) -> dict[str, Tensor]:
    questions = functional.normalize(lesson.inputs)
    k = torch.tensor([count])
    return {"questions": questions, "right": lesson.right, "asked": lesson.asked, "k": k}


def _regression(lesson: Lesson, penalty: float) -> dict[str, Tensor]:
    """Maximises log P(right) - penalty / 2 |slopes|^2 for every agent and strategy at once."""
    lesson = Lesson(*map(Tensor.double, lesson))
    penalties = torch.tensor([_BASE_PENALTY, *[penalty] * lesson.inputs.shape[1]])
    # In units in which every direction has the same penalty, the search is quick.
    features = functional.pad(lesson.inputs, (1, 0), value=1.0) / penalties.sqrt()
    shape = (*lesson.right.shape[1:], len(penalties))
    found = torch.zeros(shape, dtype=torch.double, requires_grad=True)
    # That of SciPy uses more threads, which here is slower.
    search = torch.optim.LBFGS([found], max_iter=500, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        search.zero_grad()
        log_odds = torch.einsum("qp,asp->qas", features, found)
        value = _loss(log_odds, lesson) + found.square().sum() / 2
        value.backward()  # type: ignore[no-untyped-call]
        return value

    search.step(loss)  # type: ignore[no-untyped-call]
    coefficients = (found.detach() / penalties.sqrt()).float()
    return {"base": coefficients[..., 0], "slopes": coefficients[..., 1:].contiguous()}


_KINDS: dict[str, tuple[tuple[float, ...], Callable[[Lesson, float], dict[str, Tensor]]]] = {
    "knn": (_NEIGHBOURS, _neighbours),
    "regression": (_PENALTIES, _regression),
}
