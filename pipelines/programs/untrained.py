"""A strategy network that is still to be trained: what a study tries a setting of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...modules.base.errors import UserError
from ...modules.network.state import NetworkState
from ...modules.protocols.strategy_network import StrategyNetwork
from ...optimizers.policy.settings import AUTO
from ...optimizers.policy.training import configured
from ..data.embeddings import Embedder

WIDTH = 1  # of the placeholder's embeddings: the model's own is not known before it is loaded


class Untrained(StrategyNetwork):
    """A network by its settings alone: it has seats and takes turns, but learned nothing and answers nothing.

    Args:
        settings: of network and training, by the names of `NetworkConfig` and `TrainingSettings`.
        samples: how many answers the strategies that draw several draw; None is their own number.
        sampling: LM settings of all agents.

    Raises UserError for settings that cannot be, and training with full information.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        *,
        samples: int | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> None:
        if settings.get("full_information") or settings.get("epochs") == AUTO:
            raise UserError(
                "full_information and epochs auto ask every agent for every strategy, which only a training "
                "on recorded answers can afford: leave them out"
            )
        config, learning = configured(settings)
        super().__init__(NetworkState.fresh(config, WIDTH), _nothing, samples=samples, sampling=sampling)
        self.learning = learning

    def describe(self) -> dict[str, Any]:
        """All settings, of training too: what tells two trainings on the same questions apart."""
        settings = {**self.state.config.to_dict(), **self.learning.to_dict()}
        return {"program": "network", **settings, "samples": self.samples, "sampling": self.sampling}

    def training_turns(self) -> int:
        """The most turns that training takes for a question: nobody is asked the same twice."""
        return min(int(self.learning.epochs), len(self.state.config.strategies)) * self.most_turns()

    def fresh(self) -> StrategyNetwork:
        """The network as it is before training. Raises UserError when its embedding model cannot be had."""
        config = self.state.config
        embed = Embedder(config.embedding)
        state = NetworkState.fresh(config, embed.width)
        return self.seated(StrategyNetwork(state, embed, samples=self.samples, sampling=self.sampling))

    def seated(self, network: StrategyNetwork) -> StrategyNetwork:
        """The network with the LMs that sit here."""
        seats = network.seats()
        for name, seat in self.seats().items():
            seats[name].predict.lm = seat.predict.lm
        return network


def _nothing(texts: Sequence[str]) -> npt.NDArray[np.floating]:
    raise ValueError("a network that is not trained has no embeddings")
