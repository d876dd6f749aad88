"""Evaluation on a Ray cluster: the driver keeps the run's folder, worker processes answer the
questions.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from ...modules.base.calls import Usage
from ...modules.base.errors import UserError
from ...modules.base.extras import from_extra
from ...modules.base.sync import run_sync
from ...modules.protocols.program import Program
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow
from ..base.settings import settings
from ..lms.ledger import LEDGERS
from ..lms.named import engine_of
from ..lms.store import ACTIVE_CACHE, CallStore
from ..runs.rows import error_row
from .answering import raise_first, seat_engines
from .ray_worker import Call, Event, Finished, Paid, Stop, Worker, raised_again

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
                self._heed(question, event)
        del in_hand[question.id]

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
