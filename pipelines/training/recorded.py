"""The program that a training on recorded answers makes: a network that can be asked, or scored
alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dspy

from ...modules.agents.transcript import Task
from ...modules.base.errors import UserError
from ...modules.protocols.program import Program
from ...modules.protocols.strategies import STRATEGIES
from ...modules.protocols.strategy_network import Embed, StrategyNetwork
from ...modules.reading.voting import Ties

if TYPE_CHECKING:  # PyTorch is of the extra `network`, and takes a second to import
    from ...modules.network.state import NetworkState


def network_of(state: NetworkState, embed: Embed, **options: Any) -> StrategyNetwork:
    """The network with this state; a `RecordedNetwork` where nobody can be asked in its ways."""
    asks = all(STRATEGIES.find(name) for name in state.config.strategies)
    return (StrategyNetwork if asks else RecordedNetwork)(state, embed, **options)


class RecordedNetwork(StrategyNetwork):
    """A network that learned from recorded answers of agents that nobody can ask in the same way
    again.

    It has no seats and answers nothing: `training.scores` says what it reaches, `state` what it
    learned.
    """

    def __init__(self, state: NetworkState, embed: Embed, **options: Any) -> None:
        Program.__init__(self)
        self.state, self.embed = state, embed  # type: ignore[assignment]
        self.samples, self.sampling = options.get("samples"), dict(options.get("sampling") or {})
        self.ties = Ties()
        self.agents, self.members = [], []

    async def solve(self, task: Task) -> dspy.Prediction:
        ways = ", ".join(filter(None, self.state.config.strategies)) or "agents without strategies"
        raise UserError(
            f"this network learned from answers of {ways}, which are not in fm.STRATEGIES: it "
            f"can be scored "
            "on outcomes, and cannot be asked"
        )
