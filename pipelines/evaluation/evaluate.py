"""Runs a program over questions: concurrent, bounded, every row on disk, resumable after any death."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import dspy

from ...modules.agents.judge import JudgeMetric
from ...modules.agents.seat import Seat
from ...modules.base.errors import UserError, said_by
from ...modules.base.sync import awaitable, run_sync
from ...modules.protocols.foreign import Foreign
from ...modules.protocols.program import Program
from ...modules.reading.metrics import Metric, check_metric
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow
from ..base.budget import ACCOUNTS, Budget, BudgetSpent, room_for_question
from ..base.display import displayed
from ..base.journal import read_object, write_json
from ..base.wording import counted
from ..lms.foreign import billed_as, metering
from ..lms.named import SAMPLING, lm_given
from ..lms.seen import SeenCall
from ..lms.store import ACTIVE
from ..programs.resolve import program_given
from ..programs.seats import as_recorded
from ..runs.books import open_books
from ..runs.folder import out_folder, unwritable
from ..runs.manifest import MANIFEST, RUN, as_begun, manifest_of, save_run
from ..runs.progress import Progress, evaluation_line
from ..runs.rows import RESULTS, RowFile, read_rows, rewrite
from ..runs.summary import SUMMARY, Summary, summarise
from ..runs.traces import TraceFile, traced_ids
from ..tracking.context import caller_place, from_caller, without_autolog
from ..tracking.tracker import start_tracking
from ..tracking.uploads import ModelUpload, Tracker
from .answering import CONCURRENCY, answer_row, each_in_turn, lms_in, seat_engines, useful_concurrency
from .check import ASYNCIO, RAY, check_concurrency, check_engine, checked, noted
from .earlier import Evaluation
from .judging import agreement_with_people, metric_given, sample_of, unchecked
from .logged import evaluation_uploads, standing
from .push import push_others
from .ray_engine import answer_on_ray


def evaluate(
    program: Program | Callable[..., Any] | str,
    questions: Iterable[Question],
    *,
    inputs: Mapping[str, str] | None = None,
    lm: Any = None,
    metric: Any = None,
    judge_lm: Any = None,
    judge_sample: Any = None,
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
    progress: bool | Callable[[Progress], None] | None = None,
    engine: str = ASYNCIO,
    workers: int | None = None,
    ended: Callable[[Summary], None] | None = None,
) -> Evaluation:
    """Answer every question with the program and score the answers.

    Args:
        program: a folkmoot program or its spec, such as `"single:cot"`, any `dspy.Module`, or a sync or async
            function of an `fm.Question` that returns the answer, a dict or a `dspy.Prediction`.
        questions: labelled questions with distinct ids.
        inputs: of a program of your own, its field → the question's field, where their names differ.
        lm: the LM of every seat that has none of its own, or its name; None takes DSPy's configured one. Of a
            recorded run, each seat has the one that it had there.
        metric: how answers are scored: a function as DSPy has them, `(example, prediction, trace=None)` to
            True, False or a number, an `fm.Metric`, or a name: `accuracy` (the default), `em`, `f1`, `exact`,
            `contains`, `regex:PATTERN`, `module:function`, `judge`.
        judge_lm: the LM that grades, or its name, for the metric `judge`. Its calls are billed apart.
        judge_sample: answers that people graded, as `fm.load` takes them, with the reference as `answer`, and
            the columns `given` and `verdict`: how far the judge agrees with people is in the summary.
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
        tracking: log to the tracking store as one run.
        traces: share of the questions (0 to 1) whose dialogues and LM calls are logged as traces; None takes
            20 questions.
        parent: id of the tracked run that this one is shown under.
        settings: what to note beside the run (data set, split, seed, …).
        progress: how far it is, in a line: questions done, accuracy, calls, cost and time left. None shows it
            on a terminal and in a notebook, False never, True also elsewhere, once it has ended. A function
            is called with that after every row instead, from the event loop's thread.
        engine: `asyncio`, all in this process, or `ray`, in the worker processes of a Ray cluster.
        workers: Ray's worker processes, which share `concurrency`; None takes one a CPU.
        ended: called with the summary as soon as it is on disk, before the run is sent to the tracking store;
            not for a run that was interrupted or failed.

    Raises:
        UserError: no program, or something else than questions; no, unlabelled or repeated questions; an
            `out` folder of another run; a wrong key or unknown model; too many failures; a disk that cannot
            be written; Ray missing or not starting. What was finished is kept.
        KeyboardInterrupt: likewise, after the summary so far has been written.
    """
    program = as_begun(program_given(program, inputs), None if out is None else Path(out))
    check_concurrency(concurrency)
    questions = checked(questions)
    scored = metric_given(metric, judge_lm, judge_sample)
    check_metric(scored, questions)
    sample = None if judge_sample is None else sample_of(judge_sample)
    language_model = lm_given(lm)
    program = as_recorded(program, language_model)
    for warning in noted(program, questions, language_model):
        warnings.warn(warning, stacklevel=2)
    held = budget is not None or bool(ACCOUNTS.get())
    check_engine(engine, workers, program, language_model, budget=held, metric=scored)
    _warn_of_sampling(program, language_model)
    wanted = traced_ids([question.id for question in questions], traces) if tracking else frozenset()
    engines = seat_engines(program, language_model)
    lms = lms_in(program, language_model)
    if isinstance(scored, JudgeMetric):
        engines, lms = [*engines, billed_as(scored.lm)], [*lms, scored.lm]
    run = manifest_of(program, questions, language_model, settings or {}, scored) | caller_place(parent)
    if isinstance(scored, JudgeMetric):
        known = None if out is None else read_object(Path(out) / MANIFEST)
        run["judge"] = (known or {}).get("judge") or unchecked(scored)
    with (
        out_folder(out) as (folder, keep),
        RUN.opened(folder, run),
        open_books(
            folder,
            records=(folder, *([Path(record)] if record is not None else [])),
            lms=run["lms"],
            cache=cache,
            budget=budget,
            engines=engines,
        ) as books,
        _files(folder, run, wanted, retry_errors) as (rows, traced),
    ):
        tracker = Tracker()
        if tracking:
            tracker = start_tracking(run, folder, traces=len(wanted), keep=keep)
        state = Progress(total=len(questions), metric=scored.name)
        for row in read_rows(folder / RESULTS):
            state.count(row, resumed=True)
        job = _Job(program, scored, rows, traced, state, max_failures, tracker)
        waiting = [question for question in questions if (question.id, 0) not in rows.done]
        callbacks = without_autolog() if wanted else dspy.settings.callbacks
        stopped: BaseException | None = None
        try:
            # DSPy would keep the last 10,000 calls in its history and again in its trace.
            with (
                dspy.context(lm=language_model, disable_history=True, trace=None, callbacks=callbacks),
                metering(
                    lms,
                    everywhere=isinstance(program, Foreign) or not scored.builtin,
                ),
                displayed(progress, "evaluate", partial(evaluation_line, "evaluate")) as job.progress,
            ):
                if isinstance(scored, JudgeMetric) and sample is not None:
                    run["judge"] = run_sync(
                        agreement_with_people, scored, sample, min(concurrency, CONCURRENCY)
                    )
                    save_run(folder, run)
                if engine == RAY:
                    job.tell()
                    answer_on_ray(
                        program,
                        language_model,
                        waiting,
                        ACTIVE.get(),
                        job.take,
                        metric=scored.spec,
                        concurrency=concurrency,
                        workers=workers,
                    )
                else:
                    in_flight = useful_concurrency(concurrency, program, language_model)
                    run_sync(job.answer_all, waiting, in_flight)
        except BaseException as problem:
            stopped = problem  # whatever it was: what is finished is summed up before it goes on its way
        try:
            rewrite(folder / RESULTS, [(question.id, 0) for question in questions])
            summary = summarise(read_rows(folder / RESULTS), len(questions), program.report, run)
            summary.paid = books.paid.to_dict()
            summary.stopped = job.stopped or _why(stopped)
            write_json(folder / SUMMARY, summary.to_dict())
        except OSError as problem:
            tracker.stop("FAILED")
            raise stopped or unwritable(problem, folder, "make room and run it again") from None
        status = "FAILED" if stopped else "FINISHED"
        if job.stopped or isinstance(stopped, KeyboardInterrupt | CancelledError | UserError):
            status = "KILLED"
        if ended is not None and stopped is None:
            try:
                ended(summary)
            except BaseException as problem:  # the run is tracked first
                stopped = problem
        # Of candidates and trials, only the winner is worth a model.
        model = None if parent or isinstance(program, Foreign) else ModelUpload(program, lm=language_model)
        missing = tracker.end(evaluation_uploads(summary, folder, tracker), status, folder, model)
        if tracking and not missing:
            push_others(folder)
        if stopped is not None:
            raise stopped
    return Evaluation(folder, summary, keep, tracker)


_ASYNC = """`evaluate` for async code, with the same arguments: `await fm.aevaluate(…)`.

Cancelling it keeps what is finished, as Ctrl-C does: the same call with the same `out` goes on from there.
"""

aevaluate = from_caller(awaitable(evaluate, _ASYNC))


@contextmanager
def _files(
    folder: Path, run: Mapping[str, Any], wanted: frozenset[str], retry_errors: bool
) -> Iterator[tuple[RowFile, TraceFile]]:
    """The files of rows and traces, and `run.json`, written once both could be read back."""
    with ExitStack() as held:
        try:
            rows = held.enter_context(closing(RowFile(folder, retry_errors=retry_errors)))
            traced = held.enter_context(closing(TraceFile(folder, wanted, folder / RESULTS)))
            save_run(folder, run)
        except OSError as problem:
            raise unwritable(problem, folder) from None
        yield rows, traced


@dataclass
class _Job:
    """The questions in flight of one evaluation."""

    program: Program
    metric: Metric
    rows: RowFile
    traced: TraceFile
    state: Progress
    max_failures: int | None
    tracker: Tracker
    progress: Callable[[Progress], None] = lambda _: None
    started: float = field(default_factory=time.monotonic)
    stopped: str | None = None  # by a budget

    async def answer_all(self, questions: Sequence[Question], in_flight: int) -> None:
        self.tell()
        await each_in_turn(questions, in_flight, self._work)

    async def _work(self, waiting: Iterable[Question]) -> None:
        for question in waiting:
            try:
                async with room_for_question():
                    with self.traced.watching(question.id) as seen:
                        row = await answer_row(self.program, question, self.metric)
                self.take(row, seen)
            except BudgetSpent as problem:  # not this question's fault: it gets no row
                self.stopped = str(problem)
            if self.stopped:
                return

    def take(self, row: ResultRow, seen: Sequence[SeenCall] | None = None) -> None:
        """Keep a finished row. Raises UserError when the disk takes no more or too many have failed."""
        self.traced.keep(row, seen)  # first: a row on disk is never answered, and so never traced, again
        self.rows.append(row)
        self.state.count(row)
        self.tracker.live(lambda: standing(self.state))
        self.tell()
        if self.max_failures is not None and self.state.errors >= self.max_failures and row["error"]:
            raise UserError(
                f"stopped after {counted(self.state.errors, 'failed question')}, the last because "
                f"{row['error']}; finished rows are kept: mend the cause and run the same command with "
                "--retry-errors"
            )

    def tell(self) -> None:
        self.state.seconds = time.monotonic() - self.started
        self.progress(self.state)


def _why(stopped: BaseException | None) -> str | None:
    """What ended a run early, in a line; None when nothing did."""
    if stopped is None:
        return None
    if isinstance(stopped, UserError):
        return said_by(stopped)
    interrupted = isinstance(stopped, KeyboardInterrupt | CancelledError)
    return "interrupted" if interrupted else type(stopped).__name__


def _warn_of_sampling(program: Program, lm: Any) -> None:
    """Say which settings of seats their LM does not take."""
    left_out = {
        (seat_lm.model, key): None
        for seat in program.seats().values()
        if isinstance(seat, Seat)
        for seat_lm in [seat.predict.lm or lm]
        for key in seat.predict.config
        if key not in getattr(seat_lm, "takes", SAMPLING)
    }
    for model, key in left_out:
        warnings.warn(f"{model} takes no {key}: what the seats set is left out", stacklevel=3)
