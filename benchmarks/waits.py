"""What a user waits for: whole commands, until their first result and until they end.

`python benchmarks/waits.py` prints each wait with its target, which is for an idle machine, and its
seconds of CPU, which hold on a busy one, too.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from compileall import compile_dir
from pathlib import Path

from throughput import CHOICES, row, server  # type: ignore[import-not-found]

import folkmoot

QUESTIONS = 120


def waited(folder: Path, *words: str) -> tuple[float, float, float]:
    """Seconds until a command's first line on standard output, until its end, and of its CPU."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-m", "folkmoot", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        first = time.perf_counter() - began
        process.communicate()
    ended = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode not in (0, 1):  # `doctor` ends with 1 where something is to be mended
        raise SystemExit(f"folkmoot {' '.join(words)} failed: run it by hand")
    return first, ended, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    with tempfile.TemporaryDirectory() as place, server("--latency=0") as url:
        folder = Path(place)
        os.environ["FOLKMOOT_CACHE"] = str(folder / "cache")
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder / 'mlflow.db'}"
        os.environ.setdefault("OPENAI_API_KEY", "none")
        lines = (
            {
                "id": str(i),
                "question": f"Where is number {i}?",
                "choices": CHOICES,
                "answer": "AB"[i % 2],
            }
            for i in range(QUESTIONS)
        )
        (folder / "questions.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        lm = ("--lm", "openai/m", "--api-base", url)
        asking = ("--data", "questions.jsonl", "--no-cache", "--quiet", *lm)

        def show(what: str, target: str, *words: str, ends: str | None = None) -> None:
            first, ended, cpu = waited(folder, *words)
            if ends is not None:
                row(f"{what}: result", f"{first:.1f} s", target)
            row(
                f"{what}: end" if ends is not None else what,
                f"{ended:.1f} s, CPU {cpu:.1f}",
                ends or target,
            )

        row("", "measured", "target")
        compile_dir(Path(folkmoot.__path__[0]), maxlevels=3, quiet=2)  # as pip does
        waited(folder, "--help")
        show("--help", "≤ 0.5 s", "--help")
        show(
            "ask", "≤ 2 s", "ask", "single:simple", "Where?", "--choice=bank", "--choice=mall", *lm
        )
        many = f"{QUESTIONS} instant answers"
        for program in ("single:simple", "single:cot"):
            out = ("--out", program.removeprefix("single:"))
            show(f"{many}, {program}", "≤ 3 s", "evaluate", program, *asking, "--no-track", *out)
        show("compare", "≤ 1.5 s", "compare", "simple", "cot")
        show("report", "≤ 4 s", "report", "simple", "cot", "--out", "report.html")
        waited(folder, "evaluate", "single:simple", *asking, "--out", "first")  # makes the store
        tracked = ("evaluate", "single:simple", *asking, "--out", "tracked")
        show(f"{many}, tracked", "≤ 3 s", *tracked, ends="≤ 5 s")
        show("doctor", "≤ 3 s", "doctor")


if __name__ == "__main__":
    main()
