"""Places that tools make: a function of the user's own, and several places in one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import Any

from ..base.sync import in_thread
from ..base.together import together
from .base import Environment, Page


class FunctionEnvironment(Environment):
    """Asks a function, (query) → a text, several, or nothing, for all that an agent looks up."""

    def __init__(self, function: Callable[[str], Any]) -> None:
        self.function = function
        name = getattr(function, "__qualname__", type(function).__qualname__)
        self.source = f"{function.__module__}:{name}"

    async def fetch(self, title: str) -> Page | None:
        found = await in_thread(self.function, title)
        if inspect.isawaitable(found):
            found = await found
        text = found if isinstance(found, str) else "\n".join(map(str, found or ()))
        return Page(title, text, self.source) if text.strip() else None

    async def closest(self, query: str, n: int) -> list[str]:
        """The query itself, which is all that can be asked."""
        return [query]


class SeveralEnvironments(Environment):
    """Looks in several places: a page is the first that has it, the closest come from each in
    turn.
    """

    def __init__(self, parts: Sequence[Environment]) -> None:
        self.parts = tuple(parts)
        self.source = " + ".join(part.source for part in self.parts)

    async def fetch(self, title: str) -> Page | None:
        found = await together(part.fetch(title) for part in self.parts)
        return next((page for page in found if page is not None), None)

    async def closest(self, query: str, n: int) -> list[str]:
        found = await together(part.closest(query, n) for part in self.parts)
        in_turn = chain.from_iterable(zip_longest(*found))
        return list(dict.fromkeys(title for title in in_turn if title is not None))[:n]
