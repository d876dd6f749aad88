"""Progress of a run: one live line on a terminal or in a notebook."""

from __future__ import annotations

import builtins
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from .wording import ProgressLine

State = TypeVar("State")

# For one display at a time, since two lines would overwrite each other.
_DRAWING = threading.Lock()


@contextmanager
def displayed(
    show: bool | Callable[[State], None] | None,
    label: str,
    draw: Callable[[State], ProgressLine],
) -> Iterator[Callable[[State], None]]:
    """A callback for the state of the work, whose latest state is shown while the block runs, on
    standard error or in the notebook.

    `show`: None shows it on a terminal and in a notebook; True also writes lines into a pipe or a
    file, one every LINE_EVERY things done, or LINE_SECONDS; False shows nothing; a function gets
    the states instead. Of nested displays only the outermost is shown. If a display fails, the
    block goes on without it.
    """
    if callable(show):
        yield show
        return
    drawn = show or hasattr(builtins, "get_ipython")
    if show is not False and not drawn and sys.stderr is not None:
        drawn = sys.stderr.isatty()
    if show is False or not drawn or not _DRAWING.acquire(blocking=False):
        yield lambda state: None
        return
    latest: list[State] = []

    def line() -> ProgressLine:
        return draw(latest[0]) if latest else ProgressLine(f"{label}: starting", ())

    try:
        from .screen import drawing  # imports rich

        with drawing(show, line) as redraw:

            def progress(state: State) -> None:
                # Only the latest is kept, since rich draws no more than a few times a second.
                latest[:] = [state]
                redraw()

            yield progress
    finally:
        _DRAWING.release()
