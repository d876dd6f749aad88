"""One training step of 16 policies: fused beside a loop of GATConv networks over agents and
questions.

`python benchmarks/policy.py` prints the ratio of the two and how far their logits are apart, all in
one run on one thread with the same weights, data and losses; `--fast` takes fewer steps.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from folkmoot.modules.network.config import PolicyConfig
from folkmoot.modules.network.fused import FusedPolicies
from folkmoot.modules.network.graph import Limits, small_world
from folkmoot.modules.network.policy import AgentGraph, AgentPolicy

AGENTS, BATCH = 16, 8
TARGET = 10.0


def group(seed: int) -> AgentGraph:
    rng = np.random.default_rng(seed)
    trust = rng.uniform(0.1, 0.95, (AGENTS, AGENTS))
    edges = small_world(AGENTS, 4, 0.2, Limits(), seed)
    return AgentGraph.of(edges, (trust + trust.T) / 2, rng.random(AGENTS))


def agent_of(fused: FusedPolicies, i: int) -> AgentPolicy:
    """Agent i's policy as PyTorch Geometric's own layers, with the same weights."""
    agent, own = AgentPolicy(fused.config), f"agents.{i}."
    agent.load_state_dict(
        {
            name.removeprefix(own): part
            for name, part in fused.weights().items()
            if name.startswith(own)
        }
    )
    return agent


def loss_of(logits: Tensor, actions: Tensor, advantages: Tensor) -> Tensor:
    """REINFORCE: the chosen strategies' log-probabilities, weighted by what they earned."""
    chosen = logits.log_softmax(dim=-1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    return -(chosen * advantages).sum()


def seconds(step: Callable[[], None], steps: int) -> float:
    """The median time of a step, after one that does not count."""
    step()
    times = []
    for _ in range(steps):
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def main(fast: bool) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    config = PolicyConfig(strategies=7)
    fused = FusedPolicies(config, AGENTS, seed=0)
    agents = [agent_of(fused, i) for i in range(AGENTS)]
    state = group(0)
    questions = torch.nn.functional.normalize(torch.randn(BATCH, config.inputs), dim=1)
    actions = torch.randint(config.strategies, (BATCH, AGENTS))
    advantages = torch.where(torch.rand(BATCH, AGENTS) < 0.5, 1.0, -0.5)
    index = state.adjacency.nonzero().T
    trust = state.trust[index[0], index[1]].unsqueeze(1)
    together = torch.optim.Adam(fused.parameters(), lr=1e-3, fused=True)
    apart = [torch.optim.Adam(agent.parameters(), lr=1e-3) for agent in agents]

    def alone(i: int) -> Tensor:
        nodes = (torch.cat([one.expand(AGENTS, -1), state.standing], dim=1) for one in questions)
        return torch.stack([agents[i](each, index, trust)[i] for each in nodes])

    def fused_step() -> None:
        together.zero_grad()
        loss_of(fused(questions, state), actions, advantages).backward()
        together.step()

    def loop_step() -> None:
        for i, adam in enumerate(apart):
            adam.zero_grad()
            loss_of(alone(i), actions[:, i], advantages[:, i]).backward()
            adam.step()

    with torch.no_grad():
        gap = (
            (fused(questions, state) - torch.stack([alone(i) for i in range(AGENTS)], dim=1))
            .abs()
            .max()
        )
    slow = seconds(loop_step, 3 if fast else 20)
    quick = seconds(fused_step, 20 if fast else 100)
    print(
        f"{AGENTS} agents, batch {BATCH}, {config.inputs} -> {config.hidden} x {config.heads} heads"
    )
    print(f"loop of GATConv networks   {1000 * slow:8.1f} ms a step")
    print(f"fused policies             {1000 * quick:8.1f} ms a step")
    print(f"ratio                      {slow / quick:8.1f}   target >= {TARGET:.0f}")
    print(f"largest logit difference   {float(gap):8.1e}   target <= 1e-06")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true")
    main(parser.parse_args().fast)
