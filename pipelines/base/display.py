"""Progress of a run: one live line on a terminal or in a notebook."""

from __future__ import annotations

import io
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any, TypeVar

from rich.console import (
    Console,
    ConsoleOptions,
    ConsoleRenderable,
    RenderableType,
    RenderHook,
    RenderResult,
)
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from ...modules.base.fence import clean

State = TypeVar("State")

A_SECOND = 4  # how often the line is drawn anew
LINE_EVERY, LINE_SECONDS = 25, 30.0
NOTEBOOK_WIDTH = 120  # columns
NOTEBOOK_FORMAT = '<pre style="white-space:pre-wrap;line-height:normal">{code}</pre>'

# only one display at a time, since two lines would overwrite each other
_DRAWING = threading.Lock()


@dataclass(frozen=True)
class ProgressLine:
    """A line of live progress: the work, its figures, and the share that is done, if known. A
    `picture` replaces the line where it can be redrawn; it must be clean text. A pipe gets the line
    of a new `stage` at once.
    """

    label: str
    parts: Iterable[str]
    done: int = 0
    total: int = 0
    picture: RenderableType | None = None
    stage: int = 0


@contextmanager
def displayed(
    show: bool | Callable[[State], None] | None,
    label: str,
    draw: Callable[[State], ProgressLine],
) -> Iterator[Callable[[State], None]]:
    """A callback; its latest state is drawn on standard error, or in the notebook, while the block
    runs.

    `show` may be a function that takes the states instead. None draws on a terminal and in a
    notebook; True also writes lines into a pipe or a file: one every LINE_EVERY things done, or
    LINE_SECONDS; False draws nothing. Of nested displays only the outermost is shown. A display
    that fails is no longer updated, and the block goes on.
    """
    if callable(show):
        yield show
        return
    latest: list[State] = []

    def line() -> ProgressLine:
        return draw(latest[0]) if latest else ProgressLine(f"{label}: starting", ())

    with _sink(show, line) as drawn:

        def progress(state: State) -> None:
            latest[:] = [state]
            drawn()

        yield progress


def _row(line: ProgressLine) -> RenderableType:
    """One line with a bar, cut where the terminal is too narrow."""
    if line.picture is not None:
        return line.picture
    row = Table.grid(padding=(0, 1))
    bar = [ProgressBar(total=line.total, completed=line.done, width=10)] if line.total else []
    # A live display bypasses the console's own cleaning of text.
    texts = (Text(clean(each), no_wrap=True) for each in (line.label, "  ".join(line.parts)))
    row.add_row(next(texts), *bar, next(texts))
    return row


@contextmanager
def _sink(show: bool | None, line: Callable[[], ProgressLine]) -> Iterator[Callable[[], None]]:
    """The callback for every state, which draws on a terminal or in a notebook."""
    if show is False or not _DRAWING.acquire(blocking=False):
        yield lambda: None
        return
    try:
        out = Screen(sys.stderr) if sys.stderr is not None else Screen(io.StringIO())
        if out.is_jupyter:
            notebook = _Notebook(lambda: _row(line()))
            try:
                yield notebook.draw
            finally:
                notebook.draw(last=True)
        elif out.is_terminal and (show or "pytest" not in sys.modules):
            with _Line(out, line) as drawn:
                _DRAWN.append(drawn)
                try:
                    yield lambda: None  # the line redraws itself
                finally:
                    _DRAWN.remove(drawn)
        elif show:
            yield _Lines(out, line).draw
        else:
            yield lambda: None
    finally:
        _DRAWING.release()


def end_line() -> None:
    """End the line on the terminal, so that a result stands below it."""
    for drawn in _DRAWN:
        drawn.stop()


class _Lines:
    """Lines in a pipe or a file."""

    def __init__(self, out: Console, line: Callable[[], ProgressLine]) -> None:
        self._out, self._line = out, line
        self._done, self._stage, self._time = 0, 0, time.monotonic()

    def draw(self) -> None:
        with suppress(Exception):
            line, now = self._line(), time.monotonic()
            crossed = line.done // LINE_EVERY > self._done // LINE_EVERY
            if crossed or line.stage > self._stage or now >= self._time + LINE_SECONDS:
                self._done, self._stage, self._time = line.done, line.stage, now
                text = "  ".join((line.label, *line.parts))
                self._out.print(text, soft_wrap=True)


class _Line(Live):
    """The line on a terminal, redrawn by its own thread."""

    def __init__(self, out: Console, line: Callable[[], ProgressLine]) -> None:
        self._line = line
        # Output into a file or a pipe is not redirected.
        shared = bool(sys.stdout) and sys.stdout.isatty()
        super().__init__(
            get_renderable=lambda: _row(line()),
            console=out,
            refresh_per_second=A_SECOND,
            redirect_stdout=shared,
        )

    def get_renderable(self) -> RenderableType:
        with suppress(Exception):
            return super().get_renderable()
        return ""

    def start(self, refresh: bool = False) -> None:
        with suppress(Exception):
            super().start(refresh)

    def refresh(self) -> None:
        with suppress(Exception):
            super().refresh()

    def stop(self) -> None:
        with suppress(Exception):
            # A picture goes, as the result below it shows the same; a line stays.
            self.transient = self._line().picture is not None
            super().stop()


_DRAWN: list[Live] = []
"""The line on the terminal, while it is drawn."""


class _Notebook:
    """The line below a notebook's cell, without widgets."""

    def __init__(self, render: Callable[[], RenderableType]) -> None:
        self._render = render
        self._handle: Any = None
        self._next = 0.0

    def draw(self, *, last: bool = False) -> None:
        if not last and time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 1 / A_SECOND
        with suppress(Exception):
            from IPython.display import HTML, display

            page = Screen(io.StringIO(), record=True, width=NOTEBOOK_WIDTH, force_jupyter=False)
            page.print(self._render())
            shown = HTML(page.export_html(inline_styles=True, code_format=NOTEBOOK_FORMAT))
            if self._handle is None:
                self._handle = display(shown, display_id=True)
            else:
                self._handle.update(shown)


class Screen(Console, RenderHook):
    """A console that removes control, invisible and direction characters from all text."""

    def __init__(self, file: IO[str], **settings: Any) -> None:
        super().__init__(file=file, highlight=False, markup=False, emoji=False, **settings)
        self.push_render_hook(self)

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Cleaned(renderable) for renderable in renderables]


@dataclass(frozen=True)
class _Cleaned:
    shown: ConsoleRenderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for text, style, control in console.render(self.shown, options):
            yield Segment(text, style, control) if control else Segment(clean(text), style)
