"""The prices of programs: the unit in which they are compared, and which are equal."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

K = TypeVar("K")
UNITS = ("cost_usd", "tokens", "calls")
Bill = TypeVar("Bill")


SAME_PRICE = 1.01
"""Prices whose ratio is at most this are equal."""


def cheapest(prices: Mapping[K, float], score: Callable[[K], float]) -> K:
    """Return the program to take among those that no other is shown to beat: the cheapest; of equal
    prices the one most often right, then the first.
    """
    most = SAME_PRICE * min(prices.values())
    alike = [program for program, price in prices.items() if price <= most]
    return max(alike, key=score)


def price_unit(
    bills: Collection[Bill], amount: Callable[[Bill, str], float | None] = getattr
) -> str:
    """Return the unit in which bills are compared: dollars if all are known and not all zero, else
    tokens, else calls. `amount` returns a bill's amount in a unit.
    """
    for unit in UNITS[:2]:
        amounts = [amount(bill, unit) for bill in bills]
        if None not in amounts and any(amounts):
            return unit
    return UNITS[2]
