"""The life of a command: Request → Plan → Run → Outcome.

A request (`request.py`) is what a user asks. A function of it makes a plan: all input is read and
checked, and no LM is called. Another function carries the plan out, inside `tracking.run.running`,
and returns an outcome. The Python function does both; the command line shows the plan before and
the outcome after (`cli/life.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol


class Plan(Protocol):
    """What a command is going to ask, what that may cost, and what it can show; checked, and not
    begun.
    """

    @property
    def title(self) -> str:
        """What is run, in a word or two."""

    @property
    def out(self) -> Path | None:
        """The folder that the result is kept in; None for a temporary one."""

    @property
    def warnings(self) -> Sequence[str]:
        """What to warn of before anything is spent."""

    @property
    def cost(self) -> tuple[float, float] | None:
        """USD, from and to; None where a price is not known."""

    def lines(self) -> Sequence[Any]:
        """The plan in words, or in tables of rich, one element per line."""

    def to_dict(self) -> dict[str, Any]:
        """The plan as JSON."""


class Outcome(Protocol):
    """What came out of a command."""

    @property
    def stopped(self) -> str | None:
        """Why it ended early, in a sentence; None if it did not."""

    @property
    def empty(self) -> bool:
        """Whether nothing usable came out."""

    def in_words(self, *, quiet: bool = False) -> dict[str, str]:
        """The figures that are worth a line each."""

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON."""
