"""Speed beside the wire and beside other engines: same questions, same calls, same server, one run.

`python benchmarks/throughput.py` prints every row of the speed table with its target, and ratios
with their change since the release in `released.json`, where `--release` keeps them; `--fast` takes
only what needs seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import folkmoot as fm
from folkmoot.modules.base.sync import run_sync

HERE = Path(__file__).resolve().parent
INSPECT = Path(sys.prefix) / "bench-inspect" / "bin" / "python"  # made by `make bench`
LATENCY = 0.2
RELEASED = HERE / "released.json"
"""The ratios of the last release, by row. Seconds are those of a machine, ratios hold anywhere."""
BEFORE: dict[str, float] = json.loads(RELEASED.read_text())["ratios"]
MEASURED: dict[str, float] = {}
CHOICES = {"A": "bank", "B": "library", "C": "department store", "D": "mall", "E": "new york"}


@contextmanager
def server(*options: str) -> Iterator[str]:
    """The address (`…/v1`) of a benchmark server in a process of its own."""
    command = [sys.executable, str(HERE / "server.py"), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.terminate()
        process.wait(10)


def answered(url: str) -> int:
    with urlopen(url.removesuffix("/v1") + "/answered") as reply:
        return int(json.load(reply))


def row(what: str, measured: str, target: str = "", ratio: float | None = None) -> None:
    """Print a row; one whose ratio is given also with its change since the last release."""
    before = BEFORE.get(what.strip())
    change = "" if ratio is None or before is None else f"{ratio / before - 1:+.0%}"
    if ratio is not None:
        MEASURED[what.strip()] = round(ratio, 3)
    print(f"{what:46}{measured:>22}{target:>14}{change:>8}", flush=True)


def keep_as_released(of: str) -> None:
    """Make the ratios of this run those that later runs compare with."""
    ratios = json.loads(RELEASED.read_text())["ratios"] | MEASURED
    RELEASED.write_text(json.dumps({"of": of, "ratios": ratios}, indent=2) + "\n")


def questions(n: int, prefix: str = "q") -> list[fm.Question]:
    return [
        fm.Question(
            id=f"{prefix}{i}",
            question=f"Where is {prefix} number {i}?",
            choices=CHOICES,
            answer="A",
        )
        for i in range(n)
    ]


def engines(url: str, n: int, names: list[str]) -> None:
    """Throughput and CPU of each engine; the bare HTTP loop is measured before and after the
    others.
    """
    found: dict[str, dict[str, float]] = {}
    for name in [*names, "bare"]:
        python = str(INSPECT) if name == "inspect_ai" else sys.executable
        if name == "inspect_ai" and not INSPECT.exists():
            row(name, "not installed")
            continue
        command = [python, str(HERE / "peers.py"), name, url, str(n)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        if done.returncode:
            row(name, "failed: " + done.stderr.strip().splitlines()[-1][:60])
            continue
        measured = json.loads(done.stdout.strip().splitlines()[-1])
        if name in found:  # the slower of two bare runs would flatter everybody else
            measured = min(measured, found[name], key=lambda one: one["wall"])
        found[name] = measured
    wire, bare_cpu = found["bare"]["wall"], found["bare"]["cpu"] / found["bare"]["calls"]
    for name, one in found.items():
        rate = f"{one['calls'] / one['wall']:.0f} calls/s, {wire / one['wall']:.0%}"
        targets = {"folkmoot": "≥ 90%", "folkmoot, tracked": "≥ 95%"}
        row(name, rate, targets.get(name, ""), wire / one["wall"])
        limit = {"folkmoot": "≤ 0.8 ms", "folkmoot, tracked": "≤ 1 ms"}.get(name, "")
        cpu = one["cpu"] / one["calls"]
        row("  its CPU per LM call", f"{1000 * cpu:.2f} ms", limit)
        if "cpu_in_all" in one:
            row("  with what follows", f"{1000 * one['cpu_in_all'] / one['calls']:.2f} ms")
        if name != "bare":
            row(f"CPU of {name}, over the bare loop's", f"{cpu / bare_cpu:.1f}", "", cpu / bare_cpu)
    # Milliseconds are those of the reference machine, where dspy.Evaluate takes 3.2: a ratio holds
    # anywhere.
    for name, one in found.items():
        if name.startswith("dspy.Evaluate"):
            ratio = (
                found["folkmoot"]["cpu"] / found["folkmoot"]["calls"] / (one["cpu"] / one["calls"])
            )
            row("folkmoot's CPU over dspy.Evaluate's", f"{ratio:.2f}", "≤ 0.31")
    if {"folkmoot", "folkmoot, tracked"} <= found.keys():
        tracked = found["folkmoot, tracked"]
        share = found["folkmoot"]["wall"] / tracked["wall"]
        row("tracked, until the last row, of untracked", f"{share:.1%}", "≥ 97%", share)
        row("  the store complete after it", f"{tracked['after']:.1f} s", "≤ 6 s")
    if {"folkmoot, traced", "folkmoot"} <= found.keys():
        traced = found["folkmoot, traced"]
        share = found["folkmoot"]["wall"] / traced["wall"]
        row("all traced, until the last row, of untracked", f"{share:.1%}", "≥ 90%", share)
        row("  traces that arrived", f"{traced['traces'] / n:.0%}", "100%")
        row("  the store complete after it", f"{traced['after']:.1f} s")


def critical_path(url: str) -> None:
    """One question at a time: members of an ensemble at once, agents of a deliberation in turn."""
    lm = fm.lm("openai/m", api_base=url)
    panel = fm.Ensemble(["simple", "cot", "simple", "cot"])
    talk = fm.Deliberation(["intuitive", "reasoner", "critic"], tie_break="majority")
    for name, program, depth in (("ensemble of 4", panel, 1), ("deliberation of 3", talk, 3)):
        program.set_lm(lm)
        program(question="Where is the first one?", choices=CHOICES)
        began = time.perf_counter()
        for number in range(5):
            program(question=f"Where is {name} {number}?", choices=CHOICES)
        took = (time.perf_counter() - began) / 5
        share = depth * LATENCY / took
        row(f"critical path, {name}", f"{share:.1%}", "≥ 97%", share)


def single_flight(url: str) -> None:
    """64 equal requests at once reach the server once."""
    program = fm.SingleAgent("simple")
    program.set_lm(fm.lm("openai/m", api_base=url))

    async def ask() -> None:
        await asyncio.gather(*(program.acall(question="Same?", choices=CHOICES) for _ in range(64)))

    before = answered(url)
    run_sync(ask)
    row("64 equal requests reach the server", f"{answered(url) - before} time(s)", "1")


def warm_rerun(url: str, folder: Path) -> None:
    before = answered(url)
    program, lm = fm.SingleAgent("simple"), fm.lm("openai/m", api_base=url)
    for run in ("first", "second"):
        fm.evaluate(program, questions(64, "warm"), lm=lm, tracking=False, out=folder / run)
    row("calls of a warm rerun", str(answered(url) - before - 64), "0")


def prefix_reuse(url: str) -> None:
    """Share of prompt characters of a 3-agent, 3-round dialogue that repeat the longest earlier
    prefix.
    """
    from folkmoot.modules.agents import adapter

    prompts: list[str] = []
    said = (
        "This argument has about as many words as an agent of a deliberation gives in a turn. " * 6
    )
    program = fm.Deliberation(["intuitive", "reasoner", "critic"], tie_break="majority")
    turns = [
        {
            "agent": agent.name,
            "round": round,
            "answer": "ABC"[place],
            "text": f"{round} {agent.name}: {said}",
        }
        for round in (1, 2, 3)
        for place, agent in enumerate(program.agents)
    ]
    for number, turn in enumerate(turns):
        seat = program.seats()[str(turn["agent"])]
        inputs: dict[str, object] = {
            "question": "Where would you put a thing that you do not want anybody to find for a "
            "while?",
            "choices": CHOICES,
            "kind": "choice",
            "discussion": turns[:number] or None,
        }
        messages = adapter.ProfileAdapter().messages(seat.predict.signature, [], inputs)
        prompts.append("".join(text for _, text in messages))
    shared = sum(
        max((common(later, earlier) for earlier in prompts[:place]), default=0)
        for place, later in enumerate(prompts)
    )
    row("prompt that repeats an earlier prefix", f"{shared / sum(map(len, prompts)):.1%}", "≥ 75%")


def common(a: str, b: str) -> int:
    """How many characters two texts share at their start."""
    return next(
        (place for place, (x, y) in enumerate(zip(a, b, strict=False)) if x != y),
        min(len(a), len(b)),
    )


def faults(n: int) -> None:
    """10% of calls refused and 5% failed: what it costs, and that no row is lost."""
    took = {}
    for name, options in (("calm", []), ("faulty", ["--refuse=0.1", "--fail=0.05"])):
        with server(f"--latency={LATENCY}", *options) as url:
            lm = fm.lm("openai/m", api_base=url)
            began = time.perf_counter()
            result = fm.evaluate(
                fm.Deliberation(["intuitive", "reasoner"]),
                questions(n, name),
                lm=lm,
                tracking=False,
            )
            took[name] = time.perf_counter() - began
            if name == "faulty":
                counts = result.summary.counts
                row(
                    "10% 429 and 5% 5xx: rows lost or failed",
                    str(n - counts.rows + counts.errors),
                    "0",
                )
    row("10% 429 and 5% 5xx: slower by", f"{took['faulty'] / took['calm'] - 1:.0%}")


def memory() -> None:
    """Resident memory while evaluating 100,000 questions, over that with 1,000."""
    grown = {}
    for n in (1_000, 100_000):
        done = subprocess.run(
            [sys.executable, str(HERE / "memory.py"), str(n)],
            capture_output=True,
            text=True,
            check=True,
        )
        grown[n] = float(done.stdout)
    row(
        "memory, 100,000 questions over 1,000",
        f"{grown[100_000] - grown[1_000]:.0f} MB",
        "< 200 MB",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="only what takes seconds")
    parser.add_argument("--release", metavar="OF", help="keep the ratios as those of a release")
    given = parser.parse_args()
    fast = given.fast
    peers = [
        "dspy.Evaluate, 64 threads",
        "LiteLLM acompletion",
        "LangGraph, two agents",
        "inspect_ai",
    ]
    print(f"{'':46}{'measured':>22}{'target':>14}{'change':>8}")
    with tempfile.TemporaryDirectory() as folder, server(f"--latency={LATENCY}") as url:
        os.environ["FOLKMOOT_CACHE"] = folder
        if importlib.util.find_spec("langgraph") is None:
            peers.remove("LangGraph, two agents")
        engines(
            url,
            320 if fast else 1600,
            ["bare", "folkmoot", "folkmoot, tracked", "folkmoot, traced", *([] if fast else peers)],
        )
        critical_path(url)
        single_flight(url)
        warm_rerun(url, Path(folder))
    prefix_reuse("")
    if not fast:
        faults(800)
        memory()
    if given.release:
        keep_as_released(given.release)


if __name__ == "__main__":
    main()
