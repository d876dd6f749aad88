"""How a compilation divides its budget among the comparison before, the optimizer, and the
comparison after.
"""

from __future__ import annotations

from ...modules.base.calls import Usage
from ..base.budget import Budget

FIRST_SHARE = 1 / 3
"""The most that the comparison before may take of every ceiling."""

AFTERWARDS = 1.5
"""The second comparison is taken to cost so many times the first: demonstrations make prompts
longer.
"""


def without_reserve(budget: Budget, before: Usage, seconds: float) -> Budget:
    """Return what comparison before and optimizer may take together: all but what the comparison
    after will need.

    That is AFTERWARDS times what the one before took (`before`, in `seconds`), at most a third.
    """
    most = vars(budget.part(FIRST_SHARE))
    took = {
        "usd": before.cost_usd or 0.0,
        "calls": before.calls,
        "tokens": before.tokens or 0,
        "seconds": seconds,
    }
    return budget.each(lambda name, ceiling: ceiling - min(AFTERWARDS * took[name], most[name]))
