"""Runs a program over questions: concurrent, bounded, every row on disk, resumable after
any death.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import dspy

from ...modules.agents.judge import JudgeMetric
from ...modules.base.calls import EndpointDown, Usage, asking
from ...modules.base.errors import UserError, said_by
from ...modules.base.sync import awaitable, run_sync
from ...modules.protocols.ensemble import Ensemble
from ...modules.protocols.foreign import Foreign
from ...modules.protocols.program import Program
from ...modules.reading.row import ResultRow
from ..base.budget import (
    Budget,
    BudgetSpent,
    limited_by,
    only_shows,
    open_account,
    room_for_question,
)
from ..base.display import displayed
from ..base.journal import read_object, write_json
from ..base.request import entry
from ..base.run_files import FittedWeights, JudgeFields, Manifest
from ..base.wording import counted, paused, shortened
from ..lms.engine import Engine
from ..lms.foreign import metering
from ..lms.ledger import LEDGERS, answered_for
from ..lms.seen import Seen
from ..programs.saved import SAVED, save_with_lm
from ..runs.books import open_books
from ..runs.folder import unwritable
from ..runs.lines import Progress, evaluation_line
from ..runs.manifest import MANIFEST, RUN
from ..runs.rows import RESULTS, RowFile, error_row, read_rows, rewrite, row_program
from ..runs.summary import SUMMARY, Ending, Summary, summarise
from ..runs.traces import TraceFile, traced_ids
from ..tasks.check import sandbox_of
from ..tasks.folder import workplace
from ..tracking.context import caller_place, from_caller, without_autolog
from ..tracking.run import Run, Tracking, running
from .answering import (
    CONCURRENCY,
    AnsweredRow,
    Doubts,
    answer_row,
    each_in_turn,
    useful_concurrency,
)
from .earlier import Evaluation, earlier
from .judging import agreement_with_people
from .plan import WEIGHTS, EvaluationPlan, plan_evaluation
from .repeats import Ask, fresh, in_another_order, with_own_labels, without_cache
from .request import EvaluateRequest

Taken = tuple[ResultRow, Seen | None]
"""A row, with the calls of its question if it is traced."""

UNREADABLE = 10
"""A run ends when none of its first so many answers can be read: the rest would be paid for in
vain.
"""


@entry(EvaluateRequest)
def evaluate(request: EvaluateRequest) -> Evaluation:
    """Answer every question with the program and score the answers. The same call with the same
    folder resumes a run: finished rows are kept, and answered calls are not made again.

    Raises: UserError: something that is not a program or not questions; no questions, unlabelled or
        repeated ones; an `out` folder of another run; a wrong key or unknown model; too many
        failures; a disk that cannot be written. Finished rows are
        kept.
        KeyboardInterrupt: likewise, after the summary so far has been written.
    """
    plan = plan_evaluation(request)
    for warning in plan.warnings:
        warnings.warn(warning, stacklevel=3)
    return carry_out(plan)


def recheck(run: Any, check: Any, questions: Any = None, **options: Any) -> Evaluation:
    """Check the kept answers of a run of tasks once more, without a call.

    Args: run: the run, or its folder. check: a command or a function, as for `evaluate`. questions:
        the tasks, where the run does not note their source. options: `out`, `answer_file`,
        `sandbox` and other arguments of `evaluate`.
    """
    return evaluate(run, questions, recheck=True, check=check, **options)


_ASYNC = """Do what `evaluate` does, for async code, with the same arguments:
`await fm.aevaluate(…)`.

After it is cancelled, the finished rows stay in the folder, and the same call with the same `out`
goes on from there.
"""

aevaluate = from_caller(awaitable(evaluate, _ASYNC))


def carry_out(plan: EvaluationPlan, show: Callable[[Evaluation], None] | None = None) -> Evaluation:
    """Carry out the plan. `show` gets a result that ended well before it is sent to the tracking
    store.
    """
    if not plan.fits_weights or not isinstance(plan.program, Ensemble):
        return _evaluated(plan, show)
    with open_books(account=plan.account()):
        training = _fit_weights(plan, plan.program)
        within = replace(plan, request=replace(plan.request, budget=None))
        return _evaluated(within, show, training)


def _fit_weights(plan: EvaluationPlan, program: Ensemble) -> FittedWeights:
    """Run the ensemble on training questions by majority, then set its weights from those rows."""
    with program.unweighed():
        training = _evaluated(plan.on_training(WEIGHTS))
        if training.summary.stopped:
            raise BudgetSpent(training.summary.stopped)
        weights = dict(zip(program.names, program.fit_weights(training.rows), strict=True))
        return {"weights": weights, "questions": len(plan.train), "usage": training.summary.usage}


def _evaluated(
    plan: EvaluationPlan,
    show: Callable[[Evaluation], None] | None = None,
    training: FittedWeights | None = None,
) -> Evaluation:
    request, began = plan.request, time.monotonic()
    if (stored := _finished(plan)) is not None:
        if show is not None and not stored.stopped:
            show(stored)
        return stored
    alone = not LEDGERS.get()
    manifest: Manifest = {**plan.manifest(), **caller_place(request.parent)}
    with running(
        RUN,
        manifest,
        plan.out,
        lms=manifest["lms"],
        records=[request.record] if request.record else [],
        cache=request.cache,
        budget=request.budget,
        engines=plan.engines,
    ) as run:
        wanted = frozenset[str]()
        if request.tracking:
            wanted = traced_ids([question.id for question in plan.questions], request.traces)
        with run_files(run, wanted, plan) as (rows, traced):
            if request.tracking:
                run.track(
                    MANIFEST,
                    parent=request.parent,
                    # Of candidates and trials, only the winner is registered.
                    model=request.parent is None,
                    lm=plan.lm,
                    registered=request.register,
                )
            job = EvaluationJob(plan, manifest, rows, traced, run.tracking, alone)
            stopped = job.do()
            summary = job.summed_up(run, stopped)
        result = Evaluation(
            run.folder,
            summary,
            run.keep,
            run.tracking,
            program=_as_given(plan.program),
            seconds=time.monotonic() - began,
            training=training,
        )
        shows = show is not None and stopped is None and not result.stopped
        run.end(partial(show, result) if show is not None and shows else None)
        if stopped is not None:
            raise stopped
    return result


def _finished(plan: EvaluationPlan) -> Evaluation | None:
    """The evaluation in the plan's folder, if the plan asks for nothing more: it is shown as it is
    stored.
    """
    request, folder = plan.request, plan.out
    written = {} if folder is None else RUN.earlier(folder, plan.manifest())
    if folder is None or not written or request.register or request.record:
        return None
    if request.tracking and not written.get("mlflow_run_id"):
        return None
    summary = read_object(folder / SUMMARY) or {}
    if not summary or not only_shows(summary, request.budget):
        return None
    try:
        stored = earlier(folder)
    except UserError:  # of damaged rows, which the run itself says
        return None
    counts = stored.summary.counts
    whole = counts["rows"] == len(plan.questions) * request.times
    asks_again = request.retry_errors and counts["errors"]
    if asks_again or not (whole or summary.get("spent")):
        return None
    return Evaluation(folder, stored.summary, program=_as_given(plan.program))


def _as_given(program: Program) -> Any:
    """The program as the user had passed it."""
    return program.module if isinstance(program, Foreign) else program


@contextmanager
def run_files(
    run: Run[Manifest], wanted: frozenset[str], plan: EvaluationPlan
) -> Iterator[tuple[RowFile, TraceFile]]:
    """Open the files of rows and traces, and write `run.json` once both could be read back."""
    folder, manifest = run.folder, run.about
    if isinstance(plan.metric, JudgeMetric):
        earlier = read_object(folder / MANIFEST) or {}
        not_checked: JudgeFields = {"lm": str(plan.metric.lm.model), "checked": False}
        manifest["judge"] = earlier.get("judge") or not_checked
    with ExitStack() as held:
        try:
            rows = held.enter_context(
                closing(RowFile(folder, retry_errors=plan.request.retry_errors))
            )
            traced = held.enter_context(closing(TraceFile(folder, wanted, folder / RESULTS)))
            write_json(folder / MANIFEST, manifest)
            _save_program(plan, folder)
        except OSError as problem:
            raise unwritable(problem, folder) from None
        yield rows, traced


@dataclass
class EvaluationJob:
    """The questions in flight of one evaluation."""

    plan: EvaluationPlan
    manifest: Manifest
    rows: RowFile
    traced: TraceFile
    tracking: Tracking
    # whether the run stands alone, and is not part of another one, such as a trial of a study
    alone: bool = False
    progress: Callable[[Progress], None] = lambda _: None
    started: float = field(default_factory=time.monotonic)
    stopped: str | None = None  # by a budget
    spent: str | Budget | None = None  # the budget that stopped it
    paused: bool = False  # since an endpoint or an account failed
    left: bool = False  # as a program of a contest
    earlier: dict[str, set[str]] = field(default_factory=dict)
    """The requests that earlier attempts have paid for, by question."""

    def __post_init__(self) -> None:
        total = len(self.plan.questions) * self.plan.request.times
        self.state = Progress(total=total, metric=self.plan.metric.name)
        for row in read_rows(self.rows.path):
            self.state.count(row, resumed=True)
        self.doubts: Doubts[Taken] = Doubts(lambda taken: self.take(*taken))

    def do(self) -> BaseException | None:
        """Answer the questions without a row; returns the exception that ended it early, if any."""
        plan, request = self.plan, self.plan.request
        command = str((request.settings or {}).get("command", "evaluate"))
        try:
            with (
                self.asks(),
                displayed(
                    request.progress, command, partial(evaluation_line, command)
                ) as self.progress,
            ):
                self._check_judge()
                waiting = self.waiting
                in_flight = useful_concurrency(request.concurrency, plan.program, plan.lm)
                run_sync(self.answer_all, waiting, in_flight)
                self.doubts.end()
        except EndpointDown as problem:
            if not self.state.done:
                return problem
            self.stopped, self.paused = paused(problem), True
        except BaseException as problem:
            return problem
        return None

    @property
    def waiting(self) -> list[Ask]:
        """The questions and repeats without a row."""
        # The first repeat of every question comes first: new questions tell more than repeats.
        return [
            Ask(question, repeat)
            for repeat in range(self.plan.request.times)
            for question in self.plan.questions
            if (question.id, repeat) not in self.rows.done
        ]

    @contextmanager
    def asks(self) -> Iterator[None]:
        """Set up DSPy, and the metering of the LMs, for `answer` in the block."""
        plan = self.plan
        callbacks = without_autolog() if self.traced.wanted else dspy.settings.callbacks
        everywhere = isinstance(plan.program, Foreign) or not plan.metric.builtin
        waiting = {ask.question.id for ask in self.waiting}
        self.earlier = answered_for(self.rows.path.parent, waiting)
        origins = {question._origin for question in plan.questions}
        acts = any(question.kind == "task" for question in plan.questions)
        run = self.rows.path.parent
        # DSPy would keep the last 10,000 calls in its history and again in its trace.
        with (
            dspy.context(lm=plan.lm, disable_history=True, trace=None, callbacks=callbacks),
            metering(plan.lms, everywhere=everywhere),
            workplace(sandbox_of(plan.metric), run, origins) if acts else nullcontext(),
        ):
            yield

    def _check_judge(self) -> None:
        """Ask the judge about answers that people graded, and note the agreement."""
        plan = self.plan
        if isinstance(plan.metric, JudgeMetric) and plan.judge_sample is not None:
            at_once = min(plan.request.concurrency, CONCURRENCY)
            self.manifest["judge"] = run_sync(
                agreement_with_people, plan.metric, plan.judge_sample, at_once
            )
            write_json(self.rows.path.parent / MANIFEST, self.manifest)

    async def answer_all(self, asks: Sequence[Ask], in_flight: int) -> None:
        self.tell()
        await each_in_turn(asks, in_flight, self._work)

    async def _work(self, waiting: Iterable[Ask]) -> None:
        for ask in waiting:
            try:
                await self.answer(ask)
            except BudgetSpent as problem:  # not this question's fault: it gets no row
                self.stopped, self.spent = str(problem), self.plan.request.budget
            if self.stopped:
                return

    @cached_property
    def afresh(self) -> tuple[Program, Any]:
        """The program and LM of each repeat, which bypass DSPy's own cache."""
        return without_cache(self.plan.program, self.plan.lm)

    async def answer(self, ask: Ask) -> ResultRow:
        """Answer one question and keep its row. Raises BudgetSpent, EndpointDown, and whatever
        `take` raises.
        """
        request = self.plan.request
        most = Budget(request.max_usd_per_task, request.max_calls_per_task)
        limit = open_account(most, self.plan.engines, Usage())
        began = time.monotonic()
        try:
            async with room_for_question():
                with limited_by(limit):
                    answered, seen = await self._answer(ask)
        except BudgetSpent:
            if not limit.ended:
                raise
            why = f"over its limit of {limit.budget}"
            seconds = time.monotonic() - began
            row = error_row(ask.question, why, limit.spent.to_dict(), seconds, ask.repeat)
            answered, seen = AnsweredRow(row), None
        if limit.uncounted is not None:
            raise UserError(
                f"{limit.uncounted} has no price, so --max-usd-per-task cannot be enforced: give "
                "--price, or --max-calls-per-task"
            )
        self.doubts.take((answered.row, seen), answered)
        return answered.row

    async def _answer(self, ask: Ask) -> tuple[AnsweredRow, Seen | None]:
        """The row of a question, and its calls if it is traced; repeats are not."""
        question, name = ask.question, ask.question.id
        with asking(question=name, paid=self.earlier.get(name)):
            if not ask.repeat:
                is_module = isinstance(self.plan.program, Foreign)
                with self.traced.watching(name, steps=is_module) as seen:
                    answered = await answer_row(self.plan.program, question, self.plan.metric)
                return answered, seen
            program, lm = self.afresh
            order = ask.repeat if self.plan.request.permute else 0
            shown, own = in_another_order(question, order)
            with fresh(ask.repeat), dspy.context(lm=lm):
                answered = await answer_row(program, shown, self.plan.metric)
            row = with_own_labels(answered.row, question, own) | {"repeat": ask.repeat}
            return answered._replace(row=row), None

    def take(self, row: ResultRow, seen: Seen | None = None) -> None:
        """Write a finished row. Raises UserError when the disk is full or too many questions have
        failed.
        """
        # The trace comes first: a question with a row on disk is never asked or traced again.
        if not row["repeat"]:
            self.traced.keep(row, seen)
        if program := row_program(self.manifest):
            row["program"] = program
        self.rows.append(row)
        self.state.count(row)
        self.tracking.show(
            self.state.done,
            {
                self.state.metric: self.state.score / self.state.done,
                "errors": float(self.state.errors),
                "rows": float(self.state.done),
            },
        )
        self.tell()
        if self.alone and UNREADABLE <= self.state.done == self.state.unreadable:
            raise UserError(none_readable(row, self.state.done))
        own = self.alone and isinstance(self.plan.program, Foreign)
        if own and UNREADABLE <= self.state.done == self.state.errors:
            raise UserError(
                f"all of the first {counted(self.state.done, 'question')} failed, the last because "
                f"{row['error']}: fix the cause and run the same command with --retry-errors"
            )
        most = self.plan.request.max_failures
        if most is not None and self.state.errors >= most and row["error"]:
            raise UserError(
                f"stopped after {counted(self.state.errors, 'failed question')}, the last because "
                f"{row['error']}; finished rows are kept: fix the cause and run the same command "
                f"with --retry-errors"
            )

    def _ending(self, stopped: str | None, problem: BaseException | None) -> Ending:
        if stopped is None or self.left:
            return Ending.LEFT if self.left else Ending.FINISHED
        if self.paused:
            return Ending.PAUSED
        stops = UserError | KeyboardInterrupt | CancelledError | None
        return Ending.STOPPED if isinstance(problem, stops) else Ending.FAILED

    def tell(self) -> None:
        self.state.seconds = time.monotonic() - self.started
        self.progress(self.state)

    def summed_up(self, run: Run[Manifest], problem: BaseException | None) -> Summary:
        """Write the summary of the finished rows. Raises the error that ended the run if the disk
        is full.
        """
        questions, path = self.plan.questions, run.folder / RESULTS
        try:
            most = max((repeat for _, repeat in self.rows.done), default=0) + 1
            rewrite(
                path, [(question.id, repeat) for question in questions for repeat in range(most)]
            )
            summary = summarise(
                read_rows(path), len(questions), self.plan.program.report, run.about
            )
            summary.paid, summary.lost = run.books.paid.to_dict(), run.books.lost.to_dict()
            habits = [one.habits for one in self.plan.engines if isinstance(one, Engine)]
            summary.requests = list(dict.fromkeys(note for one in habits for note in one.notes))
            summary.stopped = self.stopped or _why(problem)
            summary.spent = None if self.spent is None else str(self.spent)
            summary.ending = self._ending(summary.stopped, problem)
            write_json(run.folder / SUMMARY, summary.to_dict())
        except OSError as full:
            raise problem or unwritable(full, run.folder, "make room and run it again") from None
        return summary


def none_readable(row: ResultRow, rows: int) -> str:
    """A sentence that no answer could be read, with the last reply."""
    last = row["transcript"][-1] if row["transcript"] else None
    reply = row.get("raw") or (last and (last.get("raw") or last["text"])) or ""
    shown = (
        f"the last reply was {shortened(reply, 200)!r}"
        if reply.strip()
        else "the last reply was empty"
    )
    advice = "check the LM, and that the questions have the right kind"
    if row.get("truncated"):
        shown, advice = (
            f"{shown}, cut off at its token limit",
            "give a higher one, such as --max-tokens 2000",
        )
    return f"none of the first {counted(rows, 'answer')} can be read, and {shown}: {advice}"


def _why(problem: BaseException | None) -> str | None:
    """Why a run ended early, in one line; None if it did not."""
    if problem is None:
        return None
    if isinstance(problem, UserError):
        return said_by(problem)
    interrupted = isinstance(problem, KeyboardInterrupt | CancelledError)
    return "interrupted" if interrupted else type(problem).__name__


def _save_program(plan: EvaluationPlan, folder: Path) -> None:
    """Save the program beside its rows, so that `load_program` reads the folder of a run."""
    named = plan.request.parent is None and not (folder / "network.json").exists()
    if named and (
        not isinstance(plan.program, Foreign) or isinstance(plan.program.module, dspy.Module)
    ):
        with suppress(UserError):  # such as an adapter of the user's own, which no file can hold
            save_with_lm(plan.program, folder / SAVED, plan.lm)
