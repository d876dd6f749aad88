"""How a strategy network is trained: settings, and the paper's ablations as presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from ...modules.base.errors import UserError, checked_among
from ...modules.base.keyed import only
from ...modules.network.config import NetworkConfig
from ...modules.network.rewards import ConsensusBonus
from ...modules.network.settings import Positive, Size, Whole

AUTO = "auto"


@dataclass(frozen=True, kw_only=True)
class TrainingSettings(ConsensusBonus):
    """Settings of the training of policies; defaults are the paper's where it has them.

    - `learning`: `reinforce`, or `supervised` (an interpretation of the paper's Table 2): choices
      become more likely when the consensus is right, and less likely when it is wrong.
    - `reward`: `base`, `consensus_aware` (Table 3, with the deltas of `ConsensusBonus`) or
      `difference`, the agent's contribution to the group.
    - `baseline` subtracted from rewards: `none`, or the running `mean` of the agent's own.
    - `full_information`: every strategy of every agent is asked about each question, and the policy
      follows the gradient of the expected reward, without a baseline. Only for replay, where
      answers cost nothing.
    - `entropy` bonus, gradient `clip` for each agent (None: off), `lr` of Adam, `batch` questions
      per update, `epochs` over all questions, `checkpoint_every` so many batches.
    - `buffer`: each agent learns from a random `batch` of this many last episodes; None: from those
      just answered.
    - `epochs="auto"`, with `full_information`: the fewest that come near the best held-out
      accuracy, by cross-validation over `folds`; at most `max_epochs`, stopped after `patience`
      epochs without a gain.

    Raises UserError for an invalid value, or options that exclude each other.
    """

    learning: Literal["reinforce", "supervised"] = "reinforce"
    reward: Literal["base", "consensus_aware", "difference"] = "base"
    baseline: Literal["none", "mean"] = "none"
    full_information: bool = False
    entropy: Size = 0.0
    clip: Positive | None = 1.0
    lr: Positive = 1e-3
    batch: Whole = 8
    buffer: Whole | None = None
    epochs: Whole | Literal["auto"] = 10
    max_epochs: Whole = 30
    folds: Annotated[int, Field(ge=2)] = 5
    patience: Whole = 5
    checkpoint_every: Whole = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.learning == "supervised" and (self.reward != "base" or self.baseline != "none"):
            raise UserError("supervised learning has neither reward nor baseline: leave them out.")
        if self.epochs == AUTO and not self.full_information:
            raise UserError(
                "epochs 'auto' needs held-out questions with the answers of all strategies: "
                "set full_information, or give a number of epochs."
            )


STANDING = "standing"
_PAPER = {"features": "question", "trust_edges": False, "centred": False, "clip": None}

PRESETS: dict[str, dict[str, object]] = {
    STANDING: {},
    "paper": _PAPER,
    "supervised": {**_PAPER, "learning": "supervised"},
    "consensus_aware": {**_PAPER, "reward": "consensus_aware"},
    "gamma_0": {**_PAPER, "gamma": 0.0},
    "gamma_0.7": {**_PAPER, "gamma": 0.7},
    "beyond": {
        "choice": "argmax",
        "weight": "conditional",
        "k": 4,
        "min_degree": 2,
        "hidden": 16,
        "heads": 2,
        "full_information": True,
        "epochs": AUTO,
    },
}
"""Presets by name: the defaults, in which nodes carry their agents' standing; the paper's policy,
followed literally where the text is clear, and the ablations of its Tables 2 to 4; and the best
settings on recorded answers.
"""


def configured(
    settings: Mapping[str, Any], preset: str = STANDING
) -> tuple[NetworkConfig, TrainingSettings]:
    """Return the network's and the training's settings, from named settings of either that override
    a preset's.

    Raises UserError for an unknown preset or name.
    """
    checked_among("preset", preset, PRESETS)
    merged = {**PRESETS[preset], **settings}
    network, training = NetworkConfig.__dataclass_fields__, TrainingSettings.__dataclass_fields__
    # No name is in both: the name alone says whether a setting is the network's.
    known = network | training
    for name in merged:
        checked_among("setting", name, sorted(known))
    return NetworkConfig(**only(merged, network)), TrainingSettings(**only(merged, training))
