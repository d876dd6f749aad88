"""Limits the calls in flight to an address, and holds calls back while it does not answer: an
adaptive limit and a circuit breaker.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

from ...modules.base.calls import CallError, GivenUpError
from ...modules.base.connections import of_loop
from .failures import SILENT, TransientError

T = TypeVar("T")

SHRINK = 0.7  # factor on the limit when an endpoint keeps answering 429
GROW = 1.1
TOLERATED = 0.2  # the share of 429s in a window that is tolerated as chance
WINDOW = 16  # the smallest number of calls in a window

MAX_RETRIES = 6
SUSPECT = 2  # after this many failed rounds, attempts are sent one at a time
TIMED_OUT = 3  # a time-out counts as this many failed rounds, since it takes as long
PATIENCE_SECONDS = 120.0  # since the last answer, before an address may be given up
REST_SECONDS = 30.0  # between attempts at an address that was given up
WORD_SECONDS = 2.5  # without an answer, before the user is told that it is being waited for
LINGER_SECONDS = 30.0  # for which an unused address keeps its connections
SPARE_FILES = 128  # descriptors for everything but connections to LMs

_LOG = logging.getLogger("folkmoot")


class AdaptiveLimit:
    """At most `limit` calls in flight, for one event loop: 429s reduce the limit towards 1, and
    windows of calls without trouble let it grow back.

    A window has as many finished calls as the limit, and at least `WINDOW`. More 429s in it than
    the share `TOLERATED` reduce the limit at once; fewer count as chance, so that a fast endpoint
    is not slowed down.
    """

    def __init__(self, maximum: int) -> None:
        if maximum < 1:
            raise ValueError(f"an in-flight limit is at least 1, not {maximum}")
        self.maximum = maximum
        self.limit = float(maximum)
        self.in_flight = self.peak = 0
        self._waiting: deque[tuple[asyncio.Future[None], float]] = deque()
        self._finished = 0
        self._refused = 0

    async def enter(self, most: float = float("inf")) -> None:
        """Wait until fewer than `most` calls are in flight, and count as one until `leave`."""
        if self._waiting or not self._free(most):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((turn, most))
            try:
                await turn
            except asyncio.CancelledError:
                # The turn came just before the cancellation, and nobody else would give it back.
                if turn.done() and not turn.cancelled():
                    self.leave()
                raise
        else:
            self._enter()

    def leave(self) -> None:
        """End what `enter` began."""
        self.in_flight -= 1
        self._wake()

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

    def raise_to(self, maximum: int) -> None:
        """Raise the maximum for an LM that may have more calls in flight; a limit that 429s have
        reduced stays as it is.
        """
        if maximum > self.maximum:
            if self.limit == self.maximum:
                self.limit = float(maximum)
            self.maximum = maximum

    def _free(self, most: float) -> bool:
        return self.in_flight < min(int(self.limit), most)

    def _enter(self) -> None:
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)

    def _wake(self) -> None:
        """Let in those who wait, in their order, as far as there is room."""
        while self._waiting:
            turn, most = self._waiting[0]
            if not (turn.done() or self._free(most)):
                break
            self._waiting.popleft()
            if not turn.done():  # else it was cancelled while it waited
                self._enter()
                turn.set_result(None)


class Gate:
    """One event loop's calls to one address, for all LMs behind it: a limit and a circuit breaker.

    Failures without an answer in between are counted in rounds; concurrent attempts are one round.
    From `SUSPECT` rounds on, attempts are sent one at a time, after a pause, while the others wait
    for the result. After more than `MAX_RETRIES` rounds, and `PATIENCE_SECONDS` after the last
    answer, the address is given up and all calls fail; from then on one attempt is made at once,
    and one every `REST_SECONDS`. Any answer, even a refusal, resets the count.

    Args:
        address: the name in messages; "" (the embedded LM) is never mentioned.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.limit = AdaptiveLimit(1)
        self.asked = 0  # the largest limit that an LM asks for
        self.used_at = 0.0
        self.rounds = 0
        self.answered_at: float | None = None
        self._spoken = False
        self._round_ended = self.next_try = 0.0
        self._alone = asyncio.Lock()  # held by the only attempt that is sent
        self._why = ""

    @property
    def given_up(self) -> bool:
        """Whether calls to this address fail without an attempt."""
        if self.answered_at is not None and self._round_ended - self.answered_at < PATIENCE_SECONDS:
            return False
        return self.rounds > MAX_RETRIES

    async def attempt(self, make: Callable[[], Awaitable[T]], most: int, most_seconds: float) -> T:
        """Return the result of one attempt, made as soon as fewer than `most` calls are in flight
        and the breaker allows it. `most_seconds` is how long it may take, for the message that it
        is being waited for. Raises GivenUpError while the address is given up.
        """
        loop = asyncio.get_running_loop()
        await self.limit.enter(most)
        alone = False
        word: asyncio.TimerHandle | None = None
        try:
            if self.rounds >= SUSPECT:
                alone = await self._wait_alone()
            began = loop.time()
            if not self._spoken:
                word = loop.call_later(WORD_SECONDS, self._say_waiting, most_seconds)
            try:
                made = await make()
            except TransientError as problem:
                if problem.kind not in SILENT:
                    self._note_answer()
                # An attempt that began before the last round ended belongs to that round, which is
                # counted already.
                elif began >= self._round_ended:
                    self._note_failure(problem)
                raise
            except CallError:
                self._note_answer()
                raise
            self._note_answer()
            return made
        finally:
            if word is not None:
                word.cancel()
            if alone:
                self._alone.release()
            self.limit.leave()

    async def _wait_alone(self) -> bool:
        """Wait until the only attempt at an address that does not answer may be sent; returns False
        if it answers again meanwhile. Raises GivenUpError.
        """
        clock = asyncio.get_running_loop().time
        waited = self._alone.locked()
        await self._alone.acquire()
        try:
            # A call that waited here has waited for another call's attempt, which failed; its own
            # attempt would take as long again.
            if self.given_up and (waited or clock() < self.next_try):
                raise GivenUpError(f"{self._why}; given up after {MAX_RETRIES} retries")
            if self.rounds >= SUSPECT:
                await asyncio.sleep(self.next_try - clock())
                return True
        except BaseException:
            self._alone.release()
            raise
        self._alone.release()
        return False

    def pause(self, seconds: float) -> None:
        """Delay the next round by at least this many seconds."""
        self.next_try = max(self.next_try, asyncio.get_running_loop().time() + seconds)

    def _note_answer(self) -> None:
        self.answered_at, self.rounds, self._spoken = asyncio.get_running_loop().time(), 0, True

    def _note_failure(self, problem: TransientError) -> None:
        """Count a round that failed, and say so when the address becomes suspect."""
        # Whether enough time has passed already: asked before this failure is counted.
        late = self.given_up or problem.kind == "timed out"
        before = self.rounds
        self.rounds += TIMED_OUT if problem.kind == "timed out" else 1
        self._why = str(problem)
        self._round_ended = asyncio.get_running_loop().time()
        if self.given_up:
            # The next call may try at once, unless it was late: perhaps only the request that
            # failed last was at fault.
            self.next_try = self._round_ended
            if late:
                self.next_try += REST_SECONDS
        elif self.address and before < SUSPECT <= self.rounds:
            self._spoken = True
            _LOG.warning(
                "no answer from %s, retrying %d times: %s", self.address, MAX_RETRIES, problem
            )

    def _say_waiting(self, most_seconds: float) -> None:
        if self.address and not self._spoken:
            self._spoken = True
            _LOG.warning(
                "no answer from %s yet: an attempt may take %g s (--timeout)",
                self.address,
                most_seconds,
            )


_GATES: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Gate]] = WeakKeyDictionary()


def gate_to(address: str, concurrency: int) -> Gate:
    """Return the running loop's gate to an address, which allows at least this many calls in
    flight.
    """
    gates = of_loop(_GATES, dict)
    gate = gates.get(address) or gates.setdefault(address, Gate(address))
    gate.used_at = now = asyncio.get_running_loop().time()
    if concurrency > gate.asked:
        gate.asked = concurrency
        others = 0
        for other in gates.values():
            if other is gate:
                continue
            if other.limit.in_flight:
                others += other.limit.maximum
            elif now - other.used_at < LINGER_SECONDS:
                # Idle connections of an address that was used lately are still open.
                others += other.limit.peak
        gate.limit.raise_to(connections_for(concurrency, others, address))
    return gate


def try_all_again() -> None:
    """Forget that addresses were given up: a new run begins, and they may work now."""
    for gates in list(_GATES.values()):
        for gate in list(gates.values()):
            if gate.given_up:
                gate.rounds, gate.next_try = 0, 0.0


def connections_for(concurrency: int, others: int, address: str) -> int:
    """Return how many of `concurrency` connections to an address the process may open in addition
    to `others`, so that its file descriptors suffice. Raises the soft limit on open files if need
    be.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = concurrency + others + SPARE_FILES
    if soft != resource.RLIM_INFINITY and wanted > soft:
        top = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (top, hard))
            soft = top
        except (ValueError, OSError):
            pass
        fitting = max(1, min(concurrency, soft - others - SPARE_FILES))
        if fitting < concurrency:
            _LOG.warning(
                "%d calls in flight to %s instead of %d: this machine allows %d open files "
                "(ulimit -n)",
                *(fitting, address, concurrency, soft),
            )
            return fitting
    return concurrency
