"""HumanEval and QuixBugs as tasks whose answer is one file, `solution.py`.

    python benchmarks/coding_tasks.py FOLDER

writes `humaneval.jsonl` (164 functions to write) and `quixbugs.jsonl` (40 programs with one defect
each) below FOLDER, from `code/` of the folder which FOLKMOOT_DATA names. Both are MIT-licensed.
Check the answers with `CHECK`.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["CHECK", "humaneval", "quixbugs", "write_tasks"]

CHECK = "python check_solution.py"

WRITE = (
    "Complete this Python function. Reply with the whole file, imports included, in one code "
    "block.\n\n```python\n{}\n```"
)
REPAIR = (
    "This Python program has one defect. Find and repair it, and change nothing else. Reply with "
    "the whole file in one code block.\n\n```python\n{}\n```"
)

# What is laid beside the answer: a module that ends with 0 if the answer is right.
CHECK_FUNCTION = "from solution import {name}\n\n{test}\n\ncheck({name})\n"
CHECK_PROGRAM = """\
import os
import shutil
import subprocess
import sys

shutil.copy("solution.py", "python_programs/{name}.py")
paths = {{"PYTHONPATH": os.pathsep.join([".", "python_testcases"])}}
tests = "python_testcases/test_{name}.py"
command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests]
sys.exit(subprocess.call(command, env={{**os.environ, **paths}}))
"""


def rows(name: str) -> Iterator[dict[str, Any]]:
    path = Path(os.environ["FOLKMOOT_DATA"]) / "code" / f"{name}.jsonl"
    for line in path.read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


def humaneval() -> Iterator[dict[str, Any]]:
    for row in rows("humaneval"):
        check = CHECK_FUNCTION.format(name=row["entry_point"], test=row["test"].strip())
        yield {
            "id": row["id"],
            "question": WRITE.format(row["prompt"].strip()),
            "tests": {"check_solution.py": check},
        }


def quixbugs() -> Iterator[dict[str, Any]]:
    for row in rows("quixbugs"):
        name = row["id"]
        program = row["files"][f"python_programs/{name}.py"]
        check = {"check_solution.py": CHECK_PROGRAM.format(name=name)}
        yield {
            "id": name,
            "question": REPAIR.format(program.strip()),
            "files": row["files"],
            "tests": row["tests"] | check,
        }


def write_tasks(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, tasks in (("humaneval", humaneval()), ("quixbugs", quixbugs())):
        text = "".join(json.dumps(task) + "\n" for task in tasks)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    write_tasks(parser.parse_args().folder)
