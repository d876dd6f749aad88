"""The agents' policies: graph attention networks from a question to one logit a strategy (MARL-GAT,
4.1).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GATConv  # type: ignore[import-untyped]

from ..reading.voting import LOWEST_TRUST
from .config import PolicyConfig
from .graph import Adjacency
from .trust import Trust
from .weights import Numbers


class AgentGraph(NamedTuple):
    """What policies see of N agents: who is connected, trust, and each one's standing.

    `adjacency` (N, N) of bool, symmetric; `trust` (N, N); `standing` (N, 3), all float32. When the
    questions of a batch met the group at different times, each has a leading dimension B.
    """

    adjacency: Tensor
    trust: Tensor
    standing: Tensor

    @classmethod
    def of(cls, adjacency: Adjacency, trust: Trust, accuracy: Numbers) -> AgentGraph:
        """The group with recent accuracy (N,), 0 to 1. Standing: mean trust in connected agents
        (0.1 for an agent that has none), degree as a share of N - 1, accuracy. Raises ValueError
        unless shapes fit.
        """
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
    """One agent's policy, an ordinary PyTorch Geometric network: W . GAT2(GAT1(X, E), E) (MARL-GAT,
    eq. 1).

    Each GAT layer is a GATConv and GAT's own nonlinearity, ELU (Velickovic et al. 2018, equation
    4); the last one averages its heads. A node is the question and the agent's standing, the edge
    from source j to target i has T[j, i].
    """

    def __init__(self, config: PolicyConfig) -> None:
        super().__init__()
        edge_dim = 1 if config.trust_edges else None
        wide, heads, dropout = config.hidden * config.heads, config.heads, config.dropout
        self.gat1 = GATConv(config.width, config.hidden, heads, dropout=dropout, edge_dim=edge_dim)
        self.gat2 = GATConv(
            wide, config.hidden, heads, concat=False, dropout=dropout, edge_dim=edge_dim
        )
        self.linear = nn.Linear(config.hidden, config.strategies)

    def forward(self, nodes: Tensor, edge_index: Tensor, edge_attr: Tensor | None = None) -> Tensor:
        """Logits (N, S) of every node from node features (N, width); agent i acts on row i.

        `edge_index` (2, E) holds both directions of each edge and no self-loop, `edge_attr` (E, 1)
        trust.
        """
        hidden = functional.elu(self.gat1(nodes, edge_index, edge_attr))
        hidden = functional.elu(self.gat2(hidden, edge_index, edge_attr))
        logits: Tensor = self.linear(hidden)
        return logits


def _float(values: Numbers) -> Tensor:
    return torch.tensor(values, dtype=torch.float32)
