"""The policies of all agents at once: N graph attention networks for the price of a few matrix
products.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..base.errors import UserError
from .config import PolicyConfig
from .policy import AgentGraph, AgentPolicy

_SLOPE = 0.2  # of GATConv's leaky ReLU
_FIRST = "gat1.lin.weight"


class FusedPolicies(nn.Module):
    """The policies of N agents evaluated together, with the logits that N `AgentPolicy` would give.

    Each parameter is the N agents' GATConv tensors stacked, (N, ...); the first layer's product is
    kept in two, one for the question and one for the standing, since a gradient in one piece would
    cost as much as all else. An elementwise optimizer such as Adam over them is N optimizers with
    one learning rate. New weights are drawn from `seed` alone.
    """

    def __init__(self, config: PolicyConfig, n: int, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            agents = [AgentPolicy(config).state_dict() for _ in range(n)]
        self.config, self.n = config, n
        whole = {name: torch.stack([one[name] for one in agents]) for name in agents[0]}
        self.standing = nn.Parameter(whole[_FIRST][..., config.inputs :].clone())
        whole[_FIRST] = whole[_FIRST][..., : config.inputs].clone()
        # A parameter's name may not hold a dot.
        self.stacked = nn.ParameterDict(
            {name.replace(".", "/"): part for name, part in whole.items()}
        )

    @classmethod
    def of(
        cls, config: PolicyConfig, n: int, seed: int, weights: Mapping[str, Tensor]
    ) -> FusedPolicies:
        """The policies with what `weights()` gave; nothing is made before its size is known to be
        theirs.

        Raises UserError for weights of other policies.
        """
        try:
            with torch.device("meta"):
                one = AgentPolicy(config).state_dict()
        except (RuntimeError, OverflowError, TypeError):  # a size that no tensor has
            one = {}
        given = {name: weights.get(f"agents.0.{name}") for name in one}
        sized = all(
            part is not None and part.shape == one[name].shape for name, part in given.items()
        )
        if not sized or len(weights) < n * len(one) or not one:
            raise UserError(
                "its weights are of another shape or number of agents than its settings say"
            )
        made = cls(config, n, seed)
        made.load_weights(weights)
        return made

    def forward(self, questions: Tensor, group: AgentGraph) -> Tensor:
        """Logits (B, N, S) for B question embeddings (B, D): those of agent i at its own node i.

        With the question alone in every node, and no dropout at work, all nodes are equal,
        attention averages equal vectors, and neither graph nor trust matters: one node then stands
        for all.
        """
        if (
            not self.n
            == group.adjacency.shape[-1]
            == group.trust.shape[-1]
            == group.standing.shape[-2]
        ):
            raise ValueError(f"{self.n} policies need a group of {self.n} agents")
        dropping = self.training and self.config.dropout > 0
        if self.config.features == "question" and not dropping:
            alone = functional.elu(self._asked(questions) + self._part("gat1.bias").unsqueeze(1))
            read = alone.unsqueeze(2).expand(-1, -1, self.config.heads, -1)
        else:
            edges = _Edges.of(group)
            read = self._read(self._first_layer(questions, group.standing, edges), edges)
        return self._logits(read)

    def weights(self) -> dict[str, Tensor]:
        """Every agent's tensors under GATConv's own names and in its shapes:
        `agents.3.gat1.att_src`, ….
        """
        return {
            f"agents.{i}.{name}": part for i in range(self.n) for name, part in self._of(i).items()
        }

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Take over what `weights()` gave. Raises UserError, naming the tensor, unless all are
        there.
        """
        own = self.weights()
        for name in sorted(own.keys() ^ weights.keys()):
            where = "is missing from the weights" if name in own else "belongs to no policy here"
            raise UserError(f"{name} {where}: load weights of as many agents and the same shape.")
        for name, part in own.items():
            if weights[name].shape != part.shape or not torch.isfinite(weights[name]).all():
                raise UserError(
                    f"{name} must hold finite numbers of shape {tuple(part.shape)}, "
                    f"not {tuple(weights[name].shape)}: load weights of the same shape."
                )
        with torch.no_grad():
            for name in self._of(0):
                whole = torch.stack([weights[f"agents.{i}.{name}"] for i in range(self.n)])
                if name == _FIRST:
                    self.standing.copy_(whole[..., self.config.inputs :])
                    whole = whole[..., : self.config.inputs]
                self._part(name).copy_(whole)

    def clip_gradients(self, most: float) -> None:
        """Scale each agent's gradient, in place, to at most length `most`, as if its policy were
        alone.
        """
        gradients = [part.grad for part in self.parameters() if part.grad is not None]
        square = torch.stack([grad.flatten(1).square().sum(dim=1) for grad in gradients]).sum(dim=0)
        scale = (most / (square.sqrt() + 1e-6)).clamp(max=1.0)  # as torch.nn.utils.clip_grad_norm_
        for grad in gradients:
            grad.mul_(scale.view(-1, *[1] * (grad.dim() - 1)))

    def _of(self, i: int) -> dict[str, Tensor]:
        """Copies of agent i's tensors, by AgentPolicy's names."""
        parts = {
            name.replace("/", "."): part[i].detach().clone() for name, part in self.stacked.items()
        }
        return parts | {_FIRST: torch.cat([parts[_FIRST], self.standing[i].detach()], dim=1)}

    def _part(self, name: str) -> Tensor:
        part: Tensor = self.stacked[name.replace(".", "/")]
        return part

    def _asked(self, questions: Tensor) -> Tensor:
        """The question's share of the first layer's product, the same for all nodes, (N, B, HC)."""
        product = functional.linear(questions, self._part(_FIRST).flatten(0, 1))
        return product.view(len(questions), self.n, -1).transpose(0, 1)

    def _first_layer(self, questions: Tensor, standing: Tensor, edges: _Edges) -> Tensor:
        """Every node's output of the first layer in every agent's network, (N, B, N, HC).

        Nodes differ in their standing alone, and attention is a mean, so the means are taken over
        the three numbers of the standing and not over the HC of the product.
        """
        heads, hidden = self.config.heads, self.config.hidden
        asked = self._asked(questions).view(self.n, -1, heads, hidden)  # (N, B, H, C)
        numbers = self.standing.shape[-1]  # 3 or, with the question alone in every node, 0
        weight = self.standing.view(self.n, heads, hidden, numbers)
        known = standing[..., :numbers]
        known = known if known.dim() == 3 else known.unsqueeze(0)  # (B or 1, N, 3)
        source, target = self._part("gat1.att_src")[:, 0], self._part("gat1.att_dst")[:, 0]
        both = torch.einsum("abhc,ahc->abh", asked, source + target)
        of_source = torch.einsum(
            "bjf,ahf->abhj", known, torch.einsum("ahcf,ahc->ahf", weight, source)
        )
        of_target = torch.einsum(
            "bif,ahf->abhi", known, torch.einsum("ahcf,ahc->ahf", weight, target)
        )
        scores = both[..., None, None] + of_target.unsqueeze(-1) + of_source.unsqueeze(-2)
        if self.config.trust_edges:
            scores = (
                scores + self._edge_scale("gat1")[:, None, :, None, None] * edges.trust[:, None]
            )
        attention = self._attention(scores, edges.open[:, None])  # (N, B, H, N, N)
        means = attention @ known[:, None]  # (N, B, H, N, 3)
        out = torch.einsum("abhif,ahcf->abihc", means, weight).flatten(3)
        whole = asked.flatten(2).unsqueeze(2)
        # what is left of the attention no longer sums to 1
        if self.training and self.config.dropout > 0:
            left = attention.sum(dim=-1).transpose(2, 3).unsqueeze(-1)  # (N, B, N, H, 1)
            whole = (asked.unsqueeze(2) * left).flatten(3)
        return functional.elu(out + (whole + self._part("gat1.bias")[:, None, None]))

    def _read(self, nodes: Tensor, edges: _Edges) -> Tensor:
        """What agent i's node takes from its neighbours in the second layer, for each head, (N, B,
        H, HC).
        """
        weight = self._second()
        directions = torch.cat([self._part("gat2.att_src"), self._part("gat2.att_dst")], dim=1)
        source, target = torch.einsum("akhc,ahcf->kahf", directions, weight)
        own = nodes.diagonal(dim1=0, dim2=2)  # (B, HC, N)
        scores = torch.einsum("abjf,ahf->abhj", nodes, source)
        scores = scores + torch.einsum("bfa,ahf->abh", own, target).unsqueeze(-1)
        if self.config.trust_edges:
            seen = edges.trust.transpose(0, 1).unsqueeze(2)  # (N, B or 1, 1, N)
            scores = scores + self._edge_scale("gat2")[:, None, :, None] * seen
        return self._attention(scores, edges.open.transpose(0, 1).unsqueeze(2)) @ nodes

    def _logits(self, read: Tensor) -> Tensor:
        """The second layer's product at one node an agent, and the linear layer: (B, N, S)."""
        weight = self._second()
        out = torch.einsum("ahcf,abhf->abhc", weight, read)
        out = functional.elu(out.mean(dim=2) + self._part("gat2.bias").unsqueeze(1))
        logits = torch.einsum("abk,ask->bas", out, self._part("linear.weight"))
        return logits + self._part("linear.bias")

    def _second(self) -> Tensor:
        """The second layer's product, (N, H, C, HC)."""
        wide = self.config.heads * self.config.hidden
        return self._part("gat2.lin.weight").view(self.n, self.config.heads, -1, wide)

    def _edge_scale(self, layer: str) -> Tensor:
        """How much one unit of trust adds to an attention score, (N, H)."""
        weight = self._part(f"{layer}.lin_edge.weight").view(self.n, self.config.heads, -1)
        return (weight * self._part(f"{layer}.att_edge")[:, 0]).sum(dim=-1)

    def _attention(self, scores: Tensor, open_: Tensor) -> Tensor:
        """The attention of each target over its sources, the last dimension; closed pairs
        get none.
        """
        scores = functional.leaky_relu(scores, _SLOPE).masked_fill(~open_, -torch.inf)
        return functional.dropout(scores.softmax(dim=-1), self.config.dropout, self.training)


class _Edges(NamedTuple):
    """Who attends to whom, with self-loops, as GATConv adds them: [b, i, j] is target i and source
    j.

    `open` (B or 1, N, N) of bool; `trust` alike: T[j, i], and at i itself the mean over its
    sources, 0 when it has none.
    """

    open: Tensor
    trust: Tensor

    @classmethod
    def of(cls, group: AgentGraph) -> _Edges:
        n = group.adjacency.shape[-1]
        adjacency, trust = group.adjacency.view(-1, n, n), group.trust.view(-1, n, n)
        incoming = (trust * adjacency).transpose(1, 2)
        mean = incoming.sum(dim=2) / adjacency.sum(dim=1).clamp(min=1)
        return cls(
            adjacency.transpose(1, 2) | torch.eye(n, dtype=torch.bool),
            incoming + torch.diag_embed(mean),
        )
