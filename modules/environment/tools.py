"""Places that tools make: a function of the user's own, and several places in one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import chain, zip_longest
from typing import Any

from ..base.errors import said_by
from ..base.sync import in_thread
from ..base.together import together
from .base import Environment, Page


class FunctionEnvironment(Environment):
    """Asks a function, also a coroutine function, for each text that an agent looks up.

    Args: function: (query) → a text, texts, or nothing.
        source: its name; None: `module:function`.
    """

    def __init__(self, function: Callable[[str], Any], source: str | None = None) -> None:
        name = getattr(function, "__qualname__", type(function).__qualname__)
        self.function, self.source = function, source or f"{function.__module__}:{name}"

    def __deepcopy__(self, memo: dict[int, Any]) -> FunctionEnvironment:
        return self

    async def fetch(self, title: str) -> Page | None:
        """What the function says, as one page. Raises RuntimeError where it fails."""
        try:
            if inspect.iscoroutinefunction(self.function):
                found = await self.function(title)
            else:
                found = await in_thread(self.function, title)
        except Exception as problem:  # of somebody else's code
            raise RuntimeError(f"the tool {self.source} failed: {said_by(problem)}") from problem
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

    def __deepcopy__(self, memo: dict[int, Any]) -> SeveralEnvironments:
        return self

    async def fetch(self, title: str) -> Page | None:
        for part in self.parts:
            if (page := await part.fetch(title)) is not None:
                return page
        return None

    async def closest(self, query: str, n: int) -> list[str]:
        found = await together(part.closest(query, n) for part in self.parts)
        in_turn = chain.from_iterable(zip_longest(*found))
        return list(dict.fromkeys(title for title in in_turn if title is not None))[:n]

    async def close(self) -> None:
        await together(part.close() for part in self.parts)
