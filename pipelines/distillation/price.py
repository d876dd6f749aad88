"""What a question took: calls, tokens and money of runs, whether their answers were paid for or on
record.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypedDict

from ...modules.base.calls import plus, tokens_of
from ...modules.reading.row import ResultRow
from ..base.journal import records
from ..evaluation.earlier import Evaluation
from ..lms.endpoint import Reply
from ..lms.ledger import read_ledger
from ..lms.prices import Prices
from ..lms.store import CALLS, is_reply

Unit = Literal["cost_usd", "tokens", "calls"]
UNITS: tuple[Unit, ...] = ("cost_usd", "tokens", "calls")
PerToken = Mapping[str, Prices]


class Price(TypedDict):
    """What a question takes on average; None where that is not known."""

    calls: float
    tokens: float | None
    cost_usd: float | None


def price_of_run(run: Evaluation, prices: PerToken) -> Price:
    """The mean price of a run's questions, as if every answer had been paid for.

    An answer from a record or cache counts the tokens that were recorded with it, and costs what
    `prices` (by LM name) says. Each different request counts once.
    """
    rows = [row["usage"] for row in run.rows]
    calls = sum(usage["calls"] or 0 for usage in rows) / len(rows)
    requests = list(_requests(run.folder, prices))
    if not requests:  # of LMs that folkmoot did not make
        known = not any(usage["cached_calls"] for usage in rows)
        costs = [usage["cost_usd"] for usage in rows]
        tokens = _mean([tokens_of(usage) for usage in rows], len(rows))
        cost = _mean(costs, len(rows)) if known else None
        return {"calls": calls, "tokens": tokens or None if known else None, "cost_usd": cost}
    return {
        "calls": calls,
        "tokens": _mean([tokens for tokens, _ in requests], len(rows)),
        "cost_usd": _mean([cost for _, cost in requests], len(rows)),
    }


def each_of(rows: Iterable[ResultRow], mean: Price) -> list[Price]:
    """The price of every row; the mean where tokens and cost are not those of all its calls."""
    found = []
    for row in rows:
        usage = row["usage"]
        price: Price = {**mean, "calls": usage["calls"] or 0}
        if usage["calls"] and not usage["cached_calls"]:
            if mean["tokens"] is not None:
                price["tokens"] = tokens_of(usage)
            if mean["cost_usd"] is not None:
                price["cost_usd"] = usage["cost_usd"]
        found.append(price)
    return found


def total_of(prices: Sequence[Price], questions: int) -> Price:
    """The sum of prices as a mean over so many questions."""
    return {
        "calls": sum(price["calls"] for price in prices) / questions,
        "tokens": _mean([price["tokens"] for price in prices], questions),
        "cost_usd": _mean([price["cost_usd"] for price in prices], questions),
    }


def unit_of(prices: Iterable[Price]) -> Unit:
    """What all of them can be compared in: money where it is known and asked for, else tokens, else
    calls.
    """
    known = list(prices)
    for unit in UNITS:
        values = [price[unit] for price in known]
        if all(value is not None for value in values) and any(values):
            return unit
    return UNITS[-1]


def in_unit(price: Price, unit: Unit) -> float:
    return float(price[unit] or 0.0)


def _requests(folder: Path, prices: PerToken) -> Iterator[tuple[float | None, float | None]]:
    """Tokens and cost of each different request of a run, first those that it paid for."""
    paid = {
        entry["key"]: (plus(entry["prompt_tokens"], entry["completion_tokens"]), entry["cost_usd"])
        for entry in read_ledger(folder)
    }
    yield from paid.values()
    for call in records(folder / CALLS, ("key", "model", "reply")):
        if call["key"] in paid or not is_reply(call["reply"]):
            continue
        reply, each = Reply(**call["reply"]), prices.get(call["model"])
        paid[call["key"]] = (
            plus(reply.prompt_tokens, reply.completion_tokens),
            None if each is None else Prices(*each).cost(reply),
        )
        yield paid[call["key"]]


def _mean(values: Sequence[float | None], n: int) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / n if len(known) == len(values) else None
