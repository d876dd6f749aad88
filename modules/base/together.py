"""Waiting for several calls at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import TypeVar

from .calls import CallError, FatalCallError, GivenUpError

T = TypeVar("T")


async def together(work: Iterable[Coroutine[object, object, T]]) -> list[T]:
    """The results of coroutines that run at the same time, in their order.

    One that fails ends the others, and its exception is raised.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks: list[asyncio.Task[T]] = []
            for part in work:
                tasks.append(group.create_task(part))
                # In these turns of the event loop it begins, and its request goes out before the
                # next one is written.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
    except BaseExceptionGroup as problems:
        raise problems.exceptions[0] from None
    finally:
        # One of them that was never begun would be complained of by Python.
        if isinstance(work, Sequence):
            for part in work:
                part.close()
    return [task.result() for task in tasks]


async def those_who_answer(work: Iterable[Callable[[], Awaitable[T]]]) -> list[T | CallError]:
    """As `together`, but a request that an endpoint refuses ends only its own work and stands in
    its place, so that a panel goes on without that member. If all are refused, the first refusal is
    raised.
    """

    async def attempt(part: Callable[[], Awaitable[T]]) -> T | CallError:
        try:
            return await part()
        except (FatalCallError, GivenUpError):  # which concern the others, too
            raise
        except CallError as problem:
            return problem

    ended = await together(attempt(part) for part in work)
    refused = [outcome for outcome in ended if isinstance(outcome, CallError)]
    if refused and len(refused) == len(ended):
        raise refused[0]
    return ended
