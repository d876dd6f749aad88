"""How a compilation shares out its budget: a comparison before, one after, and an optimizer between."""

from __future__ import annotations

from dataclasses import replace

from ...modules.base.calls import Usage
from ..base.budget import Budget

AFTERWARDS = 1.5
"""The second comparison is taken to cost so many times the first: demonstrations make prompts longer."""


def first_share(budget: Budget) -> Budget:
    """The most that the comparison before may take: a third of every ceiling."""
    return Budget(
        usd=None if budget.usd is None else budget.usd / 3,
        calls=None if budget.calls is None else max(1, budget.calls // 3),
        tokens=None if budget.tokens is None else max(1, budget.tokens // 3),
        seconds=None if budget.seconds is None else budget.seconds / 3,
    )


def without_reserve(budget: Budget, before: Usage, seconds: float) -> Budget:
    """What comparison before and optimizer may take together: all but what the comparison after will need.

    That is AFTERWARDS times what the one before took (`before`, in `seconds`), at most a third.
    """
    share = first_share(budget)

    def left(total: float, took: float, most: float) -> float:
        return total - min(AFTERWARDS * took, most)

    found = budget
    if budget.calls is not None and share.calls is not None:
        found = replace(found, calls=max(1, int(left(budget.calls, before.calls, share.calls))))
    if budget.tokens is not None and share.tokens is not None:
        took = before.prompt_tokens + before.completion_tokens
        found = replace(found, tokens=max(1, int(left(budget.tokens, took, share.tokens))))
    if budget.usd is not None and share.usd is not None:
        found = replace(found, usd=left(budget.usd, before.cost_usd or 0.0, share.usd))
    if budget.seconds is not None and share.seconds is not None:
        found = replace(found, seconds=left(budget.seconds, seconds, share.seconds))
    return found


def kept_back(total: Budget, shared: Budget) -> str:
    """What of a budget is kept for the comparison after, in words such as `1 call, 0.5 USD`."""
    parts = []
    for unit, whole, part in (
        ("USD", total.usd, shared.usd),
        ("calls", total.calls, shared.calls),
        ("tokens", total.tokens, shared.tokens),
        ("s", total.seconds, shared.seconds),
    ):
        if whole is not None and part is not None and whole > part:
            left = whole - part
            parts.append(f"{left:.4g} {unit}" if isinstance(left, float) else f"{left:,} {_one(unit, left)}")
    return ", ".join(parts)


def _one(unit: str, count: int) -> str:
    return unit.removesuffix("s") if count == 1 else unit


def minus(total: Usage, part: Usage) -> Usage:
    """What is left of a sum without one of its parts."""
    known = total.cost_usd is not None and part.cost_usd is not None
    return Usage(
        total.calls - part.calls,
        total.prompt_tokens - part.prompt_tokens,
        total.completion_tokens - part.completion_tokens,
        0,
        (total.cost_usd or 0.0) - (part.cost_usd or 0.0) if known else None,
    )
