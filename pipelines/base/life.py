"""The life of a command: Request → Plan → Run → Outcome.

A request (`request.py`) has the user's arguments. One function makes a plan of it: it reads and
checks all input, and calls no LM. Another function carries out the plan, inside
`tracking.run.running`, and returns an outcome. The Python function calls both; the command line
also shows the plan before and the outcome after (`cli/life.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from .wording import rounded_money, total_cost


class Plan(Protocol):
    """The checked plan of a command: what it will ask, what that may cost, and what it can show."""

    @property
    def title(self) -> str:
        """The work in a word or two."""

    @property
    def out(self) -> Path | None:
        """The folder of the result; None for a temporary one."""

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings to show before anything is spent."""

    @property
    def cost(self) -> tuple[float, float] | None:
        """The lowest and highest cost in USD; None if a price is unknown."""

    def lines(self) -> Sequence[Any]:
        """Return the plan in words, or in tables of rich, one element per line."""

    def to_dict(self) -> dict[str, object]:
        """Return the plan as JSON."""


Cost = tuple[float, float] | None


class PlanOfSteps:
    """The plan of a command that carries out the `plans` of other commands, by title. Its lines are
    those plans, its `notes`, and what all may cost together.
    """

    request: Any
    plans: Mapping[str, Plan]
    notes: list[str]

    @property
    def warnings(self) -> list[str]:
        texts = (text for plan in self.plans.values() for text in plan.warnings)
        return list(dict.fromkeys(texts))

    @property
    def cost(self) -> Cost:
        return total_cost(plan.cost for plan in self.plans.values())

    def lines(self) -> list[str]:
        lines = list[str]()
        for title, plan in self.plans.items():
            lines += [title, *(f"  {line}" for line in plan.lines())]
        lines += self.notes
        if self.cost is not None:
            ends = dict.fromkeys(map(rounded_money, self.cost))
            lines.append(f"in all: {' to '.join(ends)}")
        if self.request.budget is not None:
            lines.append(f"budget of all together: {self.request.budget}")
        return lines

    def to_dict(self) -> dict[str, object]:
        plans = [{"step": title, **plan.to_dict()} for title, plan in self.plans.items()]
        budget = self.request.budget and str(self.request.budget)
        return {"steps": plans, "cost_usd": self.cost, "budget": budget, "notes": self.notes}


class Outcome(Protocol):
    """The outcome of a command."""

    @property
    def stopped(self) -> str | None:
        """A sentence that says why it ended early; None if it did not."""

    @property
    def empty(self) -> bool:
        """Whether there is no usable result."""

    def to_dict(self) -> dict[str, object]:
        """Return all of it as JSON."""
