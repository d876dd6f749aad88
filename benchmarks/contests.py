"""The recorded contests of embedded LMs, one after the other, the cheapest first; hours on two cores.

    nice -n 19 python benchmarks/contests.py runs/contests --threads 1

Every contest is a run folder `DIR/NAME` with its calls in `DIR/NAME.calls`, for `--lm replay/DIR/NAME.calls`.
Started again it goes on where it was stopped: what is done is not asked again. `DIR/times.jsonl` has a line
for each start: seconds, exit code, and the machine's load before and after. `--only PART` runs the contests
whose names hold PART, `--list` shows the commands, `--pack TO` puts what is finished into archives under TO:
rows, calls, and the questions, so that `folkmoot evaluate … --data NAME/questions.jsonl --lm replay/NAME`
gives the same rows without a call.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shlex
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path

LARGE, SMALL, GEMMA = "local/qwen2.5-coder-1.5b", "local/qwen2.5-coder-0.5b", "local/gemma-3-270m"
TALK = "deliberation:intuitive,reasoner:judge"
BLIND = ("--set", "opening=blind")
# Three samples cost about what a dialogue does; `compare --match-budget` has the exact number.
SAMPLES = ("single:self_consistency", "--set", "samples=3")
UNLIKE = ("ensemble:simple,cot,few_shot:majority", "--lm", f"cot={SMALL}", "--lm", f"few_shot={GEMMA}")
MIXED = ("--lm", f"intuitive={SMALL}")
CORPUS = ("--set", "environment=corpus:{data}/hotpotqa-corpus.jsonl")

# Name, LM, data, split, questions, then the program with its options.
CONTESTS: tuple[tuple[str, str, str, str, int, tuple[str, ...]], ...] = (
    ("csqa-small-simple", SMALL, "commonsenseqa", "validation", 200, ("single:simple",)),
    ("csqa-simple", LARGE, "commonsenseqa", "validation", 100, ("single:simple",)),
    ("arc-simple", LARGE, "arc-challenge", "test", 60, ("single:simple",)),
    ("csqa-cot", LARGE, "commonsenseqa", "validation", 100, ("single:cot",)),
    ("arc-cot", LARGE, "arc-challenge", "test", 60, ("single:cot",)),
    ("scienceqa-cot", LARGE, "scienceqa", "test", 50, ("single:cot",)),
    ("gsm8k-cot", LARGE, "gsm8k", "test", 50, ("single:cot",)),
    ("csqa-unlike", LARGE, "commonsenseqa", "validation", 100, UNLIKE),
    ("csqa-blind", LARGE, "commonsenseqa", "validation", 100, (TALK, *BLIND)),
    ("csqa-talk", LARGE, "commonsenseqa", "validation", 100, (TALK,)),
    ("csqa-blind-mixed", LARGE, "commonsenseqa", "validation", 100, (TALK, *BLIND, *MIXED)),
    ("arc-blind", LARGE, "arc-challenge", "test", 60, (TALK, *BLIND)),
    ("csqa-small-cot", SMALL, "commonsenseqa", "validation", 200, ("single:cot",)),
    ("csqa-small-blind", SMALL, "commonsenseqa", "validation", 200, (TALK, *BLIND)),
    ("csqa-small-talk", SMALL, "commonsenseqa", "validation", 200, (TALK,)),
    ("csqa-small-samples", SMALL, "commonsenseqa", "validation", 200, SAMPLES),
    ("gsm8k-talk", LARGE, "gsm8k", "test", 50, (TALK,)),
    ("gsm8k-samples", LARGE, "gsm8k", "test", 50, SAMPLES),
    ("csqa-samples", LARGE, "commonsenseqa", "validation", 100, SAMPLES),
    ("gsm8k-causal", LARGE, "gsm8k", "test", 50, ("causal:R2E1",)),
    ("scienceqa-causal", LARGE, "scienceqa", "test", 50, ("causal:R2E1",)),
    ("hotpot-bold", LARGE, "hotpotqa", "validation", 25, ("team:bold", "--set", "max_retries=0", *CORPUS)),
    ("hotpot-team", LARGE, "hotpotqa", "validation", 25, ("team:bold,cautious", *CORPUS)),
)

PACKED = ("run.json", "lms.json", "results.jsonl", "summary.json", "calls.jsonl", "incomplete.jsonl")


def commands(folder: Path, threads: int, only: str) -> Iterator[tuple[str, list[str]]]:
    data = os.environ.get("FOLKMOOT_DATA", ".")
    for name, lm, questions, split, limit, (program, *options) in CONTESTS:
        if only in name:
            out = folder / name
            yield (
                name,
                [
                    *("evaluate", program, *(one.format(data=data) for one in options), "--lm", lm),
                    *("--data", questions, "--split", split, "--limit", str(limit), "--seed", "1"),
                    # One question after the other: its seats share the beginning of what the LM reads.
                    *("--threads", str(threads), "--concurrency", "1", "--no-track", "--yes", "--json"),
                    *("--out", str(out), "--record", f"{out}.calls"),
                ],
            )


def pack(run: Path, archive: Path) -> None:
    """The finished run in `run` as an archive whose bytes depend on the files alone."""
    rows = [json.loads(line) for line in (run / "results.jsonl").read_text(encoding="utf-8").splitlines()]
    fields = {"id": "id", "question": "question", "choices": "choices", "answer": "gold"}
    questions = [{name: row[field] for name, field in fields.items()} for row in rows]
    files = {name: (run / name).read_bytes() for name in PACKED if (run / name).exists()}
    files["questions.jsonl"] = "".join(json.dumps(one) + "\n" for one in questions).encode()
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{run.name}/{name}")
            entry.size, entry.mode = len(content), 0o644
            tar.addfile(entry, io.BytesIO(content))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="", help="part of the names")
    parser.add_argument(
        "--pack", type=Path, metavar="TO", help="make archives of finished contests, run none"
    )
    parser.add_argument("--list", action="store_true", help="show the commands")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.pack:
        options.pack.mkdir(parents=True, exist_ok=True)
        for summary in sorted(options.folder.glob(f"*{options.only}*/summary.json")):
            pack(summary.parent, options.pack / f"{summary.parent.name}.tar.xz")
        return 0
    failed = 0
    for name, command in commands(options.folder, options.threads, options.only):
        print(time.strftime("%H:%M:%S"), name, "folkmoot", shlex.join(command), flush=True)
        if options.list:
            continue
        began, load = time.time(), os.getloadavg()
        starter = "from folkmoot.pipelines.cli import main; main()"
        code = subprocess.run([sys.executable, "-c", starter, *command], check=False).returncode
        if code == 130:  # Ctrl-C
            return code
        failed += code != 0
        took = {"name": name, "began": round(began), "seconds": round(time.time() - began, 1), "code": code}
        took |= {"load_before": [round(one, 1) for one in load], "load_after": os.getloadavg()}
        with (options.folder / "times.jsonl").open("a") as file:
            file.write(json.dumps(took) + "\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
