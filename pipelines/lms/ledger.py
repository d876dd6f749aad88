"""The ledger: every paid LM call, once, on disk before its reply is used."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...modules.base.calls import Usage
from ...modules.base.errors import UserError
from ..base.jsonl import to_line

LEDGER = "ledger.jsonl"


@dataclass(frozen=True)
class Entry:
    """One paid call: tokens as the endpoint counted them (or None), cost in USD (None: price unknown).

    `key` is the hash of the request, `attempts` counts the failed tries before it too, and `kept` says
    whether the reply was complete, so that a record or cache may give it again.
    """

    endpoint: str
    model: str
    key: str
    prompt_tokens: int | None
    completion_tokens: int | None
    cost_usd: float | None
    seat: str | None
    question: str | None
    attempts: int
    kept: bool

    @property
    def usage(self) -> Usage:
        return Usage(1, self.prompt_tokens or 0, self.completion_tokens or 0, 0, self.cost_usd)


class Ledger:
    """`DIR/ledger.jsonl`, appended in one write a call; `total` sums up what it held and what was added.

    A process killed while writing leaves at most one torn line, which readers skip. Thread-safe. Raises
    OSError when it cannot be opened.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LEDGER
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True)
        self.total = totals(folder)
        self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        size = os.fstat(self._file).st_size
        self._torn = bool(size) and os.pread(self._file, 1, size - 1) != b"\n"

    def add(self, entry: Entry) -> None:
        """Raises UserError when the disk takes no more."""
        record = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), **vars(entry)}
        line = to_line(record)
        with self._lock:
            self.total.add(entry.usage)  # paid for, whether or not the disk takes it
            whole = b"\n" + line if self._torn else line
            try:
                written = os.write(self._file, whole)
            except OSError as problem:
                raise self._unwritable(problem.strerror) from None
            self._torn = written != len(whole)
            if self._torn:
                raise self._unwritable(f"only {written} of {len(whole)} bytes fitted")

    def close(self) -> None:
        os.close(self._file)

    def _unwritable(self, reason: str | None) -> UserError:
        return UserError(f"{self._path} could not be written ({reason}): make room and run the command again")


def read_ledger(folder: Path) -> Iterator[dict[str, Any]]:
    """The ledger's lines in order, the torn ones left out; none when there is no ledger."""
    try:
        file = open(folder / LEDGER, "rb")  # noqa: SIM115
    except FileNotFoundError:
        return
    with file:
        for line in file:
            try:
                record = json.loads(line)
                whole = line.endswith(b"\n") and record.keys() == _FIELDS
            except (ValueError, AttributeError, RecursionError):
                continue
            if whole:
                yield record


def totals(folder: Path) -> Usage:
    """What was paid for in a folder, over all its runs and resumptions."""
    total = Usage()
    for record in read_ledger(folder):
        tokens = record["prompt_tokens"] or 0, record["completion_tokens"] or 0
        total.add(Usage(1, *tokens, 0, record["cost_usd"]))
    return total


_FIELDS = {"time", *Entry.__dataclass_fields__}

LEDGERS: ContextVar[tuple[Ledger, ...]] = ContextVar("folkmoot_ledgers", default=())
"""The ledgers of the runs in progress, the innermost first; each gets every paid call."""
