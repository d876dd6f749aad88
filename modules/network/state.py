"""All that a strategy network has learned: what it chooses, how it votes, and its files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from ..base.errors import UserError
from ..reading.voting import Consensus, trust_consensus, weighted_consensus
from .choice import draw, softmax
from .config import NetworkConfig
from .fused import FusedPolicies
from .graph import Adjacency, small_world
from .policy import Group
from .tracker import NEUTRAL, StrategyTracker
from .trust import Trust, initial_trust
from .vote import VoteWeights
from .weights import Numbers

Vectors = npt.NDArray[np.floating]
Strategies = Sequence[int | None]
"""The number of each agent's strategy; None for an agent that is not asked."""


@dataclass
class NetworkState:
    """N agents with S strategies, for question embeddings of width D. Training changes it, inference never.

    `policies`; `adjacency` (N, N); `trust` (N, N) and its mean over time, `average`; `tracker`; `recent`
    accuracy of each agent (N,); `centre` (D,), the mean embedding of the training questions, which policies
    see taken off; `vote`, the learned vote weights, None before; `questions`, how often one was answered in
    training.
    """

    config: NetworkConfig
    policies: FusedPolicies
    adjacency: Adjacency
    trust: Trust
    average: Trust
    tracker: StrategyTracker
    recent: Numbers
    centre: npt.NDArray[np.float32]
    vote: VoteWeights | None = None
    questions: int = 0

    @classmethod
    def fresh(cls, config: NetworkConfig, width: int) -> NetworkState:
        """An untrained network for embeddings of this width; the same config gives the same network."""
        n, limits = config.agents, config.limits
        return cls(
            config=config,
            policies=FusedPolicies(config.policy(width), n, config.seed).eval(),
            adjacency=small_world(n, config.k, config.p, limits, config.seed),
            trust=initial_trust(n),
            average=initial_trust(n),
            tracker=StrategyTracker(len(config.strategies), width, config.tracker),
            recent=np.full(n, NEUTRAL),
            centre=np.zeros(width, dtype=np.float32),
        )

    @property
    def width(self) -> int:
        return len(self.centre)

    @property
    def voting_trust(self) -> Trust:
        """The trust (N, N) that weighs votes: its mean over time with that rule, else as it is now."""
        return self.average if self.config.trust_rule == "averaged" else self.trust

    def group(self) -> Group:
        """What policies see of the agents now."""
        return Group.of(self.adjacency, self.voting_trust, self.recent)

    def inputs(self, vectors: Vectors) -> torch.Tensor:
        """What policies see of questions with embeddings (B, D)."""
        return torch.from_numpy(self.checked(vectors) - self.centre)

    def logits(self, vectors: Vectors) -> npt.NDArray[np.float32]:
        """The policies' logits (B, N, S) for questions with embeddings (B, D)."""
        with torch.no_grad():
            found: npt.NDArray[np.float32] = self.policies(self.inputs(vectors), self.group()).numpy()
        return found

    def bias(self, vectors: Vectors) -> Numbers:
        """What the tracker adds to the logits, gamma S[s, q], (B, 1, S), the same for all agents."""
        if not self.config.gamma:
            return np.zeros((len(vectors), 1, len(self.config.strategies)))
        return self.config.gamma * np.stack([self.tracker.scores(one)[None] for one in self.checked(vectors)])

    def probabilities(self, vectors: Vectors) -> Numbers:
        """softmax(logits + gamma S[s, q]) over strategies, (B, N, S) (MARL-GAT, equation 2)."""
        return softmax(self.logits(vectors) + self.bias(vectors))

    def choose(self, vector: Vectors, key: str) -> list[int | None]:
        """The strategy of each agent for one question with embedding (D,); None for one not asked.

        Draws depend on the config's seed and `key`, which names the question, alone.
        """
        return self.pick((self.logits(vector[None]) + self.bias(vector[None]))[0], vector, key)

    def pick(self, scores: Vectors, vector: Vectors, key: str) -> list[int | None]:
        """`choose` for scores (N, S), logits and bias together, that are known already."""
        rng = random_for(self.config.seed, key) if self.config.choice == "sample" else None
        chosen: list[int | None] = draw(scores, rng=rng, distinct=self.config.distinct).strategies.tolist()
        if self.config.top is None or self.config.top >= self.config.agents:
            return chosen
        weights = self.weights(vector, chosen)
        asked = np.argsort(-weights, kind="stable")[: self.config.top]
        return [s if i in asked else None for i, s in enumerate(chosen)]

    def weights(self, vector: Vectors, strategies: Strategies) -> Numbers:
        """The vote weights (N,) of agents that took these strategies; 0 for one not asked.

        Mean trust in connected agents (MARL-GAT, equation 3), or those learned; all 1 as long as none are.
        """
        n = self.config.agents
        if len(strategies) != n:
            raise ValueError(f"{n} agents have {n} strategies, not {len(strategies)}")
        asked = np.array([s is not None for s in strategies])
        if self.config.weight == "mean_trust":
            weights = trust_consensus([None] * n, self.voting_trust, self.adjacency).weights
        elif self.vote is None:
            weights = np.ones(n)
        else:
            weights = self.vote.at(self.checked(vector[None])[0])[np.arange(n), [s or 0 for s in strategies]]
        return np.where(asked, weights, 0.0)

    def decide(self, answers: Sequence[str | None], vector: Vectors, strategies: Strategies) -> Consensus:
        """The group's answer to one question; None abstains. Equal answers are equal texts."""
        return weighted_consensus(answers, self.weights(vector, strategies))

    @property
    def identity(self) -> str:
        """A name for all that was learned: equal for equal networks."""
        from . import files

        parts = sorted(files.tensors_of(self).items())
        return hashlib.sha256(b"".join(n.encode() + t.numpy().tobytes() for n, t in parts)).hexdigest()[:16]

    def save(self, folder: str | Path) -> None:
        """Write `network.json` and `tensors.safetensors` into a folder, which is made if it is not there."""
        from . import files

        files.save(self, folder)

    @classmethod
    def load(cls, folder: str | Path) -> NetworkState:
        """The network that a folder holds, exactly as saved. Raises UserError for files that do not fit."""
        from . import files

        return files.load(folder)

    def checked(self, vectors: Vectors) -> npt.NDArray[np.float32]:
        """The embeddings (B, D). Raises UserError unless they are of this network's width and not zero."""
        found = np.asarray(vectors)
        if found.ndim != 2 or found.shape[1] != self.width:
            raise UserError(
                f"question embeddings of shape {found.shape} do not fit a network of width {self.width}: "
                f"embed questions with {self.config.embedding!r}, as in training."
            )
        found = found.astype(np.float32)
        if not np.isfinite(found).all() or not found.any(axis=1).all():
            raise UserError("a question embedding is zero or not finite: check the embedding model.")
        return found


def random_for(seed: int, key: str) -> np.random.Generator:
    """A generator for one question, whatever was drawn for others."""
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return np.random.default_rng([seed, *np.frombuffer(digest, dtype=np.uint32).tolist()])
