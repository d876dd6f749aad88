"""Modules that lie in the working folder are run by no process that a command starts."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import free_port, isolate, lm, question, write

from folkmoot.pipelines.testing.server import ScriptedServer

PLANTED = ("secrets", "mlflow", "pickle", "socket", "logging", "uvicorn", "fastapi", "optuna", "ray", "yaml")


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with modules that note that they were run."""
    isolate(tmp_path, monkeypatch)
    (tmp_path / "ran").mkdir()
    for name in PLANTED:
        note = f"open({str(tmp_path / 'ran' / name)!r}, 'w').close()"
        (tmp_path / f"{name}.py").write_text(f"{note}\nraise SystemExit('planted {name}')\n")
    (tmp_path / "bin").mkdir()
    # As the installed command does, it has its own folder first on the path, not the working folder.
    (tmp_path / "bin" / "command.py").write_text(
        "from folkmoot.pipelines.cli import main\n\nif __name__ == '__main__':\n    main()\n"
    )
    return tmp_path


@contextmanager
def running(folder: Path, *words: Any) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(folder / "bin" / "command.py"), *map(str, words)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    with subprocess.Popen(
        command, cwd=folder, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            yield process
        finally:
            process.terminate()


def check_ends(folder: Path, *words: Any) -> None:
    with running(folder, *words) as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    check_none_ran(folder)


def check_none_ran(folder: Path) -> None:
    assert not sorted(path.name for path in (folder / "ran").iterdir())


@pytest.mark.nightly
def test_workers_of_a_study_run_none(planted: Path, scripted: ScriptedServer) -> None:
    for name in ("train", "validation"):
        write(planted / f"{name}.jsonl", *(question(number, id=f"{name}-{number}") for number in range(6)))
    parts = ["--train", "train.jsonl", "--validation", "validation.jsonl"]
    how = ["--trials", 2, "--workers", 2, "--out", "study", "--no-track", "-y"]
    check_ends(planted, "tune", "single", *parts, *how, *lm(scripted))


@pytest.mark.nightly
def test_a_tracked_evaluation_with_traces_runs_none(planted: Path, scripted: ScriptedServer) -> None:
    source = write(planted / "questions.jsonl", *(question(number) for number in range(6)))
    check_ends(planted, "evaluate", "single:simple", "--data", source, "--traces", 1, *lm(scripted))


@pytest.mark.nightly
def test_the_ui_runs_none(planted: Path) -> None:
    port = free_port()
    with running(planted, "ui", "--port", port, "--json") as process:
        assert process.stdout is not None
        end, said = time.monotonic() + 180, ""
        while "url" not in said and process.poll() is None and time.monotonic() < end:
            said += process.stdout.readline()
        check_none_ran(planted)
        assert f":{port}" in said
