"""Runs a program over questions: concurrent, bounded, every row on disk, resumable after any death."""

from __future__ import annotations

import asyncio
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dspy
from dspy.utils.exceptions import (
    LMAuthError,
    LMBillingError,
    LMConfigurationError,
    LMError,
    LMUnsupportedModelError,
)

from ...modules.base.calls import FatalCallError, Usage, asking, bound, metered
from ...modules.base.errors import UserError, said_by
from ...modules.base.sync import run_sync
from ...modules.protocols.program import Program
from ...modules.reading.question import Question
from ..base.budget import ACCOUNTS, Budget, BudgetSpent, open_account
from ..base.wording import counted
from ..lms.cache import ACTIVE_CACHE, open_cache
from ..lms.ledger import LEDGERS, Ledger
from ..lms.named import SAMPLING, engine_of
from ..lms.secrets import without_keys
from ..lms.seen import SeenCall, foreign_calls
from ..lms.store import ACTIVE, CallStore, write_lms
from ..runs.manifest import open_run, save_run, write_json
from ..runs.rows import RESULTS, RowFile, error_row, read_rows, rewrite, row_of
from ..runs.summary import Summary, summarise
from ..runs.traces import TraceFile, sample
from ..tracking.tracker import NoTracker, Tracker, start_tracking
from .check import ASYNCIO, RAY, check_concurrency, check_engine, check_program, checked

SUMMARY = "summary.json"
CONCURRENCY = 64
_HOPELESS = (LMAuthError, LMBillingError, LMConfigurationError, LMUnsupportedModelError)


@dataclass
class Progress:
    """Where a running evaluation stands; handed to `progress` at the start and after every row."""

    total: int
    done: int = 0
    resumed: int = 0
    correct: int = 0
    errors: int = 0
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)

    @property
    def seconds_left(self) -> float | None:
        """None until this run has finished a question of its own."""
        new = self.done - self.resumed
        return self.seconds / new * (self.total - self.done) if new else None

    def count(self, row: Mapping[str, Any], *, resumed: bool = False) -> None:
        self.done += 1
        self.resumed += resumed
        self.correct += bool(row["correct"])
        self.errors += bool(row["error"])
        if not resumed:
            self.usage.add(Usage(**row["usage"]))


class Evaluation:
    """A finished evaluation: its `summary`, and its `rows`, read from disk one at a time.

    `summary.scores["accuracy"]` has `value`, `low` and `high`, the ends of the 95% interval.
    """

    def __init__(self, folder: Path, summary: Summary, keep: Any = None, sender: Any = None) -> None:
        self.folder = folder
        self.summary = summary
        self._keep = keep  # a temporary folder lives as long as its evaluation
        self._sender = sender

    def wait_for_traces(self, seconds: float | None = None) -> bool:
        """Wait until MLflow has the traces, and say whether it does. Many are still on their way when an
        evaluation ends; a process waits for them before it ends."""
        return self._sender is None or bool(self._sender.wait(seconds))

    @property
    def rows(self) -> Iterator[dict[str, Any]]:
        yield from read_rows(self.folder / RESULTS)  # holds on to self, and so to a temporary folder

    @property
    def accuracy(self) -> float:
        return float(self.summary.scores["accuracy"]["value"])

    def __repr__(self) -> str:
        if not self.summary.counts["rows"]:
            return "Evaluation(no question is finished)"
        accuracy = self.summary.scores["accuracy"]
        interval = f"[{accuracy['low']:.1%}, {accuracy['high']:.1%}]"
        return f"Evaluation({accuracy['value']:.1%} {interval}, n={self.summary.counts['rows']})"


def evaluate(
    program: Program,
    questions: Iterable[Question],
    *,
    lm: Any = None,
    concurrency: int = CONCURRENCY,
    out: str | Path | None = None,
    record: str | Path | None = None,
    max_failures: int | None = None,
    retry_errors: bool = False,
    budget: str | Budget | None = None,
    cache: bool = True,
    tracking: bool = True,
    traces: float | None = None,
    parent: str | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: Callable[[Progress], None] | None = None,
    engine: str = ASYNCIO,
    workers: int | None = None,
) -> Evaluation:
    """Answer every question with the program and score the answers.

    Args:
        program: any folkmoot program.
        questions: labelled questions with distinct ids.
        lm: the LM of every seat that has none of its own; None takes DSPy's configured one.
        concurrency: most questions in flight. An LM that takes fewer calls at once (the embedded one takes
            one) lowers it.
        out: folder for `results.jsonl` (a row a question), `summary.json` and `calls.jsonl`. The same command
            with the same folder resumes: finished rows are kept, and answered calls are not made again. None
            uses a temporary folder.
        record: another folder that gets every LM call, for `replay/DIR`; `out` itself is one, too.
        max_failures: stop once that many questions have failed.
        retry_errors: on resuming, ask again the questions whose rows are errors.
        budget: ceilings such as `"2 USD, 500 calls"`, which hold over all resumptions of the folder (time:
            for this one). When one is reached no further call is made, what is finished is kept and summed
            up, and `summary.stopped` says so.
        cache: take answers from the user's call cache, and leave complete ones there; never for embedded LMs.
        tracking: log to MLflow as one run.
        traces: share of the questions (0 to 1) whose dialogues and LM calls MLflow gets as traces; None takes
            20 questions.
        parent: id of the MLflow run that this one is shown under.
        settings: what to note beside the run (data set, split, seed, …).
        progress: called after every row, from the event loop's thread.
        engine: `asyncio`, all in this process, or `ray`, in the worker processes of a Ray cluster.
        workers: Ray's worker processes, which share `concurrency`; None takes one a CPU.

    Raises:
        UserError: no program, or something else than questions; no, unlabelled or repeated questions; an
            `out` folder of another run; a wrong key or unknown model; too many failures; a disk that cannot
            be written; Ray missing or not starting. What was finished is kept.
        KeyboardInterrupt: likewise, after the summary so far has been written.
    """
    check_program(program)
    check_concurrency(concurrency)
    questions = checked(questions)
    language_model = lm or dspy.settings.lm
    check_engine(engine, workers, program, language_model, budget=budget is not None or bool(ACCOUNTS.get()))
    _warn_of_sampling(program, language_model)
    wanted = sample([question.id for question in questions], traces) if tracking else frozenset()
    keep = tempfile.TemporaryDirectory(prefix="folkmoot-") if out is None else None
    folder = Path(keep.name if keep else str(out))
    with ExitStack() as held:
        if keep is not None:  # it outlives this block only when all went well
            held.push(lambda kind, *_: keep.cleanup() if kind else None)
        try:
            run = open_run(folder, program, questions, language_model, dict(settings or {}))
            run["mlflow_parent_id"] = parent
            ledger = Ledger(folder)
            held.callback(ledger.close)
            if budget is not None:
                account = open_account(budget, _engines(program, language_model), ledger.total)
                held.enter_context(bound(ACCOUNTS, (account, *ACCOUNTS.get())))
            rows = RowFile(folder, retry_errors=retry_errors)
            held.callback(rows.close)
            traced = TraceFile(folder, wanted, folder / RESULTS)
            held.callback(traced.close)
            stores = [CallStore(folder), *([CallStore(Path(record))] if record is not None else [])]
            for store in stores:
                held.callback(store.close)
                write_lms(store.folder, run["lms"])
            save_run(folder, run)
        except OSError as problem:
            raise _unwritable(problem, folder, "choose another --out") from None
        held.enter_context(bound(LEDGERS, (ledger, *LEDGERS.get())))
        held.enter_context(bound(ACTIVE_CACHE, held.enter_context(open_cache(cache))))
        tracker: Tracker = NoTracker()
        if tracking:
            model = None if parent else program  # of candidates and trials, only the winner is worth a model
            tracker = start_tracking(
                run, folder, program=model, lm=language_model, traces=len(wanted), keep=keep
            )
        state = Progress(total=len(questions))
        for row in read_rows(folder / RESULTS):
            state.count(row, resumed=True)
        job = _Job(program, rows, traced, state, max_failures, tracker, progress)
        waiting = [question for question in questions if question.id not in rows.done]
        in_flight = min(concurrency, taken_at_once(program, language_model))
        stopped: BaseException | None = None
        token = ACTIVE.set((*stores, *ACTIVE.get()))
        try:
            # DSPy would keep the last 10,000 calls in its history and again in its trace.
            watching = {"callbacks": foreign_calls(wanted, _engines(program, language_model))}
            with dspy.context(lm=language_model, disable_history=True, trace=None, **watching):
                if engine == RAY:
                    from .ray_engine import answer_on_ray

                    job.tell()
                    answer_on_ray(
                        program,
                        language_model,
                        waiting,
                        ACTIVE.get(),
                        job.take,
                        concurrency=concurrency,
                        workers=workers,
                    )
                else:
                    run_sync(job.answer_all, waiting, in_flight)
        except BaseException as problem:
            stopped = problem  # whatever it was: what is finished is summed up before it goes on its way
        finally:
            ACTIVE.reset(token)
        try:
            rewrite(folder / RESULTS, [question.id for question in questions])
            summary = summarise(read_rows(folder / RESULTS), len(questions), program.report, run)
            summary.paid = ledger.total.to_dict()
            summary.stopped = job.stopped or _why(stopped)
            write_json(folder / SUMMARY, summary.to_dict())
        except OSError as problem:
            tracker.stop("FAILED")
            raise stopped or _unwritable(problem, folder, "make room and run it again") from None
        status = "FAILED" if stopped else "FINISHED"
        if job.stopped or isinstance(stopped, KeyboardInterrupt | UserError):
            status = "KILLED"
        tracker.finish(summary, folder, status)
        if stopped is not None:
            raise stopped
    return Evaluation(folder, summary, keep, tracker.sender)


@dataclass
class _Job:
    """The questions in flight of one evaluation."""

    program: Program
    rows: RowFile
    traced: TraceFile
    state: Progress
    max_failures: int | None
    tracker: Tracker
    progress: Callable[[Progress], None] | None
    started: float = field(default_factory=time.monotonic)
    stopped: str | None = None  # by a budget

    async def answer_all(self, questions: Sequence[Question], in_flight: int) -> None:
        """A fixed number of workers take questions in order; the first fatal problem ends them all."""
        self.tell()
        waiting = iter(questions)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(in_flight, len(questions))):
                    group.create_task(self._work(waiting))
        except BaseExceptionGroup as problems:
            raise problems.exceptions[0] from None

    async def _work(self, waiting: Iterator[Question]) -> None:
        for question in waiting:
            try:
                with self.traced.watching(question.id) as seen:
                    row = await answer_row(self.program, question)
                self.take(row, seen)
            except BudgetSpent as problem:  # not this question's fault: it gets no row
                self.stopped = str(problem)
            if self.stopped:
                return

    def take(self, row: dict[str, Any], seen: Sequence[SeenCall] | None = None) -> None:
        """Keep a finished row. Raises UserError when the disk takes no more or too many have failed."""
        self.traced.keep(row, seen)  # first: a row on disk is never answered, and so never traced, again
        self.rows.append(row)
        self.state.count(row)
        self.tracker.progress(self.state)
        self.tell()
        if self.max_failures is not None and self.state.errors >= self.max_failures and row["error"]:
            raise UserError(
                f"stopped after {counted(self.state.errors, 'failed question')}, the last because "
                f"{row['error']}; finished rows are kept: mend the cause and run the same command with "
                "--retry-errors"
            )

    def tell(self) -> None:
        self.state.seconds = time.monotonic() - self.started
        if self.progress is not None:
            self.progress(self.state)


async def answer_row(program: Program, question: Question) -> dict[str, Any]:
    """The row of a question, answered or failed. Raises what every other question would meet, too."""
    began = time.monotonic()
    with asking(question=question.id), metered() as usage:
        try:
            prediction = await program.acall(**question.inputs())
            return row_of(question, prediction, time.monotonic() - began)
        except FatalCallError:
            raise
        except LMError as problem:
            said = without_keys(said_by(problem), _seated(program))
            if isinstance(problem, _HOPELESS):  # of an LM that is not ours
                raise UserError(f"the LM cannot be used ({said}): check its name and key") from None
            return error_row(question, said, usage.to_dict(), time.monotonic() - began)
        except Exception as problem:
            problem.add_note(f"This happened at question {question.id!r}; finished rows are kept.")
            raise


def taken_at_once(program: Program, language_model: Any) -> int:
    """The most calls that any LM of the program takes at once: more questions in flight would only wait."""
    limits = [engine.concurrency if engine else CONCURRENCY for engine in _engines(program, language_model)]
    return max(limits, default=CONCURRENCY)


def _engines(program: Program, language_model: Any) -> list[Any]:
    """The engine of every seat's LM, None for an LM that is not ours."""
    return [engine_of(seated) for seated in _seated(program, language_model)]


def _seated(program: Program, language_model: Any = None) -> list[Any]:
    """The LM of every seat: its own, the given one, or the one that DSPy is set to."""
    return [seat.predict.lm or language_model or dspy.settings.lm for seat in program.seats().values()]


def _why(stopped: BaseException | None) -> str | None:
    """What ended a run early, in a line; None when nothing did."""
    if stopped is None:
        return None
    if isinstance(stopped, UserError):
        return said_by(stopped)
    return "interrupted" if isinstance(stopped, KeyboardInterrupt) else type(stopped).__name__


def _unwritable(problem: OSError, folder: Path, advice: str) -> UserError:
    where = problem.filename or folder
    return UserError(f"{where} cannot be written ({problem.strerror or problem}): {advice}")


def _warn_of_sampling(program: Program, lm: Any) -> None:
    """Say which settings of seats their LM does not take."""
    left_out = {
        (seat_lm.model, key): None
        for seat in program.seats().values()
        for seat_lm in [seat.predict.lm or lm]
        for key in seat.predict.config
        if key not in getattr(seat_lm, "takes", SAMPLING)
    }
    for model, key in left_out:
        warnings.warn(f"{model} takes no {key}: what the seats set is left out", stacklevel=3)
