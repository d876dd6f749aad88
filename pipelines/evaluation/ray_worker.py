"""What runs in a Ray worker: takes questions, answers them on its event loop, sends calls and rows
back.
"""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dspy

from ...modules.base.calls import ASKER, FatalCallError
from ...modules.base.errors import UserError
from ...modules.protocols.program import Program
from ...modules.reading.metrics import Metric, metric_of
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow
from ..lms.ledger import LEDGERS, Entry
from ..lms.store import ACTIVE, ACTIVE_CACHE, open_cache
from .answering import answer_row, seat_engines, useful_concurrency

MOST_RECORDS = 20_000  # own calls that a worker remembers, for questions that ask the same


@dataclass
class Call:
    """A finished LM call of a question, for the run's record."""

    question: str
    key: str
    model: str
    reply: dict[str, Any]


@dataclass
class Paid:
    """A paid attempt, for the run's ledgers."""

    entry: Entry


@dataclass
class Finished:
    """A finished question."""

    row: ResultRow


@dataclass
class Ready:
    """The worker has unpacked the program and takes so many questions at once."""

    in_flight: int


@dataclass
class Stop:
    """What ends the run: the error's class as far as it matters, its text, and where it
    came from.
    """

    kind: str
    text: str
    trace: str


Event = Call | Paid | Finished | Ready | Stop


@dataclass
class Known:
    """A question to answer, and those of its calls that a worker made before it died."""

    question: Question
    calls: list[Call]


class Worker:
    """The Ray actor. Its process dies with the run; nothing is kept on its machine."""

    def __init__(self) -> None:
        self._questions: asyncio.Queue[Known] = asyncio.Queue()
        self._events: asyncio.Queue[Event] = asyncio.Queue()

    async def give(self, questions: Sequence[Known]) -> None:
        for known in questions:
            self._questions.put_nowait(known)

    async def run(
        self, parcel: Sequence[Any], place: int, workers: int, concurrency: int, cached: bool
    ) -> AsyncIterator[list[Event]]:
        """Answer what is given, until the process is ended; yields what has happened as soon as it
        has.
        """
        try:
            (program, lm, metric), records = await asyncio.gather(*parcel)
            scored = metric_of(metric)
            _split_limits(program, lm, place, workers)
            in_flight = useful_concurrency(share(concurrency, place, workers), program, lm)
        except Exception as problem:
            yield [_stop(_not_unpacked(problem))]
            return
        relay = Relay(records, self._events)
        ACTIVE.set((relay,))  # type: ignore[arg-type]
        LEDGERS.set((relay,))  # type: ignore[arg-type]
        with open_cache(cached) as cache, dspy.context(lm=lm, disable_history=True, trace=None):
            if cache is not None:
                cache.readonly = True  # the driver writes what is new into its own
            ACTIVE_CACHE.set(cache)
            tasks = [
                asyncio.create_task(self._work(program, relay, scored)) for _ in range(in_flight)
            ]
            try:
                yield [Ready(in_flight)]
                while True:
                    events = [await self._events.get()]
                    while not self._events.empty():
                        events.append(self._events.get_nowait())
                    yield events
            finally:
                for task in tasks:
                    task.cancel()

    async def _work(self, program: Program, relay: Relay, metric: Metric) -> None:
        while True:
            known = await self._questions.get()
            relay.learn(known.calls)
            try:
                row = await answer_row(program, known.question, metric)
                self._events.put_nowait(Finished(row))
            except Exception as problem:
                self._events.put_nowait(_stop(problem))


class Relay:
    """A worker's stand-in for the run's records and ledgers: knows what was recorded, sends what is
    new.
    """

    readonly = False

    def __init__(self, records: Mapping[bytes, bytes], events: asyncio.Queue[Any]) -> None:
        self._records = records
        self._own: dict[str, dict[str, Any]] = {}
        self._events = events

    def get(self, key: str) -> dict[str, Any] | None:
        line = self._records.get(bytes.fromhex(key))
        if line is None:
            return self._own.get(key)
        reply: dict[str, Any] = json.loads(line)["reply"]
        return reply

    def put(self, key: str, model: str, reply: Mapping[str, Any]) -> None:
        if bytes.fromhex(key) not in self._records:
            call = Call(ASKER.get().question or "", key, model, dict(reply))
            self.learn([call])
            self._events.put_nowait(call)

    def send(self, entry: Entry) -> int:
        return 0

    def settle(self, place: int, entry: Entry | None) -> None:
        if entry is not None:
            self._events.put_nowait(Paid(entry))

    def learn(self, calls: Sequence[Call]) -> None:
        self._own.update((call.key, call.reply) for call in calls)
        while len(self._own) > MOST_RECORDS:
            del self._own[next(iter(self._own))]


def share(total: int, place: int, workers: int) -> int:
    """The part of `total` that falls to worker number `place`; all parts add up to it."""
    return total // workers + (place < total % workers)


def raised_again(stop: Stop) -> Exception:
    """The error of a worker as the driver raises it: a user's error as it was, a bug with its
    traceback.
    """
    kinds: dict[str, type[Exception]] = {
        kind.__name__: kind for kind in (FatalCallError, UserError)
    }
    problem = kinds.get(stop.kind, RuntimeError)(stop.text)
    if stop.kind not in kinds:
        problem.add_note(f"It happened in a Ray worker:\n{stop.trace}")
    return problem


def _not_unpacked(problem: Exception) -> UserError:
    cause = getattr(problem, "client_exc", problem)  # Ray wraps what unpacking raised
    if isinstance(cause, UserError):
        return cause
    text = " ".join(str(cause).split())
    return UserError(
        f"Ray's worker cannot unpack the program ({type(cause).__name__}: {text}): install its "
        f"modules on "
        "every machine of the cluster"
    )


def _stop(problem: Exception) -> Stop:
    kinds = (FatalCallError, UserError)
    kind = next((kind.__name__ for kind in kinds if isinstance(problem, kind)), "")
    text = str(problem) if kind else f"{type(problem).__name__}: {problem}"
    return Stop(kind, text, "".join(traceback.format_exception(problem)))


def _split_limits(program: Program, lm: Any, place: int, workers: int) -> None:
    """A worker's part of every LM's calls in flight; the embedded LM is each worker's own."""
    for engine in {id(one): one for one in seat_engines(program, lm) if one is not None}.values():
        if not engine.model.startswith("local/"):
            engine.concurrency = share(engine.concurrency, place, workers)
