"""Policies: one layer for all agents beside PyTorch Geometric's own, weights, attention."""

import numpy as np
import pytest
import torch
from refusals import refused
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GATConv

from folkmoot.modules.network.config import PolicyConfig
from folkmoot.modules.network.graph import Limits, small_world
from folkmoot.modules.network.policy import AgentGraph, Policies

torch.set_num_threads(1)


def config(**settings: object) -> PolicyConfig:
    return PolicyConfig(**{"strategies": 5, "inputs": 24, "hidden": 6, "heads": 3, **settings})  # type: ignore[arg-type]


def group(n: int, seed: int = 0, isolated: int | None = None) -> AgentGraph:
    """A small world where trust differs by direction; at will an agent is connected to nobody."""
    rng = np.random.default_rng(seed)
    edges = small_world(n, 4, 0.3, Limits(), seed)
    if isolated is not None:
        edges[isolated] = edges[:, isolated] = False
    return AgentGraph.of(edges, rng.uniform(0.1, 0.95, (n, n)), rng.random(n))


def asked(batch: int, width: int = 24) -> Tensor:
    drawn = torch.randn(batch, width, generator=torch.Generator().manual_seed(0))
    return functional.normalize(drawn, dim=1)


def lively(policies: Policies) -> Policies:
    """With biases that are not zero, as after some training."""
    torch.manual_seed(3)
    for part in policies.parameters():
        part.data += 0.1 * torch.randn_like(part)
    return policies


class Alone(nn.Module):
    """Agent i's policy in PyTorch Geometric's own layers, with the same weights: the reference."""

    def __init__(self, policies: Policies, i: int) -> None:
        super().__init__()
        shape, self.i = policies.config, i
        self.shape = shape
        wide, edge_dim = shape.hidden * shape.heads, 1 if shape.trust_edges else None
        how = {"edge_dim": edge_dim, "dropout": shape.dropout}
        self.gat1 = GATConv(shape.width, shape.hidden, shape.heads, **how)
        self.gat2 = GATConv(wide, shape.hidden, shape.heads, concat=False, **how)
        self.linear = nn.Linear(shape.hidden, shape.strategies)
        self.load_state_dict(policies.agent(i))
        self.train(policies.training)

    def forward(self, question: Tensor, now: AgentGraph) -> Tensor:
        nodes = question.expand(len(now.standing), -1)
        if self.shape.features == "question+standing":
            nodes = torch.cat([nodes, now.standing], dim=1)
        index = now.adjacency.nonzero().T
        trust = now.trust[index[0], index[1]].unsqueeze(1) if self.shape.trust_edges else None
        hidden = functional.elu(self.gat1(nodes, index, trust))
        logits: Tensor = self.linear(functional.elu(self.gat2(hidden, index, trust)))
        return logits[self.i]


def reference(policies: Policies, questions: Tensor, groups: list[AgentGraph]) -> Tensor:
    """The logits (B, N, S) of one GATConv network after the other."""
    agents = [Alone(policies, i) for i in range(policies.n)]
    pairs = zip(questions, groups, strict=True)
    return torch.stack([torch.stack([agent(one, now) for agent in agents]) for one, now in pairs])


def stacked(groups: list[AgentGraph]) -> AgentGraph:
    """One group a question, with the leading dimension B."""
    return AgentGraph(*(torch.stack(parts) for parts in zip(*groups, strict=True)))


@pytest.mark.parametrize("features", ["question", "question+standing"])
@pytest.mark.parametrize("trust_edges", [True, False])
@pytest.mark.parametrize(("n", "isolated"), [(1, None), (2, None), (7, 2)])
def test_logits_of_gatconv(features: str, trust_edges: bool, n: int, isolated: int | None) -> None:
    policies = lively(Policies(config(features=features, trust_edges=trust_edges), n, seed=1))
    questions, groups = asked(4), [group(n, seed, isolated) for seed in range(4)]
    together = policies(questions, stacked(groups))
    assert together.shape == (4, n, 5)
    assert (together - reference(policies, questions, groups)).abs().max() <= 1e-5
    # One group for the whole batch.
    one = policies(questions, groups[0])
    assert (one - reference(policies, questions, [groups[0]] * 4)).abs().max() <= 1e-5


def test_graph_and_trust_matter_where_nodes_have_a_standing_alone() -> None:
    def moved(**settings: object) -> float:
        policies = lively(Policies(config(**settings), 5, seed=1)).eval()
        one, other = group(5, 1), group(5, 2)
        return float((policies(asked(3), one) - policies(asked(3), other)).abs().max().detach())

    assert moved(features="question") < 1e-6 < 1e-3 < moved(features="question+standing")


def test_weights_come_back_and_others_are_refused() -> None:
    policies = lively(Policies(config(), 2, seed=1))
    weights = policies.state_dict()
    again = Policies.of(config(), 2, weights)
    assert (again(asked(2), group(2)) == policies(asked(2), group(2))).all()
    name = "gat2.att_dst"
    parts = {"gat3.bias": torch.zeros(5)}, {name: torch.zeros(2, 1, 3, 7)}
    bad = [weights | part for part in (*parts, {name: torch.full((2, 1, 3, 6), torch.nan)})]
    for other in (*bad, {key: part for key, part in weights.items() if key != name}):
        refused("its policies", Policies.of, config(), 2, other)
    refused("its policies", Policies.of, config(hidden=10**12), 2, weights)
