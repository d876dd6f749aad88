"""What tests of the command line share: running it, here or as a child, and questions."""

import itertools
import json
import os
import socket
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from folkmoot.pipelines.cli import app as cli
from folkmoot.pipelines.testing.server import ScriptedServer

KEY = "sk-canary-7f3a9c"
SPEC = "deliberation:intuitive,reasoner:judge"
_DESCRIBED = cache(get_command)


def isolate(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working folder and cache, and none of this machine's settings and keys."""
    monkeypatch.chdir(folder)
    for name in list(os.environ):
        if name.endswith("_API_KEY") or name.startswith("FOLKMOOT_"):
            monkeypatch.delenv(name)
    for name in ("OPENAI_BASE_URL", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FOLKMOOT_CACHE", str(folder / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "own"))
    monkeypatch.setenv("FOLKMOOT_CALLS_MB", "0")


def folkmoot(*words: Any, code: int | None = None, text: str | None = None) -> Any:
    """What the command line does with these words, and a text in a pipe; the code that it ends
    with may be given.
    """
    given = [str(word) for word in words]
    # Each process describes the commands once; help leaves a mark on them.
    described = get_command if {"--help", "--help-all"} & {*given} else _DESCRIBED
    with patch("typer.testing._get_command", described):
        done = CliRunner().invoke(cli.app, given, input=text)
    assert code in (None, done.exit_code), done.output
    return done


def child(*words: Any) -> list[str]:
    start = "import sys; from folkmoot.pipelines.cli import main; sys.exit(main())"
    return [sys.executable, "-c", start, *map(str, words)]


# Each process has some of its own, below those that the system gives to whoever asks for any.
_PORTS = itertools.count(20_000 + 31 * os.getpid() % 12_000)
_HELD: list[socket.socket] = []


def free_port() -> int:
    """A port for a server to come; where nobody may answer, take `closed_port`."""
    for port in _PORTS:
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            break
    return port


def closed_port() -> int:
    """A port that refuses connections; it stays ours, so that no other test's server takes it."""
    held = socket.socket()
    held.bind(("127.0.0.1", 0))
    _HELD.append(held)
    return int(held.getsockname()[1])


def lm(server: ScriptedServer) -> list[str]:
    return ["--lm", "openai/scripted", "--api-base", server.url]


def evaluate(
    server: ScriptedServer, source: Any, *words: Any, program: str = "single:simple", **how: Any
) -> Any:
    return folkmoot("evaluate", program, "--data", source, *lm(server), "--no-track", *words, **how)


def question(number: int, **fields: Any) -> dict[str, Any]:
    choices = {"A": "a flask", "B": "a sieve", "C": "a net"}
    row: dict[str, Any] = {"id": f"q{number}", "question": f"What holds soup {number}?"}
    row |= {"choices": choices, "answer": "A"}
    return row | fields


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def ten_questions(folder: Path) -> Path:
    rows = (question(number, answer="AB"[number % 2]) for number in range(10))
    return write(folder / "questions.jsonl", *rows)


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
