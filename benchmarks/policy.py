"""One training step of 16 policies: one layer for all agents beside a loop of GATConv networks.

`python benchmarks/policy.py` prints the ratio of the two for graphs of degree 2 and 4 and the
complete one, and how far their logits are apart, all in one run on one thread with the same
weights, data and losses; `--fast` takes fewer steps.

`python benchmarks/policy.py FOLDER` prints instead what the graph adds on recorded answers: the
folder's `faithful_cot.wide.jsonl`, of 200 training and up to 1,000 test questions for each seed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GATConv  # type: ignore[import-untyped]

import folkmoot as fm
from folkmoot.modules.network.config import PolicyConfig
from folkmoot.modules.network.graph import Limits, small_world
from folkmoot.modules.network.policy import AgentGraph, Policies

AGENTS, BATCH = 16, 8
TARGET = 5.0
CASES = {
    "one LM, five data sets": (["text003"], ["GSM8K", "AQUA", "date", "sports", "CLUTRR"]),
    "four LMs, GSM8K alone": (["code001", "code002", "text002", "text003"], ["GSM8K"]),
}
SCORES = (
    *("best_fixed", "best_per_group", "knn", "regression", "individual"),
    *("majority", "consensus", "vote_plain", "vote_conditional", "oracle"),
)
Row = dict[str, Any]


class Alone(nn.Module):
    """Agent i's policy as PyTorch Geometric's own layers, with the same weights."""

    def __init__(self, policies: Policies, i: int) -> None:
        super().__init__()
        shape = policies.config
        self.gat1 = GATConv(shape.width, shape.hidden, shape.heads, edge_dim=1)
        wide = shape.hidden * shape.heads
        self.gat2 = GATConv(wide, shape.hidden, shape.heads, concat=False, edge_dim=1)
        self.linear = nn.Linear(shape.hidden, shape.strategies)
        self.load_state_dict(policies.agent(i))

    def forward(self, nodes: Tensor, index: Tensor, trust: Tensor) -> Tensor:
        hidden = functional.elu(self.gat1(nodes, index, trust))
        return self.linear(functional.elu(self.gat2(hidden, index, trust)))


def group(k: int, seed: int) -> AgentGraph:
    rng = np.random.default_rng(seed)
    trust = rng.uniform(0.1, 0.95, (AGENTS, AGENTS))
    edges = small_world(AGENTS, k, 0.2, Limits(max_degree=AGENTS), seed)
    return AgentGraph.of(edges, (trust + trust.T) / 2, rng.random(AGENTS))


def loss_of(logits: Tensor, actions: Tensor, advantages: Tensor) -> Tensor:
    """REINFORCE: the chosen strategies' log-probabilities, weighted by what they earned."""
    chosen = logits.log_softmax(dim=-1).gather(-1, actions.unsqueeze(-1)).squeeze(-1)
    return -(chosen * advantages).sum()


def seconds(step: Callable[[], None], steps: int) -> float:
    """The median time of a step, after a few that do not count."""
    for _ in range(5):
        step()
    times = []
    for _ in range(steps):
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def measure(k: int, fast: bool) -> None:
    torch.manual_seed(0)
    config = PolicyConfig(strategies=7)
    policies = Policies(config, AGENTS, seed=0)
    agents = [Alone(policies, i) for i in range(AGENTS)]
    state = group(k, 0)
    questions = functional.normalize(torch.randn(BATCH, config.inputs), dim=1)
    actions = torch.randint(config.strategies, (BATCH, AGENTS))
    advantages = torch.where(torch.rand(BATCH, AGENTS) < 0.5, 1.0, -0.5)
    index = state.adjacency.nonzero().T
    trust = state.trust[index[0], index[1]].unsqueeze(1)
    together = torch.optim.Adam(policies.parameters(), lr=1e-3, fused=True)
    apart = [torch.optim.Adam(agent.parameters(), lr=1e-3) for agent in agents]

    def alone(i: int) -> Tensor:
        nodes = (torch.cat([one.expand(AGENTS, -1), state.standing], dim=1) for one in questions)
        return torch.stack([agents[i](each, index, trust)[i] for each in nodes])

    def one_step() -> None:
        together.zero_grad()
        loss_of(policies(questions, state), actions, advantages).backward()
        together.step()

    def loop_step() -> None:
        for i, adam in enumerate(apart):
            adam.zero_grad()
            loss_of(alone(i), actions[:, i], advantages[:, i]).backward()
            adam.step()

    with torch.no_grad():
        loop = torch.stack([alone(i) for i in range(AGENTS)], dim=1)
        gap = float((policies(questions, state) - loop).abs().max())
    slow = seconds(loop_step, 3 if fast else 20)
    quick = seconds(one_step, 20 if fast else 100)
    print(
        f"k = {k:2d}: loop {1000 * slow:7.1f} ms, one layer {1000 * quick:6.1f} ms per step, "
        f"ratio {slow / quick:5.1f}; largest logit difference {gap:.1e}"
    )


def recorded(folder: Path, lms: list[str], sets: list[str], seed: int) -> list[list[Row]]:
    """Outcome rows of training and test questions, as many of each data set."""
    rng = np.random.default_rng(seed)
    rows: list[list[Row]] = [[], []]
    with open(folder / "faithful_cot.wide.jsonl", encoding="utf-8") as lines:
        agents = json.loads(next(lines))["agents"]
        asked = [json.loads(line) for line in lines]
    learn, test = 200 // len(sets), 1000 // len(sets)
    for name in sets:
        of_set = [question for question in asked if question["dataset"] == name]
        for place, number in enumerate(rng.permutation(len(of_set))[: learn + test]):
            question = of_set[number]
            for agent, answer, flag in zip(
                agents[name], question["answers"], question["correct"], strict=True
            ):
                lm, way = agent.split("|")
                if lm in lms:
                    row = {
                        "question_id": f"{name}/{question['question_id']}",
                        "question": question["question"],
                        "group": name,
                        "agent": lm,
                        "strategy": way,
                        "answer": answer,
                        "correct": flag == "1",
                    }
                    rows[place >= learn].append(row)
    return rows


def rivals(folder: Path, seeds: int) -> None:
    for case, (lms, sets) in CASES.items():
        found = []
        for seed in range(seeds):
            train, test = recorded(folder, lms, sets, seed)
            how: Any = {"embedding": "all-MiniLM-L6-v2", "preset": "beyond", "seed": seed}
            network = fm.train(train, test=test, tracking=False, progress=False, **how)
            found.append(network.training.scores)
            print(*network.training.scores["verdict"][-2:], sep="\n", flush=True)
        print(f"{case}, {seeds} seeds:")
        for name in SCORES:
            values = [100 * scores[name]["value"] for scores in found]
            each = " ".join(f"{value:.1f}" for value in values)
            calls = found[0][name]["calls"]
            print(f"  {name:18}{statistics.mean(values):6.1f}  {calls:4.1f} calls  ({each})")


def main(fast: bool) -> None:
    torch.set_num_threads(1)
    print(f"{AGENTS} agents, batch {BATCH}, 768 -> 64 x 4 heads; target: ratio >= {TARGET:.0f} at")
    print("k = 2, logits equal to 1e-5")
    for k in (2, 4, AGENTS - 1):
        measure(k, fast)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--seeds", type=int, default=4)
    given = parser.parse_args()
    if given.folder is not None:
        rivals(given.folder, given.seeds)
    else:
        main(given.fast)
