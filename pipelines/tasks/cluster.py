"""Ray: programs and checks of tasks run on the machines of a cluster; all books stay here."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from ipaddress import IPv4Address
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ...modules.base.calls import CallError, FatalCallError, LostWorker
from ...modules.base.errors import UserError, missing_extra, said_by
from ...modules.reading.grading import MetricError
from ...modules.reading.question import Question
from ..base.request import OnCluster
from .process import ENDING_SECONDS, CommandError
from .sandbox import Sandbox

T = TypeVar("T")

SHARE = 0.5
"""The part of a core that a program or a check takes: one that waits for its LM needs none."""


CONNECT_SECONDS = 10


def check_cluster(request: OnCluster, acts: bool, questions: Iterable[Question]) -> None:
    """Raise UserError for an engine that there is not, an address that no worker reaches, and where
    there is nothing to do for workers. `acts` says whether they can run a program.
    """
    if request.engine is None:
        if request.meter_host is not None:
            raise UserError("--meter-host is for workers: give --engine ray, too")
        return
    if request.engine != "ray":
        raise UserError(f"there is no engine {request.engine!r}: give ray, or leave it out")
    if not acts or any(question.kind != "task" for question in questions):
        raise UserError(
            "--engine ray is for tasks, by commands (cmd:…) and by functions module:attr with the "
            "parameters folder and endpoint: others wait for their LM, which needs no cluster"
        )
    if find_spec("ray") is None:
        raise missing_extra("--engine ray", "ray")
    host = str(request.workers_host)
    try:
        if IPv4Address(host).is_unspecified:
            raise ValueError("it names no machine")
        # Only an address of this machine can be listened at.
        socket.create_server((host, 0)).close()
    except (ValueError, OSError) as problem:
        raise UserError(
            f"--meter-host {host} cannot be used ({problem}): give this machine's IPv4 address, "
            "as workers reach it"
        ) from None


def where_code_runs(sandbox: Sandbox, request: OnCluster) -> str:
    """Where programs and checks run, in the words of a plan."""
    words = f"code runs {sandbox}"
    if request.workers_host is None:
        return words
    words += ", by workers of a Ray cluster"
    if not IPv4Address(request.workers_host).is_loopback:
        words += f"; the meter listens at {request.workers_host}, to who has a question's token"
    return words


def join_cluster(host: str) -> None:
    """Join the Ray cluster that runs, else start one on this machine, unless this process has
    joined one. Raises UserError where that fails, and for workers that cannot reach the meter.
    """
    import ray

    # Ray itself keeps trying for minutes where nothing listens.
    address = urlsplit(f"//{os.environ.get('RAY_ADDRESS', '').rpartition('/')[2]}")
    try:
        if address.hostname and address.port:
            socket.create_connection((address.hostname, address.port), CONNECT_SECONDS).close()
        if not ray.is_initialized():
            # Ray's workers would look for all modules in the working folder first
            with contextlib.chdir(sys.prefix):
                ray.init(include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
        machines = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    except Exception as problem:
        raise UserError(
            f"Ray cannot be used ({said_by(problem)}): correct RAY_ADDRESS, start the cluster, or "
            "set RAY_AUTH_MODE=token if it wants a token"
        ) from None
    if len(machines) > 1 and IPv4Address(host).is_loopback:
        raise UserError(
            f"the {len(machines)} machines of the Ray cluster cannot reach the meter on {host}: "
            "give --meter-host with this machine's address"
        )


async def on_cluster(
    sandbox: str, function: Callable[..., Awaitable[T]], arguments: Sequence[object]
) -> T:
    """Return what an async function returns on a worker; it is stopped there if it is cancelled
    here.

    Raises what it raises, LostWorker where its worker dies, and FatalCallError for a worker that
    cannot do it.
    """
    import ray

    sent = _remote().remote(os.getcwd(), sandbox, function, arguments)
    ended = asyncio.wrap_future(sent.future())
    try:
        # Ray must be told of a cancellation: the task would go on there.
        returned, problem = await asyncio.shield(ended)
    except ray.exceptions.RayTaskError as fault:
        raise FatalCallError(
            f"a worker of Ray cannot do a task ({said_by(fault.cause)}): install the same folkmoot "
            "on every machine of the cluster"
        ) from None
    except ray.exceptions.RayError as fault:
        raise LostWorker(f"its worker died ({said_by(fault)})") from None
    except asyncio.CancelledError:
        ray.cancel(sent)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(ended, return_exceptions=True), ENDING_SECONDS)
        raise
    if problem is not None:
        raise problem
    return returned  # type: ignore[no-any-return]


@cache
def _remote() -> Any:
    import ray

    # A task that is done again needs another address of the meter, which Ray does not know.
    return ray.remote(num_cpus=SHARE, max_retries=0)(on_worker)


def on_worker(
    folder: str,
    sandbox: str,
    function: Callable[..., Awaitable[object]],
    arguments: Sequence[object],
) -> tuple[object, Exception | None]:
    """Return what an async function returns or raises in this working folder."""
    try:
        try:
            os.chdir(folder)
            Sandbox.of(sandbox)
        except (OSError, UserError) as problem:
            raise FatalCallError(
                f"the worker on {socket.gethostname()} cannot do tasks: {said_by(problem)}"
            ) from None
        return asyncio.run(_until_cancelled(function, arguments)), None
    except (CallError, MetricError) as problem:
        return None, problem
    except (Exception, asyncio.CancelledError) as problem:  # of a class that the head may not have
        return None, CommandError(f"{type(problem).__name__}: {said_by(problem)}")


async def _until_cancelled(
    function: Callable[..., Awaitable[object]], arguments: Sequence[object]
) -> object:
    task = asyncio.current_task()
    assert task is not None
    # Ray cancels by this signal, which it only simulates: a loop that waits would not see it.
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
    return await function(*arguments)
