"""Waiting for several calls at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import TypeVar

from .calls import CallError, FatalCallError, GivenUpError

T = TypeVar("T")


async def together(work: Iterable[Coroutine[object, object, T]]) -> list[T]:
    """Return the results of coroutines that run at the same time, in the order of the coroutines.

    If one fails, the others are cancelled, and its exception is raised.
    """
    try:
        async with asyncio.TaskGroup() as group:
            tasks: list[asyncio.Task[T]] = []
            for part in work:
                tasks.append(group.create_task(part))
                # Two turns of the event loop: in them the task begins and its request goes out,
                # before the next request is written.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
    except BaseExceptionGroup as problems:
        raise problems.exceptions[0] from None
    finally:
        # Python warns of a coroutine that was never started; closing it prevents that.
        if isinstance(work, Sequence):
            for part in work:
                part.close()
    return [task.result() for task in tasks]


async def those_who_answer(work: Iterable[Callable[[], Awaitable[T]]]) -> list[T | CallError]:
    """As `together`, but where an endpoint refuses a request, its error is the result of that work,
    so that a panel goes on without this member. If all are refused, the first error is raised.
    """

    async def attempt(part: Callable[[], Awaitable[T]]) -> T | CallError:
        try:
            return await part()
        except (FatalCallError, GivenUpError):  # the fault is not this request's alone
            raise
        except CallError as problem:
            return problem

    ended = await together(attempt(part) for part in work)
    refused = [outcome for outcome in ended if isinstance(outcome, CallError)]
    if refused and len(refused) == len(ended):
        raise refused[0]
    return ended
