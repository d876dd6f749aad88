"""`folkmoot reproduce`: runs rows of published tables again, and shows both figures."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from textwrap import shorten

from rich.table import Table as Shown

from ..base.wording import counted
from ..cli.life import live
from ..cli.options import Confirmed
from ..cli.show import console, finish, plain_table, show_lines
from .lines import Line, Reproduction
from .plan import plan_reproduction
from .presets import Row, Table, models, select, tables
from .reproduce import reproduce_as_planned, reproduced_so_far
from .request import ReproduceRequest

LOST = ("errors", "unreadable", "truncated")


def reproduce_and_show(request: ReproduceRequest, view: Confirmed) -> None:
    def show(result: Reproduction) -> None:
        _show(view, result)

    def left(_: Path) -> Reproduction | None:
        done = reproduced_so_far(plan, "not finished")
        # Nothing is measured yet where a table has no figure.
        return None if all(line.measured is None for line in done.lines) else done

    plan = plan_reproduction(request, keyless=view.dry_run)
    live(request, view, plan, lambda plan, _: reproduce_as_planned(plan), left, show)


def _show(view: Confirmed, result: Reproduction) -> None:
    """Show the figures side by side, then the folders."""
    heads = ("measured [95%]", "n", "lost", "difference", "published inside")
    table = plain_table("row", "figure", "published", *heads)
    for line in result.lines:
        table.add_row(line.row, line.figure, *_cells(line))
    console().print(table)
    if view.quiet:
        return
    for gap in result.differences:
        show_lines([f"{gap.row} less {gap.against}, {gap.figure}: {gap.words}"])
    for name, ids in result.unanimous.items():
        if ids:
            agree = f"{name.replace('_', ' ')} {counted(len(ids), 'question')}"
            show_lines([f"{agree}: {shorten(', '.join(ids), 60)}"])
    notes = [(line.row, line.note) for line in result.lines]
    # Where nothing was measured, the table itself says why.
    notes += [(line.row, line.why) for line in result.lines if line.measured is not None]
    # All figures of a row have its note.
    show_lines(f"{row}: {note}" for row, note in dict.fromkeys(notes) if note)
    lms = dict.fromkeys(line.lm for line in result.lines if line.lm)
    if lms:
        show_lines([f"asked: {', '.join(lms)}"])
    folders = list(dict.fromkeys(str(line.run) for line in result.lines if line.counts))
    if len(folders) > 1:
        show_lines([f"next: {shlex.join(['folkmoot', 'compare', *folders])}"])
    show_lines([f"table: {result.file}"])


def _cells(line: Line) -> list[str]:
    lost = list[str]()
    for name in LOST:
        number = getattr(line.counts, name, 0)  # a row that was not run has no counts
        if number:
            lost.append(f"{number:,} {name}")
    return [
        _number(line.published, ".2f"),
        line.words,
        _number(line.n, ","),
        ", ".join(lost),
        _number(line.difference, "+.1f"),
        {True: "yes", False: "no", None: ""}[line.inside],
    ]


def _number(value: float | None, form: str) -> str:
    if value is None:
        return ""
    return format(value, form)


def list_presets(spec: str | None, view: Confirmed) -> None:
    """All tables, those of a PAPER, or the rows of PAPER/TABLE[/ROW]."""
    wanted = (spec or "").strip("/")
    found = list(tables().values())
    if wanted:
        found = [table for table in found if table.name.startswith(f"{wanted}/")]
    if found:
        document = list(map(asdict, found))
        finish(view, {"tables": document}, lambda: _list_tables(found))
    else:
        table, rows = select(spec)
        document = [{**asdict(table), "rows": list(map(asdict, rows))}]
        finish(view, {"tables": document}, lambda: _list_rows(table, rows))


def _list_tables(found: list[Table]) -> None:
    """Show one line per table, so that the list of all papers fits on a screen."""
    shown = plain_table("paper/table", "rows", "what", last_left=True, no_wrap=True)
    for table in found:
        shown.add_row(table.name, str(len(table.rows)), table.title)
    console().print(shown)


def _list_rows(table: Table, rows: list[Row]) -> None:
    shown = Shown("row", "published", "program", "LMs", "questions")
    for row in rows:
        published, lms = list[str](), list[str]()
        for name, value in row.published.items():
            published.append(f"{name} {_number(value, '.2f') or '–'}")
        # One model may be that of several agents.
        for model in dict.fromkeys(row.models.values()):
            lms.append(f"{model} ({models()[model]['name'] or 'name one with --lm'})")
        shown.add_row(row.id, ", ".join(published), _program(row), ", ".join(lms), _questions(row))
    console().print(shown)
    show_lines([*table.notes, *(f"{row.id}: {row.note}" for row in rows if row.note)])


def _program(row: Row) -> str:
    if row.program is None:
        return f"published only: {row.reason}"
    if row.training is not None:
        return f"{row.program['program']}, trained with the preset {row.training}"
    return ", ".join(f"{name}={value}" for name, value in row.program.items())


def _questions(row: Row) -> str:
    """Return the sample of a row, such as `300 of gsm1k (test)`."""
    if row.program is None:
        return ""
    return f"{row.data.get('limit', 'all')} of {row.data['questions']} ({row.data['split']})"
