"""Output of the command line: plans, results, dialogues, and figures as text."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping

import typer
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ...modules.reading.row import ResultRow
from ..base.request import Spending
from ..base.screen import Screen, end_line
from ..base.wording import counted, used
from .config import default_lines
from .guard import STOPPED, results, say
from .options import Confirmed, Planned, View

EXPENSIVE_USD = 1.0
PLAIN_WIDTH = 160  # columns when there is no terminal


def console(*, stderr: bool = False) -> Console:
    """Return a console on standard output or error; without a terminal, its lines are wide."""
    stream = sys.stderr if stderr else results()
    return Screen(stream, width=None if stream.isatty() else PLAIN_WIDTH)


def print_json(value: object) -> None:
    """Print one JSON object on standard output."""
    text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    # Invisible and control characters occur only inside strings, where an escape can replace them.
    for char in set(text) - {"\n"}:
        if not char.isprintable():
            text = text.replace(char, json.dumps(char)[1:-1])
    results().write(f"{text}\n")


def answered(answer: str | None, choices: Mapping[str, str] | None) -> str:
    """Return an answer for a person to read: a label with its option."""
    if answer is None:
        return "no readable answer"
    if not choices or answer not in choices:
        return answer
    return f"{answer} ({choices[answer]})"


def show_dialogue(out: Console, row: ResultRow, choices: Mapping[str, str] | None) -> None:
    """Print every turn, then the decision and the usage."""
    for turn in row.transcript:
        blind = ", blind" if turn.blind else ""
        head = Text(f"{turn.agent}, round {turn.round}{blind}: ", style="bold")
        answer = answered(turn.answer, choices)
        if turn.step:
            answer = f"({turn.step})"
        out.print(head + Text(answer, style="not bold"))
        for query in turn.queries or ():
            out.print(Text(f"  searched for: {query}", style="dim"))
        for item in turn.evidence or ():
            out.print(Text(f"  found: {item.title}", style="dim"))
        if turn.text:
            out.print(Text(turn.text))
        out.print()
    how = "not read" if row.answer is None else "read from what the program returned"
    if row.check:
        how = f"checked in {row.check.seconds:.1f} s"
    if row.decided_by is not None:
        how = f"decided by {row.decided_by} after {counted(row.rounds, 'round')}"
    out.print(Text(f"Answer: {answered(row.answer, choices)}", style="bold"))
    out.print(f"{how}; {used(row.usage)}")


def show_result(out: Console, title: str, lines: Mapping[str, str]) -> None:
    """Show a result as a panel on a terminal, else as plain lines."""
    table = Table.grid(padding=(0, 2))
    for name, value in lines.items():
        table.add_row(Text(name, style="dim"), Text(value))
    if out.is_terminal:
        out.print(Panel(table, title=Text(title), expand=False))
    else:
        for name, value in lines.items():
            out.print(f"{name}: {value}", soft_wrap=True)


def show_lines(lines: Iterable[str]) -> None:
    """Print sentences, one per line, on standard output."""
    # A line with a command is not wrapped: pasted, it would be two.
    out = console()
    for line in lines:
        out.print(line, soft_wrap=not out.is_terminal or " folkmoot " in line, markup=False)


def plain_table(*columns: str, last_left: bool = False, no_wrap: bool = False) -> Table:
    """Return a table without lines. The first column is left-aligned, and with `last_left` the
    last; all others are right-aligned, for figures.
    """
    table = Table(box=None, pad_edge=False)
    for index, column in enumerate(columns):
        left = index == 0 or (last_left and index == len(columns) - 1)
        table.add_column(column, justify="left" if left else "right", no_wrap=no_wrap and index > 0)
    return table


def confirm(
    request: Spending,
    view: Planned,
    lines: Iterable[str | Table],
    document: Callable[[], object],
    cost: tuple[float, float] | None = None,
    guessed: str = "",
) -> None:
    """Show a plan, and return unless it is a dry run or the user declines: then raise typer.Exit.

    The user is asked if an expensive run has no budget, or if a column of the file was guessed:
    `guessed` says so. `document` returns the output of `--dry-run --json`; `cost` is the expected
    range in USD.
    """
    if not view.quiet:
        out = console(stderr=True)
        for line in (*lines, *(f"defaults: {line}" for line in default_lines(request))):
            out.print(line, soft_wrap=isinstance(line, str) and not out.is_terminal)
    if view.dry_run:
        if view.as_json:
            print_json(document())
        raise typer.Exit
    if not isinstance(view, Confirmed) or view.yes:
        return
    reason = guessed
    if request.budget is None and cost is not None and cost[1] > EXPENSIVE_USD:
        reason = "This may cost more than 1 USD."
    if reason and not agreed(reason):
        raise typer.Exit(STOPPED)


def agreed(reason: str) -> bool:
    """Return whether the user, asked at the terminal, wants to go on; True without a terminal."""
    # A script cannot answer, and would wait forever.
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    sys.stderr.write(f"{reason} Go on? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def finish(
    view: View,
    document: object,
    show: Callable[[], None],
    code: int = 0,
) -> None:
    """Print the outcome as JSON, or show it, and end the command."""
    present(view, document, show)
    leave(None, code)


def present(view: View, document: object, show: Callable[[], None]) -> None:
    """Print the outcome as JSON, or show it."""
    end_line()
    if view.as_json:
        print_json(document)
    else:
        show()
    results().flush()


def leave(stopped: str | None, code: int) -> None:
    """End the command, and report why it `stopped` early, if it did."""
    if stopped:
        say(stopped)
    if code:
        raise typer.Exit(code)
