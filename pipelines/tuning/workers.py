"""Worker processes of a study on this machine: started together, ended together, replaced by nobody."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from ...modules.base.errors import UserError
from ..base.budget import BudgetSpent

POLL_SECONDS = 0.5
END_SECONDS = 30.0


@dataclass(frozen=True)
class Ended:
    """How a worker ended: nothing said means that it died."""

    said: bool
    stopped: str | None = None
    problem: str | None = None


def in_processes(
    workers: int, work: Callable[[Any], None], job: Any, watch: Callable[[], None]
) -> list[Ended]:
    """Run `work(job)` in so many new processes, and call `watch` now and then until all have ended.

    `work` and `job` must be picklable. A process whose parent dies ends, too. On KeyboardInterrupt the
    processes are told to stop, and are waited for.
    """
    context = multiprocessing.get_context("spawn")
    pairs: list[tuple[Any, Connection]] = []
    for _ in range(workers):
        here, there = context.Pipe(duplex=False)
        process = context.Process(target=_child, args=(there, work, job))
        process.start()
        there.close()
        pairs.append((process, here))
    try:
        while any(process.is_alive() for process, _ in pairs):
            pairs[0][0].join(POLL_SECONDS) if pairs[0][0].is_alive() else _any(pairs).join(POLL_SECONDS)
            watch()
    except BaseException:
        for process, _ in pairs:
            if process.is_alive() and process.pid:
                os.kill(process.pid, signal.SIGINT)
        for process, _ in pairs:
            process.join(END_SECONDS)
            process.kill()
        raise
    return [_ended(here) for _, here in pairs]


def _any(pairs: list[tuple[Any, Connection]]) -> Any:
    return next((process for process, _ in pairs if process.is_alive()), pairs[0][0])


def _ended(here: Connection) -> Ended:
    try:
        found: Ended = here.recv()
        return found
    except EOFError:
        return Ended(False)


def _child(there: Connection, work: Callable[[Any], None], job: Any) -> None:
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)  # nobody is left to tell, and nobody wants to pay

    threading.Thread(target=follow, daemon=True).start()
    ended = Ended(True)
    try:
        work(job)
    except BudgetSpent as problem:
        ended = Ended(True, stopped=str(problem))
    except UserError as problem:
        ended = Ended(True, problem=str(problem))
    except KeyboardInterrupt:
        ended = Ended(True, stopped="interrupted")
    there.send(ended)
    there.close()
