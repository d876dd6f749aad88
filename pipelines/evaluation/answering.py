"""Asks a program one question: the result is a row, or an error that ends the run. Also the workers
that take the questions, and the LMs that a program asks.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import dspy
from dspy.utils.exceptions import (
    LMAuthError,
    LMBillingError,
    LMConfigurationError,
    LMError,
    LMRateLimitError,
    LMServerError,
    LMTimeoutError,
    LMTransportError,
    LMUnsupportedModelError,
)

from ...modules.agents.transcript import Turn
from ...modules.base.calls import (
    DETAILS,
    EndpointDown,
    FatalCallError,
    GivenUpError,
    Usage,
    asking,
    metered,
    refusals,
    total,
)
from ...modules.base.errors import UserError, said_by
from ...modules.base.sync import ends_alone
from ...modules.protocols.program import Program
from ...modules.protocols.saved import predictors_of
from ...modules.reading.grading import Graded, MetricError
from ...modules.reading.metrics import Metric
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow, TurnFields
from ..lms.endpoint import without_keys
from ..lms.named import Billed, billed_as
from ..lms.store import books_around
from ..runs.rows import error_row, row_of

if TYPE_CHECKING:
    from ..lms.foreign import ForeignMeter

T = TypeVar("T")

TOGETHER = 12  # workers that start at once; the others one after another
STEPS = 8  # turns of the event loop in which a worker surely has sent its first request
MOST_DOUBTFUL = 3  # questions in a row that fail because of their endpoint

CONCURRENCY = 64
MOST_THOUGHTS = 20_000  # characters that a row keeps
METRIC = "metric"
"""The name that the ledger gives to the LM calls of a metric."""
UNKNOWN = ("calls", "prompt_tokens", "completion_tokens", "cost_usd", *DETAILS)
ENDPOINT = (GivenUpError, LMRateLimitError, LMServerError, LMTimeoutError, LMTransportError)
_HOPELESS = (LMAuthError, LMBillingError, LMConfigurationError, LMUnsupportedModelError)


async def each_in_turn(
    asks: Sequence[T], in_flight: int, work: Callable[[Iterable[T]], Awaitable[None]]
) -> None:
    """Start `in_flight` workers, each a call of `work` with the iterator from which all take their
    questions in order. The first exception ends all of them and is raised.
    """
    waiting = iter(asks)
    with raise_first():
        async with asyncio.TaskGroup() as group:
            tasks: list[asyncio.Task[None]] = []
            for number in range(min(in_flight, len(asks))):
                if number >= TOGETHER:
                    # If many workers began together, their replies would go on coming in bursts.
                    for _ in range(STEPS):
                        await asyncio.sleep(0)
                if tasks and tasks[0].done():  # nothing is left to ask
                    break
                tasks.append(group.create_task(work(waiting)))  # type: ignore[arg-type]


@contextmanager
def raise_first() -> Iterator[None]:
    """Raise the first error of a group of tasks instead of the exception group."""
    try:
        yield
    except BaseExceptionGroup as problems:
        raise problems.exceptions[0] from None


class AnsweredRow(NamedTuple):
    """The row of a question. It is `doubtful` if its calls failed, and either the question or the
    endpoint may be at fault. `calls` has the usage of each call of the program.
    """

    row: ResultRow
    doubtful: bool = False
    calls: Sequence[Usage] = ()


async def answer_row(program: Program, question: Question, metric: Metric) -> AnsweredRow:
    """Answer and score a question; returns its row, also if it failed. Raises errors that every
    other question would meet, too.
    """
    began = time.monotonic()
    meter: ForeignMeter | None = books_around().meter
    counted = metered(each=True)
    strays = meter and meter.strays
    prediction: dspy.Prediction | None = None
    doubtful = False
    with refusals() as refused:
        with counted as usage:
            try:
                with ends_alone():
                    prediction = await program.answer(question)
            except FatalCallError:
                raise
            except LMError as problem:
                reason = without_keys(said_by(problem), seated_lms(program))
                alone = meter is not None and meter.refused_alone(problem)
                if isinstance(problem, _HOPELESS) and not alone:  # of an LM that is not ours
                    raise UserError(
                        f"the LM cannot be used ({reason}): check its name and key"
                    ) from None
                row = error_row(question, reason, usage.to_dict(), time.monotonic() - began)
                # Perhaps an outage, and not this question's fault: the next questions will show.
                doubtful = isinstance(problem, ENDPOINT)
            except Exception as problem:
                if isinstance(problem, UserError) and not program.foreign:
                    raise  # every question would fail in this way, as by a missing index
                reason = said_by(problem)
                if not isinstance(problem, UserError):  # that is a sentence already
                    reason = f"{type(problem).__name__}: {reason}"
                reason = without_keys(reason, lms_in(program))
                row = error_row(question, reason, usage.to_dict(), time.monotonic() - began)
        if refused and program.foreign:
            # Even if the program caught the error: it would have answered otherwise without it.
            raise refused[0]
        if prediction is None:  # to show how far it came
            row["transcript"] = said_in(counted)
        seconds, stray = time.monotonic() - began, meter is not None and meter.strays != strays
        if prediction is not None:
            graded, judging = await _grade(metric, question, prediction)
            row = row_of(question, prediction, graded, seconds)
            if judging.calls:
                row["metric_usage"] = judging.to_dict()
        # Even if the metric, or a library that it uses, caught the error.
        if refused and not metric.builtin:
            raise refused[0]
    if stray:  # it may be a call of this question, from a thread of the program
        row["usage"] = row.usage.but(**dict.fromkeys(UNKNOWN))
    # What the question costs without a cache, if that differs from its usage.
    if row.usage.cached_calls:
        row["takes"] = total(counted.calls).to_dict()
    # Not of a failed question: how far it came depends on the order in which replies came.
    row["finish_reason"] = None if row.error else usage.finish_reason
    row["truncated"] = row.error is None and usage.truncated_calls > 0
    if usage.models:
        row["model"] = ", ".join(sorted(usage.models))
    if usage.thoughts and not row.error:
        row["reasoning"] = usage.thoughts[:MOST_THOUGHTS]
    return AnsweredRow(row, doubtful, counted.calls)


def said_in(block: metered) -> list[TurnFields]:
    """Return the turns of agents in a block that failed, as a row has them."""
    said = []
    for turn in block.turns:
        held: Any = turn
        if isinstance(turn, Turn):
            held = turn.to_dict()
        said.append(TurnFields.of(held))
    return said


@dataclass
class Doubts(Generic[T]):
    """Holds back the rows of failed questions as long as either they or their endpoint may be at
    fault.

    If another question is answered after them, they are at fault, and their rows are kept. If
    `MOST_DOUBTFUL` questions fail in a row, the endpoint is: the run pauses, and they have no rows.
    """

    keep: Callable[[T], None]
    held: list[T] = field(default_factory=list)
    answered: bool = False
    reason: str = ""

    def take(self, row: T, answered: AnsweredRow) -> None:
        """Keep a row, or hold it back. Raises EndpointDown."""
        if not answered.doubtful:
            self.answered = True
            self._settle()
            self.keep(row)
            return
        self.held.append(row)
        self.reason = str(answered.row.error)
        if len(self.held) >= MOST_DOUBTFUL:
            raise EndpointDown(self.reason)

    def end(self) -> None:
        """Keep the rows that are held back, since there is nothing more to ask. Raises EndpointDown
        if no question was answered.
        """
        if self.held and not self.answered:
            raise EndpointDown(self.reason)
        self._settle()

    def _settle(self) -> None:
        while self.held:
            self.keep(self.held.pop(0))


async def _grade(
    metric: Metric, question: Question, prediction: dspy.Prediction
) -> tuple[Graded | str, Usage]:
    """Return the metric's score, or its error as text, and the usage of the metric's own LM
    calls.
    """
    usage = Usage()
    try:
        if metric.builtin:  # it asks no LM
            return metric.grade_now(question, prediction), usage
        with asking(seat=METRIC), metered(each=True) as usage:
            return await metric.grade(question, prediction), usage
    except MetricError as problem:
        return str(problem), usage


def useful_concurrency(
    concurrency: int, program: Program, language_model: object, *, on_cluster: bool = False
) -> int:
    """Return the number of questions in flight: at most `concurrency`, and no more than the most
    calls in flight that one of the program's LMs allows.

    Programs that are commands share this machine, so by default it is twice its cores, but not
    those on a cluster, which may grow with the commands that wait.
    """
    starts_commands = any(part.started for _, part in program.parts(Program))
    if concurrency == CONCURRENCY and starts_commands and not on_cluster:
        concurrency = 2 * (os.cpu_count() or 1)
    engines = seat_engines(program, language_model)
    return min(concurrency, max((engine.concurrency for engine in engines), default=CONCURRENCY))


def lm_names(program: Program, lm: object) -> str:
    """Return the names of the LMs that a program asks."""
    names = dict.fromkeys(str(each.model) for each in lms_in(program, lm))
    return ", ".join(names) or "no LM"


def seat_engines(program: Program, language_model: object) -> list[Billed]:
    """Return what counts and prices the calls of each seat's LM (`billed_as`)."""
    return [billed_as(seated) for seated in seated_lms(program, language_model)]


def seated_lms(program: Program, language_model: object = None) -> list[object]:
    """Return the LM of every seat: its own, else the given one, else DSPy's."""
    return [
        seat.predict.lm or language_model or dspy.settings.lm for seat in program.seats().values()
    ]


def lms_in(program: Program, language_model: object = None) -> list[dspy.BaseLM]:
    """Return every LM that may be called: those of seats and other predictors, those in a user's
    own program, the given one, and DSPy's.
    """
    own = [predictor.lm for predictor in predictors_of(program).values()]
    # LMs in a user's program have to be found before they are called, to be metered.
    held = _held_by(program.as_given) if program.foreign else ()
    candidates = (*seated_lms(program), *own, *held, language_model, dspy.settings.lm)
    return [lm for lm in candidates if isinstance(lm, dspy.BaseLM)]


def _held_by(module: object) -> list[object]:
    """Return the objects among which a user's program may have LMs: its attributes and, for a
    function, the variables outside of it that its code uses.
    """
    held = list(getattr(module, "__dict__", {}).values())
    if inspect.isfunction(module):
        around = inspect.getclosurevars(module)
        held += [*around.nonlocals.values(), *around.globals.values()]
    return held
