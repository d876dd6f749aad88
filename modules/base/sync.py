"""Runs a program's coroutine from synchronous code, on one event loop shared by the whole
process.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import CancelledError, Future
from functools import partial
from math import inf
from types import TracebackType
from typing import ParamSpec, TypeVar

from .context import CANCELLING
from .errors import said_by

_LOG = logging.getLogger("folkmoot")

T = TypeVar("T")
P = ParamSpec("P")

CANCEL_SECONDS = 10.0  # how long an interrupted call may take to clean up


class _SharedLoop:
    """A background event loop, started when first needed and stopped when the process ends.

    One loop serves all threads (DSPy optimizers call programs from many), so that connections are
    pooled and in-flight limits hold across them. Context variables of the caller travel with each
    call. A forked process, which has no thread but its own, starts another loop.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._over = asyncio.Event()

    def start(self, coroutine: Coroutine[object, object, T]) -> Future[T]:
        """Run a coroutine on the loop."""
        with self._lock:
            if self._loop is None:
                ready: Future[asyncio.AbstractEventLoop] = Future()
                self._over = asyncio.Event()
                # A daemon, since Python waits for all other threads before it calls what stops this
                # one.
                serve = partial(asyncio.run, self._serve(ready))
                self._thread = threading.Thread(target=serve, name=self.name, daemon=True)
                self._thread.start()
                self._loop = ready.result()
                atexit.register(self.stop)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def runs_here(self) -> bool:
        """Whether the caller is on it."""
        return self._thread is threading.current_thread()

    async def _serve(self, ready: Future[asyncio.AbstractEventLoop]) -> None:
        ready.set_result(asyncio.get_running_loop())
        await self._over.wait()

    def stop(self) -> None:
        with self._lock:
            if self._loop is not None and self._thread is not None:
                self._loop.call_soon_threadsafe(self._over.set)
                self._thread.join()
            self._loop = self._thread = None
        atexit.unregister(self.stop)


class finishing:  # noqa: N801
    """Inside the block, something is finished although it was cancelled: whoever cancelled it waits
    for it.
    """

    under_way = 0
    left = False  # whoever cancelled it waits no longer

    def __enter__(self) -> None:
        finishing.under_way += 1

    def __exit__(self, *_: object) -> None:
        finishing.under_way -= 1
        if not finishing.under_way:
            finishing.left = False


_LOOP = _SharedLoop("folkmoot-loop")
_PROGRAMS = _SharedLoop("folkmoot-programs")
"""The loop of coroutines of a user's own, which may block it by a call that waits."""

# A forked child has a copy of the loop and its lock, but not the thread that serves it.
if hasattr(os, "register_at_fork"):
    for _shared in (_LOOP, _PROGRAMS):
        os.register_at_fork(after_in_child=partial(_shared.__init__, _shared.name))  # type: ignore[misc]


class RunEnding(BaseException):
    """Ends a run, whoever raises it and whatever code of a user's it passes on its way."""


class _Interrupted(RunEnding):
    """A KeyboardInterrupt that a user's code raised, on its way to whoever waits for it."""


class ends_alone:  # noqa: N801
    """Make an exception of a user's code in the block end only that call, not the loop or worker
    that it runs in. A BaseException becomes an Exception: a request to end a process, task or
    generator is an error of that call. A KeyboardInterrupt ends `run_sync`, and a `RunEnding` the
    run.
    """

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, _: object, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if problem is None or isinstance(problem, Exception):
            return
        ending = run_ending(problem)
        if ending is problem:
            return
        if ending is not None:
            raise ending from problem
        if isinstance(problem, asyncio.CancelledError):
            if _being_cancelled():
                return
            raise RuntimeError("the program cancelled itself") from problem
        if isinstance(problem, GeneratorExit) and trace is not None and trace.tb_next is None:
            return  # nothing below raised it: Python closes this very coroutine
        raise RuntimeError(f"{type(problem).__name__} {said_by(problem, '')}".strip()) from problem


def _being_cancelled() -> bool:
    """Whether the current task, if any, is being cancelled."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # in a thread of its own
        return False
    return task is None or task.cancelling() > 0


def run_ending(problem: BaseException) -> RunEnding | None:
    """The part of an exception, or of a group, that ends the whole run; None if there is none."""
    if isinstance(problem, BaseExceptionGroup):
        return next(filter(None, map(run_ending, problem.exceptions)), None)
    if isinstance(problem, KeyboardInterrupt):
        return _Interrupted()
    return problem if isinstance(problem, RunEnding) else None


class _CarriedError(Exception):
    """Brings what is no `Exception` out of the shared loop, which ends by those that reach it."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


async def _carried(function: Callable[..., Awaitable[T]], *args: object, **named: object) -> T:
    """The result of an async function. What would end the loop comes out as a `_CarriedError`, such
    as a budget's end.
    """
    try:
        return await function(*args, **named)
    except (Exception, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:
        raise _CarriedError(error) from error


async def _on(
    loop: _SharedLoop, function: Callable[..., Awaitable[T]], *args: object, **named: object
) -> T:
    """The result of an async function on another loop. Cancelling cancels it, and waits until it
    has ended.
    """
    started: Future[None] = Future()
    ended: Future[None] = Future()

    async def call() -> T:
        started.set_result(None)
        try:
            return await _carried(function, *args, **named)
        finally:
            ended.set_result(None)

    future = loop.start(call())
    try:
        return await asyncio.shield(asyncio.wrap_future(future))
    except _CarriedError as carried:
        raise carried.error from carried.error.__cause__
    except asyncio.CancelledError:
        if future.cancel() and started.done():
            await asyncio.wrap_future(ended)
        raise


async def on_own_loop(function: Callable[..., Awaitable[T]], *args: object, **named: object) -> T:
    """The result of an async function of a user's, on a loop where it may wait without a turn for
    others: what it asks an LM, awaited or not, is answered on the shared loop meanwhile.
    """

    async def alone() -> T:
        with ends_alone():
            return await function(*args, **named)

    return await _on(_PROGRAMS, alone)


async def on_shared_loop(function: Callable[..., Awaitable[T]], *args: object) -> T:
    """The result of an async function, which a user's coroutine leaves to the loop that calls
    share.
    """
    return await (_on(_LOOP, function, *args) if _PROGRAMS.runs_here() else function(*args))


def run_sync(function: Callable[..., Awaitable[T]], *args: object) -> T:
    """Call an async function and wait for its result; Ctrl-C cancels it and lets it clean up first,
    and a second one waits no longer.

    Raises concurrent.futures.CancelledError when an async form of the caller was
    cancelled.
    """
    if _LOOP.runs_here():
        raise RuntimeError(
            "a call that is not awaited would wait for itself here: await it, as in "
            "predictor.acall(…)"
        )
    started, ended = threading.Event(), threading.Event()
    cancelling = CANCELLING.get()

    async def call() -> T:
        CANCELLING.set(None)  # what is called from here is cancelled by this call itself
        started.set()
        try:
            return await _carried(function, *args)
        finally:
            ended.set()

    if cancelling is not None and cancelling.cancelled:
        raise CancelledError
    future = _LOOP.start(call())
    if cancelling is not None:
        cancelling.watch(future)
    try:
        return future.result()
    except _CarriedError as carried:
        if isinstance(carried.error, _Interrupted):
            raise KeyboardInterrupt from carried.error
        raise carried.error from carried.error.__cause__  # so that no traceback shows what carried
    except BaseException:
        cancelled = future.cancelled()
        if not future.done():
            cancelled = future.cancel()
        if cancelled and started.is_set():
            # calls that were sent are awaited, as long as each of them may take
            try:
                while not ended.wait(CANCEL_SECONDS) and finishing.under_way:
                    _LOG.warning("waiting for %d calls that were sent", finishing.under_way)
            except KeyboardInterrupt:
                finishing.left = finishing.under_way > 0
                raise
        raise


async def in_thread(function: Callable[..., T], *args: object, **named: object) -> T:
    """The result of a function that waits, from a thread of its own with the caller's context
    variables.

    There are as many threads as calls in flight, which the caller limits.
    """

    from anyio import CapacityLimiter, to_thread

    def called() -> T:
        # in the thread: a GeneratorExit that came out of it would close the waiting task
        with ends_alone():
            return function(*args, **named)

    return await to_thread.run_sync(called, limiter=CapacityLimiter(inf))
