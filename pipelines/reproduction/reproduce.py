"""Runs rows of published tables again and puts what was measured beside what was published."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ...modules.base.calls import FatalCallError
from ...modules.base.errors import UserError
from ..base.budget import BudgetSpent
from ..base.journal import write_json
from ..base.request import entry
from ..evaluation.earlier import Evaluation, earlier
from ..evaluation.evaluate import evaluate
from ..programs.saved import saved_program
from ..runs.books import open_books
from ..runs.folder import claimed
from ..runs.manifest import made_with
from ..runs.summary import SUMMARY
from ..tracking.context import ABOVE
from ..tracking.run import Tracking
from ..training.live import live
from .lines import Line, Reproduction, table_page
from .measures import derived, lost_counts, measured
from .plan import PlannedRun, ReproductionPlan, has_rows, plan_reproduction
from .plots import plots
from .presets import Figure, PublishedRow
from .recorded import plan_recorded, reproduced_from_records
from .request import ReproduceRequest

TABLE, TABLE_RUN = "table.json", "table_run.json"


@entry(ReproduceRequest)
def reproduce(request: ReproduceRequest) -> Reproduction:
    """Run rows of a published table, and put what was measured beside what was published.

    The folder gets a sub-folder for each run; the same call with the same folder resumes. A budget
    holds for all rows together. What ends it early, or that every question of a run failed, is in
    `stopped`; the finished rows are shown.

    Raises: UserError: anything that is not right, before any LM is called where it can be known
        then; also when not even the first row could be asked.
        KeyboardInterrupt: after the table so far has been written.
    """
    if request.outcomes is not None:
        return reproduced_from_records(plan_recorded(request))
    return reproduce_as_planned(plan_reproduction(request))


def reproduce_as_planned(
    planned: ReproductionPlan, show: Callable[[Reproduction], None] | None = None
) -> Reproduction:
    """Do what was planned, row by row.

    `show` gets a result that ended well before it is sent to the tracking store.
    """
    request = planned.request
    stopped, answered, failed = None, False, None
    interrupt: KeyboardInterrupt | None = None
    with claimed(planned.folder), open_books(account=planned.account()):
        tracking = Tracking()
        if planned.runs:
            write_json(planned.folder / TABLE_RUN, about_tables(planned))
            tracking = Tracking(planned.folder if request.tracking else None, TABLE_RUN)
        try:
            for one in planned.runs:
                result = _evaluated(one, request)
                answered = True
                if result.empty and result.summary.counts["rows"]:
                    failed = f"{one.row.name}: {result.stopped}"
                if result.summary.stopped:
                    stopped = result.summary.stopped
                    break
        except BudgetSpent as problem:
            stopped = str(problem)
        except KeyboardInterrupt as problem:
            stopped, interrupt = "interrupted", problem
        except UserError as problem:
            kept = planned.begun
            if not answered and (isinstance(problem, FatalCallError) or not kept):
                tracking.stop("FAILED")
                raise
            stopped = failed = str(problem)
        except BaseException:
            tracking.stop("FAILED")
            raise
        done = reproduced_so_far(planned, stopped or failed, failed is not None)
        tracking.end(partial(show, done) if show is not None and interrupt is None else None)
        if interrupt is not None:
            raise interrupt
    return done


def reproduced_so_far(
    planned: ReproductionPlan, stopped: str | None = None, failed: bool = False
) -> Reproduction:
    """The table as far as the runs in the folder measure it, which is written and drawn, too."""
    selection, folder = planned.selection, planned.folder
    everything = lines(planned, selection.table.rows.values())
    chosen = {row.id for row in selection.rows}
    shown = [line for line in everything if line.row in chosen]
    # A budget is an error where it leaves no result.
    empty = failed or bool(stopped and not planned.begun)
    pictures = plots(selection.table, everything, planned.folders, folder)
    done = Reproduction(
        selection.table.name, planned.out, shown, planned.notes, pictures, stopped, empty
    )
    shown_as = {"page": table_page(done), "rows": [line.to_dict() for line in everything]}
    write_json(folder / TABLE, {**done.to_dict(), **shown_as})
    return done


def lines(planned: ReproductionPlan, rows: Iterable[PublishedRow]) -> list[Line]:
    """Every figure of the rows, measured where the folder has the runs for it."""
    opened: dict[Path, Evaluation | None] = {}

    def run_of(row: PublishedRow) -> Evaluation | None:
        folder = planned.folders.get(row.name)
        if folder is not None and folder not in opened:
            opened[folder] = earlier(folder) if has_rows(folder) else None
        return opened[folder] if folder is not None else None

    all_lines: list[Line] = []
    for row in rows:
        sources = planned.selection.paper.sources(row) if row.derive else [row]
        distinct = {planned.folders.get(source.name): run_of(source) for source in sources}
        runs = [run for run in distinct.values() if run is not None]
        missing = len(distinct) - len(runs)
        all_lines += [_line(row, figure, runs, missing) for figure in row.figures]
    return all_lines


def _line(row: PublishedRow, figure: Figure, runs: Sequence[Evaluation], missing: int) -> Line:
    line = Line(row.id, figure.name, figure.value, note=row.note, above=figure.above)
    if row.reason is not None:
        return replace(line, why=row.reason)
    if missing:
        return replace(
            line,
            why=f"{missing} of the runs it comes from are missing" if row.derive else "not run",
        )
    names = (str(lm["name"]) for run in runs for lm in run.summary.run["lms"].values())
    line = replace(
        line,
        **lost_counts(figure.name, runs),
        lm=", ".join(dict.fromkeys(names)),
        run=None if row.derive else str(runs[0].folder),
    )
    if line.rows and line.errors == line.rows:
        return replace(line, why="every question failed")
    value = derived(row.derive, figure.name, runs) if row.derive else measured(figure.name, runs[0])
    if value is None:
        return replace(line, why="nothing to measure it on in these questions")
    return line.measured_as(*value)


def about_tables(planned: ReproductionPlan) -> dict[str, object]:
    """What `table_run.json` says: the rows asked for, and by data set the form of a manifest."""
    table, tables = planned.selection.table, dict[str, object]()
    for source in dict.fromkeys(str(run.settings["data"]) for run in planned.runs):
        runs = [run for run in planned.runs if str(run.settings["data"]) == source]
        lms = {
            model: {"name": planned.lms.name(model)}
            for run in runs
            for model in run.preset.models.values()
        }
        tables[source] = {
            "program": {"program": "reproduction", "paper": table.paper, "table": table.id},
            "program_hash": "",
            "prompt_hash": "",
            "lms": lms,
            "data_fingerprint": "",
            "questions": max(len(run.questions) for run in runs),
            "settings": {
                "command": "reproduce",
                "label": f"reproduce {table.name}",
                "data": source,
                "split": runs[0].settings.get("split"),
                "limit": planned.request.limit,
                "environment": planned.request.environment,
            },
            **made_with(),
        }
    return {"rows": [row.id for row in planned.selection.rows], "tables": tables}


def _evaluated(one: PlannedRun, request: ReproduceRequest) -> Evaluation:
    shared: dict[str, Any] = {"lm": one.lm, "cache": request.cache, "tracking": request.tracking}
    if one.training is not None and not (one.folder / SUMMARY).exists():
        live(
            one.program,
            one.training.questions,
            one.training.settings,
            one.folder,
            preset=one.training.preset,
            options=one.training.options,
            data=one.training.source,
            parent=ABOVE,
            **shared,
        )
    elif one.training is not None:
        trained = saved_program(one.folder, embedding=request.embedding)
        for name, seat in trained.seats().items():
            seat.predict.lm = one.program.seats()[name].predict.lm
        one.program = trained
    return evaluate(
        one.program,
        one.questions,
        out=one.folder,
        concurrency=request.concurrency,
        retry_errors=request.retry_errors,
        parent=ABOVE,
        settings=one.settings,
        progress=request.progress,
        **shared,
    )
