"""How a compilation shares out its budget: a comparison before, one after, and an optimizer
between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...modules.base.calls import Usage
from ..base.budget import Budget

AFTERWARDS = 1.5
"""The second comparison is taken to cost so many times the first: demonstrations make prompts
longer.
"""


def first_share(budget: Budget) -> Budget:
    """The most that the comparison before may take: a third of every ceiling."""
    return _each(budget, lambda name, ceiling: ceiling / 3)


def without_reserve(budget: Budget, before: Usage, seconds: float) -> Budget:
    """What comparison before and optimizer may take together: all but what the comparison after
    will need.

    That is AFTERWARDS times what the one before took (`before`, in `seconds`), at most a third.
    """
    most = vars(first_share(budget))
    took = {
        "usd": before.cost_usd or 0.0,
        "calls": before.calls,
        "tokens": before.tokens or 0,
        "seconds": seconds,
    }
    return _each(budget, lambda name, ceiling: ceiling - min(AFTERWARDS * took[name], most[name]))


def _each(budget: Budget, changed: Callable[[str, float], float]) -> Budget:
    """The budget with every ceiling changed; calls and tokens stay whole numbers from 1 up."""
    ceilings: dict[str, Any] = {
        name: changed(name, ceiling)
        for name, ceiling in vars(budget).items()
        if ceiling is not None
    }
    for name in ceilings.keys() & {"calls", "tokens"}:
        ceilings[name] = max(1, int(ceilings[name]))
    return Budget(**ceilings)
