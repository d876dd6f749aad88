"""Evaluation on a Ray cluster: the driver keeps the run's folder, worker processes answer the
questions.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from ...modules.base.calls import Usage
from ...modules.base.errors import UserError
from ...modules.base.extras import from_extra
from ...modules.base.sync import run_sync
from ...modules.protocols.program import Program
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow
from ..base.budget import ACCOUNTS
from ..base.settings import settings
from ..lms.ledger import LEDGERS
from ..lms.named import engine_of
from ..lms.store import ACTIVE_CACHE, CallStore
from ..runs.rows import error_row
from .answering import seat_engines
from .ray_worker import Call, Event, Finished, Known, Paid, Ready, Stop, Worker, raised_again

MOST_DEATHS = 3
"""A question that was in the hands of so many workers when they died is an error; the last of these
times it was alone with its worker, so that its neighbours are not blamed.
"""
OBJECT_STORE_BYTES = 256 * 2**20
NO_BUDGET = "the engine ray cannot hold a budget: drop --budget, or use the engine asyncio"

Take = Callable[[ResultRow], None]


def check_ray(program: Program, lm: Any, workers: int | None) -> None:
    """Raises UserError when the extra is missing, or workers, LMs or program cannot be used with
    Ray.
    """
    ray = _ray()
    if workers is not None and workers < 1:
        raise UserError(f"workers is {workers}: give a number of worker processes from 1 up")
    for name, seat in program.seats().items():
        used = seat.predict.lm or lm
        if used is not None and engine_of(used) is None:
            raise UserError(
                f"the LM of the seat {name!r} was not made by fm.lm, so its key could travel to "
                f"Ray's "
                "workers: make it with fm.lm, or use the engine asyncio"
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
    take: Take,
    *,
    metric: str,
    concurrency: int,
    workers: int | None = None,
) -> None:
    """Answer every question on Ray's workers, and hand each row to `take` as it arrives.

    Args: stores: records of the run, read before the start and written as calls come in; workers
        need none of these folders.
        metric: name of what scores the answers.
        concurrency: most questions in flight in all workers together.
        workers: worker processes; None takes one a CPU of the cluster.

    Joins the Ray that runs in this process or the cluster that RAY_ADDRESS names, else starts one
    on this machine and stops it at the end. Raises what `take` raises, and UserError for what ends
    the run.
    """
    if ACCOUNTS.get():
        raise UserError(NO_BUDGET)
    if not questions:
        return
    with _cluster(workers) as (ray, cpus):
        if workers is not None and workers > cpus:
            raise UserError(
                f"the Ray cluster has {cpus} CPUs, one a worker: give at most --workers {cpus}"
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
        driver = _Driver(
            ray, parcel, deque(questions), stores, cacheable, take, concurrency, number
        )
        run_sync(driver.answer_all)


@dataclass(eq=False)
class _Hired:
    """A worker at work: how many questions it takes at once, and those it has."""

    actor: Any
    in_flight: int
    has: dict[str, Question] = field(default_factory=dict)


@dataclass
class _Driver:
    """Deals questions out to workers, and those of a worker that died to the others."""

    ray: Any
    parcel: list[Any]
    waiting: deque[Question]
    stores: Sequence[CallStore]
    cacheable: set[str]
    take: Take
    concurrency: int
    workers: int
    alone: deque[Question] = field(default_factory=deque)  # one more death, and they are errors
    deaths: Counter[str] = field(default_factory=Counter)
    calls: defaultdict[str, list[Call]] = field(default_factory=lambda: defaultdict(list))
    hired: list[_Hired] = field(default_factory=list)
    left: int = 0
    failed_starts: int = 0
    finished: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer_all(self) -> None:
        self.left = len(self.waiting)
        try:
            async with asyncio.TaskGroup() as group:
                places = [group.create_task(self._fill(place)) for place in range(self.workers)]
                await self.finished.wait()
                for task in places:
                    task.cancel()
        except BaseExceptionGroup as problems:
            raise problems.exceptions[0] from None

    async def _fill(self, place: int) -> None:
        """Keep a worker in this place for as long as there is work; one that died is replaced."""
        options = {"num_cpus": 1, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        while True:
            actor = self.ray.remote(Worker).options(**options).remote()
            worker = _Hired(actor, 0)
            try:
                arguments = place, self.workers, self.concurrency, ACTIVE_CACHE.get() is not None
                async for reference in actor.run.remote(self.parcel, *arguments):
                    for event in await reference:
                        self._heed(worker, event)
            except self.ray.exceptions.RayTaskError:
                raise
            except self.ray.exceptions.RayError as problem:
                self._lose(worker, problem)
            finally:
                self.ray.kill(actor)

    def _heed(self, worker: _Hired, event: Event) -> None:
        match event:
            case Call():
                self._keep(event)
                return
            case Paid():
                for ledger in LEDGERS.get():
                    ledger.add(event.entry)
                return
            case Finished():
                del worker.has[event.row["id"]]
                self._finish(event.row)
            case Ready():
                worker.in_flight = event.in_flight
                self.hired.append(worker)
                self.failed_starts = 0
            case Stop():
                raise raised_again(event)
        self._deal()

    def _keep(self, call: Call) -> None:
        cache = ACTIVE_CACHE.get() if call.model in self.cacheable else None
        for store in (*self.stores, cache):
            if store is not None and not store.readonly:
                store.put(call.key, call.model, call.reply)
        self.calls[call.question].append(call)

    def _finish(self, row: ResultRow) -> None:
        self.calls.pop(row["id"], None)
        self.left -= 1
        self.take(row)
        if not self.left:
            self.finished.set()

    def _deal(self) -> None:
        """Give workers that have room what waits; a question that two died with gets one for
        itself.
        """
        for worker in self.hired:
            given = []
            if not any(self.deaths[name] >= MOST_DEATHS - 1 for name in worker.has):
                # A few more than it takes at once, so that none of its places waits for the next
                # delivery.
                room = worker.in_flight + worker.in_flight // 8 - len(worker.has)
                given = [self.waiting.popleft() for _ in range(min(room, len(self.waiting)))]
                if not given and not worker.has and self.alone:
                    given = [self.alone.popleft()]
            if given:
                worker.has.update((question.id, question) for question in given)
                worker.actor.give.remote(
                    [Known(one, list(self.calls.get(one.id, ()))) for one in given]
                )

    def _lose(self, worker: _Hired, problem: Exception) -> None:
        """Put a dead worker's questions back; their calls that came in before are not made
        again.
        """
        if worker not in self.hired:
            self.failed_starts += 1
            if self.failed_starts >= MOST_DEATHS:
                said = " ".join(str(problem).split())[:300]
                raise UserError(
                    f"Ray's workers do not start ({said}): check the cluster with 'ray status'"
                )
            return
        self.hired.remove(worker)
        for question in reversed(worker.has.values()):
            self.deaths[question.id] += 1
            if self.deaths[question.id] >= MOST_DEATHS:
                why = f"{MOST_DEATHS} worker processes died while they answered this question"
                self._finish(error_row(question, why, Usage().to_dict(), 0.0))
            elif self.deaths[question.id] == MOST_DEATHS - 1:
                self.alone.append(question)
            else:
                self.waiting.appendleft(question)
        self._deal()


@contextmanager
def _cluster(workers: int | None) -> Iterator[tuple[Any, int]]:
    """Ray, and the CPUs it has; started and stopped here unless it runs already."""
    ray = _ray()
    started = not ray.is_initialized()
    if started:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        quiet = {"logging_level": "ERROR", "log_to_driver": False}
        address = settings().ray_address
        try:
            if address:
                ray.init(address, **quiet)
            else:
                cpus = workers or len(os.sched_getaffinity(0))
                store = {"object_store_memory": OBJECT_STORE_BYTES, "include_dashboard": False}
                ray.init("local", num_cpus=cpus, **store, **quiet)
        except (ConnectionError, RuntimeError, ValueError, OSError) as problem:
            said = " ".join(str(problem).split())[:300]
            advice = (
                "correct RAY_ADDRESS" if address else "see Ray's logs, or use the engine asyncio"
            )
            raise UserError(f"Ray does not start ({said}): {advice}") from None
    try:
        yield ray, int(ray.cluster_resources().get("CPU", 0)) or 1
    finally:
        if started:
            ray.shutdown()


def _ray() -> Any:
    with from_extra("ray", "the engine ray"):
        return import_module("ray")
