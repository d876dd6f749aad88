"""What the tests of the wire run in processes of their own."""

from __future__ import annotations

import logging
import resource
from pathlib import Path

from mortal import questions

import folkmoot as fm


def ten_calls_at_once(url: str, out: Path) -> None:
    """A run that has ten calls in flight."""
    lm = fm.lm("openai/x", api_base=url, price=(1e-6, 1e-6))
    fm.evaluate(
        fm.SingleAgent(), questions(80), lm=lm, out=out, concurrency=10, budget="100 calls", tracking=False
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
