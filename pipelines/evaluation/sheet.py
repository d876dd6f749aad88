"""The one loop that answers questions and writes their rows: `AnswerSheet`, from opening the files
of a run to its summary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import (
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    closing,
    contextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import dspy

from ...modules.base.calls import ASKER, LostWorker, Usage, asking, metered
from ...modules.base.errors import UserError, system_errors
from ...modules.base.sync import run_sync
from ...modules.protocols.program import Program
from ...modules.reading.row import CHECK, ResultRow
from ..base.budget import Budget, BudgetSpent
from ..base.journal import read_object, write_json
from ..base.run_files import JudgeFields, Manifest
from ..base.wording import counted, shortened, why_ended
from ..lms.engine import Engine
from ..lms.ledger import answered_for
from ..lms.named import engine_of
from ..lms.seen import Seen
from ..lms.store import books_around, limited_by
from ..runs.describe import SAVED, save_with_lm
from ..runs.lines import Progress
from ..runs.manifest import MANIFEST
from ..runs.rows import RESULTS, RowFile, error_row, row_program
from ..runs.summary import SUMMARY, Ending, Summary, summarise
from ..runs.traces import TraceFile, traced_ids
from ..tracking.context import without_autolog
from ..tracking.run import Run
from .answering import AnsweredRow, Doubts, answer_row, each_in_turn, said_in
from .plan import EvaluationPlan
from .repeats import Ask, fresh, in_another_order, with_own_labels, without_cache

if TYPE_CHECKING:
    from ..base.account import Account

Taken = tuple[ResultRow, Seen | None]
"""A row, with the calls of its question if it is traced."""

MOST_WORKERS = 3
"""A task becomes an error row after so many workers have died during it."""

UNREADABLE = 10
"""A run ends if none of its first so many answers can be read, since the rest would be paid for in
vain.
"""


@dataclass
class AnswerSheet:
    """The questions of a plan and their rows in the folder of a run: it asks those without a row,
    and writes, counts and reports each row. An evaluation, each program of a contest and each trial
    of a study has one.

    `prices` says that a row keeps what each of its calls costs (`worth`).
    """

    plan: EvaluationPlan
    run: Run[Manifest]
    rows: RowFile
    traced: TraceFile
    state: Progress
    prices: bool = False
    progress: Callable[[Progress], None] = lambda _: None
    stopped: str | None = None  # why no further question is asked, if a budget or a contest says so
    over: BudgetSpent | None = None  # the exception of the budget that stopped it
    spent: str | Budget | None = None  # the budget that stopped it
    paused: bool = False  # because an endpoint or an account failed
    left: bool = False  # because its program has left the contest
    earlier: dict[str, set[str]] = field(default_factory=dict)
    """Question → the call keys that earlier attempts at it have paid for."""

    def __post_init__(self) -> None:
        # False if the run is a part of another one, as a trial of a study is.
        self.alone = not self.run.books.around.ledgers
        self.doubts: Doubts[Taken] = Doubts(lambda taken: self.take(*taken))

    @classmethod
    @contextmanager
    def opened(
        cls,
        plan: EvaluationPlan,
        run: Run[Manifest],
        *,
        earlier: Callable[[ResultRow], None] = lambda _: None,
        prices: bool = False,
    ) -> Iterator[AnswerSheet]:
        """The sheet of a run, with its files of rows and traces open in the block. Once both could
        be read, `run.json` is written. The run has locked the folder.

        `earlier` is called with each row that is there already.
        """
        request, folder, manifest = plan.request, run.folder, run.about
        if plan.metric.lms:
            written = read_object(folder / MANIFEST) or {}
            not_checked = JudgeFields(lm=str(plan.metric.lms[0].model), checked=False)
            manifest["judge"] = written.get("judge") or not_checked
        wanted = frozenset[str]()
        if request.tracking:
            wanted = traced_ids([question.id for question in plan.questions], request.traces)
        state = Progress(total=len(plan.questions) * request.times, metric=plan.metric.name)

        def known(row: ResultRow) -> None:
            state.count(row, resumed=True)
            earlier(row)

        with ExitStack() as held:
            with system_errors(folder):
                rows = RowFile(folder, known, retry_errors=request.retry_errors)
                held.enter_context(closing(rows))
                traced = held.enter_context(closing(TraceFile(folder, wanted, folder / RESULTS)))
                write_json(folder / MANIFEST, manifest)
                _save_program(plan, folder)
            yield cls(plan, run, rows, traced, state, prices)

    @property
    def waiting(self) -> list[Ask]:
        """The questions and repeats without a row, in the order in which they are asked."""
        # All first repeats before any second one: new questions tell more than repeats do.
        waiting = []
        for repeat in range(self.plan.request.times):
            for question in self.plan.questions:
                if (question.id, repeat) not in self.rows.done:
                    waiting.append(Ask(question, repeat))
        return waiting

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Set up DSPy, the metering of foreign LMs and the sandbox, for `answer` in the block."""
        plan = self.plan
        # MLflow's autologging would trace each of these calls once more.
        callbacks = without_autolog() if self.traced.wanted else dspy.settings.callbacks
        everywhere = plan.program.foreign or not plan.metric.builtin
        waiting = {ask.question.id for ask in self.waiting}
        self.earlier = answered_for(self.run.folder, waiting)
        # Without history and trace, in which DSPy would keep the last 10,000 calls.
        with (
            dspy.context(lm=plan.lm, disable_history=True, trace=None, callbacks=callbacks),
            self._metering(everywhere),
            self._workplace(),
        ):
            yield

    def _metering(self, everywhere: bool) -> AbstractContextManager[object]:
        """Return the block in which calls of foreign LMs are counted; an empty one if there are
        none.

        With `everywhere`, code of the user's may make LMs that are not known here.
        """
        lms, around = self.plan.lms, books_around().meter
        if not everywhere and around is None and all(map(engine_of, lms)):
            return nullcontext()
        from ..lms.foreign import metering

        return metering(lms, everywhere=everywhere)

    def _workplace(self) -> AbstractContextManager[object]:
        """Return the block that has the sandbox and folders of tasks; an empty one if there are
        none.
        """
        plan = self.plan
        if all(question.kind != "task" for question in plan.questions):
            return nullcontext()
        from ..tasks.check import sandbox_of
        from ..tasks.folder import workplace

        origins = {question._origin for question in plan.questions}
        host = plan.request.workers_host
        return workplace(sandbox_of(plan.metric), self.run.folder, origins, host)

    def ask(self) -> None:
        """Answer the questions without a row, concurrently, until all have one or something has
        `stopped` it. Raises what `answer` raises.
        """
        asks = self.waiting
        self.tell()
        run_sync(each_in_turn, asks, self.plan.in_flight, self._work)
        self.plan.metric.ended(self.state.done)

    async def _work(self, waiting: Iterable[Ask]) -> None:
        """One worker: take the next question that waits, until none is left or it is stopped."""
        for ask in waiting:
            try:
                await self.answer(ask)
            except BudgetSpent as problem:  # not this question's fault: it gets no row
                self.stopped, self.spent = str(problem), self.plan.request.budget
                self.over = problem
            if self.stopped:
                return

    @cached_property
    def for_repeats(self) -> tuple[Program, object]:
        """The program and LM for all repeats but the first, which bypass DSPy's own cache."""
        return without_cache(self.plan.program, self.plan.lm)

    async def answer(self, ask: Ask) -> ResultRow:
        """Answer one question and write its row. Raises BudgetSpent, EndpointDown, and whatever
        `take` raises.
        """
        async with await _room_for_question(books_around().accounts):
            if any(most is not None for most in self.task_limit.limits.values()):
                answered, seen = await self._within_limit(ask)
            else:
                answered, seen = await self._answer(ask)
        if self.prices:
            answered.row["worth"] = [
                [call.prompt_tokens, call.completion_tokens, call.cost_usd]
                for call in answered.calls
            ]
        self.doubts.take((answered.row, seen), answered)
        return answered.row

    @cached_property
    def task_limit(self) -> Budget:
        """The most money and calls that one question may cost."""
        return Budget(self.plan.request.max_usd_per_task, self.plan.request.max_calls_per_task)

    async def _within_limit(self, ask: Ask) -> tuple[AnsweredRow, Seen | None]:
        """As `_answer`, but with an error row if the question would cost more than `task_limit`."""
        from ..base.account import open_account

        limit = open_account(self.task_limit, self.plan.engines, Usage())
        began, counted = time.monotonic(), metered(each=True)
        try:
            with counted, limited_by(limit):
                answered, seen = await self._answer(ask)
        except BudgetSpent:
            # Not this limit, but the budget of a run around it is spent.
            if not limit.ended:
                raise
            why = f"over its limit of {limit.budget}"
            seconds = time.monotonic() - began
            row = error_row(ask.question, why, limit.spent.to_dict(), seconds, ask.repeat)
            row["transcript"] = said_in(counted)
            answered, seen = AnsweredRow(row, calls=counted.calls), None
        if limit.uncounted is not None:
            raise UserError(
                f"{limit.uncounted} has no price, so --max-usd-per-task cannot be enforced: give "
                "--price, or --max-calls-per-task"
            )
        return answered, seen

    async def _answer(self, ask: Ask) -> tuple[AnsweredRow, Seen | None]:
        """Return the row of a question, and its calls if it is traced. If a worker process dies
        during a task, the task is done again, with the calls that were paid for answered from the
        records.
        """
        if self.plan.request.engine is None:
            return await self._answer_once(ask)
        began, why = time.monotonic(), ""
        for _ in range(MOST_WORKERS):
            with metered() as usage:
                try:
                    return await self._answer_once(ask)
                except LostWorker as problem:
                    why = f"{problem}, as did {MOST_WORKERS - 1} before it"
            self.earlier |= answered_for(self.run.folder, {ask.question.id})
        seconds = time.monotonic() - began
        row = error_row(ask.question, why, usage.to_dict(), seconds, ask.repeat)
        return AnsweredRow(row), None

    async def _answer_once(self, ask: Ask) -> tuple[AnsweredRow, Seen | None]:
        """Make one attempt at `_answer`. Only the first repeat of a question is traced."""
        question, name = ask.question, ask.question.id
        with asking(question=name, paid=self.earlier.get(name)):
            if not ask.repeat:
                with self.traced.watching(name, steps=self.plan.program.foreign) as seen:
                    answered = await answer_row(self.plan.program, question, self.plan.metric)
                return answered, seen
            program, lm = self.for_repeats
            order = ask.repeat if self.plan.request.permute else 0
            shown, own = in_another_order(question, order)
            with fresh(ask.repeat), dspy.context(lm=lm):
                answered = await answer_row(program, shown, self.plan.metric)
            row = with_own_labels(answered.row, question, own)
            return answered._replace(row=row.but(repeat=ask.repeat)), None

    def take(self, row: ResultRow, seen: Seen | None = None) -> None:
        """Write a finished row. Raises UserError if the disk is full, if too many questions have
        failed, or if the first rows show that the rest would be paid for in vain.
        """
        # The trace is written first, since a question with a row is never asked or traced again.
        if not row.repeat:
            self.traced.keep(row, seen)
        if program := row_program(self.run.about):
            row["program"] = program
        self.rows.append(row)
        self.state.count(row)
        done, score = self.state.done, self.state.score
        self.run.tracking.show(done, {self.state.metric: score / done, "questions": done})
        self.tell()
        # Not for a trial or a candidate, which may be as bad as that: it loses, and its study goes
        # on.
        if self.alone and UNREADABLE <= self.state.done == self.state.unreadable:
            raise UserError(none_readable(row, self.state.done))
        # For trials and candidates, too, which all have this metric. A check may fail on answers
        # that do not fit into a task's folder, and it says itself when it cannot run.
        hopeless = UNREADABLE <= self.state.done == self.state.unscored
        if hopeless and self.plan.metric.name != CHECK:
            raise UserError(
                f"none of the first {counted(self.state.done, 'answer')} has a score, the last "
                f"because {row.error}: fix the metric"
            )
        own = self.alone and self.plan.program.foreign
        if own and UNREADABLE <= self.state.done == self.state.errors:
            raise UserError(
                f"all of the first {counted(self.state.done, 'question')} failed, the last because "
                f"{row.error}: fix the cause and run the same command with --retry-errors"
            )
        most = self.plan.request.max_failures
        if most is not None and self.state.errors >= most and row.error:
            raise UserError(
                f"stopped after {counted(self.state.errors, 'failed question')}, the last because "
                f"{row.error}; finished rows are kept: fix the cause and run the same command "
                f"with --retry-errors"
            )

    def _ending(self, stopped: str | None, problem: BaseException | None) -> Ending:
        """Return how the run ended, by why it stopped and the exception that ended it."""
        if self.left:
            return Ending.LEFT
        if stopped is None:
            return Ending.FINISHED
        if self.paused:
            return Ending.PAUSED
        if isinstance(problem, UserError | KeyboardInterrupt | CancelledError | None):
            return Ending.STOPPED
        return Ending.FAILED

    def tell(self) -> None:
        """Report the progress."""
        self.progress(self.state)

    def summed_up(self, problem: BaseException | None) -> Summary:
        """Write and return the summary of the finished rows; `problem` is the exception that ended
        the run, which is raised if the disk is full.
        """
        run, questions = self.run, self.plan.questions
        try:
            most = max((repeat for _, repeat in self.rows.done), default=0) + 1
            # From the order in which answers came in to that of the questions.
            self.rows.sort(product([question.id for question in questions], range(most)))
            summary = summarise(self.rows, len(questions), self.plan.program.report, run.about)
            summary.paid, summary.lost = run.books.paid.to_dict(), run.books.lost.to_dict()
            requests = list[str]()
            for engine in self.plan.engines:
                if isinstance(engine, Engine):
                    requests += engine.habits.notes
            summary.requests = list(dict.fromkeys(requests))  # several agents may share an engine
            summary.stopped = self.stopped or why_ended(problem)
            summary.spent = None if self.spent is None else str(self.spent)
            summary.ending = self._ending(summary.stopped, problem)
            write_json(run.folder / SUMMARY, summary.to_dict())
        except OSError as full:
            # What ended the run says more than the disk that was full afterwards.
            with system_errors(run.folder, "make room and run it again"):
                raise problem or full from None
        return summary


async def _room_for_question(accounts: Collection[Account]) -> AsyncExitStack:
    """Return a block in which a question is answered, entered once every account has room for one:
    if a budget is short, questions in flight are finished first.
    """
    held = AsyncExitStack()
    if not accounts:
        return held
    key = object()
    async with held:
        # Not for a question that is asked within another: it would wait for that one forever.
        if (asker := ASKER.get()).turn is None:
            for account in accounts:
                await held.enter_async_context(account.question(key))
            held.callback(ASKER.reset, ASKER.set(asker._replace(turn=key)))
        return held.pop_all()


def none_readable(row: ResultRow, rows: int) -> str:
    """Return the error that no answer could be read, with the last reply."""
    reply = row.raw
    # A user's own program leaves its reply in `raw`, folkmoot's programs in their turns.
    if row.transcript and not reply:
        reply = row.transcript[-1].raw or row.transcript[-1].text
    shown = "the last reply was empty"
    if reply and reply.strip():
        shown = f"the last reply was {shortened(reply, 200)!r}"
    advice = (
        "check the LM, and that the questions have the right kind; replies are kept, so once the "
        "LM works, give --no-cache and another --out"
    )
    if row.truncated:
        shown += ", cut off at its token limit"
        advice = "give a higher one, such as --max-tokens 2000"
    return f"none of the first {counted(rows, 'answer')} can be read, and {shown}: {advice}"


def _save_program(plan: EvaluationPlan, folder: Path) -> None:
    """Save the program in the folder of its rows, so that `load_program` can load it from there."""
    # Not for candidates and trials, which are many; a trained network's folder has its program.
    wanted = plan.request.parent is None and not (folder / "network.json").exists()
    if wanted and isinstance(plan.program.as_given, dspy.Module):
        with suppress(UserError):  # such as an adapter of the user's own, which cannot be saved
            save_with_lm(plan.program, folder / SAVED, plan.lm, plan.questions)
