"""The settings of a strategy network, all of them in one flat record (MARL-GAT, section 4.1)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, fields
from typing import Annotated, Literal

from pydantic import Field

from ..base.errors import UserError
from .graph import Limits
from .settings import Chance, CheckedFields, Natural, Share, Whole
from .space import PAPER_STRATEGIES as PAPER_STRATEGIES
from .tracker import TrackerSettings
from .trust import TrustRates

STANDING = 3
"""How many numbers make an agent's standing: its mean trust, its degree and its recent accuracy."""


@dataclass(frozen=True)
class PolicySettings(CheckedFields):
    """The settings of every agent's policy.

    `hidden`: width C of each of `heads` H attention heads; `dropout`: share of attention weights
    dropped in training; `features`: what each node knows, the question alone (the paper) or the
    agent's standing too; `trust_edges`: whether attention sees trust.
    """

    hidden: Whole = 64
    heads: Whole = 4
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    features: Literal["question", "question+standing"] = "question+standing"
    trust_edges: bool = True


@dataclass(frozen=True)
class PolicyConfig(PolicySettings):
    """The shape of every agent's policy.

    `strategies`: how many logits S; `inputs`: width D of a question embedding.
    """

    _: KW_ONLY
    strategies: Whole
    inputs: Whole = 768

    @property
    def width(self) -> int:
        """The numbers that describe a node: D, and perhaps its standing."""
        return self.inputs + (STANDING if self.features == "question+standing" else 0)


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(PolicySettings, TrackerSettings, Limits, TrustRates):
    """How N agents choose, vote and trust one another; defaults are the paper's where it has them.

    - `agents` N; `strategies`, S names in their order; `alike`: agents that are copies of one LM
      share what is learned of a strategy's votes.
    - Choice: softmax(logits + `gamma` S[s, q]), drawn (`sample`) or the likeliest (`argmax`);
      `distinct`: no strategy twice while there is another; `top`: how many agents are asked, those
      with the heaviest votes; None is all.
    - Vote: `weight` of an answer, from trust or learned from training questions.
    - Trust: `trust_rule`, `delta_t`, `delta_d`, `delta_p` as in `TrustRates`; `recent`: share of a
      new answer in an agent's recent accuracy.
    - Graph: degree `k` (from N - 1 on complete) and rewiring `p` of the small world, changed every
      `evolve_every` questions within `Limits`.
    - Tracker: as in `TrackerSettings`.
    - Policy: `policy`, the paper's graph attention (`gat`, with `PolicySettings`), or without graph
      and tracker the strategy most often right on the most similar questions (`knn`), or a logistic
      `regression` on the embedding; `centred`: embeddings less their mean in training.
    - `copies_temperature` of agents with one LM, unless their sampling or LM sets one; None: as the
      LM is.
    - `seed` of graph, weights and draws; `embedding`: the model that makes the vectors.

    Raises UserError for a value that cannot be.
    """

    agents: Whole = 5
    strategies: Annotated[tuple[str, ...], Field(min_length=1)] = PAPER_STRATEGIES
    alike: bool = False
    policy: Literal["gat", "knn", "regression"] = "gat"
    gamma: float = 0.1
    choice: Literal["sample", "argmax"] = "sample"
    distinct: bool = False
    top: Whole | None = None
    weight: Literal["mean_trust", "accuracy", "log_odds", "fitted", "conditional"] = "mean_trust"
    trust_rule: Literal["pairwise", "directional", "averaged"] = "pairwise"
    recent: Share = 0.05
    k: Natural = 2
    p: Chance = 0.1
    evolve_every: Whole = 20
    centred: bool = True
    copies_temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.7
    seed: Natural = 0
    embedding: str = "all-mpnet-base-v2"

    def __post_init__(self) -> None:
        names = self.strategies
        if not isinstance(names, list | tuple) or not all(isinstance(n, str) for n in names):
            raise UserError(f"strategies is {names!r}: give a list of at least one name.")
        # A saved network has a list there; as a tuple, its config equals the one that was saved.
        object.__setattr__(self, "strategies", tuple(names))
        if len(set(names)) < len(names):
            raise UserError(f"a strategy is named twice in {', '.join(names)}: name each once.")
        super().__post_init__()

    @property
    def sampled(self) -> bool:
        """Whether strategies are drawn; kNN and regression always take the likeliest."""
        return self.choice == "sample" and self.policy == "gat"

    def gat(self, width: int) -> PolicyConfig:
        """Return the shape of the policies for question embeddings of this width."""
        own = {field.name: getattr(self, field.name) for field in fields(PolicySettings)}
        return PolicyConfig(**own, strategies=len(self.strategies), inputs=width)

    def to_dict(self) -> dict[str, object]:
        """Return all settings as JSON values."""
        return {**super().to_dict(), "strategies": list(self.strategies)}

    def idle(self) -> list[str]:
        """Return a warning for each mechanism that has no effect with these settings."""
        warnings, n = list[str](), self.agents
        least, most = self.bounds(n)
        if n > 1 and min(most, max(least, self.k)) >= n - 1:
            remedy = (
                f"a k below {n - 1} lets" if least < n - 1 else "more agents with a small k let"
            )
            warnings.append(
                f"the graph of {n} agents with k = {self.k} is complete: rewiring (p) changes "
                f"nothing and evolution little; {remedy} them act"
            )
        if self.features == "question":
            warnings.append(
                "every node of the graph carries the question alone, so graph and trust cannot "
                "change the policies' logits; features=question+standing lets them"
            )
        return warnings
