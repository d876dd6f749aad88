"""What a user waits for: whole commands, until their first result and until they end.

`python benchmarks/waits.py` prints each wait with its target, which is for an idle machine, and its
seconds of CPU, which hold on a busy one, too; `--fast` only those of the speed table, each also as
a ratio to `import dspy`, whose change since the release is printed (`throughput.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from compileall import compile_dir
from pathlib import Path

from throughput import (  # type: ignore[import-not-found]
    CHOICES,
    keep_as_released,
    row,
    server,
)

import folkmoot

QUESTIONS = 120
FIRST = """
import folkmoot as fm
question = fm.Question(id="q", question="Where?", choices={"A": "here", "B": "there"}, answer="A")
lm = fm.lm("openai/m", api_base="URL")
fm.evaluate(fm.SingleAgent(), [question], lm=lm, tracking=False, cache=False)
"""


def waited(folder: Path, *words: str, code: str = "") -> tuple[float, float, float]:
    """Seconds until a command's first line on standard output, until its end, and of its CPU; or
    of a script.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, *(("-c", code) if code else ("-m", "folkmoot")), *words],
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
        raise SystemExit(f"{' '.join(words) or code} failed: run it by hand")
    return first, ended, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def of_the_table(folder: Path, url: str, asking: Sequence[str]) -> None:
    """The waits of the speed table; the shorter of two."""

    def shorter(*words: str, code: str = "") -> float:
        return min(waited(folder, *words, code=code)[1] for _ in range(2))

    dspy = shorter(code="import dspy")
    row("import dspy", f"{dspy:.2f} s")
    more = shorter(code=FIRST.replace("URL", url)) - dspy
    row("first fm.evaluate, less import dspy", f"{more:.2f} s", "≤ 0.3 s", more / dspy)
    for program in ("single:simple", "single:cot"):
        out = program.removeprefix("single:")
        waited(folder, "evaluate", program, *asking, "--no-track", "--out", out)
    for words, target in ((["--help"], "≤ 0.3 s"), (["compare", "simple", "cot"], "≤ 0.7 s")):
        took = shorter(*words)
        row(words[0], f"{took:.2f} s", target, took / dspy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast", action="store_true", help="only the waits of the speed table")
    parser.add_argument("--release", metavar="OF", help="keep the ratios as those of a release")
    given = parser.parse_args()
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
                f"{what}: end after it" if ends is not None else what,
                f"{ended - (first if ends else 0):.1f} s, CPU {cpu:.1f}",
                ends or target,
            )

        row("", "measured", "target")
        compile_dir(Path(folkmoot.__path__[0]), maxlevels=3, quiet=2)  # as pip does
        waited(folder, "--help")
        of_the_table(folder, url, asking)
        waited(folder, "evaluate", "single:simple", *asking, "--out", "first")  # makes the store
        tracked = ("evaluate", "single:simple", *asking, "--out", "tracked")
        many = f"{QUESTIONS} instant answers"
        show(f"{many}, tracked", "≤ 3 s", *tracked, ends="≤ 3 s")
        if given.release:
            keep_as_released(given.release)
        if given.fast:
            return
        show(
            "ask", "≤ 2 s", "ask", "single:simple", "Where?", "--choice=bank", "--choice=mall", *lm
        )
        show(many, "≤ 3 s", "evaluate", "single:cot", *asking, "--no-track", "--out", "again")
        show("report", "≤ 4 s", "report", "simple", "cot", "--out", "report.html")
        show("doctor", "≤ 3 s", "doctor")


if __name__ == "__main__":
    main()
