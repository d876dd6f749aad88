"""Prices in a contest: what a question costs, and how many more questions the budget pays for.

The functions get prices only, never answers, so that no answer can decide how long a race is.
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
"""The number of questions after which prices count as known."""


def amount(bill: Usage, unit: str) -> float:
    """Return the amount of a bill in this unit (`cost_usd`, `tokens` or `calls`); 0 if it is
    unknown.
    """
    return float(getattr(bill, unit) or 0.0)


def affordable(
    account: Account | None,
    reserve: Mapping[str, float],
    prices: Sequence[Usage],
    shared: Mapping[str, float],
    asked: int,
    spent: Usage | None = None,
) -> float:
    """Return how many more questions the budget pays for; infinite without an account.

    Args:
        account: the budget and what was spent of it.
        reserve: by unit, the amount to keep for the steps after the race.
        prices: the bills of the racing programs, over `asked` questions each.
        shared: by unit, the share of these bills that was really paid: calls that several programs
            have in common are paid once.
        spent: what counts as spent; None takes what the account has spent.
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
        # A unit in which a question costs nothing is no limit.
        if each > 0:
            most = min(most, left / each)
    return max(0.0, most)


def task_prices(bills: Sequence[Sequence[Usage]], left: int, *, again: bool = False) -> str:
    """Return a clause on what a task costs all programs together, and what the tasks that are left
    will cost; empty for fewer bills than a pilot has. It has percentiles, because prices of tasks
    differ by a factor of 100.

    Args:
        bills: for each task, the bills of all programs.
        left: how many tasks are not asked yet.
        again: whether the dearest program counts twice, for a fair opponent that is still to come
            and will cost as much.
    """
    if len(bills) < PILOT:
        return ""
    unit = price_unit([total(each) for each in bills])
    costs = []
    for each in bills:
        own = [amount(bill, unit) for bill in each]
        costs.append(sum(own) + again * max(own))
    half, most = np.percentile(costs, [50, 90])
    rest = _worth(left * float(np.mean(costs)), unit)
    median, ninth = _worth(half, unit), _worth(most, unit)
    return f"a task costs {median} (median), {ninth} (90th percentile); {left} left: about {rest}"


def _worth(cost: float, unit: str) -> str:
    """Return a cost with its unit, as text."""
    if unit == "cost_usd":
        return rounded_money(cost)
    return f"{cost:,.0f} {unit}"
