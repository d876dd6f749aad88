"""What a compilation keeps in its folder beside calls: proposals, candidates, prompts to read, a
log.
"""

from __future__ import annotations

import json
import logging
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from ...modules.base.fence import clean
from ...optimizers.prompts.candidates import PromptFields
from ..base.journal import Journal, records

CANDIDATES, PROPOSALS, LOG, PROMPTS = (
    "candidates.jsonl",
    "proposals.jsonl",
    "optimizer.log",
    "prompts.md",
)


class Lines:
    """A journal with one line for each key, the first one that was written. Thread-safe; raises as
    `Journal`.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self.rows: dict[str, dict[str, Any]] = {}
        for row in records(path, ("key",)):
            self.rows.setdefault(str(row["key"]), row)
        self._journal = Journal(path)
        self.close = self._journal.close

    def add(self, row: dict[str, object]) -> None:
        """Append a row, unless there is one with its key."""
        with self._lock:
            if self.rows.setdefault(str(row["key"]), row) is row:
                self._journal.append(row)


class Proposals(Lines):
    """What the prompt LM proposed, by the hash of the request."""

    def get(self, key: str) -> str | None:
        row = self.rows.get(key)
        return None if row is None else str(row["text"])

    def put(self, key: str, text: str) -> None:
        self.add({"key": key, "text": text})


@contextmanager
def logged(folder: Path) -> Iterator[None]:
    """Send what DSPy's optimizers print, draw and log to `optimizer.log`: they do a lot of all
    three.
    """
    with open(folder / LOG, "a", encoding="utf-8", errors="backslashreplace", buffering=1) as log:
        handler = logging.StreamHandler(log)
        changed: list[tuple[logging.Logger, list[logging.Handler], bool]] = []
        for name in ("dspy", "optuna", "gepa"):
            logger = logging.getLogger(name)
            changed.append((logger, logger.handlers[:], logger.propagate))
            logger.handlers, logger.propagate = [handler], False
        try:
            with redirect_stdout(log), redirect_stderr(log), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield
        finally:
            for logger, handlers, propagate in changed:
                logger.handlers, logger.propagate = handlers, propagate


def prompts_page(title: str, prompts: Mapping[str, PromptFields]) -> str:
    """Instructions and demonstrations by predictor, in Markdown; what LMs wrote stands in code
    blocks.
    """
    parts = [f"# {title}\n"]
    for name, prompt in prompts.items():
        parts.append(f"## {name}\n\n{_block(prompt['instructions'])}")
        for place, demo in enumerate(prompt["demos"], start=1):
            shown = json.dumps(demo, ensure_ascii=False, indent=2, default=str)
            parts.append(f"Demonstration {place}\n\n{_block(shown, 'json')}")
    return "\n".join(parts)


def _block(text: str, language: str = "") -> str:
    text = clean(text)
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}\n"
