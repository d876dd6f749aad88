"""`folkmoot reproduce`: rows of published tables run again, beside what was published."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from ..reproduction.lines import CELLS, Reproduction
from ..reproduction.listing import RowInfo, TableInfo, listing
from ..reproduction.plan import ReproductionPlan, plan_reproduction, range_words
from ..reproduction.presets import models
from ..reproduction.recorded import RecordedPlan, plan_recorded, reproduced_from_records
from ..reproduction.reproduce import reproduce_as_planned, reproduced_so_far
from ..reproduction.request import ReproduceRequest
from .life import live
from .options import ReproduceView
from .show import console, finish


def reproduce(request: ReproduceRequest, view: ReproduceView) -> None:
    if view.show_list:
        tables = listing(request.spec)
        finish(
            view,
            {"tables": [table.to_dict() for table in tables]},
            lambda: _list(request.spec, tables),
        )
        return
    request.progress = view.progress
    plan: ReproductionPlan | RecordedPlan
    if request.outcomes:
        plan = plan_recorded(request)
    else:
        plan = plan_reproduction(request, keyless=view.dry_run)
    live(request, view, plan, _reproduced, _left, lambda done: _show(view, done, plan))


def _reproduced(
    plan: ReproductionPlan | RecordedPlan, show: Callable[[Reproduction], None]
) -> Reproduction:
    if isinstance(plan, RecordedPlan):
        return reproduced_from_records(plan)
    return reproduce_as_planned(plan, show)


def _left(plan: ReproductionPlan | RecordedPlan) -> Reproduction | None:
    if isinstance(plan, RecordedPlan):
        return None
    return reproduced_so_far(plan) if plan.begun else None


def _show(
    view: ReproduceView, found: Reproduction, planned: ReproductionPlan | RecordedPlan
) -> None:
    """The figures side by side, then where everything is."""
    out = console()
    table = Table("row", "figure", *CELLS)
    for line in found.lines:
        table.add_row(line.row, line.figure, *line.cells)
    out.print(table)
    if view.quiet:
        return
    notes = [(line.row, line.note) for line in found.lines]
    notes += [(line.row, line.why) for line in found.lines if line.measured is not None]
    for row, note in dict.fromkeys(notes):
        if note:
            out.print(f"{row}: {note}", soft_wrap=True)
    for picture in found.pictures:
        out.print(f"plot: {picture}", soft_wrap=True)
    out.print(f"runs: {found.out / planned.selection.paper.id}", soft_wrap=True)
    if planned.request.tracking:
        out.print("look at it: folkmoot ui")


def _list(spec: str | None, tables: list[TableInfo]) -> None:
    if spec is None or "/" not in spec.strip("/"):
        _list_tables(console(), tables)
    else:
        _list_rows(console(), tables[0])


def _list_tables(out: Console, tables: list[TableInfo]) -> None:
    shown = Table("paper/table", "what", "rows", "data", "calls a row", "here")
    for info in tables:
        names = dict.fromkeys(name for row in info.rows for name in row.data)
        missing = dict.fromkeys(name for row in info.rows for name in row.missing)
        calls = [row.calls for row in info.rows if row.calls is not None]
        here = "missing: " + ", ".join(missing) if missing else "yes" if names else ""
        called = (
            range_words((min(low for low, _ in calls), max(high for _, high in calls)))
            if calls
            else ""
        )
        shown.add_row(
            info.table.name, info.table.title, str(len(info.rows)), ", ".join(names), called, here
        )
    out.print(shown)
    out.print(
        "--list PAPER/TABLE shows the rows of one; folkmoot datasets says where data comes from"
    )


def _list_rows(out: Console, info: TableInfo) -> None:
    shown = Table("row", "published", "program", "models", "questions", "calls", "here")
    for row in info.rows:
        preset = row.row.preset
        published = ", ".join(f"{figure.name} {figure}" for figure in row.row.figures)
        names = dict.fromkeys(preset.models.values()) if preset else {}
        lms = ", ".join(f"{name} ({models()[name].name or 'name one with --lm'})" for name in names)
        shown.add_row(
            row.row.id,
            published,
            _program(row),
            lms,
            "" if row.questions is None else f"{row.questions:,}",
            "" if row.calls is None else range_words(row.calls),
            "missing: " + ", ".join(row.missing) if row.missing else "yes" if row.data else "",
        )
    out.print(shown)
    notes = [f"{row.row.id}: {row.row.note}" for row in info.rows if row.row.note]
    for note in [info.table.note, *notes] if info.table.note else notes:
        out.print(note, soft_wrap=True)


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
