"""Budgets: hard limits on calls, tokens, money and time, checked before every paid call."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...modules.base.calls import FatalCallError, Usage
from ...modules.base.errors import UserError

_LOG = logging.getLogger("folkmoot")

EXAMPLE = '"2 USD", "500 calls", "1M tokens" or "20 min", several joined by commas'
POLL_SECONDS = 0.02
LIKELY = Usage(8, 8000, 2000)
"""The assumed need of a question until one has finished."""
_PART = re.compile(r"(?P<dollar>\$?)\s*(?P<number>\d+(?:\.\d+)?)\s*(?P<unit>[^\d\s.].*)?")
_SCALES = {"": 1, "k": 1_000, "m": 1_000_000}
_UNITS = {
    **dict.fromkeys(("usd", "$"), ("usd", 1)),
    **dict.fromkeys(("s", "sec", "second", "seconds"), ("seconds", 1)),
    **dict.fromkeys(("min", "minute", "minutes"), ("seconds", 60)),
    **dict.fromkeys(("h", "hour", "hours"), ("seconds", 3600)),
}
"""Unit → (the limit that it is for, the factor)."""

for _scale, _times in _SCALES.items():
    _UNITS |= dict.fromkeys((f"{_scale}calls", f"{_scale}call"), ("calls", _times))
    _UNITS |= dict.fromkeys((f"{_scale}tokens", f"{_scale}token"), ("tokens", _times))


class BudgetSpent(FatalCallError):  # noqa: N818
    """A budget is spent, so no further call may be made. The question is unfinished, not failed."""


class BudgetUnheld(BudgetSpent):
    """A budget cannot be enforced, because the cost of a call is unknown."""


class Unanswered(UserError):  # noqa: N818
    """A training cannot go on because a question has no answer; `what` says which and why."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}: finished work is kept, and the same command resumes")
        self.what = what


@dataclass(frozen=True)
class Budget:
    """Limits, each None or above 0: money in USD, paid calls, tokens (prompt and completion),
    seconds.
    """

    usd: float | None = None
    calls: int | None = None
    tokens: int | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Return the budget in a text such as `2 USD, 500 calls, 1M tokens, 20 min`. Raises
        UserError for a part that cannot be read.
        """
        if not isinstance(text, str):
            amount = "100 calls"
            if isinstance(text, int) and text > 1:
                amount = f"{text} calls"
            raise UserError(
                f'the budget is {text!r}: give its unit, too, such as "{amount}" or "2 USD"'
            )
        limits: dict[str, float] = {}
        for part in text.split(","):
            match = _PART.fullmatch(part.strip())
            unit = re.sub(r"\s", "", match["unit"] or match["dollar"]).casefold() if match else ""
            other_money = match is not None and match["dollar"] and unit not in ("$", "usd")
            if match is None or unit not in _UNITS or other_money:
                raise UserError(
                    f"the budget {text!r} cannot be read at {part.strip()!r}: give {EXAMPLE}"
                )
            name, times = _UNITS[unit]
            amount = float(match["number"]) * times
            if name in limits:
                raise UserError(f"the budget {text!r} limits {name} twice: keep one of them")
            whole = "whole " if name in ("calls", "tokens") else ""
            if amount <= 0 or (whole and amount != int(amount)):
                raise UserError(
                    f"the budget {text!r} has {part.strip()!r}: give a {whole}number above 0"
                )
            limits[name] = amount
        counts = {name: int(limits[name]) for name in ("calls", "tokens") if name in limits}
        return cls(usd=limits.get("usd"), seconds=limits.get("seconds"), **counts)

    @property
    def limits(self) -> dict[str, float | None]:
        """The limits on calls, by the names that `Usage` has for them."""
        return {"cost_usd": self.usd, "tokens": self.tokens, "calls": self.calls}

    @classmethod
    def of(cls, given: Budget | str | None) -> Budget | None:
        """Return the budget that a user gave, as text or as a Budget; None without one."""
        return given if given is None or isinstance(given, Budget) else cls.parse(given)

    def wider_than(self, before: Budget) -> bool:
        """Return whether it allows more of anything that another budget limits."""
        return any(
            limit is not None and (new is None or new > limit)
            for limit, new in zip(vars(before).values(), vars(self).values(), strict=True)
        )

    def each(self, changed: Callable[[str, float], float]) -> Budget:
        """Return the budget with every limit changed; calls and tokens stay whole numbers from 1
        up.
        """
        ceilings: dict[str, Any] = {
            name: changed(name, ceiling)
            for name, ceiling in vars(self).items()
            if ceiling is not None
        }
        for name in ceilings.keys() & {"calls", "tokens"}:
            ceilings[name] = max(1, int(ceilings[name]))
        return Budget(**ceilings)

    def part(self, share: float) -> Budget:
        """This share of every limit."""
        return self.each(lambda _, ceiling: share * ceiling)

    def __str__(self) -> str:
        parts = {
            "USD": self.usd and f"{self.usd:.15g}",
            "calls": self.calls,
            "tokens": self.tokens,
            "s": self.seconds and f"{self.seconds:.15g}",
        }
        return ", ".join(f"{amount} {unit}" for unit, amount in parts.items() if amount is not None)


def only_shows(result: Mapping[str, object], budget: Budget | str | None) -> bool:
    """Return whether a command with this budget has nothing left to do in a folder with this
    result: the work is finished, or its budget was `spent` and this one is not larger.
    """
    if (spent := result.get("spent")) is None:
        return result.get("stopped") is None
    new, before = Budget.of(budget) or Budget(), Budget.parse(str(spent))
    if new.wider_than(before):
        return False
    _LOG.warning(
        "the budget %s is not above the %s that were spent here, so the stored result is shown: "
        "give a larger budget to go on",
        *(new, before),
    )
    return True
