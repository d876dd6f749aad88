"""The program that a training on recorded answers makes: a network that can be asked, or only
scored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import dspy

from ...modules.base.errors import UserError
from ...modules.network.selector import Embed
from ...modules.protocols.strategies import STRATEGIES
from ...modules.protocols.strategy_network import StrategyNetwork

if TYPE_CHECKING:  # PyTorch is of the extra `network`, and takes a second to import
    from ...modules.network.state import NetworkState


def network_of(
    state: NetworkState, embed: Embed, strategies: Mapping[str, Any] | None = None, **options: Any
) -> StrategyNetwork:
    """The network with this state; a `RecordedNetwork` where nobody can be asked in its ways."""
    stands_for = dict(strategies or {})
    if all(name in stands_for or STRATEGIES.find(name) for name in state.config.strategies):
        return StrategyNetwork(state, embed, strategies=stands_for, **options)
    nobody = {name: Nobody(state.config.strategies) for name in state.config.strategies}
    return RecordedNetwork(state, embed, strategies=nobody, **options)


class RecordedNetwork(StrategyNetwork):
    """A network that learned from recorded answers of agents that nobody can ask again.

    It answers nothing: `training.scores` says what it reaches, `state` what it learned.
    """


class Nobody(dspy.Module):  # type: ignore[misc]
    """A strategy whose answers were recorded, and that cannot be asked."""

    def __init__(self, strategies: tuple[str, ...]) -> None:
        super().__init__()
        self.strategies = strategies

    def forward(self, question: str) -> dspy.Prediction:
        ways = ", ".join(filter(None, self.strategies)) or "agents without strategies"
        raise UserError(
            f"this network learned from answers of {ways}, which are not in fm.STRATEGIES: it can "
            "be scored on outcomes, and cannot be asked"
        )
