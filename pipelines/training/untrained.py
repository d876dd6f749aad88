"""What a study and the command line know of strategy networks: those that are still to be trained,
and how they are trained and scored.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...modules.base.keyed import only, without, without_none
from ...modules.base.saved_file import Described
from ...modules.network import space
from ...modules.network.config import NetworkConfig
from ...modules.network.strategy_network import StrategyNetwork, trained_network
from ...modules.protocols.declaration import Plot, Protocol, Trainable
from ...modules.protocols.program import LAYOUT, lms_by_seat
from ...modules.reading.question import Question
from ...optimizers.policy.settings import TrainingSettings, configured
from ..data.embeddings import MINILM, MPNET, Embedder, fetched
from ..programs.build import embedder
from ..runs.outcomes import Outcomes
from .plots import network_plot
from .scores import Rescored
from .teach import check_live, live, rescore

OF_PROGRAM = ("samples", "sampling", "tie_break", "own_prompts", "prompt_layout", "prompts")
WIDTH = 1  # of the placeholder's embeddings: the model's own is not known before it is loaded


class Untrained(StrategyNetwork):
    """A network that only has settings: it has seats and turns, but is not trained and cannot
    answer.

    Args:
        settings: of network and training, by the names of `NetworkConfig` and `TrainingSettings`.
        options: those of `StrategyNetwork` in `OF_PROGRAM`.

    Raises UserError for settings that cannot be, and training with full information.
    """

    def __init__(self, settings: Mapping[str, object], **options: Any) -> None:
        from ...modules.network.state import NetworkState

        config, learning = configured(settings)
        check_live(learning)
        super().__init__(NetworkState.fresh(config, WIDTH), _nothing, **options)
        self.learning, self.options = learning, options

    def describe(self) -> Described:
        """Return all settings, of training too: two trainings on the same questions are equal when
        these are.
        """
        described = super().describe()
        settings = {**self.state.config.to_dict(), **self.learning.to_dict()}
        return {"program": "network", **settings, **only(described, OF_PROGRAM)}

    def training_turns(self) -> int:
        """Return the most turns that training takes for a question, since no call is made twice."""
        return min(int(self.learning.epochs), len(self.state.config.strategies)) * self.most_turns()

    def fresh(self) -> StrategyNetwork:
        """Return the network as it is before training. Raises UserError when its embedding model
        cannot be had.
        """
        from ...modules.network.state import NetworkState

        config = self.state.config
        embed = embedder(config.embedding)
        network = StrategyNetwork(NetworkState.fresh(config, embed.width), embed, **self.options)
        # A study gives LMs to the program that it describes, and this is another one.
        network.assign(lms_by_seat(self))
        return network

    def train(
        self,
        questions: Sequence[Question],
        folder: Path,
        *,
        lm: object,
        cache: bool,
        tracking: bool,
        parent: str | None,
    ) -> None:
        """Train the network by asking LMs, and save it; see `live`."""
        live(
            self.fresh(),
            questions,
            self.learning,
            folder,
            lm=lm,
            options=without(self.describe(), ["program"]),
            cache=cache,
            tracking=tracking,
            parent=parent,
        )


def _nothing(texts: Sequence[str]) -> npt.NDArray[np.floating]:
    raise ValueError("a network that is not trained has no embeddings")


class _ToTrain:
    """Makes networks that are still to be trained, from settings of network, training and program.

    Its signature has all of their names.
    """

    @property
    def __signature__(self) -> inspect.Signature:
        types = dict[str, object]()
        for field in (*fields(NetworkConfig), *fields(TrainingSettings)):
            types[field.name] = field.type
        types |= dict.fromkeys(OF_PROGRAM)
        kind = inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature(
            [
                inspect.Parameter(name, kind, default=None, annotation=annotation)
                for name, annotation in types.items()
            ]
        )

    def __call__(self, **settings: object) -> Untrained:
        """Raises UserError for impossible settings."""
        given = only(without_none(settings), OF_PROGRAM)
        return Untrained(without(settings, OF_PROGRAM), **given)


TO_TRAIN = Protocol(
    "network",
    "network",
    lambda parts: {"strategies": list(space.PAPER_STRATEGIES)},
    {**space.SPACE, "prompt_layout": LAYOUT},
    program=_ToTrain(),
)
"""Programs that only a study makes: strategy networks that it trains."""


def default_embedding() -> tuple[str, str | None]:
    """Return the embedding model for a training that names none, and a warning when it is not the
    paper's.

    all-mpnet-base-v2; where only all-MiniLM-L6-v2 is on this machine, that one.
    """
    if _here(MPNET) or not _here(MINILM):
        return MPNET, None
    return MINILM, (
        f"{MPNET} is not on this machine: questions are embedded with {MINILM}; "
        f"--embedding {MPNET} fetches the other"
    )


def _here(model: str) -> bool:
    """Return whether a model is installed or was fetched before, and needs no download."""
    return isinstance(Embedder(model)._where(), Path) or fetched(model)


def _with_embedding(values: Mapping[str, object]) -> tuple[dict[str, object], str | None]:
    """Return the values with the embedding model, and a warning when it is not the paper's."""
    if "embedding" in values:
        return dict(values), None
    model, warning = default_embedding()
    return {**values, "embedding": model}, warning


def _fresh(network: StrategyNetwork) -> StrategyNetwork:
    """Return the network with its settings of training, which are the usual ones where it has
    none.
    """
    able: StrategyNetwork = (
        network.fresh() if isinstance(network, Untrained) else network.deepcopy()
    )
    able.learning = getattr(network, "learning", TrainingSettings())
    return able


def _teach(
    network: StrategyNetwork, questions: Sequence[Question], folder: Path, **how: Any
) -> None:
    live(
        network,
        questions,
        network.learning,
        folder,
        options=network.learning.to_dict(),
        **how,
    )


def _check(values: Mapping[str, Sequence[Any]]) -> None:
    """Raise UserError for an embedding model that cannot be loaded."""
    for model in values.get("embedding", ()):
        # The width is known only once the model is loaded.
        _ = Embedder(model).width


def _rescored(folder: Path, test: Outcomes, settings: Mapping[str, object]) -> Rescored:
    model = settings.get("embedding")
    return Rescored(rescore(folder, test, embed=Embedder(str(model)) if model else None))


NETWORK = replace(
    StrategyNetwork.protocol,
    program=trained_network,
    plot=Plot(
        network_plot,
        "How sure the group was beside how often it was right, and which strategy each agent used.",
    ),
    learning=Trainable(
        TO_TRAIN,
        settled=_with_embedding,
        check=_check,
        of_turns=("agents", "strategies", "samples", "top", "epochs"),
        rescored=_rescored,
        fresh=_fresh,
        teach=_teach,
    ),
)
"""The programs that are found as `network`: trained ones in their folders."""
