"""The scripts in examples/ run to their end, in a child process, and leave what they say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import folkmoot as fm
from folkmoot.pipelines.testing.server import ScriptedServer

EXAMPLES = Path(fm.__file__).parent / "examples"


def run(name: str, folder: Path, *words: Any) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    store = f"sqlite:///{folder.parent}/examples.db"  # one for all of them, because making one takes seconds
    return subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, words)],
        cwd=folder,
        env=kept | {"FOLKMOOT_CACHE": str(folder / "cache"), "MLFLOW_TRACKING_URI": store, "COLUMNS": "160"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def asked(name: str, folder: Path, server: ScriptedServer, *words: Any) -> str:
    done = run(name, folder, "--lm", "openai/scripted", "--api-base", server.url, *words)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {"demo.py", "improve.py", "tune.py"}


def test_improve(tmp_path: Path, scripted: ScriptedServer) -> None:
    said = asked("improve.py", tmp_path, scripted, "--limit", 6)
    folder = tmp_path / "runs/improve/openai/scripted-6-questions"
    assert "verdict: " in said
    assert "before: " in said
    assert "after: " in said
    assert fm.load_program(folder / "saved").describe()["program"] == "single"
    assert len((folder / "evaluated-after/results.jsonl").read_text().splitlines()) == 6
    made = len(scripted.bodies)
    assert asked("improve.py", tmp_path, scripted, "--limit", 6) == said
    assert len(scripted.bodies) == made


def test_tune(tmp_path: Path, scripted: ScriptedServer) -> None:
    said = asked("tune.py", tmp_path, scripted, "--limit", 4)
    folder = tmp_path / "runs/tune/openai/scripted-4-questions"
    assert said.count("%  {'roles'") == 6
    assert "verdict: " in said
    assert fm.load_program(folder / "saved").describe()["program"] == "deliberation"
    page = (folder / "report.html").read_text()
    assert "winner" in page
    assert "default" in page


def test_demo(tmp_path: Path, scripted: ScriptedServer) -> None:
    said = asked("demo.py", tmp_path, scripted, "--limit", 4)
    assert "Verdict" in said
    for name in ("one agent, 4 examples", "panel of three", "two agents, judge"):
        assert name in said
    assert "The right answer is" in said
    assert len(list(tmp_path.glob("runs/demo/**/results.jsonl"))) == 4


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    done = run("improve.py", tmp_path, "--lm", "nonsense")
    assert done.returncode == 1
    assert done.stderr.startswith("folkmoot: 'nonsense' is no LM name")
    assert len(done.stderr.splitlines()) == 1
