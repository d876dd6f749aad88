"""What the meter costs: one client asks a server directly and through the meter, in one run.

`python benchmarks/meter.py [--questions N] [--calls K]` prints both speeds and the CPU time per
call that this process, with folkmoot and the client in it, takes beyond the client's own.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from openai import AsyncOpenAI
from throughput import answered, questions, row, server  # type: ignore[import-not-found]

import folkmoot as fm

CONCURRENCY = 64
LEAST_SHARE = 0.8
MOST_CPU = 0.003

Ask = Callable[[fm.Question, AsyncOpenAI], Awaitable[None]]


@dataclass
class Measured:
    """One way to the server: its calls, and the seconds and CPU seconds that they took."""

    calls: int
    wall: float
    cpu: float

    @property
    def speed(self) -> float:
        """Calls per second."""
        return self.calls / self.wall

    @property
    def cpu_per_call(self) -> float:
        """CPU seconds of this process per call."""
        return self.cpu / self.calls


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def crew(calls: int) -> Ask:
    """A team that asks so many times in turn on each question."""

    async def ask(question: fm.Question, client: AsyncOpenAI) -> None:
        for number in range(calls):
            text = f"{question.question} {number}"
            await client.chat.completions.create(
                model="m", messages=[{"role": "user", "content": text}]
            )

    return ask


def directly(url: str, count: int, calls: int) -> Measured:
    """The client alone, with as many questions at once as an evaluation has."""
    ask = crew(calls)

    async def run() -> None:
        gate = asyncio.Semaphore(CONCURRENCY)

        async def one(question: fm.Question) -> None:
            async with gate:
                await ask(question, client)

        async with AsyncOpenAI(base_url=url, api_key="none") as client:
            await asyncio.gather(*map(one, questions(count)))

    return measured(url, lambda: asyncio.run(run()))


def metered(url: str, count: int, calls: int) -> Measured:
    """The same client through the meter, in an evaluation."""
    ask, left = crew(calls), count
    clients: list[AsyncOpenAI] = []

    async def team(question: fm.Question, endpoint: fm.Endpoint) -> str:
        nonlocal left
        if not clients:
            clients.append(AsyncOpenAI(base_url=endpoint.base_url, api_key=endpoint.api_key))
        # One pool of connections for all questions, as the client alone has.
        client = clients[0].with_options(base_url=endpoint.base_url, api_key=endpoint.api_key)
        await ask(question, client)
        left -= 1
        if not left:  # else the collector would close its connections from outside of their loop
            await clients[0].close()
        return "A"

    lm = fm.lm("openai/m", api_base=url, concurrency=CONCURRENCY, price=(1e-6, 1e-6))

    def run() -> None:
        fm.evaluate(
            team,
            questions(count),
            lm=lm,
            concurrency=CONCURRENCY,
            cache=False,
            tracking=False,
        )

    return measured(url, run)


def measured(url: str, run: Callable[[], None]) -> Measured:
    """What a run takes; the server says how many calls it made."""
    before, began, cpu = answered(url), time.perf_counter(), cpu_seconds()
    run()
    wall, cpu = time.perf_counter() - began, cpu_seconds() - cpu
    return Measured(answered(url) - before, wall, cpu)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=300)
    parser.add_argument("--calls", type=int, default=4, help="calls per question")
    parser.add_argument("--latency", type=float, default=1.0, help="seconds a call takes")
    options = parser.parse_args()
    with server("--latency", str(options.latency)) as url:
        for way in (directly, metered):  # imports and first connections
            way(url, 8, 1)
        pairs = [
            [way(url, options.questions, options.calls) for way in (directly, metered)]
            for _ in range(2)
        ]
    direct = max((pair[0] for pair in pairs), key=lambda one: one.speed)
    through = max((pair[1] for pair in pairs), key=lambda one: one.speed)
    row("the client alone", f"{direct.speed:.0f} calls/s")
    row(
        "through the meter",
        f"{through.speed:.0f} calls/s, {through.speed / direct.speed:.0%}",
        f"≥ {LEAST_SHARE:.0%}",
    )
    row("CPU per call, the client alone", f"{1000 * direct.cpu_per_call:.2f} ms")
    more = through.cpu_per_call - direct.cpu_per_call
    row("CPU per call that the meter adds", f"{1000 * more:.2f} ms", f"≤ {1000 * MOST_CPU:.0f} ms")


if __name__ == "__main__":
    main()
