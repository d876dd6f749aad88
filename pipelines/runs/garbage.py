"""The garbage collector during a run, which has few cycles to find and much to look through."""

from __future__ import annotations

import gc
import threading
from typing import ClassVar

SELDOM = 20_000
"""New objects after which the garbage collector looks again; 700 to 2,000 is usual."""
SELDOM_WHOLE = 100
"""Looks at all but the oldest objects before one at all of them; 10 is usual."""


class seldom_collected:  # noqa: N801
    """In the block, the garbage collector of the process looks for cycles less often.

    With MLflow imported, a whole look takes half a second, in which every call in flight stands
    still. Blocks nest and overlap, in threads too: the first one begins this, and the last one ends
    it. A collector that the user has switched off, or made look even less often, stays so, as does
    what the user sets meanwhile.
    """

    _lock = threading.Lock()
    _blocks: ClassVar[int] = 0
    _before: ClassVar[tuple[int, int, int]]
    _set: ClassVar[tuple[int, int, int]]

    def __enter__(self) -> None:
        kind = type(self)
        with self._lock:
            if not kind._blocks:
                kind._before = first, second, third = gc.get_threshold()
                if first:  # 0 means that it is off
                    gc.set_threshold(max(first, SELDOM), second, max(third, SELDOM_WHOLE))
                kind._set = gc.get_threshold()
            kind._blocks += 1

    def __exit__(self, *_: object) -> None:
        kind = type(self)
        with self._lock:
            kind._blocks -= 1
            if not kind._blocks and gc.get_threshold() == kind._set:
                gc.set_threshold(*kind._before)
