"""Prices in a contest: what a question costs, and how many more questions the budget pays for.

This module sees only prices, never answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ...modules.base.calls import Usage
from ..base.budget import Account


def amount(bill: Usage, unit: str) -> float:
    """The amount of a bill in this unit: dollars, tokens or calls."""
    return float(getattr(bill, unit) or 0.0)


def affordable(
    account: Account | None,
    reserve: Mapping[str, float],
    prices: Sequence[Usage],
    shared: Mapping[str, float],
    asked: int,
    spent: Usage | None = None,
) -> float:
    """How many more questions the budget pays for; infinite without an account.

    Args:
        reserve: by unit, the amount to keep for the steps after the race.
        prices: bills of the racing programs over `asked` questions each.
        shared: by unit, the part of these bills that was really paid, since equal calls are
            paid once.
        spent: what counts as spent; None is what the account has spent.
    """
    if account is None or not asked:
        return math.inf
    spent, most = account.spent if spent is None else spent, math.inf
    for unit, limit in account.budget.limits.items():
        if limit is None:
            continue
        left = limit - amount(spent, unit) - reserve.get(unit, 0.0)
        each = sum(amount(bill, unit) for bill in prices) / asked * shared.get(unit, 1.0)
        most = min(most, left / each if each > 0 else math.inf)
    return 0.0 if account.seconds_left == 0 else max(0.0, most)
