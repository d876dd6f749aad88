"""Runs rows of published tables again and puts what was measured beside what was published."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ...modules.base.calls import FatalCallError
from ...modules.base.errors import UserError
from ..base.budget import BudgetSpent
from ..base.journal import read_object, write_json
from ..evaluation.check import all_failed
from ..evaluation.earlier import Evaluation, earlier
from ..evaluation.evaluate import evaluate
from ..programs.saved import saved_program
from ..programs.seats import LMOptions
from ..runs.books import open_books
from ..runs.folder import claimed
from ..runs.manifest import MANIFEST
from ..runs.progress import Progress
from ..runs.rows import RESULTS
from ..runs.summary import SUMMARY
from ..tracking.uploads import Tracker
from ..training.live import live
from .lines import Line, Reproduction
from .lms import PaperLMs
from .logged import start_tables, table_uploads
from .measures import derived, lost_counts, measured
from .plan import ReproductionPlan, Request, Run, plan_reproduction
from .plots import plots
from .presets import EVERY, Figure, PublishedRow

TABLE = "table.json"
Show = Callable[[str], AbstractContextManager[Callable[[Any], None]]]


def reproduce(
    spec: str,
    *,
    lm: str | Mapping[str, str] | None = None,
    api_base: str | None = None,
    limit: int | None = None,
    out: str | Path | None = None,
    environment: str | None = None,
    embedding: str | None = None,
    prompts: str | Path | Mapping[str, str] | None = None,
    concurrency: int = 64,
    retry_errors: bool = False,
    budget: str | None = None,
    cache: bool = True,
    tracking: bool = True,
) -> Reproduction:
    """Run rows of a published table and compare.

    Args:
        spec: `PAPER/TABLE` or `PAPER/TABLE/ROW`, such as `agents-of-commonsense/table-2/EX2_gpt`.
        lm: an LM's name for all of the paper's models, or model → name; None takes what each is called today.
        api_base: address of an OpenAI-compatible endpoint for all LMs.
        limit: at most so many questions a row, drawn with the row's seed.
        out: folder with a sub-folder for each run. The same call with the same folder resumes.
        environment: where agents look things up, instead of the live Wikipedia; as `program_of` takes it.
        embedding: sentence embeddings of strategy networks.
        prompts: seat → instructions, or a YAML file that says so, in place of folkmoot's own wording.
        concurrency, retry_errors, cache, tracking: as for `evaluate`.
        budget: ceilings for all rows together, over all resumptions of the folder.

    Raises UserError for anything that is not right, before any LM is called where it can be known then.
    """
    by_model = {EVERY: lm} if isinstance(lm, str) else lm or {}
    named = [name if model == EVERY else f"{model}={name}" for model, name in by_model.items()]
    bases = [] if api_base is None else [api_base]
    request = Request(
        spec=spec,
        lms=PaperLMs(LMOptions(named, bases, concurrency=concurrency)),
        limit=limit,
        out=None if out is None else Path(out),
        environment=environment,
        embedding=embedding,
        prompts=prompts,
        concurrency=concurrency,
        retry_errors=retry_errors,
        budget=budget,
        cache=cache,
        tracking=tracking,
    )
    return run(plan_reproduction(request), _silent)


def run(planned: ReproductionPlan, show: Show) -> Reproduction:
    """Carry a plan out, row by row. What ends it early, or that every question of a run failed, is in
    `stopped`; what is finished is shown anyway.

    Raises UserError when not even the first row could be asked.
    """
    request, selection = planned.request, planned.selection
    account = planned.account()
    folder = planned.out / selection.paper.id / selection.table.id
    stopped, code, answered, failed = None, 0, False, None
    with claimed(folder), open_books(account=account):
        trackers = start_tables(planned) if request.tracking and planned.runs else {}
        try:
            for one in planned.runs:
                parent = trackers.get(str(one.settings["data"]))
                result = _evaluated(one, request, parent.run_id if parent else None, show)
                answered = True
                rows = result.summary.counts
                if 0 < rows["rows"] == rows["errors"]:
                    failed = f"{one.row.name}: {all_failed(one.folder)}"
                if result.summary.stopped:
                    stopped = result.summary.stopped
                    break
        except BudgetSpent as problem:
            stopped = str(problem)
        except KeyboardInterrupt:
            stopped, code = (
                f"interrupted: what is finished is kept in {planned.out}; the same command goes on",
                130,
            )
        except UserError as problem:
            kept = any(_has_rows(one.folder) for one in planned.runs)
            if not answered and (isinstance(problem, FatalCallError) or not kept):
                _stop(trackers)
                raise
            stopped, code = str(problem), 1
        except BaseException:
            _stop(trackers)
            raise
        everything = lines(planned, selection.table.rows.values())
        chosen = {row.id for row in selection.rows}
        pictures = plots(selection.table, everything, planned.folders, folder)
        shown = [line for line in everything if line.row in chosen]
        if failed or (stopped and not code and not any(map(_has_rows, planned.folders.values()))):
            code = code or 1  # a budget is an error where it leaves no result
        status = "KILLED" if stopped else "FAILED" if failed else "FINISHED"
        stopped = stopped or failed
        found = Reproduction(selection.table.name, planned.out, shown, planned.notes, pictures, stopped, code)
        write_json(folder / TABLE, {**found.to_dict(), "rows": [line.to_dict() for line in everything]})
        for tracker in trackers.values():
            tracker.end(table_uploads(found, folder), status, folder)
    return found


def lines(planned: ReproductionPlan, rows: Iterable[PublishedRow]) -> list[Line]:
    """Every figure of the rows, measured where the folder has the runs for it."""
    opened: dict[Path, Evaluation | None] = {}

    def run_of(row: PublishedRow) -> Evaluation | None:
        folder = planned.folders.get(row.name)
        if folder is not None and folder not in opened:
            opened[folder] = earlier(folder) if _has_rows(folder) else None
        return opened[folder] if folder is not None else None

    found: list[Line] = []
    for row in rows:
        sources = planned.selection.paper.sources(row) if row.derive else [row]
        distinct = {planned.folders.get(source.name): run_of(source) for source in sources}
        runs = [run for run in distinct.values() if run is not None]
        missing = len(distinct) - len(runs)
        found += [_line(row, figure, runs, missing) for figure in row.figures]
    return found


def _line(row: PublishedRow, figure: Figure, runs: Sequence[Evaluation], missing: int) -> Line:
    line = Line(row.id, figure.name, figure.value, note=row.note, above=figure.above)
    if row.reason is not None:
        return replace(line, why=row.reason)
    if missing:
        return replace(
            line, why=f"{missing} of the runs it comes from are missing" if row.derive else "not run"
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
    now, low, high = (100 * part for part in value[:3])
    line = replace(line, measured=now, low=low, high=high, n=value.n)
    if line.failed:
        return replace(line, why="no difference while so many questions fail: --retry-errors asks them again")
    published = figure.value
    if published is None:
        return line
    # Published with two digits at most: one on the interval's end is not outside for its rounding.
    inside = published <= high + 0.005 and (figure.above or low - 0.005 <= published)
    return replace(line, difference=now - published, inside=inside)


def _evaluated(one: Run, request: Request, parent: str | None, show: Show) -> Evaluation:
    shared: dict[str, Any] = {"lm": one.lm, "cache": request.cache, "tracking": request.tracking}
    if one.training is not None and not (one.folder / SUMMARY).exists():
        with show(f"{one.row.table}/{one.row.id}: training") as told:
            live(
                one.program,
                one.training.questions,
                one.training.settings,
                one.folder,
                preset=one.training.preset,
                given=one.training.given,
                data=one.training.source,
                parent=parent,
                **shared,
            )
    elif one.training is not None:
        trained = saved_program(one.folder, embedding=request.embedding)
        for name, seat in trained.seats().items():
            seat.predict.lm = one.program.seats()[name].predict.lm
        one.program = trained
    training = read_object(one.folder / "training.json") if one.training is not None else None
    linked = {"training_run": training["mlflow_run_id"]} if training else {}
    with show(f"{one.row.table}/{one.row.id}") as told:
        return evaluate(
            one.program,
            one.questions,
            out=one.folder,
            concurrency=request.concurrency,
            retry_errors=request.retry_errors,
            parent=parent,
            settings={**one.settings, **linked},
            progress=told,
            **shared,
        )


def _has_rows(folder: Path) -> bool:
    results = folder / RESULTS
    return (folder / MANIFEST).exists() and results.exists() and results.stat().st_size > 0


def _stop(trackers: Mapping[str, Tracker]) -> None:
    for tracker in trackers.values():
        tracker.stop("FAILED")


@contextmanager
def _silent(label: str) -> Iterator[Callable[[Progress], None]]:
    yield lambda state: None
