"""The checker on QuixBugs: every program fails as it is, and passes with its known repair."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from acting import done, needs_bwrap
from children import BARE

import folkmoot as fm
from folkmoot.pipelines.tasks.folder import NOTHING

DATA = Path(os.environ.get("FOLKMOOT_DATA") or "missing") / "code" / "quixbugs.jsonl"
BY_DAY = "gcd"

pytestmark = [
    needs_bwrap,
    pytest.mark.skipif(not DATA.exists(), reason="FOLKMOOT_DATA has no code/quixbugs.jsonl"),
]


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in DATA.read_text().splitlines()]


RUNS = (
    "import os, pathlib, subprocess, sys\n"
    "tests = sorted(map(str, pathlib.Path('python_testcases').glob('test_*.py')))\n"
    "paths = os.pathsep.join(['.', 'python_testcases'])\n"
    "env = {**os.environ, 'PYTHONPATH': paths, 'PYTEST_DISABLE_PLUGIN_AUTOLOAD': '1'}\n"
    "sys.exit(subprocess.call([sys.executable, '-m', 'pytest', '-q', '-p', 'no:cacheprovider',\n"
    "    *tests], env=env))\n"
)


def both(wanted: list[dict[str, Any]], folder: Path, seconds: float) -> None:
    script = folder / "check.py"
    script.write_text(RUNS)
    tasks = []
    for row in wanted:
        text = f"Repair the defect in python_programs/{row['id']}.py."
        given = {name: row[name] for name in ("id", "files", "tests")}
        tasks.append(fm.Question(question=text, kind="task", **given))
    corrected = {row["id"]: row["corrected"] for row in wanted}

    def repairs(question: fm.Question, folder: Path) -> None:
        (folder / f"python_programs/{question.id}.py").write_text(corrected[question.id])

    checked = fm.Check(f"{BARE} {script}", seconds=seconds)
    found = done(lambda question: NOTHING, tasks, check=checked, concurrency=2)
    assert {row["id"]: row["correct"] for row in found.rows} == dict.fromkeys(corrected, False)
    assert found.summary.counts.errors == 0
    repaired = done(repairs, tasks, check=checked, concurrency=2)
    wrong = {row["id"]: row["check"] for row in repaired.rows if not row["correct"]}
    assert wrong == {}


def test_one_fails_as_it_is_and_passes_when_repaired(tmp_path: Path) -> None:
    both([row for row in rows() if row["id"] == BY_DAY], tmp_path, 60)


@pytest.mark.nightly
def test_all_fail_as_they_are_and_pass_when_repaired(tmp_path: Path) -> None:
    assert len(rows()) == 40
    both(rows(), tmp_path, 40)
