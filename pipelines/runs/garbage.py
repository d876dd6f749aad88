"""The garbage collector during a run, which has few cycles to find and much to look through."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SELDOM = 20_000
"""New objects after which the garbage collector looks again; 700 to 2,000 is usual."""
SELDOM_WHOLE = 100
"""Looks at all but the oldest objects before one at all of them; 10 is usual."""


_LOCK = threading.Lock()
_BEFORE: list[tuple[int, int, int]] = []
"""What each open block found; the first is what the process had."""


@contextmanager
def seldom_collected() -> Iterator[None]:
    """In the block, the garbage collector of the process looks for cycles less often.

    With MLflow imported, a whole look takes half a second, in which every call in flight stands
    still. Blocks nest and overlap, in threads too: the first one begins this, and the last one ends
    it. A collector that the user has switched off, or made look even less often, stays so, as does
    what the user sets meanwhile.
    """

    with _LOCK:
        _BEFORE.append(gc.get_threshold())
        first, second, third = _BEFORE[0]
        seldom = max(first, SELDOM), second, max(third, SELDOM_WHOLE)
        if first and len(_BEFORE) == 1:  # 0 means that it is off
            gc.set_threshold(*seldom)
    try:
        yield
    finally:
        with _LOCK:
            before = _BEFORE.pop()
            if not _BEFORE and gc.get_threshold() == seldom:
                gc.set_threshold(*before)
