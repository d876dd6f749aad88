"""Policies without a graph, the rivals of `Policies`: how likely each strategy is right by the most
similar questions (kNN), or by a regression on the question's embedding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from .config import NetworkConfig
from .policy import AgentGraph, Policies, check_weights, shapes_of

CERTAIN = 1e-3
"""How near a chance may come to 0 and 1, so that its log-odds are finite."""


class Rival(nn.Module):
    """The policy of N agents that is fitted to all answers at once. `tensors` are what it knows;
    None: nothing.

    `shapes` names each tensor with a letter for each dimension: M questions; A = N agents, or 1
    that stands for all, copies of one LM; S strategies; D, the width of an embedding. Raises
    UserError for tensors of other names or shapes.
    """

    shapes: ClassVar[Mapping[str, str]]

    def __init__(
        self, config: NetworkConfig, width: int, tensors: Mapping[str, Tensor] | None = None
    ) -> None:
        super().__init__()
        self.n = config.agents
        sizes = {"1": 1, "S": len(config.strategies), "D": width}
        # Nothing is known yet: no question, and one agent that stands for all.
        if tensors is None:
            sizes |= {"M": 0, "A": 1}
            tensors = {
                name: torch.zeros(list(map(sizes.__getitem__, letters)))
                for name, letters in self.shapes.items()
            }
        # The first tensor with a letter says its size, and every other has to agree with it.
        for name, part in tensors.items():
            for letter, size in zip(self.shapes.get(name, ""), part.shape, strict=False):
                sizes.setdefault(letter, size)
        shapes = {name: tuple(map(sizes.get, letters)) for name, letters in self.shapes.items()}
        check_weights(tensors, shapes == shapes_of(tensors) and sizes["A"] in (1, self.n))
        for name, part in tensors.items():
            self.register_parameter(name, nn.Parameter(part.float(), requires_grad=False))

    def log_odds(self, questions: Tensor) -> Tensor:
        """Return the log-odds (B, A, S) that a strategy is right on questions with embeddings (B,
        D).
        """
        raise NotImplementedError

    def forward(self, questions: Tensor, group: AgentGraph) -> Tensor:
        """Return logits (B, N, S), whatever the group is."""
        return self.log_odds(questions).expand(-1, self.n, -1)


class Neighbours(Rival):
    """kNN: the share of the k most similar questions that a strategy got right, of those it was
    asked. Its share of all questions counts as one neighbour more, which breaks ties.

    `questions` have length 1; `right` and `asked` are 0 or 1.
    """

    shapes: ClassVar = {"questions": "MD", "right": "MAS", "asked": "MAS", "k": "1"}
    questions: Tensor
    right: Tensor
    asked: Tensor
    k: Tensor

    def log_odds(self, questions: Tensor) -> Tensor:
        similarity = functional.normalize(questions) @ self.questions.T
        count = min(max(int(self.k), 0), len(self.questions))
        nearest = similarity.topk(count).indices
        right, asked = self.right[nearest].sum(dim=1), self.asked[nearest].sum(dim=1)
        # Smoothed, so that a strategy that was never asked counts as one half.
        overall = (self.right.sum(dim=0) + 0.5) / (self.asked.sum(dim=0) + 1)
        return torch.logit((right + overall) / (asked + 1), eps=CERTAIN)


class Regression(Rival):
    """Logistic regression of every strategy on the embedding e: base + slopes . e."""

    shapes: ClassVar = {"base": "AS", "slopes": "ASD"}
    base: Tensor
    slopes: Tensor

    def log_odds(self, questions: Tensor) -> Tensor:
        return self.base + torch.einsum("bd,asd->bas", questions, self.slopes)


RIVALS: dict[str, type[Rival]] = {"knn": Neighbours, "regression": Regression}


def policies_of(
    config: NetworkConfig, width: int, weights: Mapping[str, Tensor] | None = None
) -> Policies | Rival:
    """Return the policies of a network for embeddings of this width, with these weights
    (`state_dict()`), or as they are before training. Raises UserError for weights of other
    policies.
    """
    if config.policy != "gat":
        return RIVALS[config.policy](config, width, weights)
    shape = config.gat(width)
    if weights is None:
        return Policies(shape, config.agents, config.seed)
    return Policies.of(shape, config.agents, weights)
