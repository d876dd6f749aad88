"""`fm.StrategyNetwork`: the program of the floor below, with the training of this one handed to it."""

from __future__ import annotations

from typing import Any

from ...modules.protocols.strategy_network import StrategyNetwork as StrategyNetwork


def _train(outcomes: Any, **options: Any) -> StrategyNetwork:
    from .fit import train  # brings torch

    return train(outcomes, **options)


StrategyNetwork.trained_by = staticmethod(_train)
