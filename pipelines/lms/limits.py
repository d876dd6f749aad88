"""How many calls an endpoint gets at once, and how long a failed one waits before the next try."""

from __future__ import annotations

import asyncio
from collections import deque

SHRINK = 0.7  # factor on the limit when an endpoint keeps answering 429
GROW = 1.1
TOLERATED = 0.2  # share of 429s in a window up to which they count as chance
WINDOW = 16  # fewest calls to judge by


class AdaptiveLimit:
    """At most `limit` calls in flight; 429s shrink it towards 1 and untroubled windows let it grow back.

    A window is as many finished calls as the limit allows at once, and at least `WINDOW`. More than the share
    `TOLERATED` of 429s in it means that the endpoint asks for less, and shrinks the limit as soon as it is
    reached; fewer are chance, and must not starve a fast endpoint. One event loop only.
    """

    def __init__(self, maximum: int) -> None:
        if maximum < 1:
            raise ValueError(f"an in-flight limit is at least 1, not {maximum}")
        self.maximum = maximum
        self.limit = float(maximum)
        self.in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._finished = 0
        self._refused = 0

    def slot(self) -> _Slot:
        """A block that waits for its place among the calls in flight, and then holds it."""
        return _Slot(self)

    def report(self, *, refused: bool) -> None:
        """Note the outcome of one call: `refused` for a 429."""
        self._finished += 1
        self._refused += refused
        window = max(self.limit, WINDOW)
        if self._refused > TOLERATED * window:
            self.limit = max(1.0, self.limit * SHRINK)
        elif self._finished >= window:
            self.limit = min(float(self.maximum), max(self.limit + 1, self.limit * GROW))
        else:
            return
        self._finished = self._refused = 0
        self._wake()

    async def _acquire(self) -> None:
        if self.in_flight < int(self.limit) and not self._waiting:
            self.in_flight += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.in_flight -= 1
                self._wake()
            raise

    def _wake(self) -> None:
        while self._waiting and self.in_flight < int(self.limit):
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_flight += 1
                turn.set_result(None)


class _Slot:
    def __init__(self, limit: AdaptiveLimit) -> None:
        self._limit = limit

    async def __aenter__(self) -> None:
        await self._limit._acquire()

    async def __aexit__(self, *_: object) -> None:
        self._limit.in_flight -= 1
        self._limit._wake()
