"""Policies: the fused ones beside PyTorch Geometric's own, their weights, Adam, and what attention
sees.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor
from torch_geometric.nn import GATConv

from folkmoot.modules.base.errors import UserError
from folkmoot.modules.network.config import PolicyConfig
from folkmoot.modules.network.fused import FusedPolicies
from folkmoot.modules.network.graph import Limits, small_world
from folkmoot.modules.network.policy import AgentGraph, AgentPolicy

torch.set_num_threads(1)


def config(**settings: object) -> PolicyConfig:
    return PolicyConfig(**{"strategies": 5, "inputs": 24, "hidden": 6, "heads": 3, **settings})  # type: ignore[arg-type]


def group(n: int, seed: int = 0, isolated: int | None = None) -> AgentGraph:
    """A small world with trust that differs by direction, and at will an agent nobody is connected
    to.
    """
    rng = np.random.default_rng(seed)
    edges = small_world(n, 4, 0.3, Limits(), seed)
    if isolated is not None:
        edges[isolated] = edges[:, isolated] = False
    return AgentGraph.of(edges, rng.uniform(0.1, 0.95, (n, n)), rng.random(n))


def asked(batch: int, width: int = 24, seed: int = 0) -> Tensor:
    drawn = torch.randn(batch, width, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize(drawn, dim=1)


def lively(policies: FusedPolicies) -> FusedPolicies:
    """With biases that are not zero, as after some training."""
    torch.manual_seed(3)
    for part in policies.parameters():
        part.data += 0.1 * torch.randn_like(part)
    return policies


def agent_of(policies: FusedPolicies, i: int) -> AgentPolicy:
    """Agent i's policy as a network of its own, with copies of its weights."""
    agent = AgentPolicy(policies.config)
    own = f"agents.{i}."
    agent.load_state_dict(
        {
            name.removeprefix(own): part
            for name, part in policies.weights().items()
            if name.startswith(own)
        }
    )
    return agent.train(policies.training)


def stacked(groups: list[AgentGraph]) -> AgentGraph:
    """One group a question, with the leading dimension B."""
    return AgentGraph(*(torch.stack(parts) for parts in zip(*groups, strict=True)))


def nodes_of(now: AgentGraph, shape: PolicyConfig, question: Tensor) -> Tensor:
    """Node features (N, width) of one question (D,), the same question in every node."""
    same = question.expand(len(now.standing), -1)
    return same if shape.features == "question" else torch.cat([same, now.standing], dim=1)


def edges_of(now: AgentGraph, shape: PolicyConfig) -> tuple[Tensor, Tensor | None]:
    """GATConv's edge index (2, E), source j to target i, and trust T[j, i] as edge features
    (E, 1).
    """
    index = now.adjacency.nonzero().T
    return index, now.trust[index[0], index[1]].unsqueeze(1) if shape.trust_edges else None


def reference(policies: FusedPolicies, questions: Tensor, groups: list[AgentGraph]) -> Tensor:
    """The logits (B, N, S) of one PyTorch Geometric network after the other."""
    shape, agents = policies.config, [agent_of(policies, i) for i in range(policies.n)]
    rows = [
        torch.stack(
            [
                agent(nodes_of(now, shape, one), *edges_of(now, shape))[i]
                for i, agent in enumerate(agents)
            ]
        )
        for one, now in zip(questions, groups, strict=True)
    ]
    return torch.stack(rows)


@pytest.mark.parametrize(
    ("features", "trust_edges"),
    list(itertools.product(["question", "question+standing"], [True, False])),
)
@pytest.mark.parametrize(("n", "isolated"), [(1, None), (2, None), (7, 2)])
def test_fused_logits_are_those_of_gatconv(
    features: str, trust_edges: bool, n: int, isolated: int | None
) -> None:
    shape = config(features=features, trust_edges=trust_edges)
    policies = lively(FusedPolicies(shape, n, seed=1))
    assert policies.training
    questions, groups = asked(4), [group(n, seed, isolated) for seed in range(4)]
    together = policies(questions, stacked(groups))
    assert together.shape == (4, n, 5)
    assert (together - reference(policies, questions, groups)).abs().max() <= 1e-6
    # One group for the whole batch.
    one = policies(questions, groups[0])
    assert (one - reference(policies, questions, [groups[0]] * 4)).abs().max() <= 1e-6


@pytest.mark.parametrize("features", ["question", "question+standing"])
def test_dropout_falls_where_gatconv_drops(features: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Dropout by a rule instead of by chance, so that both drop the same.
    def rule(attention: Tensor, p: float, training: bool) -> Tensor:
        assert p == 0.4
        return 3 * attention.square() if training else attention

    monkeypatch.setattr(torch.nn.functional, "dropout", rule)
    policies = lively(FusedPolicies(config(features=features, dropout=0.4), 6, seed=1))
    questions, groups = asked(3), [group(6, seed) for seed in range(3)]
    dropped = policies(questions, stacked(groups))
    assert (dropped - reference(policies, questions, groups)).abs().max() <= 1e-6
    policies.eval()
    kept = policies(questions, stacked(groups))
    assert (kept - reference(policies, questions, groups)).abs().max() <= 1e-6
    assert (kept - dropped).abs().max() > 1e-3


def test_one_layer_by_hand() -> None:
    # Two agents connected by trust 0.5, one head of width 1, all products 1, no bias: x = (1, 3).
    layer = GATConv(1, 1, edge_dim=1)
    for part in layer.parameters():
        torch.nn.init.ones_(part)
    torch.nn.init.zeros_(layer.bias)
    two = np.array([[False, True], [True, False]])
    index, trust = edges_of(
        AgentGraph.of(two, np.array([[0, 0.5], [0.5, 0]]), np.zeros(2)), config()
    )
    # Node 0 attends to itself with 1 + 1 + 0.5 (a self-loop has the mean trust of what it hears)
    # and to node
    # 1 with 1 + 3 + 0.5: shares of exp(2.5) and exp(4.5).
    share = math.exp(4.5) / (math.exp(4.5) + math.exp(2.5))
    out = layer(torch.tensor([[1.0], [3.0]]), index, trust)
    assert float(out[0].detach()) == pytest.approx((1 - share) * 1 + share * 3)
    assert trust is not None
    assert trust.tolist() == [[0.5], [0.5]]


def test_standing_and_edges_by_hand() -> None:
    # 0 - 1 - 2 and 3 alone; trust differs by direction.
    edges = np.zeros((4, 4), dtype=bool)
    edges[0, 1] = edges[1, 0] = edges[1, 2] = edges[2, 1] = True
    trust = np.arange(16.0).reshape(4, 4) / 20
    now = AgentGraph.of(edges, trust, np.array([0.1, 0.2, 0.3, 0.4]))
    assert now.standing.numpy() == pytest.approx(
        np.array(
            [[1 / 20, 1 / 3, 0.1], [(4 + 6) / 40, 2 / 3, 0.2], [9 / 20, 1 / 3, 0.3], [0.1, 0, 0.4]]
        )
    )
    index, attr = edges_of(now, config())
    assert index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    assert attr is not None
    assert attr.flatten().tolist() == pytest.approx([1 / 20, 4 / 20, 6 / 20, 9 / 20])
    nodes = nodes_of(now, config(inputs=2), torch.tensor([7.0, 8.0]))
    assert nodes[3].tolist() == pytest.approx([7, 8, 0.1, 0, 0.4])
    assert (
        nodes_of(now, config(inputs=2, features="question"), torch.tensor([7.0, 8.0])).tolist()
        == [[7, 8]] * 4
    )
    assert edges_of(now, config(trust_edges=False))[1] is None
    with pytest.raises(ValueError, match="agents"):
        AgentGraph.of(edges, trust[:3, :3], np.zeros(4))


def test_the_question_alone_leaves_attention_without_a_gradient() -> None:
    attention = ("att_src", "att_dst", "att_edge", "lin_edge")

    def gradients(features: str) -> dict[str, float]:
        policies = lively(FusedPolicies(config(features=features), 6, seed=1))
        policies(asked(4), group(6)).log_softmax(-1)[..., 0].sum().backward()
        return {
            name: 0.0 if part.grad is None else float(part.grad.abs().max())
            for name, part in policies.stacked.items()
        }

    alone, standing = gradients("question"), gradients("question+standing")
    for name, value in alone.items():
        if any(word in name for word in attention):
            assert value == 0, name
            assert standing[name] > 1e-6, name
        else:
            assert value > 0, name
    # Nor do graph and trust change the logits.
    policies = FusedPolicies(config(features="question"), 6, seed=1)
    assert (policies(asked(4), group(6, 0)) == policies(asked(4), group(6, 5))).all()
    policies = FusedPolicies(config(), 6, seed=1)
    assert (policies(asked(4), group(6, 0)) - policies(asked(4), group(6, 5))).abs().max() > 1e-4


def losses(logits: Tensor, step: int) -> Tensor:
    """REINFORCE on made-up choices and rewards: (B, N)."""
    random = torch.Generator().manual_seed(step)
    actions = torch.randint(logits.shape[-1], logits.shape[:2], generator=random)
    rewards = torch.rand(logits.shape[:2], generator=random) * 1.5 - 0.5
    return -logits.log_softmax(-1).gather(-1, actions.unsqueeze(-1)).squeeze(-1) * rewards


@pytest.mark.parametrize("features", ["question", "question+standing"])
@pytest.mark.parametrize("clip", [None, 0.5])
def test_one_fused_adam_is_one_adam_an_agent(features: str, clip: float | None) -> None:
    # In float64, since Adam makes steps of rounding errors where a gradient is all but zero.
    shape = config(features=features)
    policies = lively(FusedPolicies(shape, 4, seed=1))
    agents = [agent_of(policies, i).double() for i in range(4)]
    policies.double()
    together = torch.optim.Adam(policies.parameters(), lr=0.01, fused=True)
    apart = [torch.optim.Adam(agent.parameters(), lr=0.01) for agent in agents]
    adjacency, trust, standing = group(4)
    questions, now = asked(3).double(), AgentGraph(adjacency, trust.double(), standing.double())
    seen = [(nodes_of(now, shape, one), *edges_of(now, shape)) for one in questions]
    before, lengths = policies.weights(), []
    for step in range(5):
        together.zero_grad()
        losses(policies(questions, now), step).sum().backward()
        if clip:
            policies.clip_gradients(clip)
        together.step()
        rows = [torch.stack([agent(*one)[i] for one in seen]) for i, agent in enumerate(agents)]
        for adam in apart:
            adam.zero_grad()
        losses(torch.stack(rows, dim=1), step).sum().backward()
        for agent, adam in zip(agents, apart, strict=True):
            if clip:
                lengths.append(torch.nn.utils.clip_grad_norm_(agent.parameters(), clip))
            adam.step()
    assert clip is None or min(lengths) < clip < max(lengths)
    after = policies.weights()
    for i, agent in enumerate(agents):
        for name, part in agent.state_dict().items():
            assert (after[f"agents.{i}.{name}"] - part).abs().max() < 1e-7, name
        moved = (after[f"agents.{i}.linear.bias"] - before[f"agents.{i}.linear.bias"]).abs()
        assert moved.max() > 1e-3


def test_weights_have_gatconvs_names_and_shapes_and_come_back() -> None:
    shape = config()
    policies = lively(FusedPolicies(shape, 3, seed=1))
    weights = policies.weights()
    own = AgentPolicy(shape).state_dict()
    assert {name: part.shape for name, part in weights.items()} == {
        f"agents.{i}.{name}": part.shape for i in range(3) for name, part in own.items()
    }
    assert weights["agents.2.gat1.att_src"].shape == (1, 3, 6)
    assert weights["agents.2.gat1.lin.weight"].shape == (18, 27)
    plain = GATConv(27, 6, 3, edge_dim=1)
    plain.load_state_dict({name: weights[f"agents.1.gat1.{name}"] for name in plain.state_dict()})
    other = FusedPolicies(shape, 3, seed=2)
    assert (other(asked(2), group(3)) != policies(asked(2), group(3))).any()
    other.load_weights(load(save(weights)))
    assert (other(asked(2), group(3)) == policies(asked(2), group(3))).all()
    # What was handed out are copies.
    weights["agents.0.linear.bias"].zero_()
    assert policies.weights()["agents.0.linear.bias"].abs().max() > 0


def test_new_weights_come_from_the_seed_alone() -> None:
    torch.manual_seed(0)
    one = FusedPolicies(config(), 3, seed=7).weights()
    after = torch.rand(1)
    torch.manual_seed(0)
    assert torch.rand(1) == after  # the global generator is left alone
    other = FusedPolicies(config(), 3, seed=7).weights()
    assert all((part == other[name]).all() for name, part in one.items())
    assert (one["agents.0.linear.weight"] != one["agents.1.linear.weight"]).any()


def test_weights_that_do_not_fit_are_refused_and_nothing_changes() -> None:
    policies = FusedPolicies(config(), 2, seed=1)
    weights = policies.weights()
    name = "agents.1.gat2.att_dst"
    short = {key: part for key, part in weights.items() if key != name}
    for bad in (
        short,
        weights | {"agents.2.linear.bias": torch.zeros(5)},
        weights | {name: torch.zeros(1, 3, 7)},
        weights | {name: torch.full((1, 3, 6), torch.nan)},
    ):
        with pytest.raises(UserError, match=r"agents\.[12]\."):
            policies.load_weights(bad)
    assert all((part == weights[key]).all() for key, part in policies.weights().items())
    with pytest.raises(ValueError, match="2 agents"):
        policies(asked(1), group(3))


@pytest.mark.parametrize(
    "bad",
    [
        {"strategies": 0},
        {"hidden": 0},
        {"heads": -1},
        {"inputs": 0},
        {"dropout": 1.0},
        {"features": "mood"},
    ],
)
def test_configs_that_make_no_sense_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(UserError):
        config(**bad)
