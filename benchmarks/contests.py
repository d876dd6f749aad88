"""The recorded contests of embedded LMs, one after the other, the cheapest first; hours on two
cores.

    nice -n 19 python benchmarks/contests.py runs/contests --threads 1

Every contest is a run folder `DIR/NAME` with its calls in `DIR/NAME.calls`, for `--lm
replay/DIR/NAME.calls`. Started again it goes on where it was stopped: what is done is not asked
again. `DIR/times.jsonl` has a line for each start: seconds, exit code, and the machine's load
before and after. `--only PART` runs the contests whose names hold PART, `--list` shows the
commands, `--pack TO` puts what is finished into archives under TO: rows, calls, and the questions,
so that `folkmoot evaluate … --data NAME/questions.jsonl --lm replay/NAME` gives the same rows
without a call. Questions that may not be passed on are left out.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from coding_tasks import CHECK, write_tasks  # type: ignore[import-not-found]

import folkmoot as fm
from folkmoot.pipelines.data.sampling import sample

LARGE, SMALL, GEMMA = "local/qwen2.5-coder-1.5b", "local/qwen2.5-coder-0.5b", "local/gemma-3-270m"
TALK = "deliberation:intuitive,reasoner:judge"
BLIND = ("--set", "opening=blind")
# Three samples cost about what a dialogue does; `compare --match-budget` has the exact number.
SAMPLES = ("single:self_consistency", "--set", "samples=3")
PROBABLY = ("single:simple", "--lm-set", "logprobs=true")
ONCE = ("--set", "samples=1", "--temperature", "0")
UNLIKE = (
    "ensemble:simple,cot,few_shot:majority",
    "--lm",
    f"cot={SMALL}",
    "--lm",
    f"few_shot={GEMMA}",
)
MIXED = ("--lm", f"intuitive={SMALL}")
PAGES = "environment=record:{folder}/{name}.pages.jsonl:corpus:{data}/hotpotqa-corpus.jsonl"
STEPS = ("--set", "max_steps=5", "--set", PAGES)
FINDABLE = "{folder}/hotpotqa.jsonl"
WRITE, REPAIR = "{folder}/tasks/humaneval.jsonl", "{folder}/tasks/quixbugs.jsonl"
CODED = ("--check", CHECK, "--answer-file", "solution.py", "--max-tokens", "600")
PICKED = ("ensemble:simple:pick", "--set", "samples=3")
REVIEWED = (
    "deliberation:coder,reviewer:pick",
    "--roles",
    "{folder}/roles.yaml",
    "--set",
    "max_rounds=1",
)
ROLES = """\
coder:
  instruction: >-
    You write the program. Read what the reviewer says of your last version, mend what is wrong, and
    reply with the whole file in one code block.
  outputs: {answer: the whole file in one code block}
reviewer:
  instruction: >-
    You review the program. Run its examples in your head, name what fails, and reply with the whole
    corrected file in one code block.
  outputs: {answer: the whole file in one code block}
"""


def learn(train: int, held_out: int, name: str = "validation") -> tuple[str, ...]:
    """Options for so many training questions and so many others that judge what was learnt from
    them.
    """
    data, judged = "commonsenseqa", f"--{name}"
    limits = ("--train-limit", str(train), f"{judged}-limit", str(held_out))
    return (
        "--train",
        data,
        "--train-split",
        "train",
        judged,
        data,
        f"{judged}-split",
        "validation",
        *limits,
    )


# Name, LM, data, split, questions, then the program with its options.
CONTESTS: tuple[tuple[str, str, str, str, int, tuple[str, ...]], ...] = (
    ("csqa-small-simple", SMALL, "commonsenseqa", "validation", 200, ("single:simple",)),
    ("csqa-simple", LARGE, "commonsenseqa", "validation", 100, ("single:simple",)),
    ("arc-simple", LARGE, "arc-challenge", "test", 60, ("single:simple",)),
    ("csqa-cot", LARGE, "commonsenseqa", "validation", 100, ("single:cot",)),
    ("arc-cot", LARGE, "arc-challenge", "test", 60, ("single:cot",)),
    ("scienceqa-cot", LARGE, "scienceqa", "test", 50, ("single:cot",)),
    ("gsm8k-cot", LARGE, "gsm8k", "test", 50, ("single:cot",)),
    ("gsm8k-worked", LARGE, "gsm8k", "test", 50, ("single:cot",)),
    ("csqa-probability", LARGE, "commonsenseqa", "validation", 100, PROBABLY),
    ("csqa-worked", LARGE, "commonsenseqa", "validation", 100, ("single:cot",)),
    ("csqa-small-worked", SMALL, "commonsenseqa", "validation", 100, ("single:cot",)),
    ("csqa-small-samples-worked", SMALL, "commonsenseqa", "validation", 100, SAMPLES),
    ("gsm8k-complexity", LARGE, "gsm8k", "test", 50, ("single:complexity", *ONCE)),
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
    ("csqa-controls", LARGE, "commonsenseqa", "validation", 100, (TALK, *BLIND)),
    ("gsm8k-controls", LARGE, "gsm8k", "test", 50, (TALK, *BLIND)),
    ("gsm8k-samples", LARGE, "gsm8k", "test", 50, SAMPLES),
    ("csqa-samples", LARGE, "commonsenseqa", "validation", 100, SAMPLES),
    ("gsm8k-causal", LARGE, "gsm8k", "test", 50, ("causal:R2E1",)),
    ("scienceqa-causal", LARGE, "scienceqa", "test", 50, ("causal:R2E1",)),
    ("hotpot-bold", LARGE, FINDABLE, "", 25, ("team:bold", "--set", "max_retries=0", *STEPS)),
    (
        "hotpot-team",
        LARGE,
        FINDABLE,
        "",
        25,
        ("team:bold,cautious", "--set", "max_retries=1", *STEPS),
    ),
    ("humaneval-alone", LARGE, WRITE, "", 16, ("single:simple", *CODED)),
    ("quixbugs-alone", LARGE, REPAIR, "", 8, ("single:simple", *CODED)),
    ("humaneval-picked", LARGE, WRITE, "", 16, (*PICKED, *CODED)),
    ("humaneval-reviewed", LARGE, WRITE, "", 16, (*REVIEWED, *CODED)),
    ("quixbugs-picked", LARGE, REPAIR, "", 8, (*PICKED, *CODED)),
    ("quixbugs-reviewed", LARGE, REPAIR, "", 8, (*REVIEWED, *CODED)),
)

# What learns, from the training questions of CommonsenseQA: name, LM, command, then its program and
# options.
ROUNDS = ("--set", "max_rounds=[1,2,3]", "--set", "tie_break=[judge,majority]")
ORDERS = ("--set", "roles=[[intuitive,reasoner],[reasoner,intuitive]]")
TALKERS, GRID = "deliberation:intuitive,reasoner", ("--sampler", "grid", "--trials")
# What the same calls buy: prompts, structure, or both. A reply that runs away is cut off; the
# temperature stays, as every other one would have prompts of its own to compile.
SHORT = ("--max-tokens", "160", "--budget", "300 calls")
COLD = ("--set", "sampling.temperature=null")
AGENTS = ("--set", "agents=3", "--lm", f"agent.1={SMALL}", "--lm", f"agent.2={GEMMA}")
WAYS = ("--set", "strategies=[simple,cot]", "--embedding", "all-MiniLM-L6-v2")
STUDIES: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (
        "csqa-small-bootstrap",
        SMALL,
        "compile",
        ("single:simple", "--optimizer", "bootstrap_rs", *learn(100, 200)),
    ),
    (
        "csqa-small-mipro",
        SMALL,
        "compile",
        ("single:simple", "--optimizer", "mipro", *learn(100, 200)),
    ),
    (
        "csqa-bootstrap",
        LARGE,
        "compile",
        ("single:simple", "--optimizer", "bootstrap_rs", *learn(60, 100)),
    ),
    (
        "csqa-tuned",
        LARGE,
        "tune",
        (
            "deliberation",
            *BLIND,
            *ROUNDS,
            *ORDERS,
            *GRID,
            "12",
            *learn(40, 60),
        ),
    ),
    (
        "csqa-small-joint",
        SMALL,
        "tune",
        (
            TALKERS,
            "--compile",
            "bootstrap",
            *BLIND,
            *ROUNDS,
            *COLD,
            *GRID,
            "12",
            *SHORT,
            *learn(16, 16),
        ),
    ),
    (
        "csqa-small-prompts",
        SMALL,
        "compile",
        (TALK, "--optimizer", "bootstrap", *BLIND, *SHORT, *learn(16, 16)),
    ),
    (
        "csqa-small-structure",
        SMALL,
        "tune",
        (TALKERS, *BLIND, *ROUNDS, *COLD, *GRID, "6", *SHORT, *learn(16, 16)),
    ),
    ("csqa-network", LARGE, "train", ("network", *AGENTS, *WAYS, *learn(80, 100, "test"))),
)

# What `folkmoot try` says: name, LM, data, split, questions.
TRIES: tuple[tuple[str, str, str, str, int], ...] = (
    ("try-small-csqa", SMALL, "commonsenseqa", "validation", 60),
    ("try-small-arc", SMALL, "arc-challenge", "test", 40),
    ("try-small-gsm8k", SMALL, "gsm8k", "test", 24),
    ("try-csqa", LARGE, "commonsenseqa", "validation", 24),
    ("try-arc", LARGE, "arc-challenge", "test", 24),
    ("try-gsm8k", LARGE, "gsm8k", "test", 20),
)

PACKED = (
    "contest.json",
    "run.json",
    "results.jsonl",
    "summary.json",
    ".folkmoot/lms.json",
    ".folkmoot/calls.jsonl",
)
LEARNT = (
    "compile.json",
    "controls.json",
    "study.json",
    "program.json",
    "prompts.md",
    "network.json",
    "tensors.safetensors",
)
ENDED = ("summary.json", "after/*/summary.json", "winner/program.json", "program/program.json")
# ScienceQA is CC BY-NC-SA 4.0. Tasks would come with their tests; `coding_tasks.py` makes them.
UNSHIPPED = ("scienceqa-", "humaneval-", "quixbugs-")
BLANK: dict[str, Any] = {"question": "", "choices": {}, "meta": {}}
FOLDERS = (".", "program", "before", "after/*", "winner", "validation/*", "runs/*")
ARMS = ("controls", "controls/arms/*")


def commands(folder: Path, threads: int, only: str) -> Iterator[tuple[str, list[str]]]:
    data = os.environ.get("FOLKMOOT_DATA", ".")
    # One question after the other: its seats share the beginning of what the LM reads.
    alone = ("--threads", str(threads), "--concurrency", "1", "--no-track", "--yes", "--json")
    rest = ("--seed", "1", *alone)
    for name, lm, questions, split, limit, (program, *options) in CONTESTS:
        if only in name:
            places = {"data": data, "folder": folder, "name": name}
            given = (option.format(**places) for option in options)
            asked = (*given, "--lm", lm, "--data", questions.format(**places))
            sizes = (*(("--split", split) if split else ()), "--limit", str(limit))
            out = ("--out", str(folder / name), "--record", f"{folder / name}.calls")
            yield name, ["evaluate", program, *asked, *sizes, *rest, *out]
            if name.endswith("-controls"):
                yield name, ["controls", str(folder / name), "--lm", lm, "--arms", "none", *alone]
    for name, lm, command, (program, *options) in STUDIES:
        if only in name:
            yield name, [command, program, *options, "--lm", lm, *rest, "--out", str(folder / name)]
    for name, lm, questions, split, limit in TRIES:
        if only in name:
            asked = ("--split", split, "--limit", str(limit), "--lm", lm)
            yield name, ["try", questions, *asked, *rest, "--out", str(folder / name)]


def findable(path: Path, count: int = 25) -> None:
    """So many questions of HotpotQA whose evidence is in the corpus, half of each type, as
    a file.
    """
    known = [
        one for one in fm.load("hotpotqa-context", "validation") if one.meta["support_in_corpus"]
    ]
    drawn = sample(known, count, 1, balance="type")
    fields = ("id", "question", "answer", "kind")
    path.write_bytes(lines([{name: getattr(one, name) for name in fields} for one in drawn]))


def pack(run: Path, archive: Path) -> None:
    """The finished run or study in `run` as an archive whose bytes depend on files and their times
    alone.
    """
    found = [
        path
        for folder in (*FOLDERS, *ARMS)
        for name in (*PACKED, *LEARNT)
        for path in run.glob(f"{folder}/{name}")
    ]
    files = {}
    for path in found:
        place = path.relative_to(run)
        # What a compilation's result was judged in is called by the program's hash.
        name = f"after/{path.name}" if place.parts[0] == "after" else place.as_posix()
        files[name] = path.read_bytes()
        if path.suffix == ".json":  # which may say where the run was made
            files[name] = located(files[name].decode(), run).encode()
    ended = int(max(path.stat().st_mtime for path in found))
    pages = run.with_name(f"{run.name}.pages.jsonl")
    if pages.exists():
        files["pages.jsonl"] = pages.read_bytes()
    if asked := [one for one in TRIES if one[0] == run.name]:
        ((_, _, data, split, limit),) = asked
        drawn = sample(fm.load(data, split), limit, 1)
        asked_for = ("id", "question", "choices", "answer", "kind", "meta")
        files["questions.jsonl"] = lines(
            [{name: getattr(one, name) for name in asked_for} for one in drawn]
        )
        write(archive, run.name, files, ended)
        return
    held_out = next(path for path in found if path.name == "results.jsonl")
    rows = [json.loads(line) for line in held_out.read_text(encoding="utf-8").splitlines()]
    if run.name.startswith(UNSHIPPED):
        rows = [row | BLANK for row in rows]
        files["results.jsonl"] = lines(rows)
    else:
        fields = {
            "id": "id",
            "question": "question",
            "choices": "choices",
            "answer": "gold",
            "kind": "kind",
        }
        questions = [{name: row[field] for name, field in fields.items()} for row in rows]
        files["questions.jsonl"] = lines(questions)
    write(archive, run.name, files, ended)


def write(archive: Path, name: str, files: Mapping[str, bytes], ended: int) -> None:
    """Files of a folder as an archive, all with the time at which it ended."""
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for place, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{name}/{place}")
            entry.size, entry.mode, entry.mtime = len(content), 0o644, ended
            tar.addfile(entry, io.BytesIO(content))


def located(text: str, run: Path) -> str:
    """JSON of a run with the archive's own files in place of this machine's."""
    text = text.replace(FINDABLE.format(folder=run.parent), f"{run.name}/questions.jsonl")
    text = re.sub(r'environment=record:[^"]*', f"environment=replay:{run.name}/pages.jsonl", text)
    return text.replace(f"{run.parent}/", "")


def lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
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
        for name, _ in commands(options.folder, options.threads, options.only):
            if any(any((options.folder / name).glob(ended)) for ended in ENDED):
                pack(options.folder / name, options.pack / f"{name}.tar.xz")
        return 0
    failed = 0
    for name, command in commands(options.folder, options.threads, options.only):
        print(time.strftime("%H:%M:%S"), name, "folkmoot", shlex.join(command), flush=True)
        if options.list:
            continue
        if name.startswith("hotpot-"):
            findable(Path(FINDABLE.format(folder=options.folder)))
        if name.startswith(("humaneval-", "quixbugs-")):
            write_tasks(options.folder / "tasks")
            (options.folder / "roles.yaml").write_text(ROLES, encoding="utf-8")
        began, load = time.time(), os.getloadavg()
        starter = "from folkmoot.pipelines.cli import main; main()"
        code = subprocess.run([sys.executable, "-c", starter, *command], check=False).returncode
        if code == 130:  # Ctrl-C
            return code
        failed += code != 0
        took = {
            "name": name,
            "began": round(began),
            "seconds": round(time.time() - began, 1),
            "code": code,
        }
        took |= {"load_before": [round(one, 1) for one in load], "load_after": os.getloadavg()}
        with (options.folder / "times.jsonl").open("a") as file:
            file.write(json.dumps(took) + "\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
