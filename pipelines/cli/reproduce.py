"""The command `folkmoot reproduce`: rows of published tables run again, beside what was published."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...modules.base.errors import UserError
from .guard import STOPPED, clean_stdout, say
from .options import (
    AnswerForm,
    Budget,
    Cache,
    Concurrency,
    Debug,
    DryRun,
    Json,
    MaxTokens,
    Prices,
    Quiet,
    Threads,
    Yes,
)

if TYPE_CHECKING:
    from ..reproduction.listing import RowInfo, TableInfo
    from ..reproduction.plan import Plan
    from ..reproduction.reproduce import Line, Reproduction

EXAMPLE = (
    "Example: folkmoot reproduce agents-of-commonsense/table-2/EX2_gpt --limit 200 --lm openai/gpt-4o-mini"
)


def reproduce(
    spec: Annotated[
        str | None,
        typer.Argument(metavar="PAPER/TABLE[/ROW]", help="What to run; --list shows what there is."),
    ] = None,
    show_list: Annotated[
        bool, typer.Option("--list", help="Show papers and tables, or the rows of PAPER or PAPER/TABLE.")
    ] = False,
    lm: Annotated[
        list[str] | None,
        typer.Option(
            "--lm",
            metavar="[MODEL=]NAME",
            help="LM for all models, or for one model of the paper. Default: what each is called today.",
        ),
    ] = None,
    api_base: Annotated[
        list[str] | None,
        typer.Option("--api-base", metavar="[MODEL=]URL", help="Address of an OpenAI-compatible endpoint."),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(help="At most so many questions a row, drawn with the row's seed.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of all runs. Default: one under runs/ that it resumes."),
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option(
            metavar="corpus:PATH|replay:PATH",
            help="Where agents look things up. Default: the live Wikipedia.",
        ),
    ] = None,
    embedding: Annotated[
        str | None, typer.Option(metavar="MODEL|DIR", help="Sentence embeddings of strategy networks.")
    ] = None,
    max_tokens: MaxTokens = None,
    answer_form: AnswerForm = None,
    threads: Threads = None,
    concurrency: Concurrency = 64,
    retry_errors: Annotated[bool, typer.Option("--retry-errors", help="Ask failed questions again.")] = False,
    budget: Budget = None,
    price: Prices = None,
    cache: Cache = True,
    track: Annotated[bool, typer.Option("--track/--no-track", help="Log the runs to MLflow.")] = True,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Run rows of a published table again, and show published | measured with its interval | difference.

    Run the same command again to resume one that was stopped. Rows that differ in nothing share a run.
    """
    from . import show as shown

    if show_list:
        _list(spec, as_json)
        return
    if spec is None:
        raise UserError(
            "name what to reproduce, such as agents-of-commonsense/table-2; --list shows what there is"
        )
    from ..reproduction.lms import PaperLMs
    from ..reproduction.plan import Request, plan
    from ..reproduction.reproduce import run
    from .evaluate import EXPENSIVE_USD

    errors = shown.console(stderr=True)

    @contextmanager
    def live(label: str) -> Iterator[Callable[[Any], None]]:
        bar = shown.LiveProgress(label)
        with bar.shown(errors, quiet=quiet):
            yield bar

    with clean_stdout():
        request = Request(
            spec=spec,
            lms=PaperLMs(
                lm or (), api_base or (), max_tokens, answer_form, threads, concurrency, price or ()
            ),
            limit=limit,
            out=out,
            environment=environment,
            embedding=embedding,
            concurrency=concurrency,
            retry_errors=retry_errors,
            budget=budget,
            cache=cache,
            tracking=track,
            dry_run=dry_run,
        )
        planned = plan(request)
        if not quiet:
            _show_plan(errors, planned)
        cost = planned.total["cost_usd"]
        asks_first = cost is not None and cost[1] > EXPENSIVE_USD
        go_on = not dry_run and (yes or not asks_first or shown.agreed())
        found = run(planned, live) if go_on else None
    if found is None:
        if dry_run and as_json:
            shown.print_json(planned.to_dict())
        raise typer.Exit(0 if dry_run else STOPPED)
    if found.stopped:
        say(found.stopped)
    if as_json:
        shown.print_json(found.to_dict())
    else:
        _show(found, planned, quiet=quiet, track=track)
    if found.code:
        raise typer.Exit(found.code)


def _show_plan(out: Any, planned: Plan) -> None:
    """A line a run: questions, calls, tokens, cost, time, and the difference that its sample can show."""
    from rich.table import Table

    table = Table("run", "questions", "calls", "tokens", "cost", "time", "shows from")
    for run in planned.runs:
        told = run.forecast
        left = (
            f"{told['left']:,} of {told['questions']:,}"
            if told["left"] < told["questions"]
            else told["questions"]
        )
        difference = told["smallest_difference"]
        shows = f"{100 * difference:.1f} points" if difference < 1 else "nothing"
        table.add_row(f"{run.row.table}/{run.row.id}", str(left), *_amounts(told), shows)
    if len(planned.runs) > 1:
        table.add_section()
        table.add_row(f"{len(planned.runs)} runs", "", *_amounts(planned.total), "")
    if planned.runs:
        out.print(table)
    for note in planned.notes:
        out.print(note, soft_wrap=True)
    if planned.request.budget:
        out.print(f"budget: {planned.request.budget}")


def _amounts(told: dict[str, Any]) -> list[str]:
    from .show import duration

    tokens = [
        prompt + said for prompt, said in zip(told["prompt_tokens"], told["completion_tokens"], strict=True)
    ]
    cost = (
        "unknown"
        if told["cost_usd"] is None
        else f"{told['cost_usd'][0]:.2f} to {told['cost_usd'][1]:.2f} USD"
    )
    time = "unknown" if told["seconds"] is None else " to ".join(map(duration, told["seconds"]))
    return [_range(told["calls"]), _range(tokens), cost, time]


def _range(ends: Any) -> str:
    low, high = ends
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _show(found: Reproduction, planned: Plan, *, quiet: bool, track: bool) -> None:
    """The figures side by side, then where everything is."""
    from rich.table import Table

    from .show import console

    out = console()
    table = Table("row", "figure", "published", "measured [95%]", "n", "difference", "published inside")
    for line in found.lines:
        published = "" if line.published is None else f"{line.published:.2f}"
        n = "" if line.n is None else f"{line.n:,}"
        table.add_row(line.row, line.figure, published, _measured(line), n, _points(line), _inside(line))
    out.print(table)
    if quiet:
        return
    for note in dict.fromkeys(f"{line.row}: {line.note}" for line in found.lines if line.note):
        out.print(note, soft_wrap=True)
    for picture in found.pictures:
        out.print(f"plot: {picture}", soft_wrap=True)
    out.print(f"runs: {found.out / planned.selection.paper.id}", soft_wrap=True)
    if track:
        out.print("look at it: folkmoot ui")


def _measured(line: Line) -> str:
    if line.measured is None:
        return line.why or ""
    return f"{line.measured:.1f} [{line.low:.1f}, {line.high:.1f}]"


def _points(line: Line) -> str:
    return "" if line.difference is None else f"{line.difference:+.1f}"


def _inside(line: Line) -> str:
    return {True: "yes", False: "no", None: ""}[line.inside]


def _list(spec: str | None, as_json: bool) -> None:
    from ..reproduction.listing import listing
    from .show import console, print_json

    with clean_stdout():
        tables = listing(spec)
    if as_json:
        print_json({"tables": [table.to_dict() for table in tables]})
    elif spec is None or "/" not in spec.strip("/"):
        _list_tables(console(), tables)
    else:
        _list_rows(console(), tables[0])


def _list_tables(out: Any, tables: list[TableInfo]) -> None:
    from rich.table import Table

    shown = Table("paper/table", "what", "rows", "data", "calls a row", "here")
    for info in tables:
        names = dict.fromkeys(name for row in info.rows for name in row.data)
        missing = dict.fromkeys(name for row in info.rows for name in row.missing)
        calls = [row.calls for row in info.rows if row.calls is not None]
        here = "missing: " + ", ".join(missing) if missing else "yes" if names else ""
        told = _range((min(low for low, _ in calls), max(high for _, high in calls))) if calls else ""
        shown.add_row(info.table.name, info.table.title, str(len(info.rows)), ", ".join(names), told, here)
    out.print(shown)
    out.print("--list PAPER/TABLE shows the rows of one; folkmoot datasets says where data comes from")


def _list_rows(out: Any, info: TableInfo) -> None:
    from rich.table import Table

    from ..reproduction.presets import models

    shown = Table("row", "published", "program", "models", "questions", "calls", "here")
    for row in info.rows:
        preset = row.row.preset
        published = ", ".join(
            f"{figure.name} {'–' if figure.value is None else f'{figure.value:.2f}'}"
            for figure in row.row.figures
        )
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
    for note in dict.fromkeys([info.table.note, *(row.row.note for row in info.rows)]):
        if note:
            out.print(note, soft_wrap=True)


def _program(row: RowInfo) -> str:
    if row.row.reason:
        return f"published only: {row.row.reason}"
    if row.row.preset is None:
        return f"from the runs of {', '.join(row.row.sources)}"
    told = dict(row.row.preset.program)
    name = told.pop("program")
    if row.row.preset.training:
        return f"{name}, trained with the preset {row.row.preset.training}"
    return ", ".join([str(name), *(f"{key}={value}" for key, value in told.items() if key != "sampling")])
