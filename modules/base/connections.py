"""Parts that HTTP clients share: a session per event loop, one call for equal requests, and waits
between attempts.
"""

from __future__ import annotations

import asyncio
import random
import re
import time
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")

SENSIBLE_SECONDS = 86_400.0
"""The longest wait that is believed: a server that asks for more than a day has a wrong clock or
header.
"""

UNIX_SECONDS, UNIX_MILLISECONDS = 1e9, 1e12
"""A number above these is not a length of time, but a point in time: seconds (or milliseconds)
since 1970.
"""

LENGTH = (
    r"(?:(\d+(?:\.\d+)?)\s*d(?:ays?)?(?![a-z])(?:\s|,|and)*)?"
    r"(?:(\d+(?:\.\d+)?)\s*h(?:(?:ou)?rs?)?(?![a-z])(?:\s|,|and)*)?"
    # "m" before "s" belongs to milliseconds, and is no minute
    r"(?:(\d+(?:\.\d+)?)\s*m(?:in(?:ute)?s?)?(?![a-z])(?:\s|,|and)*)?"
    r"(?:(\d+(?:\.\d+)?)\s*(ms|milliseconds?|s(?:ec(?:ond)?s?)?)(?![a-z]))?"
)
"""A length of time in words, such as `9m38s`; also the empty text."""
_LENGTH_ALONE = re.compile(f"(?=.){LENGTH}")
_WAITS = (
    *("Retry-After", "retry-after", "x-ratelimit-reset", "ratelimit-reset"),
    "x-ratelimit-reset-after",
)
"""The headers that say how long to wait."""


def of_loop(held: WeakKeyDictionary[asyncio.AbstractEventLoop, T], make: Callable[[], T]) -> T:
    """Return the value that `held` keeps for the running event loop, made when it is first asked
    for.
    """
    loop = asyncio.get_running_loop()
    value = held.get(loop)
    if value is None:
        for old in [old for old in held if old.is_closed()]:
            # values mostly refer to their loop, so entries of closed loops must be removed here
            del held[old]
        value = held[loop] = make()
    return value


class SingleFlight:
    """Makes equal requests once: callers in the same event loop that ask while one is in flight
    share its result or exception.

    Cancellation and exceptions of the types `own` concern only the caller who made the request: the
    next of those who wait then makes it again.
    """

    def __init__(self, own: type[Exception] | tuple[type[Exception], ...] = ()) -> None:
        self._own = own
        self._flights: dict[tuple[int, str], asyncio.Future[Any]] = {}

    async def __call__(self, key: str, make: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """Return the result of `make`, and whether it was called for this caller."""
        loop = asyncio.get_running_loop()
        request = id(loop), key
        # After a cancelled flight, the first waiter to wake starts another; the rest wait for that.
        while (flight := self._flights.get(request)) is not None:
            await asyncio.wait([flight])
            if not flight.cancelled():
                return flight.result(), False
        flight = self._flights[request] = loop.create_future()
        try:
            outcome = await make()
            flight.set_result(outcome)
            return outcome, True
        except BaseException as problem:
            if isinstance(problem, Exception) and not isinstance(problem, self._own):
                flight.set_exception(problem)
                flight.exception()  # read once, or asyncio logs that nobody has retrieved it
            else:
                flight.cancel()
            raise
        finally:
            del self._flights[request]


class LoopSessions:
    """An HTTP session for each event loop, made by `make` inside the loop when first needed.

    A loop run by `asyncio.run` closes its session when it ends. Sessions of loops that are still
    running are closed when this object is garbage-collected.
    """

    def __init__(self, make: Callable[[], aiohttp.ClientSession]) -> None:
        self._make = make
        self._held: WeakKeyDictionary[asyncio.AbstractEventLoop, _Held] = WeakKeyDictionary()
        # The finaliser refers to the sessions, so that none is collected before it is closed.
        weakref.finalize(self, _close_all, self._held).atexit = False

    async def session(self) -> aiohttp.ClientSession:
        """Return the running loop's session."""
        held = of_loop(self._held, lambda: _Held(self._make()))
        if not held.started:
            await held.start()
        return held.session

    def __len__(self) -> int:
        return len(self._held)

    async def close(self) -> None:
        """Close all sessions; the next use makes a new one."""
        held = self._held.pop(asyncio.get_running_loop(), None)
        _close_all(self._held)
        self._held.clear()
        if held is not None:
            await held.close()


class _Held:
    """A session that ends with its event loop: it is kept in an async generator, and a loop closes
    its async generators when it shuts down.
    """

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self.started = False
        self._generator = self._hold()

    async def start(self) -> None:
        self.started = True
        await anext(self._generator)

    async def close(self) -> None:
        await self._generator.aclose()
        await self.session.close()  # also if it was never started

    async def _hold(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            await self.session.close()


def _close_all(sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, _Held]) -> None:
    for loop, held in list(sessions.items()):
        if not loop.is_closed():  # a closed loop has closed them itself
            asyncio.run_coroutine_threadsafe(held.close(), loop)


def back_off(
    attempt: int, retry_after: float | None, *, first: float = 0.5, longest: float = 30.0
) -> float:
    """Return seconds to wait after the failed attempt number `attempt` (from 0) before the next
    one.

    If the server sent `retry_after`, that and a little more; otherwise exponential back-off from
    `first` to `longest`, of which the upper half is random.
    """
    if retry_after is not None:
        return retry_after + random.uniform(0, min(1.0, 0.1 * retry_after))
    # Spread out, so that callers who were refused together do not come back together.
    ceiling = min(longest, first * 2**attempt)
    return random.uniform(ceiling / 2, ceiling)


def seconds_to_wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a response asks to wait: its `Retry-After` or a header like it, which
    is a number, a length of time or a date, or Azure's in milliseconds. None if it has none that
    makes sense.
    """
    for name in ("retry-after-ms", "x-ms-retry-after-ms"):
        if (exact := headers.get(name, "")).isdecimal():
            return min(int(exact[:12]) / 1000, SENSIBLE_SECONDS)
    value = next(filter(None, map(headers.get, _WAITS)), "").strip()
    lengths = _LENGTH_ALONE.fullmatch(value)
    try:
        if lengths is not None:
            seconds = seconds_in(lengths)
        else:
            seconds = until(float(value), _clock_of(headers))
    except ValueError:
        try:
            seconds = _moment(value) - _clock_of(headers)
        except (ValueError, TypeError, OverflowError):
            return None
    return seconds if 0 < seconds <= SENSIBLE_SECONDS else None


def _moment(text: str) -> float:
    """Return the Unix time of a date as HTTP or ISO writes it. Raises ValueError, or TypeError."""
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        date = datetime.fromisoformat(text)
    return date.replace(tzinfo=date.tzinfo or UTC).timestamp()


def _clock_of(headers: Mapping[str, str]) -> float:
    """Return the Unix time by the server's clock, by which it states moments, else by our own."""
    try:
        return _moment(headers.get("Date") or headers.get("date") or "")
    except (ValueError, TypeError, OverflowError):
        return time.time()


def seconds_in(lengths: re.Match[str]) -> float:
    """Return the seconds in a match of `LENGTH`."""
    days, hours, minutes, seconds, unit = lengths.groups()
    last = float(seconds or 0)
    if (unit or "").startswith("m"):
        last /= 1000
    return 86_400 * float(days or 0) + 3600 * float(hours or 0) + 60 * float(minutes or 0) + last


def until(seconds: float, now: float | None = None) -> float:
    """Return the seconds from now that a number means: itself, or those until a Unix time (in
    seconds or milliseconds) if it is too large for a wait.
    """
    if seconds > UNIX_MILLISECONDS:
        seconds /= 1000
    if seconds > UNIX_SECONDS:
        seconds -= time.time() if now is None else now
    return max(seconds, 0.0)


class AnswerTooLargeError(Exception):
    """A response is larger than its reader accepts."""


async def read_body(
    response: aiohttp.ClientResponse,
    most_bytes: int,
    sink: Callable[[bytes], Awaitable[None]] | None = None,
) -> bytes:
    """Return the decompressed body of a response; each piece goes to `sink` as it arrives. Raises
    AnswerTooLargeError above `most_bytes`.
    """
    body, content = bytearray(), response.content
    while not content.at_eof():
        chunk = await content.readany()
        # Counted after decompression: a few compressed bytes can hold gigabytes.
        body += chunk
        if len(body) > most_bytes:
            raise AnswerTooLargeError(f"more than {most_bytes >> 20} MB")
        if sink is not None and chunk:
            await sink(chunk)
    return bytes(body)
