"""What the tests of the wire run in processes of their own."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import resource
import socket
import time
from pathlib import Path
from typing import Any

from mortal import questions

import folkmoot as fm
from folkmoot.modules.base.calls import CallError
from folkmoot.pipelines.tracking.otlp import Exporter


def ten_calls_at_once(url: str, out: Path) -> None:
    """A run that has ten calls in flight."""
    lm = fm.lm("openai/x", api_base=url, price=(1e-6, 1e-6))
    fm.evaluate(
        fm.SingleAgent(),
        questions(80),
        lm=lm,
        out=out,
        concurrency=10,
        budget="100 calls",
        tracking=False,
    )


def answers_with_few_files(url: str, out: Path) -> tuple[int, list[str], int]:
    """Rows without error, what was said, and the limit on open files after it."""
    said: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    logging.getLogger("folkmoot").addHandler(Kept())
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 256))
    program = fm.SingleAgent(lm=fm.lm("openai/x", api_base=url, concurrency=300))
    result = fm.evaluate(program, questions(300), concurrency=300, out=out, tracking=False)
    answered = [row for row in result.rows if not row["error"]]
    return len(answered), said, resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def asks_anthropic(folder: Path) -> tuple[list[str], str]:
    """Which hosts are looked up when an LM of Anthropic's is asked, and what is printed."""
    reached: set[str] = set()
    look_up = socket.getaddrinfo

    def noted(host: Any, *given: Any, **options: Any) -> Any:
        reached.add(str(host))
        if host != "localhost":
            raise OSError("no network here")
        return look_up(host, *given, **options)

    socket.getaddrinfo = noted
    said = io.StringIO()
    os.environ["ANTHROPIC_API_KEY"] = "sk-canary-0c8f2d71ab"
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        lm = fm.lm("anthropic/claude-sonnet-4-5", api_base="http://localhost:9/v1")
        lm.engine.engine.max_retries = 0
        with contextlib.suppress(CallError):
            fm.SingleAgent(lm=lm)(question="Why?", choices={"A": "a", "B": "b"})
    return sorted(reached), said.getvalue()


def asks_collector(endpoint: str, seconds: float, megabytes: int) -> tuple[str | None, float]:
    """What a collector is said to answer, and after how long, with so much memory more than there
    is.
    """
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + megabytes * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    os.environ["OTEL_EXPORTER_OTLP_ENDPOINT"] = endpoint
    began = time.monotonic()
    os.environ["OTEL_EXPORTER_OTLP_TIMEOUT"] = str(seconds)
    exporter = Exporter()
    exporter.export(())
    return exporter.problem, time.monotonic() - began
