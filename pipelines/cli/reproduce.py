"""`folkmoot reproduce`: runs rows of published tables again, and shows both figures."""

from __future__ import annotations

from functools import partial

from rich.table import Table

from ..reproduction.lines import CELLS, Reproduction
from ..reproduction.listing import RowInfo, TableInfo, listing
from ..reproduction.plan import ReproductionPlan, plan_reproduction
from ..reproduction.presets import models
from ..reproduction.recorded import RecordedPlan, plan_recorded, reproduced_from_records
from ..reproduction.reproduce import reproduce_as_planned, reproduced_so_far
from ..reproduction.request import ReproduceRequest
from .life import live
from .options import ReproduceView
from .show import console, finish, plain_table, show_lines


def reproduce(request: ReproduceRequest, view: ReproduceView) -> None:
    if view.show_list:
        tables = listing(request.spec)
        rows = "/" in (request.spec or "").strip("/")
        show = partial(_list_rows, tables[0]) if rows else partial(_list_tables, tables)
        finish(view, {"tables": [table.to_dict() for table in tables]}, show)
        return
    if request.outcomes:
        recorded = plan_recorded(request)
        live(
            request,
            view,
            recorded,
            lambda plan, _: reproduced_from_records(plan),
            show=lambda done: _show(view, done, recorded),
        )
    else:
        plan = plan_reproduction(request, keyless=view.dry_run)
        live(
            request,
            view,
            plan,
            reproduce_as_planned,
            lambda plan: reproduced_so_far(plan) if plan.begun else None,
            lambda done: _show(view, done, plan),
        )


def _show(view: ReproduceView, result: Reproduction, plan: ReproductionPlan | RecordedPlan) -> None:
    """Show the figures side by side, then the folders."""
    table = plain_table("row", "figure", *CELLS)
    for line in result.lines:
        table.add_row(line.row, line.figure, *line.cells)
    console().print(table)
    if view.quiet:
        return
    notes = [(line.row, line.note) for line in result.lines]
    notes += [(line.row, line.why) for line in result.lines if line.measured is not None]
    show_lines(f"{row}: {note}" for row, note in dict.fromkeys(notes) if note)
    show_lines(f"plot: {picture}" for picture in result.pictures)
    show_lines([f"runs: {result.out / plan.selection.paper.id}"])
    show_lines(result.bibtex)
    if plan.request.tracking:
        show_lines(["look at it: folkmoot ui"])


def _list_tables(tables: list[TableInfo]) -> None:
    """Show one line per table, so that the list of all papers fits on a screen."""
    out, shown = console(), Table(box=None, pad_edge=False)
    for head in ("paper/table", "rows", "data", "what"):
        # Titles are cut, so that all else fits in 80 columns.
        shown.add_column(head, no_wrap=True, max_width=out.width - 60 if head == "what" else None)
    for info in tables:
        data = "missing" if any(row.missing for row in info.rows) else "here"
        needed = data if any(row.data for row in info.rows) else ""
        shown.add_row(info.table.name, str(len(info.rows)), needed, info.table.title)
    out.print(shown)


def _list_rows(info: TableInfo) -> None:
    shown = Table("row", "published", "program", "models", "questions", "data")
    for row in info.rows:
        preset = row.row.preset
        published = ", ".join(f"{figure.name} {figure}" for figure in row.row.figures)
        names = dict.fromkeys(preset.models.values()) if preset else {}
        lms = ", ".join(f"{name} ({models()[name].name or 'name one with --lm'})" for name in names)
        shown.add_row(
            *(row.row.id, published, _program(row), lms),
            "" if row.questions is None else f"{row.questions:,}",
            f"missing: {', '.join(row.missing)}" if row.missing else "here" if row.data else "",
        )
    console().print(shown)
    notes = [f"{row.row.id}: {row.row.note}" for row in info.rows if row.row.note]
    show_lines([info.table.note, *notes] if info.table.note else notes)


def _program(row: RowInfo) -> str:
    if row.row.reason:
        return f"published only: {row.row.reason}"
    if row.row.preset is None:
        return f"from the runs of {', '.join(row.row.sources)}"
    program = dict(row.row.preset.program)
    name = program.pop("program")
    if row.row.preset.training:
        return f"{name}, trained with the preset {row.row.preset.training}"
    return ", ".join(
        [str(name), *(f"{key}={value}" for key, value in program.items() if key != "sampling")]
    )
