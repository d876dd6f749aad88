"""`folkmoot reproduce`: rows of published tables run again, beside what was published."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from ...modules.base.errors import UserError
from ..base.wording import duration
from ..reproduction.lines import CELLS, Reproduction
from ..reproduction.listing import RowInfo, TableInfo, listing
from ..reproduction.lms import PaperLMs
from ..reproduction.plan import ReproductionOrder, ReproductionPlan, plan_reproduction
from ..reproduction.presets import models
from ..reproduction.reproduce import run
from ..reproduction.request import ReproduceRequest
from .options import Confirmed
from .show import confirm, console, evaluating, finish


def reproduce(options: ReproduceRequest, view: Confirmed) -> None:
    if options.show_list:
        tables = listing(options.spec)
        finish(view, {"tables": [table.to_dict() for table in tables]}, lambda: _list(options.spec, tables))
        return
    if options.spec is None:
        raise UserError(
            "name what to reproduce, such as agents-of-commonsense/table-2; --list shows what there is"
        )
    lms = PaperLMs(options, keyless=view.dry_run)
    names = ("spec", "limit", "out", "environment", "embedding", "prompts", "concurrency")
    more = ("retry_errors", "budget", "cache", "tracking")
    planned = plan_reproduction(ReproductionOrder(lms=lms, **options.named(*names, *more)))
    confirm(options, view, plan_lines(planned), planned.to_dict, planned.total["cost_usd"])
    done = run(planned, lambda label: evaluating(view, label))
    finish(view, done.to_dict(), lambda: _show(options, view, done, planned), done.stopped, done.code)


def plan_lines(planned: ReproductionPlan) -> list[str | Table]:
    """A line a run: questions, calls, tokens, cost, time, and the difference that its sample can show."""
    table = Table("run", "questions", "calls", "tokens", "cost", "time", "shows from")
    for one in planned.runs:
        expected = one.forecast
        left = (
            f"{expected['left']:,} of {expected['questions']:,}"
            if expected["left"] < expected["questions"]
            else expected["questions"]
        )
        low, high = (100 * end for end in expected["smallest_difference"])
        shows = f"{low:.1f}{f' to {high:.1f}' if high > low else ''} points" if low < 100 else "nothing"
        table.add_row(f"{one.row.table}/{one.row.id}", str(left), *_amounts(expected), shows)
    if len(planned.runs) > 1:
        table.add_section()
        table.add_row(f"{len(planned.runs)} runs", "", *_amounts(planned.total), "")
    budget = [f"budget: {planned.request.budget}"] if planned.request.budget else []
    return [*([table] if planned.runs else []), *planned.notes, *budget]


def _amounts(expected: dict[str, Any]) -> list[str]:
    tokens = [
        prompt + said
        for prompt, said in zip(expected["prompt_tokens"], expected["completion_tokens"], strict=True)
    ]
    cost = (
        "unknown"
        if expected["cost_usd"] is None
        else f"{expected['cost_usd'][0]:.2f} to {expected['cost_usd'][1]:.2f} USD"
    )
    time = "unknown" if expected["seconds"] is None else " to ".join(map(duration, expected["seconds"]))
    return [_range(expected["calls"]), _range(tokens), cost, time]


def _range(ends: Any) -> str:
    low, high = ends
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _show(options: ReproduceRequest, view: Confirmed, found: Reproduction, planned: ReproductionPlan) -> None:
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
    if options.tracking:
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
        called = _range((min(low for low, _ in calls), max(high for _, high in calls))) if calls else ""
        shown.add_row(info.table.name, info.table.title, str(len(info.rows)), ", ".join(names), called, here)
    out.print(shown)
    out.print("--list PAPER/TABLE shows the rows of one; folkmoot datasets says where data comes from")


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
            "" if row.calls is None else _range(row.calls),
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
    return ", ".join([str(name), *(f"{key}={value}" for key, value in program.items() if key != "sampling")])
