"""Evaluation on a Ray cluster: the driver keeps the run's folder, and worker processes answer the
questions and send their calls and rows back.
"""

from __future__ import annotations

import asyncio
import json
import os
import traceback
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import dspy

from ...modules.base.calls import FatalCallError, Usage
from ...modules.base.errors import UserError
from ...modules.base.extras import from_extra
from ...modules.base.sync import run_sync
from ...modules.protocols.program import Program
from ...modules.reading.metrics import Metric, metric_of
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow
from ..base.settings import settings
from ..lms.ledger import LEDGERS, Entry
from ..lms.named import engine_of
from ..lms.store import ACTIVE, ACTIVE_CACHE, CallStore, open_cache
from ..runs.rows import error_row
from .answering import answer_row, raise_first, seat_engines, useful_concurrency

MOST_DEATHS = 3
"""A question becomes an error when this many workers died while answering it. The last time it runs
alone on its worker, so that its neighbours are not blamed.
"""
OBJECT_STORE_BYTES = 256 * 2**20


def check_ray(program: Program, lm: Any, workers: int | None) -> None:
    """Raise UserError when the extra is missing, or workers, LMs or program cannot be used with
    Ray.
    """
    ray = _ray()
    if workers is not None and workers < 1:
        raise UserError(f"workers is {workers}: give a number of worker processes of at least 1")
    for name, seat in program.seats().items():
        used = seat.predict.lm or lm
        if used is not None and engine_of(used) is None:
            raise UserError(
                f"the LM of the seat {name!r} was not made by fm.lm, so its key could travel to "
                "Ray's workers: make it with fm.lm, or use the engine asyncio"
            )
    try:
        ray.cloudpickle.dumps((program, lm))
    except UserError:
        raise
    except Exception as problem:
        text = " ".join(str(problem).split())
        raise UserError(
            f"the program cannot be sent to Ray's workers ({type(problem).__name__}: {text}): "
            "use the engine asyncio"
        ) from None


def answer_on_ray(
    program: Program,
    lm: Any,
    questions: Sequence[Question],
    stores: Sequence[CallStore],
    take: Callable[[ResultRow], None],
    *,
    metric: str,
    concurrency: int,
    workers: int | None = None,
) -> None:
    """Answer every question on Ray's workers, and hand each row to `take` as it arrives.

    Args: stores: records of the run, read before the start and written as calls come in; workers do
    not need access to these folders.
        metric: the name of the metric that scores the answers.
        concurrency: the most questions in flight in all workers together. workers: worker
            processes; None takes one per CPU of the cluster.

    Joins the Ray that runs in this process or the cluster that RAY_ADDRESS names, else starts one
    on this machine and stops it at the end. Raises whatever `take` raises, and UserError for an
    error that ends the run.
    """
    if not questions:
        return
    with _cluster(workers) as (ray, cpus):
        if workers is not None and workers > cpus:
            raise UserError(
                f"the Ray cluster has {cpus} CPUs, one per worker: give at most --workers {cpus}"
            )
        engines = seat_engines(program, lm)
        shared = [engine for engine in engines if engine and not engine.model.startswith("local/")]
        number = min(
            workers or cpus, len(questions), concurrency, *(one.concurrency for one in shared)
        )
        records = {key: line for store in stores for key, line in store.items()}
        # In a list, so that a worker unpacks them itself and can say what is wrong.
        parcel = [ray.put((program, lm, metric)), ray.put(records)]
        cacheable = {engine.model for engine in engines if engine and engine.cached}
        driver = _Driver(ray, parcel, questions, stores, cacheable, take)
        run_sync(driver.answer_all, number, concurrency)


class _Driver:
    """Distributes questions to workers, and those of a dead worker to the others."""

    def __init__(
        self,
        ray: Any,
        parcel: list[Any],
        questions: Sequence[Question],
        stores: Sequence[CallStore],
        cacheable: set[str],
        take: Callable[[ResultRow], None],
    ) -> None:
        self.ray, self.parcel = ray, parcel
        self.stores, self.cacheable, self.take = stores, cacheable, take
        self.waiting: asyncio.Queue[Question] = asyncio.Queue()
        for question in questions:
            self.waiting.put_nowait(question)
        self.alone: deque[Question] = deque()  # one more death makes these questions errors
        self.deaths: Counter[str] = Counter()
        self.calls: defaultdict[str, list[Call]] = defaultdict(list)
        self.left = len(questions)
        self.failed_starts = 0
        self.finished = asyncio.Event()

    async def answer_all(self, workers: int, concurrency: int) -> None:
        with raise_first():
            async with asyncio.TaskGroup() as group:
                shares = [(place, workers, concurrency) for place in range(workers)]
                places = [group.create_task(self._fill(*one)) for one in shares]
                await self.finished.wait()
                for task in places:
                    task.cancel()

    async def _fill(self, *share: int) -> None:
        """Keep a worker in this place until the end; a dead one is replaced."""
        options = {"num_cpus": 1, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        while True:
            actor = self.ray.remote(Worker).options(**options).remote()
            in_hand: dict[str, Question] = {}
            try:
                in_flight = await self._started(actor, *share)
                while self.alone:
                    await self._answer(actor, in_hand, self.alone.popleft())
                with raise_first():
                    async with asyncio.TaskGroup() as group:
                        for _ in range(in_flight):
                            group.create_task(self._deal(actor, in_hand))
            except self.ray.exceptions.RayTaskError:
                raise
            except self.ray.exceptions.RayError as problem:
                self._lose(in_hand, problem)
            finally:
                self.ray.kill(actor)

    async def _started(self, actor: Any, *share: int) -> int:
        """Send a worker the program; returns how many questions it takes at once."""
        started = await actor.start.remote(self.parcel, *share, ACTIVE_CACHE.get() is not None)
        if isinstance(started, Stop):
            raise raised_again(started)
        self.failed_starts = 0
        return int(started)

    async def _deal(self, actor: Any, in_hand: dict[str, Question]) -> None:
        while True:
            await self._answer(actor, in_hand, await self.waiting.get())

    async def _answer(self, actor: Any, in_hand: dict[str, Question], question: Question) -> None:
        """Let a worker answer a question; calls that arrived before an earlier worker died are not
        repeated.
        """
        in_hand[question.id] = question
        made = list(self.calls.get(question.id, ()))
        async for events in actor.answer.remote(question, made):
            for event in await events:
                # a worker that dies after this has answered the question
                if isinstance(event, Finished):
                    del in_hand[question.id]
                self._heed(question, event)

    def _heed(self, question: Question, event: Event) -> None:
        match event:
            case Call():
                cache = ACTIVE_CACHE.get() if event.model in self.cacheable else None
                for store in (*self.stores, cache):
                    if store is not None and not store.readonly:
                        store.put(event.key, event.model, event.reply)
                self.calls[question.id].append(event)
            case Paid():
                for ledger in LEDGERS.get():
                    ledger.add(event.entry)
            case Finished():
                self._finish(event.row)
            case Stop():
                raise raised_again(event)

    def _finish(self, row: ResultRow) -> None:
        self.calls.pop(row["id"], None)
        self.left -= 1
        self.take(row)
        if not self.left:
            self.finished.set()

    def _lose(self, in_hand: dict[str, Question], problem: Exception) -> None:
        """Put a dead worker's questions back; those that have already cost two workers are kept
        apart.
        """
        self.failed_starts += not in_hand
        if self.failed_starts >= MOST_DEATHS:
            reason = " ".join(str(problem).split())[:300]
            raise UserError(
                f"Ray's workers do not start ({reason}): check the cluster with 'ray status'"
            )
        for question in in_hand.values():
            self.deaths[question.id] += 1
            if self.deaths[question.id] >= MOST_DEATHS:
                why = f"{MOST_DEATHS} worker processes died while they answered this question"
                self._finish(error_row(question, why, Usage().to_dict(), 0.0))
            elif self.deaths[question.id] == MOST_DEATHS - 1:
                self.alone.append(question)
            else:
                self.waiting.put_nowait(question)


@contextmanager
def _cluster(workers: int | None) -> Iterator[tuple[Any, int]]:
    """Ray and its number of CPUs; it is started and stopped here unless it already runs."""
    ray = _ray()
    started = not ray.is_initialized()
    if started:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        address = settings().ray_address
        options: dict[str, object] = {"logging_level": "ERROR", "log_to_driver": False}
        if not address:
            options |= {"num_cpus": workers or len(os.sched_getaffinity(0))}
            options |= {"object_store_memory": OBJECT_STORE_BYTES, "include_dashboard": False}
        try:
            ray.init(address or "local", **options)
        except (ConnectionError, RuntimeError, ValueError, OSError) as problem:
            reason = " ".join(str(problem).split())[:300]
            raise UserError(
                f"Ray does not start ({reason}): correct RAY_ADDRESS, or use the engine asyncio"
            ) from None
    try:
        yield ray, int(ray.cluster_resources().get("CPU", 0)) or 1
    finally:
        if started:
            ray.shutdown()


def _ray() -> Any:
    with from_extra("ray", "the engine ray"):
        return import_module("ray")


# What runs in a worker ----------------------------------------------------------------------------

# A worker remembers this many of its own calls, for questions with the same requests.
MOST_RECORDS = 20_000


@dataclass
class Call:
    """A finished LM call, for the run's record."""

    key: str
    model: str
    reply: dict[str, Any]


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
                answered = await answer_row(self._program, question, self._metric)
                relay.events.put_nowait(Finished(answered.row))
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

    def get(self, key: str) -> dict[str, Any] | None:
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

    def typical_reply(self, model: str) -> int | None:
        return None

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
