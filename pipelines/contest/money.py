"""Prices in a contest: what a question costs, what is left to pay, and how many more questions the
budget pays for.

This module sees only prices, never answers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ...modules.base.calls import Usage, total
from ...modules.statistics.prices import price_unit
from ..base.account import Account
from ..base.wording import rounded_money

PILOT = 3
"""The questions after which prices are known."""


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
    if account.seconds_left == 0:
        return 0.0
    spent, most = spent or account.spent, math.inf
    for unit, limit in account.budget.limits.items():
        if limit is None:
            continue
        left = limit - amount(spent, unit) - reserve.get(unit, 0.0)
        each = sum(amount(bill, unit) for bill in prices) / asked * shared.get(unit, 1.0)
        # What costs nothing in a unit is not limited by it.
        if each > 0:
            most = min(most, left / each)
    return max(0.0, most)


def task_prices(bills: Sequence[Sequence[Usage]], left: int, *, again: bool = False) -> str:
    """What a task costs all programs together, and what those that are left cost, in words. Prices
    of tasks differ by a factor of 100, so a mean alone would say little.

    Args: bills: the bills of all programs, by task; empty words for fewer than the pilot. left: how
        many tasks are not asked yet. again: whether the dearest program will be paid for twice, as
        the fair opponent costs as much.
    """
    if len(bills) < PILOT:
        return ""
    unit = price_unit([total(each) for each in bills])
    costs = []
    for each in bills:
        own = [amount(bill, unit) for bill in each]
        # The fair opponent, which is still to come, costs as much as the dearest.
        costs.append(sum(own) + again * max(own))
    half, most = np.percentile(costs, [50, 90])
    rest = _worth(left * float(np.mean(costs)), unit)
    median, ninth = _worth(half, unit), _worth(most, unit)
    return f"a task costs {median} (median), {ninth} (90th percentile); {left} left: about {rest}"


def _worth(cost: float, unit: str) -> str:
    if unit == "cost_usd":
        return rounded_money(cost)
    return f"{cost:,.0f} {unit}"
