"""The files of a compilation's folder other than calls: proposals, candidates, prompts to read, a
log.
"""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TextIO

from ...modules.base.fence import clean
from ...optimizers.prompts.candidates import PromptFields
from ..base.journal import Journal, records
from ..base.run_files import books_of

CANDIDATES, PROPOSALS, LOG = "candidates.jsonl", "proposals.jsonl", "optimizer.log"


class Lines:
    """A journal with one line for each key, the first one that was written. Thread-safe; raises as
    `Journal`.
    """

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        # By key, so that a resumed attempt writes no row twice.
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


class _ByThread(io.TextIOBase):
    """A stream that writes what some threads print to logs of theirs, what an optimizer prints in
    threads of its own to the latest log, and all else to the stream that it stands for, if any.
    """

    logs: ClassVar[dict[int, TextIO]] = {}

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream

    def _target(self) -> TextIO | None:
        log = self.logs.get(threading.get_ident())
        if log is None and (self.stream is None or _in_optimizer()):
            log = next(reversed(list(self.logs.values())), None)
        return log or self.stream

    def write(self, text: str) -> int:
        target = self._target()
        return len(text) if target is None else target.write(text)

    def flush(self) -> None:
        target = self._target()
        if target is not None:
            target.flush()


_LOGGERS = ("dspy", "optuna", "gepa")


def _in_optimizer() -> bool:
    """Return whether this thread runs code that an optimizer called."""
    frame = sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]
        if str(frame.f_globals.get("__name__")).partition(".")[0] in _LOGGERS:
            return True
    return False


_ROUTING = threading.Lock()
_BEFORE: list[Callable[[], None]] = []
"""What undoes the routing, once no compilation is left."""


def _route() -> None:
    """Let what optimizers print and log find the log of its thread."""
    # Both streams and the loggers belong to the whole process: what other threads print, such as
    # the progress of this compilation, has to pass through unchanged.
    streams = sys.stdout, sys.stderr
    ours = _ByThread(sys.stdout), _ByThread(sys.stderr)
    sys.stdout, sys.stderr = ours

    def restore() -> None:
        for name, own, stream in zip(("stdout", "stderr"), ours, streams, strict=True):
            if getattr(sys, name) is own:  # else somebody has set it since
                setattr(sys, name, stream)

    _BEFORE.append(restore)
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        _BEFORE.append(partial(_set_logger, logger, logger.handlers[:], logger.propagate))
        _set_logger(logger, [logging.StreamHandler(_ByThread())], False)


def _set_logger(logger: logging.Logger, handlers: list[logging.Handler], propagate: bool) -> None:
    logger.handlers, logger.propagate = handlers, propagate


@contextmanager
def logged(folder: Path) -> Iterator[None]:
    """Send what DSPy's optimizers print, draw and log in this thread to `optimizer.log`: they do a
    lot of all three. Several compilations may run at once, each in a thread of its own.
    """
    # Written line by line, so that it can be followed while the optimizer works.
    with open(
        books_of(folder) / LOG, "a", encoding="utf-8", errors="backslashreplace", buffering=1
    ) as log:
        with _ROUTING:
            if not _ByThread.logs:
                _route()
            _ByThread.logs[threading.get_ident()] = log
        try:
            yield
        finally:
            with _ROUTING:
                del _ByThread.logs[threading.get_ident()]
                if not _ByThread.logs:
                    while _BEFORE:
                        _BEFORE.pop()()


def prompts_page(title: str, prompts: Mapping[str, PromptFields]) -> str:
    """Return instructions and demonstrations by predictor, in Markdown; what LMs wrote stands in
    code blocks.
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
    # A prompt may hold a block of its own, which must not end this one.
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}\n"
