"""Waiting for several calls at once."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from typing import TypeVar

from .calls import CallError, FatalCallError, GivenUpError

T = TypeVar("T")


async def together(work: Iterable[Coroutine[object, object, T]]) -> list[T]:
    """The results of coroutines that run at the same time, in their order.

    One that fails ends the others, and its exception is raised. `work` makes each of them when it
    is begun, for of those that never are, Python would complain.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks = []
            for part in work:
                tasks.append(group.create_task(part))
                # In these turns of the event loop its request goes out, so that the server is at
                # work while the next one is written.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                # It would be cancelled before it begins, and what it is to await never awaited.
                if any(map(_has_failed, tasks)):
                    break
    except BaseExceptionGroup as problems:
        raise problems.exceptions[0] from None
    finally:
        if isinstance(work, Sequence):  # whose later parts are there, and may never have begun
            for part in work:
                part.close()
    return [task.result() for task in tasks]


def _has_failed(task: asyncio.Task[object]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is not None


async def those_who_answer(work: Iterable[Coroutine[object, object, T]]) -> list[T | CallError]:
    """As `together`, but a request that an endpoint refuses ends only its own work and stands in
    its place, so that a panel goes on without that member. If all are refused, the first refusal is
    raised.
    """

    async def attempt(part: Coroutine[object, object, T]) -> T | CallError:
        try:
            return await part
        except (FatalCallError, GivenUpError):  # which concern the others, too
            raise
        except CallError as problem:
            return problem

    ended = await together(attempt(part) for part in work)
    refused = [outcome for outcome in ended if isinstance(outcome, CallError)]
    if refused and len(refused) == len(ended):
        raise refused[0]
    return ended
