"""Runs coroutines from synchronous code on one event loop that the whole process shares, and users'
own code where it cannot block or end that loop.
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
    """An event loop in a background thread, started when first needed and stopped when the process
    ends.

    One loop serves all threads (DSPy optimizers call programs from many), so that they share
    connections and limits on calls in flight. Each call has the context variables of its caller.
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
                # A daemon: at exit, Python waits for all other threads before it calls `stop`.
                serve = partial(asyncio.run, self._serve(ready))
                self._thread = threading.Thread(target=serve, name=self.name, daemon=True)
                self._thread.start()
                self._loop = ready.result()
                atexit.register(self.stop)
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def runs_here(self) -> bool:
        """Return whether the caller runs on this loop."""
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
    """Mark that the block is finishing work although it was cancelled, such as waiting for the
    reply to a call that is paid for. `run_sync` waits for such blocks.
    """

    under_way = 0
    left = False  # a second Ctrl-C has ended the wait for them

    def __enter__(self) -> None:
        finishing.under_way += 1

    def __exit__(self, *_: object) -> None:
        finishing.under_way -= 1
        if not finishing.under_way:
            finishing.left = False


_LOOP = _SharedLoop("folkmoot-loop")
_PROGRAMS = _SharedLoop("folkmoot-programs")
"""The loop for users' own coroutines, which may block it with synchronous calls."""

# A forked child has copies of the loops and locks but not their threads, so it needs new ones.
if hasattr(os, "register_at_fork"):
    for _shared in (_LOOP, _PROGRAMS):
        os.register_at_fork(after_in_child=partial(_shared.__init__, _shared.name))  # type: ignore[misc]


class RunEnding(BaseException):
    """Ends a run. Not an Exception, so that no user's code it passes through catches it."""


class _Interrupted(RunEnding):
    """Stands for a KeyboardInterrupt of a user's code, which would end the event loop, until
    `run_sync` raises it again.
    """


class ends_alone:  # noqa: N801
    """Make any exception of a user's code in the block end only that call, and not the event loop
    or worker that it runs in.

    A BaseException, such as SystemExit, becomes a RuntimeError. But a `RunEnding` passes and ends
    the run, a KeyboardInterrupt ends `run_sync`, and the cancellation of the task passes, too.
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
            return  # raised by no code in the block: Python is closing the coroutine around it
        raise RuntimeError(f"{type(problem).__name__} {said_by(problem, '')}".strip()) from problem


def _being_cancelled() -> bool:
    """Return whether the current task, if any, is being cancelled."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # in a thread of its own
        return False
    return task is None or task.cancelling() > 0


def run_ending(problem: BaseException) -> RunEnding | None:
    """Return the exception itself, or the first one in its group, if it ends the whole run; else
    None.
    """
    if isinstance(problem, BaseExceptionGroup):
        return next(filter(None, map(run_ending, problem.exceptions)), None)
    if isinstance(problem, KeyboardInterrupt):
        return _Interrupted()
    return problem if isinstance(problem, RunEnding) else None


class _CarriedError(Exception):
    """Wraps a BaseException on its way out of the shared loop, which it would end unwrapped."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


async def _carried(function: Callable[..., Awaitable[T]], *args: object, **named: object) -> T:
    """Return the result of an async function. A BaseException that would end the loop, such as that
    of an exhausted budget, is raised as a `_CarriedError`.
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
    """Return the result of an async function that runs on another loop. If the caller is cancelled,
    so is the function, and the caller waits until it has ended.
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
    """Return the result of a user's async function. It runs on a loop of its own kind, which it may
    block: its LM calls, awaited or not, are answered on the shared loop meanwhile.
    """

    async def alone() -> T:
        with ends_alone():
            return await function(*args, **named)

    return await _on(_PROGRAMS, alone)


async def on_shared_loop(function: Callable[..., Awaitable[T]], *args: object) -> T:
    """Return the result of an async function, which runs on the shared loop even if a coroutine on
    the users' loop awaits it.
    """
    return await (_on(_LOOP, function, *args) if _PROGRAMS.runs_here() else function(*args))


def run_sync(function: Callable[..., Awaitable[T]], *args: object) -> T:
    """Return the result of an async function, for synchronous code. Ctrl-C cancels the function and
    lets it clean up first; a second one ends that wait.

    Raises concurrent.futures.CancelledError when the async form of the caller was cancelled.
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
            _wait_for_sent_calls(ended)
        raise


def _wait_for_sent_calls(ended: threading.Event) -> None:
    """Let a cancelled function end: calls that were sent will be paid for, so their replies are
    awaited and kept.
    """
    try:
        while not ended.wait(CANCEL_SECONDS) and finishing.under_way:
            _LOG.warning("waiting for %d calls that were sent", finishing.under_way)
    except KeyboardInterrupt:
        finishing.left = finishing.under_way > 0
        raise


async def in_thread(function: Callable[..., T], *args: object, **named: object) -> T:
    """Return the result of a blocking function, called in a thread with the caller's context
    variables.

    The number of threads has no limit here, since callers limit the calls in flight.
    """

    from anyio import CapacityLimiter, to_thread

    def called() -> T:
        # Here, since a GeneratorExit that left the thread would close the task that waits for it.
        with ends_alone():
            return function(*args, **named)

    return await to_thread.run_sync(called, limiter=CapacityLimiter(inf))
