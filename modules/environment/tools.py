"""Environments of tools: a function of the user's own, and several environments in one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import Any, TypeVar

from ..base.sync import in_thread, on_own_loop
from ..base.together import together
from .base import MAX_CHARS, Environment, Observation, Page

T = TypeVar("T")


class FunctionEnvironment(Environment):
    """Makes each page from what a function returns for a query: a text, several, or nothing."""

    def __init__(self, function: Callable[[str], Any]) -> None:
        self.function = function
        name = getattr(function, "__qualname__", type(function).__qualname__)
        self.source = f"{function.__module__}:{name}"

    async def fetch(self, title: str) -> Page | None:
        found = await in_thread(self.function, title)
        if inspect.isawaitable(found):
            found = await on_own_loop(lambda: found)
        text = found if isinstance(found, str) else "\n".join(map(str, found or ()))
        return Page(title, text, self.source) if text.strip() else None

    async def closest(self, query: str, n: int) -> list[str]:
        """Return the query itself, since a function has no titles."""
        return [query]


class SeveralEnvironments(Environment):
    """Several environments: the first that has a page supplies it; titles and passages are taken
    from each in turn.
    """

    def __init__(self, parts: Sequence[Environment]) -> None:
        self.parts = tuple(parts)
        self.source = " + ".join(part.source for part in self.parts)

    async def fetch(self, title: str) -> Page | None:
        for part in self.parts:
            if (page := await part.fetch(title)) is not None:
                return page
        return None

    async def closest(self, query: str, n: int) -> list[str]:
        return _in_turn(await together(part.closest(query, n) for part in self.parts))[:n]

    async def evidence(
        self, query: str, *, passages: int = 3, max_chars: int = MAX_CHARS
    ) -> list[Observation]:
        most = {"passages": passages, "max_chars": max_chars}
        found = await together(part.evidence(query, **most) for part in self.parts)
        return _in_turn(found)[:passages]


def place_of_tool(tool: object) -> Environment | None:
    """Return a tool as an environment: itself, or one that calls a function; None for others."""
    if callable(tool):
        return FunctionEnvironment(tool)
    return tool if isinstance(tool, Environment) else None


def _in_turn(found: Sequence[Sequence[T]]) -> list[T]:
    """Return the first item of each, then the second of each, and so on."""
    return [item for item in chain.from_iterable(zip_longest(*found)) if item is not None]
