"""How close an evaluation comes to the wire: folkmoot beside a bare HTTP loop, in one run."""

from __future__ import annotations

import argparse
import asyncio
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp

import folkmoot as fm

IN_FLIGHT = 64
CHOICES = {"A": "bank", "B": "library", "C": "department store", "D": "mall", "E": "new york"}


@contextmanager
def server(latency: float) -> Iterator[str]:
    command = [sys.executable, str(Path(__file__).with_name("server.py")), f"--latency={latency}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.terminate()
        process.wait(10)


async def bare_loop(url: str, questions: int, calls_each: int) -> float:
    """Seconds for the same calls with nothing but an HTTP client around them."""
    waiting = iter(range(questions))
    body = {"model": "m", "messages": [{"role": "user", "content": "x" * 600}]}

    async def work(session: aiohttp.ClientSession) -> None:
        for _ in waiting:
            for _ in range(calls_each):
                async with session.post(f"{url}/chat/completions", json=body) as response:
                    await response.json()

    began = time.perf_counter()
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(work(session) for _ in range(IN_FLIGHT)))
    return time.perf_counter() - began


def evaluation(url: str, questions: int, *, tracking: bool) -> tuple[float, float, int]:
    """Wall seconds, CPU seconds of this process, and calls of a two-agent deliberation."""
    data = [
        fm.Question(id=str(i), question=f"Where would you find number {i}?", choices=CHOICES, answer="A")
        for i in range(questions)
    ]
    program = fm.Deliberation(["intuitive", "reasoner"], tie_break="majority")
    lm = fm.lm("openai/m", api_base=url, concurrency=IN_FLIGHT)
    began, cpu = time.perf_counter(), _cpu()
    result = fm.evaluate(program, data, lm=lm, concurrency=IN_FLIGHT, tracking=tracking)
    return time.perf_counter() - began, _cpu() - cpu, result.summary.usage["calls"]


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="fewer questions")
    questions = 320 if parser.parse_args().fast else 1600
    with server(latency=0.2) as url:
        asyncio.run(bare_loop(url, IN_FLIGHT, 1))
        evaluation(url, IN_FLIGHT, tracking=False)
        wire = asyncio.run(bare_loop(url, questions, 2))
        wall, cpu, calls = evaluation(url, questions, tracking=False)
    print(f"{'':34}{'measured':>12}{'target':>12}")
    print(f"{'bare loop, calls/s':34}{2 * questions / wire:12.0f}{'':>12}")
    print(f"{'evaluate, 2 agents, calls/s':34}{calls / wall:12.0f}{'':>12}")
    print(f"{'share of the bare loop':34}{wire / wall:12.1%}{'≥ 90%':>12}")
    print(f"{'CPU per LM call, ms':34}{1000 * cpu / calls:12.2f}{'≤ 1':>12}")


if __name__ == "__main__":
    main()
