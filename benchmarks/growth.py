"""What grows with a run: time and memory over the number of questions, calls per second over the
number in flight. `python benchmarks/growth.py` prints both; with `--picture` it also draws
docs/images/growth.svg.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from throughput import (  # type: ignore[import-not-found]
    HERE,
    LATENCY,
    questions,
    row,
    server,
)

import folkmoot as fm

QUESTIONS = (1_000, 10_000, 100_000)
IN_FLIGHT = (1, 4, 16, 64, 128, 256)
PICTURE = HERE.parent / "docs" / "images" / "growth.svg"


def over_questions() -> list[tuple[float, float]]:
    """Seconds and peak memory in MB of each number of questions, whose answers take no time."""
    found = []
    for number in QUESTIONS:
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, str(HERE / "memory.py"), str(number)],
            capture_output=True,
            text=True,
            check=True,
        )
        found.append((time.perf_counter() - began, float(done.stdout)))
        row(f"{number:,} questions", f"{found[-1][0]:.1f} s, {found[-1][1]:.0f} MB")
    return found


def over_in_flight() -> list[float]:
    """Calls per second with each number in flight, eight waves of each."""
    found: list[float] = []
    with tempfile.TemporaryDirectory() as folder, server(f"--latency={LATENCY}") as url:
        os.environ["FOLKMOOT_CACHE"] = folder
        for number in (IN_FLIGHT[0], *IN_FLIGHT):  # the first run imports
            lm = fm.lm("openai/m", api_base=url, concurrency=number)
            asked = questions(8 * number, f"thing {len(found)} of {number}")
            began = time.perf_counter()
            fm.evaluate(fm.SingleAgent(), asked, lm=lm, concurrency=number, tracking=False)
            found.append(len(asked) / (time.perf_counter() - began))
            row(f"{number} in flight", f"{found[-1]:.0f} calls/s, of {number / LATENCY:.0f}")
    return found[1:]


def draw(sizes: Sequence[tuple[float, float]], rates: Sequence[float], file: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3))
    times, memory, flight = figure.subplots(1, 3)
    times.loglog(QUESTIONS, [seconds for seconds, _ in sizes], "o-")
    times.set(xlabel="questions", title="seconds, answers at once")
    memory.semilogx(QUESTIONS, [megabytes for _, megabytes in sizes], "o-")
    memory.set(xlabel="questions", title="peak memory, MB", ylim=0)
    flight.loglog(IN_FLIGHT, [number / LATENCY for number in IN_FLIGHT], ":", label="LM's limit")
    flight.loglog(IN_FLIGHT, rates, "o-", label="measured")
    flight.set(xlabel="in flight", title=f"calls/s at {LATENCY * 1000:.0f} ms")
    flight.legend()
    figure.tight_layout()
    figure.savefig(file, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--picture", action="store_true", help="draw docs/images/growth.svg")
    wanted = parser.parse_args().picture
    sizes = over_questions()  # first: a child's peak memory is at least that of its parent
    rates = over_in_flight()
    if wanted:
        draw(sizes, rates, PICTURE)


if __name__ == "__main__":
    main()
