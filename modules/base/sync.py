"""Runs a program's coroutine from synchronous code, on one event loop shared by the whole process."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from anyio.from_thread import BlockingPortal, start_blocking_portal

T = TypeVar("T")

CANCEL_SECONDS = 10.0  # how long an interrupted call may take to put its things in order


class _SharedLoop:
    """A background event loop, started when first needed and stopped when the process ends.

    One loop serves all threads (DSPy optimizers call programs from many), so that connections are pooled and
    in-flight limits hold across them. Context variables of the caller travel with each call.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._context: AbstractContextManager[BlockingPortal] | None = None
        self._portal: BlockingPortal | None = None

    def portal(self) -> BlockingPortal:
        with self._lock:
            if self._portal is None:
                self._context = start_blocking_portal(name="folkmoot-loop")
                self._portal = self._context.__enter__()
                atexit.register(self.stop)
            return self._portal

    def stop(self) -> None:
        with self._lock:
            context, self._context, self._portal = self._context, None, None
        if context is not None:
            atexit.unregister(self.stop)
            context.__exit__(None, None, None)


_LOOP = _SharedLoop()


def run_sync(function: Callable[..., Awaitable[T]], *args: object) -> T:
    """Call an async function and wait for its result; Ctrl-C cancels it and lets it clean up first."""
    started, ended = threading.Event(), threading.Event()

    async def call() -> T:
        started.set()
        try:
            return await function(*args)
        finally:
            ended.set()

    future = _LOOP.portal().start_task_soon(call)
    try:
        return future.result()
    except BaseException:
        if not future.done():
            future.cancel()
            if started.is_set():
                ended.wait(CANCEL_SECONDS)
        raise
