"""Cost, caller and failures of LM calls: meter, asker, and errors used on all floors."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Container, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from dspy.utils.exceptions import (
    ContextWindowExceededError,
    LMAuthError,
    LMBillingError,
    LMError,
    LMUnsupportedModelError,
)

from .errors import UserError
from .sync import RunEnding
from .usage import CUT_OFF, DETAILS, Usage, UsageFields, numbers_of, plus, tokens_of, total

__all__ = [
    "ASKER",
    "CARRIED",
    "CUT_OFF",
    "DETAILS",
    "FILES",
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
    "Transcribed",
    "UnsupportedModelError",
    "Usage",
    "UsageFields",
    "asking",
    "bound",
    "counted_once",
    "metered",
    "meters",
    "note_transcribed",
    "numbers_of",
    "plus",
    "record_call",
    "refusals",
    "refused",
    "tallied",
    "tokens_of",
    "total",
    "transcribed",
    "with_usage",
]

T = TypeVar("T")


class CallError(LMError):  # type: ignore[misc]
    """An LM call that failed for good; the question becomes an error row."""


class ContextLengthError(CallError, ContextWindowExceededError):  # type: ignore[misc]
    """The request is longer than the LM's context. DSPy's agents shorten their memory on it."""

    def __init__(self, message: str) -> None:
        LMError.__init__(self, message)


class GivenUpError(CallError):
    """A call that failed because of its endpoint, after all attempts. Whether the request is the
    cause, or the endpoint is down, shows in what happens to other calls.
    """


class FatalCallError(CallError, UserError):
    """A failure that every other call shares: the run stops with one line."""


class EndpointDown(FatalCallError):  # noqa: N818
    """An endpoint failed for good, or asks for a longer pause. The question that was asked is
    unfinished, not failed, and the same command goes on from there.

    `if_answered` is the failure of this request alone, where it is that as soon as another call
    with the same key and model is answered.
    """

    if_answered: CallError | None = None


class AuthError(EndpointDown, LMAuthError):  # type: ignore[misc]
    """The key is wrong, or may not use this LM."""


class BillingError(EndpointDown, LMBillingError):  # type: ignore[misc]
    """The account has no money or quota left."""


class UnsupportedModelError(EndpointDown, LMUnsupportedModelError):  # type: ignore[misc]
    """The endpoint does not know the LM's name."""


class RefusedCall(RunEnding):
    """Refuses a call of DSPy's for this `reason`; an Exception in a callback would be ignored."""

    def __init__(self, reason: FatalCallError) -> None:
        super().__init__(str(reason))
        self.reason = reason


CARRIED = "folkmoot_run"
"""Among DSPy's settings, which its own threads take along, the context variables of a program's
call.
"""


FILES: ContextVar[Mapping[str, str] | None] = ContextVar("folkmoot_files", default=None)
"""The files of the task that is asked, for programs inside others."""

_REFUSED: ContextVar[list[FatalCallError] | None] = ContextVar("folkmoot_refused", default=None)


def refused(reason: FatalCallError) -> FatalCallError:
    """Note that a call was refused, even if the caller catches the error."""
    if (noted := _REFUSED.get()) is not None:
        noted.append(reason)
    return reason


@contextmanager
def refusals() -> Iterator[list[FatalCallError]]:
    """Raise the reason of a call that was refused inside the block, even if it was caught there."""
    noted: list[FatalCallError] = []
    try:
        with bound(_REFUSED, noted):
            yield noted
    except RefusedCall as problem:
        raise problem.reason from None


@contextmanager
def bound(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Give a context variable a value inside the block."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@dataclass(frozen=True)
class Asker:
    """The asker of a call: the seat's name and the question's id, each None where unknown.
    `requests` has the keys of all requests of the question; None without a question. `paid` has the
    keys that an earlier attempt has paid for.
    """

    seat: str | None = None
    question: str | None = None
    requests: set[str] | None = field(default=None, compare=False, repr=False)
    paid: Container[str] = field(default=(), compare=False, repr=False)

    def asks_first(self, key: str) -> bool:
        """Whether this is the question's first request with this key, which is noted."""
        if self.requests is None:
            return True
        new = key not in self.requests
        self.requests.add(key)
        return new


Transcribed = list[tuple[Mapping[str, object], Usage]]
"""Usages in transcripts, each with the meter that it was read from."""

_NOBODY = Asker()
ASKER: ContextVar[Asker] = ContextVar("folkmoot_asker", default=_NOBODY)
_ADDING = threading.Lock()
_METER: ContextVar[metered | None] = ContextVar("folkmoot_usage", default=None)
_WRITTEN: ContextVar[Transcribed | None] = ContextVar("folkmoot_transcribed", default=None)
_TALLY: ContextVar[list[Usage] | None] = ContextVar("folkmoot_tally", default=None)


class metered:  # noqa: N801
    """Collect the usage of every call made inside the block, in this task and in those it starts.

    Blocks nest: what an inner block collected is added to the outer one when it ends, also on
    errors.
    """

    def __enter__(self) -> Usage:
        self.usage, self.outer = Usage(), _METER.get()
        self._token = _METER.set(self)
        return self.usage

    def __exit__(self, *_: object) -> None:
        _METER.reset(self._token)
        if self.outer is not None:
            self.outer.usage.add(self.usage)


async def with_usage(answering: Awaitable[T]) -> tuple[T, Usage]:
    """The result of an awaitable, and the usage of its calls."""
    with metered() as usage:
        return await answering, usage


def meters() -> list[Usage]:
    """The meters that count the current calls, the innermost first."""
    usages, meter = [], _METER.get()
    while meter is not None:
        usages.append(meter.usage)
        meter = meter.outer
    return usages


@contextmanager
def transcribed() -> Iterator[Transcribed]:
    """Collect every usage that is written into a transcript inside the block, with its meter."""
    written: Transcribed = []
    with bound(_WRITTEN, written):
        yield written


def note_transcribed(written: Mapping[str, object], usage: Usage) -> None:
    """Note that a turn with this usage was written into a transcript; its calls were made for that
    turn.
    """
    noted = _WRITTEN.get()
    if noted is not None:
        noted.append((written, usage))


def record_call(usage: Usage, worth: Usage | None = None) -> None:
    """Add one finished call to the innermost meter; called by the LM engine.

    `worth` is what the call would have cost without records and caches.
    """
    meter = _METER.get()
    if meter is not None:
        with _ADDING:  # a program's own threads add to the same sum
            meter.usage.add(usage)
    tally = _TALLY.get()
    if tally is not None:
        tally.append(worth or usage)


@contextmanager
def counted_once() -> Iterator[None]:
    """Count the call made inside the block, with unknown usage, unless something else counts it."""
    meter = _METER.get()
    before = 0 if meter is None else meter.usage.calls
    yield
    if meter is not None and meter.usage.calls == before:
        record_call(Usage(1, None, None, 0, None, None, None, None))


@contextmanager
def tallied(*, alone: bool = False) -> Iterator[list[Usage]]:
    """Collect what each call inside the block costs without records and caches, in the order in
    which the calls end.

    Blocks nest: the outer block gets the calls of the inner one, too, unless that is `alone`.
    """
    outer = None if alone else _TALLY.get()
    calls: list[Usage] = []
    try:
        with bound(_TALLY, calls):
            yield calls
    finally:
        if outer is not None:
            outer.extend(calls)


class Rollouts(NamedTuple):
    """The samples of an LM that an agent's calls are: copies of one LM have rollouts of their own,
    from `rollout` on, at `temperature` unless another is set; None leaves it as it is.
    """

    rollout: int = 0
    temperature: float | None = None

    def number(self, rollout: int | None) -> int | None:
        """The number of a call's rollout among those of all copies."""
        return self.rollout + (rollout or 0) if self.rollout else rollout


ROLLOUTS: ContextVar[Rollouts] = ContextVar("folkmoot_rollouts", default=Rollouts())  # noqa: B039


class asking:  # noqa: N801
    """Set the asker of the calls inside the block; values that are not passed are kept."""

    def __init__(
        self,
        *,
        seat: str | None = None,
        question: str | None = None,
        paid: Container[str] | None = None,
    ) -> None:
        self._seat = seat
        self._question = question
        self._paid = paid

    def __enter__(self) -> None:
        outer = ASKER.get()
        question, requests, paid = self._question or outer.question, outer.requests, outer.paid
        if question != outer.question:
            requests, paid = set(), self._paid or ()
        self._token = ASKER.set(Asker(self._seat or outer.seat, question, requests, paid))

    def __exit__(self, *_: object) -> None:
        ASKER.reset(self._token)
