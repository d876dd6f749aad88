"""Worker processes of a study on this machine: started and ended together; one that dies is not
replaced.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import TypeVar

from ...modules.base.calls import EndpointDown
from ...modules.base.errors import UserError
from ..base.budget import BudgetSpent
from ..base.settings import safe_path

Job = TypeVar("Job")

# A fork would share connections, and locks that threads hold.
CONTEXT = multiprocessing.get_context("spawn")
POLL_SECONDS = 0.5
END_SECONDS = 30.0


ENDINGS = (EndpointDown, BudgetSpent, UserError, KeyboardInterrupt)
"""What ends a worker, the more special ones first."""


def in_processes(
    workers: int, work: Callable[[Job], None], job: Job, watch: Callable[[], None]
) -> None:
    """Run `work(job)` in so many new processes, and call `watch` now and then until all have ended.

    Raises what has ended one of them, rather something else than BudgetSpent; one that died is no
    reason. `work` and `job` must be picklable. A process whose parent dies ends, too. On
    KeyboardInterrupt the processes are interrupted, and waited for.
    """
    processes, ends = [], []
    with safe_path():
        for _ in range(workers):
            here, there = CONTEXT.Pipe(duplex=False)
            processes.append(CONTEXT.Process(target=_child, args=(there, work, job)))
            processes[-1].start()
            there.close()  # else the end of a worker that died would never be seen here
            ends.append(here)
    try:
        while running := [process.sentinel for process in processes if process.is_alive()]:
            wait(running, POLL_SECONDS)
            watch()
    except BaseException:
        for process in processes:
            if process.is_alive() and process.pid:
                os.kill(process.pid, signal.SIGINT)
        for process in processes:
            process.join(END_SECONDS)
            # One that does not end by itself would go on paying.
            process.kill()
        raise
    ended = []
    for end in ends:
        with suppress(EOFError):  # of a worker that died
            ended += end.recv()
    for kind, why in sorted(ended, key=lambda ending: ending[0] is BudgetSpent):
        raise kind(why)


def _child(there: Connection, work: Callable[[object], None], job: object) -> None:
    parent = multiprocessing.parent_process()
    # Where a scheduler ends a job, it may end all its processes; a study awaits what was sent.
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)  # nobody is left to report to or to pay for

    threading.Thread(target=follow, daemon=True).start()
    ended = list[tuple[type[BaseException], str]]()
    try:
        work(job)
    except ENDINGS as problem:
        kind = next(kind for kind in ENDINGS if isinstance(problem, kind))
        ended.append((kind, str(problem)))
    there.send(ended)
    there.close()
