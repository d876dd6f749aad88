"""One training of a strategy network, batch by batch: choose, ask, vote, reward, trust, learn,
evolve.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TypedDict

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...modules.base.errors import UserError
from ...modules.network.choice import draw
from ...modules.network.graph import evolve
from ...modules.network.policy import AgentGraph, all_finite, clip_gradients
from ...modules.network.rewards import consensus_addition, difference, individual
from ...modules.network.state import NetworkState
from ...modules.network.trust import (
    averaged_trust,
    trust_consensus,
    update_directional,
    update_trust,
)
from ...modules.network.weights import Numbers
from .known_answers import KnownAnswers
from .settings import TrainingSettings

# streams of random numbers by purpose; 4 is for folds
_ORDER, _DRAW, _DROPOUT, _BUFFER = 1, 2, 3, 5


class TrainingStep(TypedDict):
    """A batch: its epoch from 1 on, the questions answered so far, and means over its answers.

    `reward`; the shares of right answers, `individual` and `consensus`; `entropy` of the choices in
    nats; `trust` between connected agents; the edges added to or removed from the graph so far; the
    `loss`; the share of each strategy among the choices.
    """

    epoch: int
    questions: int
    reward: float
    individual: float
    consensus: float
    entropy: float
    trust: float
    edges_changed: int
    loss: float
    strategies: dict[str, float]


class GraphMoment(TypedDict):
    """Trust and graph after so many questions."""

    questions: int
    trust: list[list[float]]
    adjacency: list[list[int]]


@dataclass
class TrainingLog:
    """The log of a training.

    `epochs`: their total number. `steps`: one per batch. `graphs`: trust and graph at the start,
    after each evolution and at the end. `selection`: expected accuracy on held-out questions after
    each epoch, if the number of epochs was chosen by it.
    """

    epochs: int
    steps: list[TrainingStep] = field(default_factory=list)
    graphs: list[GraphMoment] = field(default_factory=list)
    selection: list[float] = field(default_factory=list)

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


class PolicyTraining:
    """A training in progress on some of the questions; the state changes with each step.

    `vectors` (Q, D) and `known` are those of all questions, `chosen` the numbers of those to learn
    from. All random numbers follow from the state's seed and the step's number, so a training that
    resumes from step k gives the same network as one that never stopped.
    """

    def __init__(
        self,
        state: NetworkState,
        vectors: npt.NDArray[np.float32],
        answers: KnownAnswers,
        chosen: npt.NDArray[np.intp],
        settings: TrainingSettings,
    ) -> None:
        self.state, self.vectors, self.answers = state, vectors, answers
        self.chosen, self.settings = chosen, settings
        self.optimizer = torch.optim.Adam(state.policies.parameters(), lr=settings.lr, fused=True)
        self.done = 0
        # of each agent, over all questions so far
        self.total_reward: Numbers = np.zeros(state.config.agents)
        self.answered = 0
        self.log = TrainingLog(epochs=0)
        self.edges_changed = 0
        # the last episodes, one row each: observation, action and reward
        self.buffer: dict[str, Tensor] = {}
        if state.questions == 0 and state.config.centred:
            state.centre = vectors[chosen].mean(axis=0)
        self._snapshot()

    @property
    def batches(self) -> int:
        """The number of steps per epoch."""
        return -(-len(self.chosen) // self.settings.batch)

    def step(self) -> TrainingStep:
        """Answer and learn from one batch; returns its line of the log. Raises UserError as `close`
        does.
        """
        epoch, place = divmod(self.done, self.batches)
        order = self._random(_ORDER, epoch).permutation(self.chosen)
        batch = order[place * self.settings.batch : (place + 1) * self.settings.batch]
        group = self.state.group()
        # Taken before the batch is played, which changes tracker and trust.
        bias = torch.from_numpy(self.state.bias(self.vectors[batch])).float()
        scores = self._scores(batch, group, bias)
        self._check_bounds(scores)
        rng = self._random(_DRAW, self.done)
        distinct = self.state.config.distinct
        drawn = [draw(own, rng=rng, distinct=distinct) for own in scores.detach().numpy()]
        strategies, unclaimed = map(np.stack, zip(*drawn, strict=True))
        self.answers.ask(
            (int(batch[row]), agent, int(strategies[row, agent]))
            for row, agent in np.ndindex(*strategies.shape)
        )
        played = map(self._play, batch.tolist(), strategies)
        correct, consensus, rewards, signals = zip(*played, strict=True)
        signal = np.stack(signals)
        episodes = {
            "question": torch.from_numpy(batch),
            "bias": bias,
            "strategies": torch.from_numpy(strategies),
            "open": torch.from_numpy(unclaimed),
            "signal": torch.from_numpy(signal),
        }
        # The batch met one group; what is remembered of earlier batches met others.
        for name, part in group._asdict().items():
            episodes[name] = part.expand(len(batch), *part.shape)
        learned = self._remembered(episodes)
        if learned is not episodes:
            # Today's policies score what was remembered, in the group as it was then.
            then = AgentGraph(*(learned[name] for name in AgentGraph._fields))
            scores = self._scores(learned["question"].numpy(), then, learned["bias"])
        loss = self._learn(scores, learned)
        # A baseline is for rewards of single choices: full information has none.
        if not self.settings.full_information:
            self.total_reward = self.total_reward + signal.sum(axis=0)
            self.answered += len(signal)
        self.done += 1
        chances = scores.detach().double().log_softmax(-1)
        connected = self.state.voting_trust[self.state.adjacency]
        names = self.state.config.strategies
        chosen = episodes["strategies"]
        shares = torch.bincount(chosen.flatten(), minlength=len(names)) / chosen.numel()
        entry: TrainingStep = {
            "epoch": epoch + 1,
            "questions": self.state.questions,
            "reward": float(np.mean(rewards)),
            "individual": float(np.mean(correct)),
            "consensus": float(np.mean(consensus)),
            "entropy": float(-(chances.exp() * chances).sum(-1).mean()),
            "trust": float(connected.mean()) if connected.size else 0.0,
            "edges_changed": self.edges_changed,
            "loss": loss,
            "strategies": {
                name: float(share) for name, share in zip(names, shares, strict=True) if name
            },
        }
        self.log.steps.append(entry)
        return entry

    def close(self) -> None:
        """Record the group's state at the end. Raises UserError for policies that have diverged."""
        self._check_bounds(*self.state.policies.parameters())
        if self.log.graphs[-1]["questions"] != self.state.questions:
            self._snapshot()

    def _check_bounds(self, *numbers: Tensor) -> None:
        if not all_finite(numbers):
            raise UserError(
                f"the policies diverged within {self.done} batches: "
                f"train again, in another folder, with an lr below {self.settings.lr:g}"
            )

    def _scores(self, batch: npt.NDArray[np.intp], group: AgentGraph, bias: Tensor) -> Tensor:
        """Return the scores (B, N, S) from which strategies are drawn, with gradients."""
        state, vectors = self.state, self.vectors[batch]
        shape = (len(batch), state.config.agents, len(state.config.strategies))
        # Nothing to choose, or a policy that is fitted afterwards: every strategy is as likely.
        if shape[2] == 1 or state.config.policy != "gat":
            return torch.zeros(shape)
        state.policies.train()
        with torch.random.fork_rng(devices=[], enabled=state.config.dropout > 0):
            if state.config.dropout:
                torch.manual_seed(int(self._random(_DROPOUT, self.done).integers(2**63)))
            logits: Tensor = state.policies(state.inputs(vectors), group)
        state.policies.eval()
        return logits + bias

    def _play(
        self, q: int, strategies: npt.NDArray[np.intp]
    ) -> tuple[npt.NDArray[np.bool_], bool, Numbers, Numbers]:
        """Vote on one question, and update tracker, trust and graph with the right agents. Returns
        which agents were right (N,), whether the group was, the rewards (N,), and the learning
        signal: (N,) or, with full information, (N, S).
        """
        state, config = self.state, self.state.config
        correct = self.answers.correct[q, np.arange(config.agents), strategies]
        consensus = self._consensus_right(q, strategies)
        signal = self._signal(q, strategies, consensus)
        reward = individual(correct) if self.settings.learning == "supervised" else signal
        if self.settings.full_information:
            signal = self._every_signal(q, strategies)
        for s, right in zip(strategies.tolist(), correct.tolist(), strict=True):
            state.tracker.update(self.vectors[q], s, right)
        update = update_directional if config.trust_rule == "directional" else update_trust
        state.trust = update(state.trust, correct, config)
        state.average = averaged_trust(state.average, state.trust, state.questions)
        state.recent = state.recent + config.recent * (correct - state.recent)
        state.questions += 1
        if state.questions % config.evolve_every == 0:
            before = state.adjacency
            state.adjacency = evolve(before, state.voting_trust, config)
            self.edges_changed += int((state.adjacency != before).sum()) // 2
            self._snapshot()
        return correct, consensus, reward, signal

    def _consensus_right(self, q: int, strategies: npt.NDArray[np.intp]) -> bool:
        codes = self.answers.codes[q, np.arange(len(strategies)), strategies]
        answers = [None if code < 0 else str(code) for code in codes]
        winner = trust_consensus(answers, self.state.voting_trust, self.state.adjacency).answer
        if winner is None:
            return False
        i = answers.index(winner)
        return bool(self.answers.correct[q, i, strategies[i]])

    def _signal(self, q: int, strategies: npt.NDArray[np.intp], consensus: bool) -> Numbers:
        """Return the learning signal of each agent's answer, (N,): its reward, or whether the group
        was right.
        """
        agents = np.arange(self.state.config.agents)
        codes = self.answers.codes[q, agents, strategies]
        correct = self.answers.correct[q, agents, strategies]
        if self.settings.learning == "supervised":
            return np.full(len(agents), 1.0 if consensus else -1.0)
        if self.settings.reward == "difference":
            trust, edges = self.state.voting_trust, self.state.adjacency
            weights = trust_consensus([None] * len(agents), trust, edges).weights
            return difference(codes, correct, weights)
        reward = individual(correct)
        if self.settings.reward == "consensus_aware":
            reward = reward + consensus_addition(codes, correct, consensus, self.settings)
        return reward

    def _every_signal(self, q: int, strategies: npt.NDArray[np.intp]) -> Numbers:
        """Return the learning signal of every strategy of each agent, (N, S), with the other
        agents' choices unchanged.
        """
        # Nobody else's answer counts in this reward, so no vote has to be repeated.
        if self.settings.learning == "reinforce" and self.settings.reward == "base":
            return individual(self.answers.correct[q])
        signals = np.zeros(self.answers.codes.shape[1:])
        for i, s in np.ndindex(*signals.shape):
            other = strategies.copy()
            other[i] = s
            signals[i, s] = self._signal(q, other, self._consensus_right(q, other))[i]
        return signals

    def _remembered(self, episodes: dict[str, Tensor]) -> dict[str, Tensor]:
        """Add these episodes to the buffer, and choose those to learn from: a batch of the last
        ones, or these.
        """
        size, batch = self.settings.buffer, self.settings.batch
        if size is None or size <= batch:
            return episodes
        old = self.buffer or {name: part[:0] for name, part in episodes.items()}
        self.buffer = {
            name: torch.cat([old[name], part])[-size:] for name, part in episodes.items()
        }
        kept = len(self.buffer["question"])
        drawn = self._random(_BUFFER, self.done).permutation(kept)[:batch]
        return {name: part[torch.from_numpy(drawn)] for name, part in self.buffer.items()}

    def _learn(self, scores: Tensor, episodes: dict[str, Tensor]) -> float:
        """Update all policies once; returns the loss."""
        signal = episodes["signal"].numpy()
        if self.settings.full_information:
            loss = -(scores.softmax(-1) * torch.from_numpy(signal).float()).sum()
        else:
            baseline = np.zeros(signal.shape[1])
            if self.settings.baseline == "mean" and self.answered:
                baseline = self.total_reward / self.answered
            gain = torch.from_numpy(signal - baseline).float()
            # As they were drawn: strategies that others had taken were not open.
            chances = scores.masked_fill(~episodes["open"], -torch.inf).log_softmax(-1)
            drawn = chances.gather(-1, episodes["strategies"].unsqueeze(-1)).squeeze(-1)
            loss = -(drawn * gain).sum()
        # Without gradients there is nothing to learn: one strategy, or a policy that is fitted
        # later.
        if scores.requires_grad:
            if self.settings.entropy:
                chances = scores.log_softmax(-1)
                loss = loss + self.settings.entropy * (chances.exp() * chances).sum()
            self.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            if self.settings.clip is not None:
                clip_gradients(self.state.policies, self.settings.clip)
            self.optimizer.step()
        return float(loss.detach())

    def _random(self, purpose: int, number: int) -> np.random.Generator:
        return np.random.default_rng([self.state.config.seed, purpose, number])

    def _snapshot(self) -> None:
        self.log.graphs.append(
            {
                "questions": self.state.questions,
                "trust": self.state.voting_trust.tolist(),
                "adjacency": self.state.adjacency.astype(int).tolist(),
            }
        )
