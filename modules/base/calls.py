"""LM calls: who makes them (`asking`), what they cost (`metered`), and the errors they end in."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from dspy.utils.exceptions import (
    ContextWindowExceededError,
    LMAuthError,
    LMBillingError,
    LMError,
    LMUnsupportedModelError,
)

from .context import ASKER, METER, REFUSED, ROLLOUTS, WATCHED, Asker, Rollouts, bound
from .errors import UserError
from .sync import RunEnding
from .usage import CUT_OFF, DETAILS, Usage, UsageFields, plus, tokens_of, total

__all__ = [
    "ASKER",
    "CARRIED",
    "CUT_OFF",
    "DETAILS",
    "ROLLOUTS",
    "Asker",
    "AuthError",
    "BillingError",
    "CallError",
    "ContextLengthError",
    "EndpointDown",
    "FatalCallError",
    "GivenUpError",
    "RefusedCall",
    "Rollouts",
    "UnsupportedModelError",
    "Usage",
    "UsageFields",
    "asking",
    "bound",
    "counted_once",
    "metered",
    "meters",
    "note_transcribed",
    "plus",
    "record_call",
    "record_failure",
    "record_turn",
    "refusals",
    "refused",
    "tokens_of",
    "total",
    "with_usage",
]

T = TypeVar("T")


class CallError(LMError):  # type: ignore[misc]
    """An LM call that failed for good; the question becomes an error row."""


class ContextLengthError(CallError, ContextWindowExceededError):  # type: ignore[misc]
    """The request is longer than the LM's context. On this error, DSPy's agents shorten their
    memory.
    """

    def __init__(self, message: str) -> None:
        # DSPy's own constructor takes keywords only, which pickling and copying would not give it.
        LMError.__init__(self, message)


class GivenUpError(CallError):
    """A call whose endpoint failed at every attempt. Only other calls can show whether this request
    is the cause or the endpoint is down. `status` is the HTTP status of the last answer, or 0.
    """

    def __init__(self, reason: str, status: int = 0) -> None:
        super().__init__(reason)
        self.status = status


class FatalCallError(CallError, UserError):
    """A failure that every other call would share, so the run stops with this one line."""


class LostWorker(FatalCallError):  # noqa: N818
    """A worker process died during a task. The task is done again, without making calls again that
    were paid for.
    """


class EndpointDown(FatalCallError):  # noqa: N818
    """An endpoint failed for good, or asks for a longer pause. The question is left unfinished
    instead of failed, and the same command goes on from there.

    `if_answered` is the error to raise instead if another call with the same key and model gets an
    answer, which shows that only this request was refused; None where that would show nothing.
    """

    if_answered: CallError | None = None


class AuthError(EndpointDown, LMAuthError):  # type: ignore[misc]
    """The key is wrong, or may not use this LM."""


class BillingError(EndpointDown, LMBillingError):  # type: ignore[misc]
    """The account has no money or quota left."""


class UnsupportedModelError(EndpointDown, LMUnsupportedModelError):  # type: ignore[misc]
    """The endpoint does not know the LM's name."""


class RefusedCall(RunEnding):
    """Raised in a callback of DSPy's to refuse a call, for this `reason`.

    Not an Exception, since DSPy ignores those that its callbacks raise.
    """

    def __init__(self, reason: FatalCallError) -> None:
        super().__init__(str(reason))
        self.reason = reason


CARRIED = "folkmoot_run"
"""The setting of DSPy's that holds the context variables of a program's call: threads that DSPy
starts inherit its settings, but no context variables.
"""


def refused(reason: FatalCallError) -> FatalCallError:
    """Note why a call is refused, in case the caller catches the error; returns the reason."""
    if (noted := REFUSED.get()) is not None:
        noted.append(reason)
    return reason


class refusals(bound[list[Exception] | None]):  # noqa: N801
    """Raise the reason of a call that was refused inside the block, even if it was caught there."""

    def __init__(self) -> None:
        super().__init__(REFUSED, list[Exception]())

    def __exit__(self, *raised: object) -> None:
        super().__exit__()
        _, problem, _ = raised
        if isinstance(problem, RefusedCall):
            raise problem.reason from None


_ADDING = threading.Lock()


class metered:  # noqa: N801
    """Collect the usage of every call made inside the block, in this task and in those it starts.

    Blocks nest: when an inner block ends, also by an error, its sum is added to the outer one.
    With `each`, the block also lists every call in `calls` (at its price without records and
    caches, in the order in which calls end) and every turn of an agent in `turns`. Only an inner
    block with `each` that ends by an error hands its lists to the outer one.
    """

    def __init__(self, *, each: bool = False) -> None:
        self.usage, self.each = Usage(), each
        self.calls: list[Usage] = []
        self.failure: BaseException | None = None
        """The last call that failed, also where a program went on without it."""
        self.turns: list[object] = []

    def __enter__(self) -> Usage:
        self.outer: metered | None = METER.get()
        self._token = METER.set(self)
        return self.usage

    def __exit__(self, problem: object, *_: object) -> None:
        METER.reset(self._token)
        if self.outer is not None:
            with _ADDING:
                self.outer.usage.add(self.usage)
            self.outer.failure = self.failure or self.outer.failure
        if problem is not None and (outer := _of_each(self.outer)) is not None:
            outer.calls += self.calls
            outer.turns += self.turns


async def with_usage(function: Callable[..., Awaitable[T]], *args: object) -> tuple[T, Usage]:
    """Return the result of an async function, and the usage of its calls."""
    with metered() as usage:
        return await function(*args), usage


def meters() -> list[Usage]:
    """Return the meters that count the current calls, the innermost first."""
    usages: list[Usage] = []
    meter: metered | None = METER.get()
    while meter is not None:
        usages.append(meter.usage)
        meter = meter.outer
    return usages


def note_transcribed(written: Mapping[str, object], usage: Usage) -> None:
    """Tell the tracer which turn of a transcript (`written`) the calls in `usage` were made for."""
    if (seen := WATCHED.get()) is not None:
        seen.written.append((written, usage))


def record_call(usage: Usage, worth: Usage | None = None) -> None:
    """Add one finished call to the innermost meter; called by the LM engine.

    `worth` is what the call would have cost without records and caches.
    """
    meter: metered | None = METER.get()
    if meter is None:
        return
    with _ADDING:  # a program's own threads add to the same sum
        meter.usage.add(usage)
    if (whole := _of_each(meter)) is not None:
        whole.calls.append(worth or usage)


def record_turn(turn: object) -> None:
    """Keep what an agent said, since it would be lost if its program failed later."""
    if (whole := _of_each(METER.get())) is not None:
        whole.turns.append(turn)


def _of_each(meter: metered | None) -> metered | None:
    """This meter or the innermost one around it that lists each call; None if there is none.

    It is looked up and not stored in the meter: a meter that refers to itself would keep all texts
    of a question in memory until the garbage collector runs.
    """
    while meter is not None and not meter.each:
        meter = meter.outer
    return meter


def record_failure(problem: BaseException) -> None:
    """Note on the innermost meter that a call failed."""
    meter: metered | None = METER.get()
    if meter is not None:
        meter.failure = problem


@contextmanager
def counted_once() -> Iterator[None]:
    """Count the call inside the block as one of unknown usage, unless the LM has counted it."""
    meter: metered | None = METER.get()
    before = 0 if meter is None else meter.usage.calls
    yield
    if meter is not None and meter.usage.calls == before:
        record_call(Usage.unknown(calls=1))


def asking(
    *,
    seat: str | None = None,
    question: str | None = None,
    paid: Container[str] | None = None,
    files: Mapping[str, str] | None = None,
    place: object = None,
) -> bound[Asker]:
    """Set the asker of the calls inside the block; values that are not passed are kept."""
    outer = ASKER.get()
    requests, already = outer.requests, outer.paid
    if question and question != outer.question:
        requests, already = set(), paid or ()
    if files is None:
        files = outer.files
    asker = Asker(
        seat or outer.seat,
        question or outer.question,
        requests,
        already,
        outer.turn,
        files,
        place or outer.place,
    )
    return bound(ASKER, asker)
