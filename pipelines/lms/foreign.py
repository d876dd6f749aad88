"""Counts the calls of foreign LMs, those that `fm.lm` did not make: a DSPy callback on each LM adds
them to the run's bill.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import Context, ContextVar, Token
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import dspy
from dspy.clients.base_lm import GLOBAL_HISTORY
from dspy.lm15 import Request
from dspy.utils.callback import BaseCallback
from dspy.utils.exceptions import LMError, LMTimeoutError, LMTransportError

from ...modules.agents.dspy_lm import reply_text, texts_of
from ...modules.base.calls import (
    ASKER,
    CARRIED,
    CUT_OFF,
    FatalCallError,
    RefusedCall,
    Usage,
    bound,
    meters,
    record_call,
    record_failure,
)
from ...modules.base.context import OF_A_CALL, OPEN_BOOKS, WATCHED
from ...modules.base.errors import UserError, said_by
from ..base.budget import POLL_SECONDS
from .endpoint import KEEPABLE, Reply, charges_in, in_one_spelling, tokens_in, without_keys
from .failures import AskedEndpoint, RefusedRequest
from .ledger import Entry, usage_of
from .named import engine_of
from .prices import price_per_token
from .seen import Seen, SeenCall
from .store import Booking, at_meter, books_around

LAST_SECONDS = 5.0
"""How long the end of a run waits for calls in flight; later ones are booked as lost."""

Restored = Sequence[tuple[ContextVar[Any], Token[Any]]]
"""Context variables that a call has set, with the tokens that restore them."""


@dataclass
class _Call:
    """A call in flight: its LM, and how each of its requests is booked (DSPy makes three
    with `n=3`).

    DSPy writes its history entry of the call into `history`, as it does for a module that calls an
    LM. `stray` says that the call belongs to no question, and `ended` that its end is being booked.
    """

    lm: dspy.BaseLM
    requests: list[tuple[Entry, Booking]] = field(default_factory=list)
    watched: SeenCall | None = None
    stray: bool = False
    ended: bool = False
    restored: Restored = ()
    history: list[Mapping[str, object]] = field(default_factory=list)
    settings: AbstractContextManager[object] | None = None

    def book(self, call_id: str, inputs: Mapping[str, object]) -> None:
        """Reserve budget for the call, and write it to the ledgers before it is made. Raises
        UserError if the budget or the disk does not allow it.
        """
        asker, model = ASKER.get(), str(self.lm.model)
        for index in range(_count_asked(self.lm, inputs)):
            entry = Entry(
                endpoint="DSPy",
                model=model,
                # The key of the call and not of its request: no cache answers such calls, so equal
                # requests are billed separately.
                key=hashlib.sha256(f"{call_id} {index}".encode()).hexdigest(),
                prompt_tokens=None,
                completion_tokens=None,
                cost_usd=None,
                seat=asker.seat,
                question=asker.question,
                attempts=1,
                kept=False,
                lost=True,
            )
            booking = Booking()
            self.requests.append((entry, booking))
            for account in books_around().accounts:
                account.admit_now()
                booking.admitted.append(account)
            booking.send(entry)
        seen: Seen | None = WATCHED.get()
        if seen is not None:
            self.watched = SeenCall(asker, model, {"messages": _messages(inputs)})
            seen.append(self.watched)

    def listen(self) -> None:
        """Have DSPy write the call's history entry here, and not into the history of a module,
        which would keep every reply of a run in memory.
        """
        most = max(1, dspy.settings.max_history_size)
        self.settings = dspy.context(
            caller_modules=[self], disable_history=False, max_history_size=most
        )
        # No `with`: the context begins in one callback of DSPy's and ends in another (`settle`).
        self.settings.__enter__()

    def settle(self, outputs: object, problem: BaseException | None) -> None:
        """Book the end of the call. Raises UserError when the disk is full."""
        if self.settings is not None:
            self.settings.__exit__(None, None, None)
        for noted in self.history:
            # Removed from DSPy's lists, which would keep the replies of the whole run in memory.
            for history in (self.lm.history, GLOBAL_HISTORY):
                with suppress(ValueError):  # another thread has removed it
                    history.remove(noted)
        bills = self._bills(problem)
        try:
            self.release([entry for entry, _ in bills])
        finally:
            usage = Usage()
            for _, spent in bills:
                usage.add(spent)
                if not self.stray:
                    record_call(spent, replace(spent, cached_calls=0))
            if self.watched is not None:
                self.watched.ended = time.time_ns()
                self.watched.usage = usage if bills else None
                if isinstance(problem, Exception):
                    self.watched.error = without_keys(said_by(problem), [self.lm])
                elif outputs is not None:
                    self.watched.text = reply_text(outputs)

    def release(self, entries: Sequence[Entry | None] = ()) -> None:
        """Book the end of each request; those without an entry were not paid for. Raises UserError
        when the disk is full.
        """
        for (_, booking), entry in zip_longest(self.requests, entries):
            booking.settle(entry)

    def _bills(self, problem: BaseException | None) -> list[tuple[Entry | None, Usage]]:
        """Return for each answered request what the ledgers book (None if it was not paid for) and
        what the question counts.
        """
        if not self.history:
            lost = isinstance(problem, LMTimeoutError | LMTransportError | asyncio.CancelledError)
            if problem is not None and not lost:
                return []
            # The call may have been billed, or the LM's own class writes no history.
            return [(entry, usage_of(entry)) for entry, _ in self.requests]
        replies = _replies(self.history[-1])
        return [
            _bill(entry, noted) for (entry, _), noted in zip(self.requests, replies, strict=False)
        ]


def _count_asked(lm: dspy.BaseLM, inputs: Mapping[str, Any]) -> int:
    """Return how many requests DSPy may make for a call."""
    asked = {**lm.kwargs, **inputs.get("kwargs", {})}.get("n")
    # DSPy makes one for a `Request`, and refuses an `n` that is no count.
    if isinstance(_prompt(inputs), Request) or not isinstance(asked, int):
        return 1
    return max(1, asked)


def _replies(noted: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return DSPy's history entry of a call as one for each request that was made for it."""
    from dspy.clients.call_result import usage_dict

    replies = noted["response"]
    # Only where DSPy made several requests does it keep a tuple, beside the sums of all.
    if not isinstance(replies, tuple):
        return [noted]
    provider = str(noted["model"]).partition("/")[0]
    parts: list[Mapping[str, Any]] = []
    for reply in replies:
        part = {**noted, "response": reply, "outputs": [reply.text]}
        # Of replies from DSPy's cache the usage is empty.
        if noted["usage"]:
            part["usage"] = usage_dict(reply, provider)
        if noted["cost"] is not None:
            part["cost"] = noted["cost"] / len(replies)
        parts.append(part)
    return parts


def _bill(entry: Entry, noted: Mapping[str, Any]) -> tuple[Entry | None, Usage]:
    """Return what the ledgers book of an answered request, None if it was not paid for, and what
    the question counts.
    """
    response, cost = noted.get("response"), noted.get("cost")
    usage, choices = noted.get("usage"), _get(response, "choices") or [None]
    reason = _get(response, "finish_reason") or _get(choices[0], "finish_reason")
    if reason is not None:
        reason = in_one_spelling(str(reason))
    ended = Usage(1, finish_reason=reason, truncated_calls=int(reason in CUT_OFF))
    counts = _get(response, "usage")
    counted = any(_get(counts, name) for name in ("input_tokens", "prompt_tokens", "total_tokens"))
    # No usage although the response has tokens or a cost: it came from DSPy's cache.
    if not usage and (counted or cost is not None):
        return None, replace(ended, cached_calls=1)
    # Through JSON, since some LMs have objects in their usage.
    plain = json.loads(
        json.dumps(usage, default=lambda part: getattr(part, "__dict__", None), skipkeys=True)
    )
    tokens = tokens_in(plain, reply_text(noted.get("outputs")))
    spent = replace(ended, **tokens)
    # DSPy's own usage lacks what a provider says that the call cost.
    body = _get(response, "provider_data")
    charges = charges_in(body if isinstance(body, dict) else {"usage": plain})
    # LiteLLM computes its cost from these counts: if they contradict each other, it is wrong.
    contradictory = bool(usage) and spent.tokens is None
    if charges["cost_usd"] is not None:
        cost = charges["cost_usd"]
    elif contradictory or not isinstance(cost, int | float):
        prices = price_per_token(entry["model"])
        cost = prices and prices.cost(Reply("", "", **tokens, **charges))
    paid = Entry(**{**entry, **tokens, "cost_usd": cost, "kept": reason in KEEPABLE})
    del paid["lost"]
    if reason is not None:
        paid["finish_reason"] = reason
    return paid, replace(spent, cost_usd=cost)


class ForeignMeter(BaseCallback):  # type: ignore[misc]
    """The callback of DSPy's that adds the calls of foreign LMs to the bill of its run.

    Only calls of DSPy's are counted; retries inside an LM are not seen. Tokens and cost come from
    DSPy's history entry of the call, else they are unknown.

    A call in a thread of the user's own has no question and is added to the run's bill alone;
    `strays` counts the begins and ends of such calls. A call in one of DSPy's threads belongs to
    its question. LMs of `fm.lm` book their calls themselves, but in such threads this callback
    tells them their run.
    """

    def __init__(self, everywhere: bool = False) -> None:
        self.strays = 0
        self.answered = set[str]()
        """The names of the LMs that have answered."""
        self.over = False
        self.everywhere = everywhere
        self._lock = threading.Lock()
        self._calls: dict[str, _Call] = {}
        self.books = replace(books_around(), meter=self)

    def __deepcopy__(self, memo: dict[int, object]) -> ForeignMeter:
        return self

    def on_lm_start(self, call_id: str, instance: object, inputs: dict[str, object]) -> None:
        """Book the call. Raises RefusedCall if the budget or the disk does not allow it."""
        # A call is already known if both the LM and DSPy's settings have this callback.
        if self.over or call_id in self._calls:
            return
        if getattr(getattr(instance, "engine", None), "hands_on", False):
            return
        reached = getattr(instance, "kwargs", {})
        if at_meter(reached.get("api_base") or reached.get("base_url")):  # which books the call
            return
        restored = () if OPEN_BOOKS.get() is not None else self._enter_run()
        call = _Call(instance, restored=restored)
        ours = engine_of(instance) is not None
        if self._counted_by(instance) is not self or (ours and not restored):
            _leave_run(restored)
            return
        call.stray = not meters()
        try:
            if not ours:
                call.book(call_id, inputs)
                call.listen()
        except UserError as problem:
            call.release()
            _leave_run(restored)
            if not isinstance(problem, FatalCallError):
                # DSPy would take another error for the failure of this one call, and go on.
                problem = FatalCallError(str(problem))
            raise RefusedCall(problem) from None
        self._count(call)
        self._calls[call_id] = call

    def on_lm_end(
        self, call_id: str, outputs: object, exception: BaseException | None = None
    ) -> None:
        """Book the end of the call. Raises RefusedCall when the disk is full."""
        call = self._calls.get(call_id)
        if call is None or call.ended:
            return
        call.ended = True
        if exception is None:
            self.answered.add(str(call.lm.model))
        else:
            record_failure(exception)
        try:
            if call.requests:
                call.settle(outputs, exception)
        except UserError as problem:
            raise RefusedCall(FatalCallError(str(problem))) from None
        finally:
            self._count(call)
            # Only now: `wait` at the end of the run waits for calls that are not booked yet.
            del self._calls[call_id]
            _leave_run(call.restored)

    def refused_alone(self, problem: LMError) -> bool:
        """Return whether a refusal concerns its request alone, as it may once its LM has
        answered.
        """
        from .refusals import failure_of

        if str(problem.model) not in self.answered:
            return False
        status = getattr(problem, "status", None) or 0
        endpoint = AskedEndpoint("", "", "", answered=True, status=status)
        return isinstance(failure_of(status, str(problem), {}, endpoint), RefusedRequest)

    def wait(self) -> None:
        """Wait a short time for calls in a program's own threads, which may outlive the program."""
        until = time.monotonic() + LAST_SECONDS
        while self._calls and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        # A call that begins from now on belongs to no run.
        self.over = True

    def _count(self, call: _Call) -> None:
        """Count the begin or the end of a stray call."""
        if call.stray:
            with self._lock:
                self.strays += 1

    def _enter_run(self) -> Restored:
        """Set the context variables of the run in a thread that has none: in a thread of DSPy's all
        of the question's, which DSPy's settings carry there; in any other only the run's books.
        """
        carried: Context | None = dspy.settings.get(CARRIED)
        if carried is None:
            return [(OPEN_BOOKS, OPEN_BOOKS.set(self.books))]
        return [(known, known.set(carried[known])) for known in OF_A_CALL if known in carried]

    def _counted_by(self, instance: dspy.BaseLM) -> ForeignMeter:
        """Return the meter that counts a call of this LM: that of its run, else the innermost."""
        meters = [callback for callback in instance.callbacks if isinstance(callback, ForeignMeter)]
        current: ForeignMeter | None = books_around().meter
        if current is not None and (current.everywhere or current in meters):
            return current
        if not meters:
            return self
        return meters[-1]


def _leave_run(restored: Restored) -> None:
    for variable, token in restored:
        variable.reset(token)


@contextmanager
def metering(lms: Iterable[object], everywhere: bool = False) -> Iterator[None]:
    """Add the calls that the block makes to these LMs to the bill of the run around it.

    Each foreign LM gets a callback, which is removed afterwards. With `everywhere`, all LMs and
    DSPy's settings get it, since a user's program may make LMs itself.
    """
    metered = {
        id(lm): lm
        for lm in lms
        if isinstance(lm, dspy.BaseLM) and (everywhere or engine_of(lm) is None)
    }
    meter = ForeignMeter(everywhere)
    settings: dict[str, object] = {}
    if everywhere:
        settings["callbacks"] = [*dspy.settings.callbacks, meter]
    for lm in metered.values():
        lm.callbacks = [*(getattr(lm, "callbacks", None) or ()), meter]
    try:
        with bound(OPEN_BOOKS, meter.books), dspy.context(**settings):
            yield
    finally:
        meter.wait()
        for lm in metered.values():
            # Only this one: a program may have added other callbacks meanwhile.
            lm.callbacks = [callback for callback in lm.callbacks if callback is not meter]


def _messages(inputs: Mapping[str, Any]) -> Sequence[Mapping[str, object]]:
    """Return the messages that an LM was asked, from the arguments of DSPy's call."""
    asked = _prompt(inputs)
    if isinstance(asked, Request):
        return [{"role": role, "content": text} for role, text in texts_of(asked)]
    return inputs.get("messages") or [{"role": "user", "content": str(asked or "")}]


def _prompt(inputs: Mapping[str, Any]) -> object:
    """Return what an LM was asked, where it is not a list of messages."""
    # DSPy calls a request `prompt` if it is the first argument, and `request` in `LM.generate`.
    return inputs.get("request") or inputs.get("prompt")


def _get(value: object, name: str) -> Any:
    """Return a key of a mapping or an attribute of an object; None if there is none."""
    if isinstance(value, Mapping):
        return value.get(name)
    return getattr(value, name, None)
