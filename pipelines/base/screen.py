"""Draws progress on a terminal, in a notebook and into a pipe, with rich."""

from __future__ import annotations

import io
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO, Any

from rich.console import (
    Console,
    ConsoleOptions,
    ConsoleRenderable,
    RenderableType,
    RenderHook,
    RenderResult,
)
from rich.progress import BarColumn, Progress, Task, TextColumn
from rich.segment import Segment

from ...modules.base.fence import clean
from .wording import ProgressLine, duration

A_SECOND = 4  # how often the line is drawn per second
LINE_EVERY, LINE_SECONDS = 25, 30.0
NOTEBOOK_WIDTH = 120  # columns
NOTEBOOK_FORMAT = '<pre style="white-space:pre-wrap;line-height:normal">{code}</pre>'


@contextmanager
def drawing(show: bool | None, line: Callable[[], ProgressLine]) -> Iterator[Callable[[], None]]:
    """A callback for every new state, which draws on a terminal or in a notebook; with `show`, it
    also writes lines into a pipe or a file.
    """
    out = Screen(sys.stderr) if sys.stderr is not None else Screen(io.StringIO())
    if out.is_jupyter:
        notebook = _Notebook(_Display(out, line, live=False))
        try:
            yield notebook.draw
        finally:
            notebook.draw(last=True)
    # Not within pytest, whose output a live line would overwrite.
    elif out.is_terminal and (show or "pytest" not in sys.modules):
        with _Display(out, line, live=True) as drawn:
            _DRAWN.append(drawn)
            try:
                yield lambda: None  # the line redraws itself
            finally:
                _DRAWN.remove(drawn)
    elif show:
        yield _Display(out, line, live=False).print_now_and_then
    else:
        yield lambda: None


def end_line() -> None:
    """End the line on the terminal, so that a result stands below it."""
    for drawn in _DRAWN:
        drawn.stop()


class _Display(Progress):
    """The line with its bar and the time left. If `live`, rich redraws it on a terminal, in a
    thread of its own, and asks for the latest state each time.
    """

    def __init__(self, out: Console, line: Callable[[], ProgressLine], *, live: bool) -> None:
        self._line = line
        self._printed, self._stage, self._time = 0, 0, time.monotonic()
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(10),
            TextColumn("{task.fields[figures]}", markup=False),
            console=out,
            refresh_per_second=A_SECOND,
            speed_estimate_period=math.inf,  # one question may take longer than rich looks back
            redirect_stdout=bool(sys.stdout) and sys.stdout.isatty(),  # no file and no pipe
            disable=not live,
        )

    def start(self) -> None:
        with suppress(Exception):
            super().start()

    def stop(self) -> None:
        with suppress(Exception):
            # A picture is removed, as the result below it shows the same; a line stays.
            self.live.transient = self._line().picture is not None
            super().stop()

    def get_renderables(self) -> Iterable[RenderableType]:
        with suppress(Exception):
            line, task = self._updated()
            task.fields["figures"] = clean("  ".join(_figures(line, task)))
            yield line.picture or self.make_tasks_table([task])

    def print_now_and_then(self) -> None:
        """Print a line for a pipe or a file, if enough was done or enough time has passed."""
        with suppress(Exception):
            line, task = self._updated()
            crossed = line.done // LINE_EVERY > self._printed // LINE_EVERY
            now = time.monotonic()
            if crossed or line.stage > self._stage or now >= self._time + LINE_SECONDS:
                self._printed, self._stage, self._time = line.done, line.stage, now
                self.console.print("  ".join([line.label, *_figures(line, task)]), soft_wrap=True)

    def _updated(self) -> tuple[ProgressLine, Task]:
        """Return the current line and its task of rich's, which is a new one when other work
        begins.
        """
        line = self._line()
        label = clean(line.label)
        if [task.description for task in self.tasks] != [label]:
            for before in self.task_ids:
                self.remove_task(before)
            total = line.total or None
            begun = self.add_task(label, total=total, completed=line.done, figures="")
            self.advance(begun, 0)  # the speed counts from here, without what was done before
        self.update(self.task_ids[0], total=line.total or None, completed=line.done)
        return line, self.tasks[0]


def _figures(line: ProgressLine, task: Task) -> Iterator[str]:
    yield from line.parts
    if task.time_remaining:
        yield f"{duration(task.time_remaining)} left"


_DRAWN: list[_Display] = []
"""The line on the terminal, while it is drawn."""


class _Notebook:
    """The line below a notebook's cell, without widgets."""

    def __init__(self, shown: _Display) -> None:
        self._shown = shown
        self._handle: Any = None
        self._next = 0.0

    def draw(self, *, last: bool = False) -> None:
        if not last and time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 1 / A_SECOND
        with suppress(Exception):
            from IPython.display import HTML, display

            page = Screen(io.StringIO(), record=True, width=NOTEBOOK_WIDTH, force_jupyter=False)
            page.print(self._shown.get_renderable())
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
