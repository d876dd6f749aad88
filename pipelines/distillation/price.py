"""What a question takes: calls, tokens and money, whether answers were paid for or on record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Literal, TypedDict

from ...modules.base.usage import total
from ...modules.reading.row import ResultRow, taken

Unit = Literal["cost_usd", "tokens", "calls"]
UNITS: tuple[Unit, ...] = ("cost_usd", "tokens", "calls")


class Price(TypedDict):
    """What a question takes on average; None where that is not known."""

    calls: float
    tokens: float | None
    cost_usd: float | None


def price_of(rows: Collection[ResultRow], questions: int) -> Price:
    """The mean over so many questions of what rows take when every answer is paid for."""
    usage = total(map(taken, rows))
    return {
        "calls": (usage.calls or 0) / questions,
        "tokens": usage.tokens / questions if usage.tokens else None,
        "cost_usd": None if usage.cost_usd is None else usage.cost_usd / questions,
    }


def prices_in(rows: Iterable[ResultRow], unit: Unit) -> list[float]:
    """What each row takes."""
    return [in_unit(price_of([row], 1), unit) for row in rows]


def unit_of(prices: Sequence[Price]) -> Unit:
    """The unit in which all can be compared: money where it is known and asked for, else tokens,
    else calls.
    """
    for unit in UNITS:
        amounts = [price[unit] for price in prices]
        if None not in amounts and any(amounts):
            return unit
    return "calls"


def in_unit(price: Price, unit: Unit) -> float:
    return float(price[unit] or 0.0)
