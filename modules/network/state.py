"""The state of a strategy network: its choices, its votes, and how they are saved."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from dspy.predict.parameter import Parameter

from ..base.errors import UserError, from_extra, system_errors
from ..base.files import write_whole
from ..protocols.saved import read_plain
from .choice import draw, random_for, softmax
from .config import NetworkConfig
from .graph import Adjacency, small_world
from .tracker import NEUTRAL, StrategyTracker
from .trust import Trust, initial_trust, trust_consensus
from .weights import Numbers, VoteWeights

# Whatever uses PyTorch imports this module first, so the sentence about its extra stands here
# alone.
with from_extra("network", "a strategy network"):
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load as read_tensors
    from safetensors.torch import save as write_tensors

    from .policy import AgentGraph, Policies
    from .rivals import Rival, policies_of

SETTINGS, TENSORS = "network.json", "tensors.safetensors"
MOST_BYTES, MOST_SETTINGS = 2**30, 2**20
POLICIES = "policies."
"""What the names of the policies' tensors begin with."""

Array = npt.NDArray[Any]
Vectors = npt.NDArray[np.floating]
Strategies = Sequence[int | None]
"""The number of each agent's strategy; None for an agent that is not asked."""


@dataclass(eq=False)
class NetworkState(Parameter):  # type: ignore[misc]
    """N agents with S strategies, for question embeddings of width D. Training changes it,
    inference never.

    It is one DSPy parameter: whatever module it stands in, DSPy's `save`, `load`, `dump_state` and
    `deepcopy` take it along, as they do prompts and demonstrations.

    `policies`; `adjacency` (N, N); `trust` (N, N) and its mean over time, `average`; `tracker`;
    `recent` accuracy of each agent (N,); `centre` (D,), the mean embedding of the training
    questions, which is subtracted from every embedding that policies see; `vote`, the learned vote
    weights, None before; `questions`, how often one was answered in training.
    """

    config: NetworkConfig
    policies: Policies | Rival
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
        """Return an untrained network for embeddings of this width; the same config gives the same
        network.
        """
        n = config.agents
        return cls(
            config=config,
            policies=policies_of(config, width).eval(),
            adjacency=small_world(n, config.k, config.p, config, config.seed),
            trust=initial_trust(n),
            average=initial_trust(n),
            tracker=StrategyTracker.empty(len(config.strategies), width, config),
            recent=np.full(n, NEUTRAL),
            centre=np.zeros(width, dtype=np.float32),
        )

    @property
    def width(self) -> int:
        return len(self.centre)

    @property
    def shape(self) -> str:
        """The shape in words; networks with the same shape can load each other's state."""
        names = ", ".join(self.config.strategies)
        return (
            f"{self.config.agents} agents, the strategies {names} and embeddings {self.width} wide"
        )

    @property
    def voting_trust(self) -> Trust:
        """The trust (N, N) that weighs votes: its mean over time with that rule, else as it
        is now.
        """
        if self.config.trust_rule == "averaged":
            return self.average
        return self.trust

    def group(self) -> AgentGraph:
        """Return the agents' current state as input of the policies."""
        return AgentGraph.of(self.adjacency, self.voting_trust, self.recent)

    def inputs(self, vectors: Vectors) -> torch.Tensor:
        """Return embeddings (B, D) of questions as input of the policies."""
        return torch.from_numpy(self.checked(vectors) - self.centre)

    def logits(self, vectors: Vectors) -> npt.NDArray[np.float32]:
        """Return the policies' logits (B, N, S) for questions with embeddings (B, D)."""
        with torch.no_grad():
            logits: npt.NDArray[np.float32] = self.policies(
                self.inputs(vectors), self.group()
            ).numpy()
        return logits

    def bias(self, vectors: Vectors) -> Numbers:
        """Return what the tracker adds to the logits, gamma S[s, q], (B, 1, S), the same for all
        agents; nothing to those of kNN and regression.
        """
        if not self.config.gamma or self.config.policy != "gat":
            return np.zeros((len(vectors), 1, len(self.config.strategies)))
        return self.config.gamma * np.stack(
            [self.tracker.scores(vector)[None] for vector in self.checked(vectors)]
        )

    def scores(self, vectors: Vectors) -> Numbers:
        """Return the scores from which strategies are chosen: logits + gamma S[s, q], (B, N, S)."""
        return self.logits(vectors) + self.bias(vectors)

    def probabilities(self, vectors: Vectors) -> Numbers:
        """softmax(logits + gamma S[s, q]) over strategies, (B, N, S) (MARL-GAT, equation 2)."""
        return softmax(self.scores(vectors))

    def pick(self, scores: Vectors, vector: Vectors, key: str) -> list[int | None]:
        """Return the strategy of each agent for one question; None for one not asked.

        `scores` (N, S) and `vector` (D,) are the question's. Draws depend on the config's seed and
        on `key`, which names the question, alone.
        """
        rng = random_for(self.config.seed, key) if self.config.sampled else None
        drawn = draw(scores, rng=rng, distinct=self.config.distinct)
        chosen: list[int | None] = drawn.strategies.tolist()
        if self.config.top is None or self.config.top >= self.config.agents:
            return chosen
        # The heaviest with what they have just chosen: weights may depend on the strategy.
        weights = self.weights(vector, chosen)
        asked = np.argsort(-weights, kind="stable")[: self.config.top]
        return [s if i in asked else None for i, s in enumerate(chosen)]

    def weights(self, vector: Vectors, strategies: Strategies) -> Numbers:
        """Return the vote weights (N,) of agents that took these strategies; 0 for one not asked.

        Mean trust in connected agents (MARL-GAT, equation 3), or those learned; all 1 as long as
        none are.
        """
        n = self.config.agents
        asked = np.array([s is not None for s in strategies])
        if self.config.weight == "mean_trust":
            weights = trust_consensus([None] * n, self.voting_trust, self.adjacency).weights
        elif self.vote is None:
            weights = np.ones(n)
        else:
            by_strategy = self.vote.at(self.checked(vector[None])[0])
            # Any place will do for an agent that is not asked: its weight is taken away below.
            weights = by_strategy[np.arange(n), [s or 0 for s in strategies]]
        return np.where(asked, weights, 0.0)

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return every number by name; those of policies have agents first and GATConv's own names,
        such as `policies.gat1.att_src`.
        """
        arrays: dict[str, Array] = {
            "adjacency": self.adjacency,
            "trust": self.trust,
            "average": self.average,
            "recent": self.recent,
            "centre": self.centre,
            "tracker.questions": self.tracker.questions,
            "tracker.scores": self.tracker.means,
            "tracker.tried": self.tracker.tried,
        }
        if self.vote is not None:
            for name, part in vars(self.vote).items():
                if part is not None:
                    arrays[f"vote.{name}"] = part
        tensors = dict[str, torch.Tensor]()
        for name, tensor in self.policies.state_dict().items():
            tensors[f"{POLICIES}{name}"] = tensor.clone()
        for name, array in arrays.items():
            tensors[name] = torch.from_numpy(np.ascontiguousarray(array))
        return tensors

    @property
    def identity(self) -> str:
        """A hash of the learned state: equal for equal networks."""
        parts = sorted(self.tensors().items())
        content = b"".join(name.encode() + tensor.numpy().tobytes() for name, tensor in parts)
        return hashlib.sha256(content).hexdigest()[:16]

    def reset(self) -> None:
        """Keep what was learned: DSPy's optimizers reset all parameters before they work on
        prompts.
        """

    def dump_state(self, json_mode: bool = True) -> dict[str, object]:
        """Return settings and everything learned, as JSON; the numbers are one safetensors file in
        base64.
        """
        return {
            **self.about(),
            "tensors": base64.b64encode(write_tensors(self.tensors())).decode(),
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Load the result of `dump_state`, with its settings.

        Raises UserError, and changes nothing, for a state that is damaged, or of other agents,
        strategies or embeddings of another width.
        """
        try:
            tensors = base64.b64decode(state["tensors"], validate=True)
        except (KeyError, TypeError, ValueError):
            raise UserError("the state holds no network: load what was saved with one.") from None
        # Made whole before anything is changed, so that a refused state leaves this one as it was.
        other = NetworkState.of(state, tensors, "the state of the network")
        if other.shape != self.shape:
            raise UserError(
                f"the state is of a network with {other.shape}, and this one has {self.shape}: "
                "load it into one like that."
            )
        self.__dict__.update(vars(other))

    def save(self, folder: str | Path) -> None:
        """Write the state into a folder, which is made if it is not there: `network.json`, and its
        numbers as `tensors.safetensors`.

        A file is whole or not there.
        """
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        write_file(place / TENSORS, write_tensors(self.tensors()))
        write_file(place / SETTINGS, (json.dumps(self.about(), indent=2) + "\n").encode())

    @classmethod
    def load(cls, folder: str | Path) -> NetworkState:
        """Return the network in a folder, exactly as it was saved.

        Raises UserError, naming the file, for files that are not there, not whole, or not of one
        network.
        """
        place = Path(folder)
        settings = read_plain(place / SETTINGS, MOST_SETTINGS)
        tensors = read_plain(place / TENSORS, MOST_BYTES)
        try:
            about = json.loads(settings)
        except (ValueError, RecursionError):
            raise UserError(
                f"{place / SETTINGS} is not valid JSON: name a saved network."
            ) from None
        return cls.of(about, tensors, f"the network in {place} ({SETTINGS}, {TENSORS})")

    @classmethod
    def of(cls, about: Mapping[str, Any], tensors: bytes, where: str) -> NetworkState:
        """Return the network of `about` and the bytes of a safetensors file.

        Raises UserError that begins with `where`.
        """
        try:
            config, questions = NetworkConfig.from_dict(about["config"]), int(about["questions"])
            state = _network(config, questions, read_tensors(tensors))
            # The two files may be of two savings, or damaged in a way that safetensors cannot see.
            if state.identity != about["learned"]:
                raise UserError("its numbers are not those that it was saved with")
        except KeyError as problem:
            raise UserError(f"{where} cannot be loaded: {problem} is missing.") from None
        except (TypeError, ValueError, AttributeError, SafetensorError) as problem:
            what = str(problem).rstrip(".")
            raise UserError(f"{where} cannot be loaded: {what}.") from None
        return state

    def about(self) -> dict[str, object]:
        """Return the description of the state: all but its numbers."""
        return {
            "config": self.config.to_dict(),
            "questions": self.questions,
            "learned": self.identity,
        }

    def checked(self, vectors: Vectors) -> npt.NDArray[np.float32]:
        """Return the embeddings (B, D). Raises UserError unless they are of this network's width
        and not zero.
        """
        embeddings = np.asarray(vectors)
        if embeddings.ndim != 2 or embeddings.shape[1] != self.width:
            raise UserError(
                f"question embeddings of shape {embeddings.shape} do not fit a network of width "
                f"{self.width}: embed questions with {self.config.embedding!r}, as in training."
            )
        embeddings = embeddings.astype(np.float32)
        if not np.isfinite(embeddings).all() or not embeddings.any(axis=1).all():
            raise UserError(
                "a question embedding is zero or not finite: check the embedding model."
            )
        return embeddings


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole. Raises UserError when it cannot be written."""
    with system_errors(path, "check the folder and its space"):
        write_whole(path, content)


def _network(
    config: NetworkConfig, questions: int, tensors: dict[str, torch.Tensor]
) -> NetworkState:
    n, s = config.agents, len(config.strategies)
    arrays, weights = dict[str, Array](), dict[str, torch.Tensor]()
    for name, part in tensors.items():
        if name.startswith(POLICIES):
            weights[name.removeprefix(POLICIES)] = part
        else:
            arrays[name] = part.numpy()
    width, stored = len(arrays["centre"]), len(arrays["tracker.questions"])
    # Policies and tracker make room by these sizes, so numbers of these sizes have to be here.
    policies = policies_of(config, width, weights)
    state = NetworkState(
        config=config,
        policies=policies.eval(),
        adjacency=_take(arrays, "adjacency", (n, n), np.bool_),
        trust=_take(arrays, "trust", (n, n)),
        average=_take(arrays, "average", (n, n)),
        tracker=StrategyTracker(
            config,
            questions=_take(arrays, "tracker.questions", (stored, width), np.float32),
            means=_take(arrays, "tracker.scores", (stored, s)),
            tried=_take(arrays, "tracker.tried", (stored, s), np.bool_),
        ),
        recent=_take(arrays, "recent", (n,)),
        centre=_take(arrays, "centre", (width,), np.float32),
        vote=_vote(arrays, (n, s, width)),
        questions=questions,
    )
    if arrays:  # what is a network's has been taken out
        raise UserError(f"{next(iter(arrays))} belongs to no network")
    return state


def _vote(arrays: dict[str, Array], shape: tuple[int, int, int]) -> VoteWeights | None:
    if "vote.base" not in arrays:
        return None
    base = _take(arrays, "vote.base", shape[:2])
    if "vote.slopes" not in arrays:
        return VoteWeights(base)
    return VoteWeights(
        base, _take(arrays, "vote.slopes", shape), _take(arrays, "vote.centre", shape[2:])
    )


def _take(
    arrays: dict[str, Array], name: str, shape: tuple[int, ...], kind: npt.DTypeLike = np.float64
) -> Array:
    array = arrays.pop(name)
    if array.shape != shape or array.dtype != kind or not np.isfinite(array).all():
        raise UserError(
            f"{name} must hold {np.dtype(kind).name} of shape {shape}, not {array.shape}"
        )
    return array
