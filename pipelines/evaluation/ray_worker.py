"""What runs in a Ray worker: answers the questions that it is given, and sends their calls and rows
back.
"""

from __future__ import annotations

import asyncio
import json
import traceback
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import dspy

from ...modules.base.calls import FatalCallError
from ...modules.base.errors import UserError
from ...modules.protocols.program import Program
from ...modules.reading.metrics import Metric, metric_of
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow
from ..lms.ledger import LEDGERS, Entry
from ..lms.store import ACTIVE, ACTIVE_CACHE, open_cache
from .answering import answer_row, seat_engines, useful_concurrency

# A worker remembers this many of its own calls, for questions with the same requests.
MOST_RECORDS = 20_000


@dataclass
class Call:
    """A finished LM call, for the run's record."""

    key: str
    model: str
    reply: dict[str, object]


@dataclass
class Paid:
    """A paid attempt, for the run's ledgers."""

    entry: Entry


@dataclass
class Finished:
    """A finished question, its last event."""

    row: ResultRow


@dataclass
class Stop:
    """An error that ends the run: the kind of its class, its text, and its traceback."""

    kind: str
    text: str
    trace: str


Event = Call | Paid | Finished | Stop


class Worker:
    """The Ray actor. Its process dies with the run; nothing is kept on its machine."""

    async def start(
        self, parcel: Sequence[Any], place: int, workers: int, concurrency: int, cached: bool
    ) -> int | Stop:
        """Unpack the program; returns how many questions to ask at once, or why it cannot work."""
        try:
            unpacked: tuple[tuple[Program, Any, str], dict[bytes, bytes]]
            unpacked = await asyncio.gather(*parcel)
            (self._program, self._lm, metric), self._records = unpacked
            self._metric: Metric = metric_of(metric)
            _split_limits(self._program, self._lm, place, workers)
            self._cache = ExitStack().enter_context(open_cache(cached))
        except Exception as problem:
            return _stop(_not_unpacked(problem))
        if self._cache is not None:
            self._cache.readonly = True  # the driver writes new calls into its own records
        self._own: dict[str, dict[str, object]] = {}
        return useful_concurrency(share(concurrency, place, workers), self._program, self._lm)

    async def answer(self, question: Question, made: Sequence[Call]) -> AsyncIterator[list[Event]]:
        """Answer a question, reusing calls that a dead worker made; yields each event as it
        happens.
        """
        events: asyncio.Queue[Event] = asyncio.Queue()
        relay = Relay(self._records, self._own, events)
        relay.learn(made)
        task = asyncio.create_task(self._answer(question, relay))
        news: list[Event] = []
        while not (news and isinstance(news[-1], Finished | Stop)):
            news = [await events.get()]
            while not events.empty():
                news.append(events.get_nowait())
            yield news
        await task

    async def _answer(self, question: Question, relay: Relay) -> None:
        ACTIVE.set((relay,))  # type: ignore[arg-type]
        LEDGERS.set((relay,))  # type: ignore[arg-type]
        ACTIVE_CACHE.set(self._cache)
        with dspy.context(lm=self._lm, disable_history=True, trace=None):
            try:
                relay.events.put_nowait(
                    Finished(await answer_row(self._program, question, self._metric))
                )
            except Exception as problem:
                relay.events.put_nowait(_stop(problem))


class Relay:
    """A question's stand-in for the run's records and ledgers: knows the recorded calls and this
    worker's own, and sends new ones to the driver.
    """

    readonly = False

    def __init__(
        self,
        records: Mapping[bytes, bytes],
        own: dict[str, dict[str, object]],
        events: asyncio.Queue[Event],
    ) -> None:
        self._records, self._own, self.events = records, own, events

    def get(self, key: str) -> dict[str, object] | None:
        line = self._records.get(bytes.fromhex(key))
        return self._own.get(key) if line is None else json.loads(line)["reply"]

    def put(self, key: str, model: str, reply: Mapping[str, object]) -> None:
        if bytes.fromhex(key) not in self._records:
            call = Call(key, model, dict(reply))
            self.learn([call])
            self.events.put_nowait(call)

    def send(self, entry: Entry) -> int:
        return 0

    def settle(self, place: int, entry: Entry | None) -> None:
        if entry is not None:
            self.events.put_nowait(Paid(entry))

    def learn(self, calls: Sequence[Call]) -> None:
        self._own.update((call.key, call.reply) for call in calls)
        while len(self._own) > MOST_RECORDS:
            del self._own[next(iter(self._own))]


def share(total: int, place: int, workers: int) -> int:
    """The share of `total` for worker number `place`; all shares add up to it."""
    return total // workers + (place < total % workers)


def raised_again(stop: Stop) -> Exception:
    """The error of a worker as the driver raises it: a UserError unchanged, a bug with its
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
    cause = getattr(problem, "client_exc", problem)  # Ray wraps the error of unpacking
    if isinstance(cause, UserError):
        return cause
    text = " ".join(str(cause).split())
    return UserError(
        f"Ray's worker cannot unpack the program ({type(cause).__name__}: {text}): install its "
        "modules on every machine of the cluster"
    )


def _stop(problem: Exception) -> Stop:
    kinds = (FatalCallError, UserError)
    kind = next((kind.__name__ for kind in kinds if isinstance(problem, kind)), "")
    text = str(problem) if kind else f"{type(problem).__name__}: {problem}"
    return Stop(kind, text, "".join(traceback.format_exception(problem)))


def _split_limits(program: Program, lm: Any, place: int, workers: int) -> None:
    """Limit a worker to its share of every LM's calls in flight; each worker has its own embedded
    LM.
    """
    for engine in {id(one): one for one in seat_engines(program, lm) if one is not None}.values():
        if not engine.model.startswith("local/"):
            engine.concurrency = share(engine.concurrency, place, workers)
