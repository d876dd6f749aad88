"""What a question takes: calls, tokens and money, whether answers were paid for or on record."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypedDict

from ...modules.base.usage import total
from ...modules.reading.row import ResultRow, taken


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


def amount_in(price: Price, unit: str) -> float | None:
    """The amount in this unit; None where it is not known."""
    return price[unit]  # type: ignore[literal-required,no-any-return]


def in_unit(price: Price, unit: str) -> float:
    return float(amount_in(price, unit) or 0.0)
