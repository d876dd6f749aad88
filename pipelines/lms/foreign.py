"""LMs that folkmoot did not make: their calls are metered where DSPy makes them."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import Context, ContextVar, Token
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import dspy
from dspy.utils.callback import BaseCallback
from dspy.utils.exceptions import LMTimeoutError, LMTransportError

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
)
from ...modules.base.errors import UserError, said_by
from ...modules.base.sync import in_thread
from ..base.budget import ACCOUNTS, POLL_SECONDS, Account
from .cache import ACTIVE_CACHE
from .endpoint import KEEPABLE, tokens_in
from .engine import Engine
from .ledger import LEDGERS, Entry, Ledger, usage_of
from .named import engine_of
from .prices import Prices, price_per_token
from .secrets import without_keys
from .seen import WATCHED, SeenCall
from .store import ACTIVE

LAST_SECONDS = 5.0
"""How long a run that is over waits for calls that are under way; then nobody knows how they end.
"""


@dataclass(frozen=True)
class ForeignLM:
    """What budgets and forecasts know of an LM that folkmoot did not make."""

    model: str
    prices: Prices | None
    endpoint: str = "DSPy"
    concurrency: int = 64
    cached: bool = False
    to_price: str = "make it by fm.lm(…, price=…)"


def billed_as(lm: Any) -> Engine | ForeignLM:
    """What an LM's calls are counted and priced by: its engine, or what is known of one of
    others.
    """
    model = str(getattr(lm, "model", lm))
    return engine_of(lm) or ForeignLM(model, price_per_token(model))


@dataclass
class _Call:
    """A call under way: who pays, where it is booked, and the entry that DSPy makes of it for
    histories.
    """

    lm: Any
    entry: Entry
    accounts: list[Account]
    booked: list[tuple[Ledger, int]]
    owned: bool
    seen: SeenCall | None
    outer: _Call | None
    in_history: AbstractContextManager[Any]
    keeps_history: bool
    adopted: Adopted = ()
    found: Mapping[str, Any] | None = None


Adopted = Sequence[tuple[ContextVar[Any], Token[Any]]]

_CURRENT: ContextVar[_Call | None] = ContextVar("folkmoot_foreign_call", default=None)
METERING: ContextVar[ForeignMeter | None] = ContextVar("folkmoot_foreign_meter", default=None)
"""What meters the LMs of others in the run in progress."""


class ForeignMeter(BaseCallback):  # type: ignore[misc]
    """Puts the calls of LMs that folkmoot did not make on the bill of the run that it is made in.

    A call is one of DSPy's: what the LM itself tries again is not seen. Its tokens and cost are
    those of the entry that DSPy makes for the LM's history, else unknown. A call that nobody counts
    where it is made, in a thread of the user's own, is on the ledger alone; `strays` counts when
    such calls began and ended. A call in a thread of DSPy's is its question's. Of folkmoot's own
    LMs, which keep the books themselves, only those calls are seen to that are made in such
    threads.

    Args:
        everywhere: whether LMs that nobody knew of before they were called are metered, too.
    """

    def __init__(self, everywhere: bool = False) -> None:
        self.strays = 0
        self.over = False
        self.everywhere = everywhere
        self._lock = threading.Lock()
        self._open: dict[str, _Call] = {}
        self._adopted: dict[str, Adopted] = {}
        self.met: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self._run = {one: one.get() for one in (LEDGERS, ACCOUNTS, ACTIVE, ACTIVE_CACHE)} | {
            METERING: self
        }

    def __deepcopy__(self, memo: dict[int, Any]) -> ForeignMeter:
        return self

    def on_lm_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
        """Book the call before it is made. Raises RefusedCall where budget or disk do not
        allow it.
        """
        if call_id in self._open or call_id in self._adopted:
            return  # heard of it twice, from the LM and from DSPy
        if self.over and METERING.get() is None:
            return  # a copy of an LM, or of DSPy's callbacks, has outlived the run
        adopted: Adopted = ()
        if METERING.get() is None:
            adopted = self._adopt()
        if self._of(instance) is not self:
            _give_back(adopted)
            return
        if engine_of(instance) is not None:
            if adopted:
                self._adopted[call_id] = adopted
                self._stray()
            return
        asker, seen = ASKER.get(), WATCHED.get()
        lost = Entry(
            endpoint="DSPy",
            model=str(instance.model),
            # asked again, the same request is paid again
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
        accounts: list[Account] = []
        try:
            for account in ACCOUNTS.get():
                account.admit_now()
                accounts.append(account)
            booked = [(ledger, ledger.send(lost)) for ledger in LEDGERS.get()]
        except UserError as problem:
            for account in accounts:
                account.leave()
            _give_back(adopted)
            reason = (
                problem if isinstance(problem, FatalCallError) else FatalCallError(str(problem))
            )
            raise RefusedCall(reason) from None
        owned = bool(meters())
        if not owned:
            self._stray()
        watched = None
        if seen is not None:
            asked = inputs.get("messages") or [
                {"role": "user", "content": str(inputs.get("prompt") or "")}
            ]
            watched = SeenCall(asker, str(instance.model), {"messages": asked})
            seen.append(watched)
        keeps, in_history = not dspy.settings.disable_history, dspy.context(disable_history=False)
        call = _Call(
            instance,
            lost,
            accounts,
            booked,
            owned,
            watched,
            _CURRENT.get(),
            in_history,
            keeps,
            adopted,
        )
        if "update_history" not in vars(instance):
            instance.update_history = partial(_noted, instance)
            self.met[id(instance)] = instance
        self._open[call_id] = call
        in_history.__enter__()
        _CURRENT.set(call)

    def on_lm_end(self, call_id: str, outputs: Any, exception: BaseException | None = None) -> None:
        """Settle what the call was booked as. Raises RefusedCall where the disk takes no more."""
        if (call := self._open.pop(call_id, None)) is None:
            if adopted := self._adopted.pop(call_id, ()):
                self._stray()
                _give_back(adopted)
            return
        _CURRENT.set(call.outer)
        call.in_history.__exit__(None, None, None)
        entry, usage = _settled(call, exception)
        try:
            for ledger, place in call.booked:
                ledger.settle(place, entry)
        except UserError as problem:
            raise RefusedCall(FatalCallError(str(problem))) from None
        finally:
            for account in call.accounts:
                if entry is not None:
                    account.charge(usage_of(entry), entry["model"])
                account.leave()
            if not call.owned:
                self._stray()
            if usage is not None and call.owned:
                record_call(usage, replace(usage, cached_calls=0))
            if call.seen is not None:
                call.seen.end(usage)
                _note(call.seen, call.lm, outputs, exception)
            _give_back(call.adopted)

    def wait(self) -> None:
        """Wait a little for calls of a program's own threads, which end when the program
        has ended.
        """
        until = time.monotonic() + LAST_SECONDS
        while (self._open or self._adopted) and time.monotonic() < until:
            time.sleep(POLL_SECONDS)

    def _stray(self) -> None:
        if not meters():
            with self._lock:
                self.strays += 1

    def _adopt(self) -> Adopted:
        """In a thread that does not know its run: what belongs to the run, and in DSPy's to the
        question.
        """
        known: Mapping[ContextVar[Any], Any] = dspy.settings.get(CARRIED) or self._run
        return [
            (one, one.set(value))
            for one, value in known.items()
            if one.name.startswith("folkmoot_")
        ]

    def _of(self, instance: Any) -> ForeignMeter:
        """Which of the meters on an LM counts a call: that of the run it is made in, else the
        innermost.
        """
        meters = [each for each in instance.callbacks if isinstance(each, ForeignMeter)]
        current = METERING.get()
        if current is not None and (current.everywhere or current in meters):
            return current
        return meters[-1] if meters else self


def _give_back(adopted: Adopted) -> None:
    for variable, token in adopted:
        variable.reset(token)


def _settled(call: _Call, exception: BaseException | None) -> tuple[Entry | None, Usage | None]:
    """What a call was, for ledgers and for the asker's meter; None where there was nothing to pay
    for.
    """
    if call.found is None:
        lost = isinstance(exception, LMTimeoutError | LMTransportError | asyncio.CancelledError)
        if exception is not None and not lost:
            return None, None
        # somebody else's way to call, or nobody knows how it ended
        return call.entry, usage_of(call.entry)
    found, response = call.found, call.found.get("response")
    usage, choices = found.get("usage"), _get(response, "choices") or [None]
    reason = _get(response, "finish_reason") or _get(choices[0], "finish_reason")
    ended = Usage(1, finish_reason=reason, truncated_calls=int(reason in CUT_OFF))
    cost = found.get("cost")
    known = _get(response, "usage")
    said = any(_get(known, name) for name in ("input_tokens", "prompt_tokens", "total_tokens"))
    # DSPy's cache gives the response of then, and no usage
    if not usage and (said or cost is not None):
        return None, replace(ended, cached_calls=1)
    tokens = tokens_in(_plain(usage), _first_text(found.get("outputs")))
    spent = replace(ended, **tokens)
    contradictory = bool(usage) and spent.tokens is None
    if contradictory or not isinstance(cost, int | float):
        prices = price_per_token(call.entry["model"])
        cost = prices and prices.cost(spent)
    entry = Entry(**{**call.entry, **tokens, "cost_usd": cost, "kept": reason in KEEPABLE})
    del entry["lost"]
    if reason is not None:
        entry["finish_reason"] = reason
    return entry, replace(spent, cost_usd=cost)


def _note(seen: SeenCall, lm: Any, outputs: Any, exception: BaseException | None) -> None:
    if isinstance(exception, Exception):
        seen.error = without_keys(said_by(exception), [lm])
    elif outputs is not None:
        seen.text = _first_text(outputs)


def _first_text(outputs: Any) -> str:
    """The text of the first of an LM's outputs, as DSPy hands them on."""
    first = outputs[0] if isinstance(outputs, list) and outputs else outputs
    return str((first.get("text") if isinstance(first, Mapping) else first) or "")


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        value = value.model_dump()
    return (
        {name: _plain(part) for name, part in value.items()}
        if isinstance(value, Mapping)
        else value
    )


def _noted(lm: Any, entry: Mapping[str, Any]) -> None:
    """In place of an LM's `update_history` while it is metered, also on copies that are
    made of it.
    """
    call = _CURRENT.get()
    if call is not None:
        call.found, lm = entry, call.lm
    if call is None or call.keeps_history:
        type(lm).update_history(lm, entry)


@contextmanager
def metering(lms: Iterable[Any], everywhere: bool = False) -> Iterator[None]:
    """Put the calls of those of the LMs that folkmoot did not make on the bill of the block's
    books.

    Each gets a callback and hands on what it would keep in its history; both are taken away
    afterwards. So does, with `everywhere`, any LM that a program of the user's own calls. One that
    cannot be awaited is asked in threads meanwhile.
    """
    known = {
        id(lm): lm
        for lm in lms
        if isinstance(lm, dspy.BaseLM) and (everywhere or engine_of(lm) is None)
    }
    meter = ForeignMeter(everywhere)
    for lm in known.values():
        lm.callbacks = [*(getattr(lm, "callbacks", None) or ()), meter]
        if engine_of(lm) is None:
            lm.update_history = partial(_noted, lm)
            if not _awaitable(lm):
                lm.acall = partial(in_thread, lm)
    heard = {"callbacks": [*dspy.settings.callbacks, meter]} if everywhere else {}
    # What a thread of the user's own finds, which knows nothing of the block around it.
    elsewhere = Context().run(lambda: dspy.settings.callbacks) if everywhere else []
    elsewhere.append(meter)
    try:
        with bound(METERING, meter), dspy.context(**heard):
            yield
    finally:
        meter.wait()
        meter.over = True
        elsewhere.remove(meter)
        for lm in known.values():
            lm.callbacks = [each for each in lm.callbacks if each is not meter]
            if not any(isinstance(each, ForeignMeter) for each in lm.callbacks):
                vars(lm).pop("update_history", None)
                vars(lm).pop("acall", None)
        for lm in list(meter.met.values()):
            vars(lm).pop("update_history", None)


def _awaitable(lm: Any) -> bool:
    """Whether an LM is known to have a way to be awaited."""
    if isinstance(lm, dspy.LM):
        return isinstance(lm.engine, str)
    return type(lm).aforward is not dspy.BaseLM.aforward
