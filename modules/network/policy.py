"""The agents' policies: graph attention networks from a question to one logit a strategy (MARL-GAT, 4.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GATConv  # type: ignore[import-untyped]

from ..base.errors import UserError, checked_whole
from ..reading.voting import LOWEST_TRUST
from .graph import Adjacency
from .trust import Trust
from .weights import Numbers

Features = Literal["question", "question+standing"]

STANDING = 3
"""How many numbers make an agent's standing: its mean trust, its degree and its recent accuracy."""


@dataclass(frozen=True)
class PolicyConfig:
    """The shape of every agent's policy.

    `inputs`: width D of a question embedding; `hidden`: width C of each of `heads` H attention heads;
    `strategies`: how many logits S; `dropout`: share of attention weights dropped in training;
    `features`: what each node knows, the question alone (the paper) or the agent's standing too;
    `trust_edges`: whether attention sees trust. Raises UserError for a size below 1, a dropout outside 0 to
    1, or other features.
    """

    strategies: int
    inputs: int = 768
    hidden: int = 64
    heads: int = 4
    dropout: float = 0.0
    features: Features = "question+standing"
    trust_edges: bool = True

    def __post_init__(self) -> None:
        for name in ("strategies", "inputs", "hidden", "heads"):
            checked_whole(name, getattr(self, name))
        if not 0 <= self.dropout < 1:
            raise UserError(f"dropout is {self.dropout}: give a share from 0 up to but not 1.")
        if self.features not in get_args(Features):
            raise UserError(
                f"there are no node features {self.features!r}: choose {' or '.join(get_args(Features))}."
            )

    @property
    def width(self) -> int:
        """How many numbers describe a node: D, and its standing."""
        return self.inputs + (STANDING if self.features == "question+standing" else 0)


class AgentGraph(NamedTuple):
    """What policies see of N agents: who is connected, trust, and each one's standing.

    `adjacency` (N, N) of bool, symmetric; `trust` (N, N); `standing` (N, 3), all float32. When the questions
    of a batch met the group at different times, each has a leading dimension B.
    """

    adjacency: Tensor
    trust: Tensor
    standing: Tensor

    @classmethod
    def of(cls, adjacency: Adjacency, trust: Trust, accuracy: Numbers) -> AgentGraph:
        """The group with recent accuracy (N,), 0 to 1. Standing: mean trust in connected agents (0.1 for an
        agent that has none), degree as a share of N - 1, accuracy. Raises ValueError unless shapes fit."""
        n = len(accuracy)
        if adjacency.shape != (n, n) or trust.shape != (n, n) or np.shape(accuracy) != (n,):
            raise ValueError(f"{n} agents need {n} x {n}, not {adjacency.shape} and {trust.shape}")
        edges = adjacency & ~np.eye(n, dtype=bool)
        degree = edges.sum(axis=1)
        mean = np.where(edges, trust, 0.0).sum(axis=1) / np.maximum(degree, 1)
        mean = np.where(degree > 0, mean, LOWEST_TRUST)
        standing = np.stack([mean, degree / max(n - 1, 1), accuracy], axis=1)
        return cls(torch.from_numpy(edges), _float(trust), _float(standing))


class AgentPolicy(nn.Module):
    """One agent's policy, an ordinary PyTorch Geometric network: W . GAT2(GAT1(X, E), E) (MARL-GAT, eq. 1).

    Each GAT layer is a GATConv and GAT's own nonlinearity, ELU (Velickovic et al. 2018, equation 4); the last
    one averages its heads. A node is the question and the agent's standing, the edge from source j to target
    i has T[j, i].
    """

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        edge_dim = 1 if config.trust_edges else None
        wide, heads, dropout = config.hidden * config.heads, config.heads, config.dropout
        self.gat1 = GATConv(config.width, config.hidden, heads, dropout=dropout, edge_dim=edge_dim)
        self.gat2 = GATConv(wide, config.hidden, heads, concat=False, dropout=dropout, edge_dim=edge_dim)
        self.linear = nn.Linear(config.hidden, config.strategies)

    def forward(self, nodes: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None) -> Tensor:
        """Logits (N, S) of every node from node features (N, width); agent i acts on row i.

        `edge_index` (2, E) holds both directions of each edge and no self-loop, `edge_attr` (E, 1) trust.
        """
        hidden = functional.elu(self.gat1(nodes, edge_index, edge_attr))
        hidden = functional.elu(self.gat2(hidden, edge_index, edge_attr))
        logits: Tensor = self.linear(hidden)
        return logits


def _float(values: Numbers) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)
