"""The agents' policies: graph attention networks from a question to one logit a strategy (MARL-GAT,
4.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import MessagePassing  # type: ignore[import-untyped]
from torch_geometric.nn.inits import glorot  # type: ignore[import-untyped]
from torch_geometric.utils import softmax  # type: ignore[import-untyped]

from ..base.errors import UserError
from .config import PolicyConfig
from .graph import Adjacency
from .trust import LOWEST_TRUST, Trust
from .weights import Numbers

SLOPE = 0.2
"""That of the leaky ReLU in GATConv's attention."""


class AgentGraph(NamedTuple):
    """The inputs of policies about N agents: the graph, trust, and each agent's standing.

    `adjacency` (N, N) of bool, symmetric; `trust` (N, N); `standing` (N, 3), all float32. When the
    questions of a batch met the group at different times, each has a leading dimension B.
    """

    adjacency: Tensor
    trust: Tensor
    standing: Tensor

    @classmethod
    def of(cls, adjacency: Adjacency, trust: Trust, accuracy: Numbers) -> AgentGraph:
        """Return the group with recent accuracy (N,), 0 to 1. Standing: mean trust in connected
        agents (0.1 for an agent that has none), degree as a share of N - 1, accuracy.
        """
        n = len(accuracy)
        edges = adjacency & ~np.eye(n, dtype=bool)
        degree = edges.sum(axis=1)
        mean = np.where(edges, trust, 0.0).sum(axis=1) / np.maximum(degree, 1)
        mean = np.where(degree > 0, mean, LOWEST_TRUST)
        standing = np.stack([mean, degree / max(n - 1, 1), accuracy], axis=1)
        return cls(
            torch.from_numpy(edges),
            torch.tensor(trust, dtype=torch.float32),
            torch.tensor(standing, dtype=torch.float32),
        )


class Edges(NamedTuple):
    """Directed edges of the disjoint union of many graphs, self-loops included.

    `ends` (2, E): numbers of source and target nodes; `agent` (E,): whose weights attend along the
    edge; `trust` (E,): the edge feature.
    """

    ends: Tensor
    agent: Tensor
    trust: Tensor


class AgentsGAT(MessagePassing):  # type: ignore[misc]
    """One GAT layer with the weights of A agents: agent a's slice of each parameter is a GATConv.

    out_i = bias + W . sum_j softmax_j(leaky_relu(att_src . W x_j + att_dst . W x_i + att_edge .
    W_edge T_ji)) x_j for each head. W is applied after the sum, once per target node instead of
    once per edge.
    """

    def __init__(self, agents: int, width: int, config: PolicyConfig, *, concat: bool) -> None:
        super().__init__(aggr="add", node_dim=0)
        heads, hidden = config.heads, config.hidden
        self.dropout, self.concat = config.dropout, concat
        self.lin = _weight(agents, heads * hidden, width)
        for name in ("src", "dst", *(["edge"] if config.trust_edges else [])):
            setattr(self, f"att_{name}", nn.Parameter(torch.empty(agents, 1, heads, hidden)))
            glorot(getattr(self, f"att_{name}"))
        if config.trust_edges:
            self.lin_edge = _weight(agents, heads * hidden, 1)
        # Averaged heads have the width of one.
        self.bias = nn.Parameter(torch.zeros(agents, heads * hidden if concat else hidden))

    def forward(self, nodes: Tensor, weight: Tensor, edges: Edges, targets: Tensor) -> Tensor:
        """Return features of the target nodes, (A, B, M, heads * hidden) or, averaged, (A, B, M,
        hidden).

        `nodes` (A, B, N, F) and `weight` (A, B or 1, heads, hidden, F): what nodes say, and what W
        makes of it; `targets` (A, B, M, F): the nodes that are computed, in the order of the
        targets in `edges`.
        """
        agents, batch, count, _ = targets.shape
        # W in the directions of attention, for sources and for targets.
        ways = torch.cat([self.att_src, self.att_dst], dim=1)
        ways = torch.einsum("akhc,abhcf->kabhf", ways, weight)
        sources, heads = nodes[..., 0].numel(), weight.shape[2]
        scores = list[Tensor]()
        for ends, way in zip((nodes, targets), ways, strict=True):
            scores.append(torch.einsum("abnf,abhf->abnh", ends, way).reshape(-1, heads))
        read = self.propagate(
            edges.ends,
            size=(sources, agents * batch * count),
            x=(nodes.reshape(sources, 1, -1), None),
            score=tuple(scores),
            trust=self._edge_scale()[edges.agent] * edges.trust[:, None],
        )
        read = read.view(agents, batch, count, heads, -1)
        out = torch.einsum("abmhf,abhcf->abmhc", read, weight)
        out = out.flatten(3) if self.concat else out.mean(dim=3)
        return functional.elu(out + self.bias[:, None, None])

    def message(
        self,
        x_j: Tensor,
        score_i: Tensor,
        score_j: Tensor,
        trust: Tensor,
        index: Tensor,
        size_i: int | None,
    ) -> Tensor:
        """Return what each edge brings to its target, (E, heads, F)."""
        scores = functional.leaky_relu(score_i + score_j + trust, SLOPE)
        attention = softmax(scores, index, num_nodes=size_i)
        attention = functional.dropout(attention, self.dropout, self.training)
        message: Tensor = attention.unsqueeze(-1) * x_j
        return message

    def _edge_scale(self) -> Tensor:
        """Return how much one unit of trust adds to an attention score, (A, heads)."""
        if not hasattr(self, "lin_edge"):
            return self.bias.new_zeros(self.att_src.shape[0], 1)
        weight = self.lin_edge["weight"].view_as(self.att_edge[:, 0])
        scale: Tensor = (weight * self.att_edge[:, 0]).sum(dim=-1)
        return scale


class Policies(nn.Module):
    """The policies of N agents, evaluated together: W . GAT2(GAT1(X, E), E) (MARL-GAT, eq. 1).

    Each GAT layer is followed by GAT's own nonlinearity, ELU (Velickovic et al. 2018, equation 4);
    the second one averages its heads. A node is the question and an agent's standing; the edge from
    source j to target i has trust T[j, i]. Every parameter has a leading dimension for the agents,
    so an elementwise optimizer such as Adam is N optimizers with one learning rate. New weights are
    drawn from `seed` alone.
    """

    def __init__(self, config: PolicyConfig, n: int, seed: int = 0) -> None:
        super().__init__()
        self.config, self.n = config, n
        wide = config.hidden * config.heads
        # The caller's random numbers must not depend on whether it makes a network.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.gat1 = AgentsGAT(n, config.width, config, concat=True)
            self.gat2 = AgentsGAT(n, wide, config, concat=False)
            self.linear = _weight(n, config.strategies, config.hidden)
        self.linear["bias"] = nn.Parameter(torch.zeros(n, config.strategies))

    def forward(self, questions: Tensor, group: AgentGraph) -> Tensor:
        """Return logits (B, N, S) for B question embeddings (B, D): those of agent i at its own
        node i.
        """
        standing = group.standing[..., : self.config.width - self.config.inputs]
        agents, batch, heads = self.n, len(questions), self.config.heads
        every, own = _edges(group, agents, batch)
        # What nodes share, the question, is projected once: it is the weight of a constant 1.
        standing = standing.expand(batch, agents, -1)
        nodes = functional.pad(standing, (0, 1), value=1.0).expand(agents, -1, -1, -1)
        rows = torch.block_diag(questions, torch.eye(standing.shape[-1]))  # type: ignore[no-untyped-call]
        product = functional.linear(rows, self.gat1.lin["weight"].flatten(0, 1))
        product = product.view(len(rows), agents, 1, heads, -1).transpose(0, 1)
        agent_weights = product[:, batch:].permute(0, 2, 3, 4, 1).expand(-1, batch, -1, -1, -1)
        weight = torch.cat([agent_weights, product[:, :batch, 0].unsqueeze(-1)], dim=-1)
        hidden = self.gat1(nodes, weight, every, nodes)
        # The second layer is needed at each agent's own node alone.
        own_nodes = hidden.diagonal(dim1=0, dim2=2).permute(2, 0, 1).unsqueeze(2)
        weight = self.gat2.lin["weight"].view(agents, 1, heads, self.config.hidden, -1)
        read = self.gat2(hidden, weight, own, own_nodes)[:, :, 0]
        logits: Tensor = self.linear["bias"] + torch.einsum(
            "abc,asc->bas", read, self.linear["weight"]
        )
        return logits

    def agent(self, i: int) -> dict[str, Tensor]:
        """Return agent i's tensors under the names and in the shapes of GATConv and Linear:
        `gat1.att_src`, `gat1.lin.weight`, ….
        """
        return {name: part[i].detach().clone() for name, part in self.state_dict().items()}

    @classmethod
    def of(cls, config: PolicyConfig, n: int, weights: Mapping[str, Tensor]) -> Policies:
        """Return the policies with these weights (`state_dict()`); nothing is allocated before the
        sizes are known to fit. Raises UserError for weights of other policies.
        """
        try:
            with torch.device("meta"):
                sizes = shapes_of(cls(config, n).state_dict())
        except (RuntimeError, OverflowError, TypeError):  # a size that no tensor has
            sizes = {}
        check_weights(weights, sizes == shapes_of(weights))
        policies = cls(config, n)
        policies.load_state_dict(weights)
        return policies


def shapes_of(weights: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: part.shape for name, part in weights.items()}


def all_finite(parts: Iterable[Tensor]) -> bool:
    """Return whether no number of the tensors is infinite or NaN."""
    return all(bool(torch.isfinite(part).all()) for part in parts)


def check_weights(weights: Mapping[str, Tensor], fit: bool) -> None:
    """Raise UserError unless weights `fit` the settings of their policies, and are finite."""
    if not fit:
        raise UserError("its policies are of another shape or number than its settings say")
    if not all_finite(weights.values()):
        raise UserError("its policies hold numbers that are not finite")


def clip_gradients(policies: nn.Module, most: float) -> None:
    """Scale each agent's gradient, in place, to at most length `most`, as if its policy were
    alone.
    """
    gradients = [part.grad for part in policies.parameters() if part.grad is not None]
    square = torch.stack([grad.flatten(1).square().sum(dim=1) for grad in gradients]).sum(dim=0)
    scale = (most / (square.sqrt() + 1e-6)).clamp(max=1.0)  # as torch.nn.utils.clip_grad_norm_
    for grad in gradients:
        grad.mul_(scale.view(-1, *[1] * (grad.dim() - 1)))


def _weight(agents: int, out: int, width: int) -> nn.ParameterDict:
    """Return the weight of a linear map for each agent, with GATConv's initial values."""
    weight = nn.Parameter(torch.empty(agents, out, width))
    glorot(weight)
    return nn.ParameterDict({"weight": weight})


def _edges(group: AgentGraph, agents: int, batch: int) -> tuple[Edges, Edges]:
    """Return the edges of all agents' graphs of all questions, and those into each agent's own
    node.

    Node (a, b, i), agent i in the graph that agent a has for question b, is number (a B + b) N + i
    of the union; the only target of the second layer in graph (a, b) is number a B + b.
    """
    adjacency = group.adjacency.expand(batch, agents, agents)  # [b, j, i]: source j, target i
    trust = group.trust.expand(batch, agents, agents) * adjacency
    # A self-loop has the mean trust of the other edges into its node, as GATConv fills it in.
    mean = trust.sum(dim=1) / adjacency.sum(dim=1).clamp(min=1)
    trust = trust + torch.diag_embed(mean)
    b, j, i = (adjacency | torch.eye(agents, dtype=torch.bool)).nonzero().unbind(dim=1)
    felt = trust[b, j, i]
    a = torch.arange(agents)[:, None]
    first = (a * batch + b) * agents
    index = torch.stack([(first + j).flatten(), (first + i).flatten()])
    every = Edges(index, a.expand(-1, len(b)).flatten(), felt.expand(agents, -1).flatten())
    target = i * batch + b
    return every, Edges(torch.stack([target * agents + j, target]), i, felt)
