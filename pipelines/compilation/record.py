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
from ..base.journal import Journal, records

CANDIDATES, PROPOSALS, LOG, PROMPTS = (
    "candidates.jsonl",
    "proposals.jsonl",
    "optimizer.log",
    "prompts.md",
)


class Lines:
    """A journal with one line a name, the first one that was written. Thread-safe; raises as
    `Journal`.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self.known: dict[str, dict[str, Any]] = {}
        for found in records(path, (name,)):
            self.known.setdefault(str(found[name]), found)
        self._journal = Journal(path)
        self.close = self._journal.close

    def add(self, row: Mapping[str, Any]) -> bool:
        """Append a row, unless there is one of its name; whether it was appended."""
        name = str(row[self._name])
        with self._lock:
            if name in self.known:
                return False
            self._journal.append(row)
            self.known[name] = dict(row)
        return True


class Proposals:
    """What the prompt LM proposed, by the hash of the request."""

    def __init__(self, folder: Path) -> None:
        self._lines = Lines(folder / PROPOSALS, "key")
        self.close = self._lines.close

    def get(self, key: str) -> str | None:
        found = self._lines.known.get(key)
        return None if found is None else str(found["text"])

    def put(self, key: str, text: str) -> None:
        self._lines.add({"key": key, "text": text})


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


def prompts_page(title: str, prompts: Mapping[str, Mapping[str, Any]]) -> str:
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
