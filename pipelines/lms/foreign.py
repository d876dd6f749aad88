"""Meters LMs that folkmoot did not make: one DSPy callback on each adds their calls to a run's
bill.
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
"""How long the end of a run waits for calls in flight; after that, their end is unknown."""

Restored = Sequence[tuple[ContextVar[Any], Token[Any]]]
"""Context variables that a call has set, with the tokens that restore them."""


@dataclass
class _Call:
    """A call in flight: its LM, and how it is booked. `history` receives DSPy's history
    entry of the call, as it does for modules that call an LM. `stray` says that no question counts
    the call, and `ended` that it is being booked.
    """

    lm: dspy.BaseLM
    entry: Entry | None = None
    booking: Booking = field(default_factory=Booking)
    watched: SeenCall | None = None
    stray: bool = False
    ended: bool = False
    restored: Restored = ()
    history: list[Mapping[str, object]] = field(default_factory=list)
    settings: AbstractContextManager[object] | None = None

    def book(self, call_id: str, inputs: Mapping[str, object]) -> None:
        """Reserve the call's budget, and write it to the ledgers before it is made. Raises
        UserError where budget or disk do not allow it.
        """
        asker, model = ASKER.get(), str(self.lm.model)
        self.entry = Entry(
            endpoint="DSPy",
            model=model,
            # No cache of ours answers such a call, so an equal request is another call with its
            # own bill.
            key=hashlib.sha256(call_id.encode()).hexdigest(),
            prompt_tokens=None,
            completion_tokens=None,
            cost_usd=None,
            seat=asker.seat,
            question=asker.question,
            attempts=1,
            kept=False,
            lost=True,
        )
        for account in books_around().accounts:
            account.admit_now()
            self.booking.admitted.append(account)
        self.booking.send(self.entry)
        seen: Seen | None = WATCHED.get()
        if seen is not None:
            self.watched = SeenCall(asker, model, {"messages": _messages(inputs)})
            seen.append(self.watched)

    def listen(self) -> None:
        """Let DSPy write the call's history entry here, and into no module's history: those would
        keep every reply of a run.
        """
        most = max(1, dspy.settings.max_history_size)
        self.settings = dspy.context(
            caller_modules=[self], disable_history=False, max_history_size=most
        )
        # No `with`: the block begins in one callback of DSPy and ends in another.
        self.settings.__enter__()

    def settle(self, outputs: object, problem: BaseException | None) -> None:
        """Book the end of the call. Raises UserError when the disk is full."""
        if self.settings is not None:
            self.settings.__exit__(None, None, None)
        for noted in self.history:
            # DSPy would keep the replies of a whole run in these lists.
            for history in (self.lm.history, GLOBAL_HISTORY):
                with suppress(ValueError):  # another thread has dropped it
                    history.remove(noted)
        entry, usage = self._bill(problem)
        try:
            self.booking.settle(entry)
        finally:
            if usage is not None and not self.stray:
                record_call(usage, replace(usage, cached_calls=0))
            if self.watched is not None:
                self.watched.ended, self.watched.usage = time.time_ns(), usage
                if isinstance(problem, Exception):
                    self.watched.error = without_keys(said_by(problem), [self.lm])
                elif outputs is not None:
                    self.watched.text = reply_text(outputs)

    def _bill(self, problem: BaseException | None) -> tuple[Entry | None, Usage | None]:
        """The call as counted by the ledgers and by its question; None where nothing was paid."""
        assert self.entry is not None
        if not self.history:
            lost = isinstance(problem, LMTimeoutError | LMTransportError | asyncio.CancelledError)
            if problem is not None and not lost:
                return None, None
            # DSPy wrote no history: the call's end is unknown, or the LM overrides how it is
            # called.
            return self.entry, usage_of(self.entry)
        noted = self.history[-1]
        response, cost = noted.get("response"), noted.get("cost")
        usage, choices = noted.get("usage"), _get(response, "choices") or [None]
        reason = _get(response, "finish_reason") or _get(choices[0], "finish_reason")
        if reason is not None:
            reason = in_one_spelling(str(reason))
        ended = Usage(1, finish_reason=reason, truncated_calls=int(reason in CUT_OFF))
        counts = _get(response, "usage")
        counted = any(
            _get(counts, name) for name in ("input_tokens", "prompt_tokens", "total_tokens")
        )
        # DSPy's cache returns an earlier response without usage.
        if not usage and (counted or cost is not None):
            return None, replace(ended, cached_calls=1)
        # Some LMs give usage in objects, or hold more than JSON can.
        plain = json.loads(
            json.dumps(usage, default=lambda part: getattr(part, "__dict__", None), skipkeys=True)
        )
        tokens = tokens_in(plain, reply_text(noted.get("outputs")))
        spent = replace(ended, **tokens)
        # DSPy's own usage lacks what a provider says that the call cost.
        body = _get(response, "provider_data")
        charges = charges_in(body if isinstance(body, dict) else {"usage": plain})
        # LiteLLM computes a cost from the same counts, so it is no better than they are.
        contradictory = bool(usage) and spent.tokens is None
        if charges["cost_usd"] is not None:
            cost = charges["cost_usd"]
        elif contradictory or not isinstance(cost, int | float):
            prices = price_per_token(self.entry["model"])
            cost = prices and prices.cost(Reply("", "", **tokens, **charges))
        entry = Entry(
            **{**self.entry, **tokens, "cost_usd": cost, "kept": reason in KEEPABLE},
        )
        del entry["lost"]
        if reason is not None:
            entry["finish_reason"] = reason
        return entry, replace(spent, cost_usd=cost)


class ForeignMeter(BaseCallback):  # type: ignore[misc]
    """The callback that adds calls of LMs that folkmoot did not make to the bill of its run.

    Only DSPy's calls are counted; retries inside the LM are not seen. Tokens and cost come from
    DSPy's history entry of the call, else they are unknown. A call in a thread of the user's own,
    which has no question, is added only to the run's bill; `strays` counts the begins and ends of
    such calls. A call in one of DSPy's threads belongs to its question. folkmoot's own LMs keep the
    books themselves; in such threads, this callback tells them their run.
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
        """Book the call. Raises RefusedCall where budget or disk do not allow it."""
        if self.over or call_id in self._calls:  # the LM and DSPy's settings both have this meter
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
            call.booking.settle(None)
            _leave_run(restored)
            if not isinstance(problem, FatalCallError):
                # DSPy would take any other error for the failure of this one call, and go on.
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
            if call.entry is not None:
                call.settle(outputs, exception)
        except UserError as problem:
            raise RefusedCall(FatalCallError(str(problem))) from None
        finally:
            self._count(call)
            # Not before it is booked: until then, the end of the run waits for it.
            del self._calls[call_id]
            _leave_run(call.restored)

    def refused_alone(self, problem: LMError) -> bool:
        """Whether a refusal concerns its request alone, since its LM has answered before."""
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
        # A call that begins later belongs to no run any more.
        self.over = True

    def _count(self, call: _Call) -> None:
        if call.stray:
            with self._lock:
                self.strays += 1

    def _enter_run(self) -> Restored:
        """In a thread without a run's context, set the run's books; in a thread of DSPy's also what
        is known of the question, which DSPy's settings carry there.
        """
        carried: Context | None = dspy.settings.get(CARRIED)
        if carried is None:
            return [(OPEN_BOOKS, OPEN_BOOKS.set(self.books))]
        return [(known, known.set(carried[known])) for known in OF_A_CALL if known in carried]

    def _counted_by(self, instance: dspy.BaseLM) -> ForeignMeter:
        """The meter that counts a call: the one of its run, else the innermost one."""
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
    """Add the block's calls to these LMs to the bill of the block's books. Each LM gets one
    callback, which is removed afterwards. With `everywhere`, DSPy's settings get it, too, since a
    user's program may create LMs itself.
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
            # Only ours goes: a program may have added callbacks of its own meanwhile.
            lm.callbacks = [callback for callback in lm.callbacks if callback is not meter]


def _messages(inputs: Mapping[str, Any]) -> Sequence[Mapping[str, object]]:
    """What an LM was asked, from the arguments of DSPy's call."""
    # By position DSPy calls a request `prompt`, by name `request`, as in 3.5's `LM.generate`.
    asked = inputs.get("request") or inputs.get("prompt")
    if isinstance(asked, Request):
        return [{"role": role, "content": text} for role, text in texts_of(asked)]
    return inputs.get("messages") or [{"role": "user", "content": str(asked or "")}]


def _get(value: object, name: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(name)
    return getattr(value, name, None)
