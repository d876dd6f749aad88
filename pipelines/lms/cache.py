"""The call cache: complete answers of hosted LMs, shared by all runs and processes of one user."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from ..base.jsonl import to_json
from ..base.settings import settings
from .store import REPLY_FIELDS

FILE = "calls.sqlite"
BATCH = 64  # answers written at once; a killed process loses at most as many, which its run has on record
BUSY_SECONDS = 0.2  # the event loop waits with it
MOST_PENDING = 4096
_TABLE = """
CREATE TABLE IF NOT EXISTS calls (at INTEGER PRIMARY KEY, key BLOB UNIQUE NOT NULL, reply TEXT NOT NULL)
"""
_USED = """
SELECT (page_count - freelist_count) * page_size
FROM pragma_page_count, pragma_freelist_count, pragma_page_size
"""
_DROP = "DELETE FROM calls WHERE at <= (SELECT min(at) + (max(at) - min(at)) / 8 FROM calls)"


class CallCache:
    """Replies by call key in `DIR/calls.sqlite`, in a folder that nobody else may read.

    Unlike a `CallStore`, which indexes a whole record in memory, it may be large and opens at once. The
    oldest eighth goes when it has grown to `most_bytes`. Trouble with the disk or another process costs
    cached answers only: it warns once, and calls are made. Thread-safe.

    Raises OSError or sqlite3.Error when it cannot be opened.
    """

    readonly = False

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.path = folder / FILE
        self._most_bytes = most_bytes
        self._pending: dict[bytes, str] = {}
        self._lock = threading.Lock()
        self._warned = False
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        self._base = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        # A rollback journal works on network folders too; what a power cut may cost is only a cache.
        self._base.execute("PRAGMA synchronous=OFF")
        self._base.execute(_TABLE)

    def get(self, key: str) -> dict[str, Any] | None:
        """The cached reply, with the fields of `Reply`, or None."""
        name = bytes.fromhex(key)
        with self._lock:
            text = self._pending.get(name)
            if text is None:
                try:
                    row = self._base.execute("SELECT reply FROM calls WHERE key = ?", (name,)).fetchone()
                except sqlite3.Error as problem:
                    self._warn(problem)
                    return None
                text = row[0] if row else None
        try:
            reply = json.loads(text) if text is not None else None
        except (ValueError, TypeError, RecursionError):
            return None
        return reply if isinstance(reply, dict) and reply.keys() == REPLY_FIELDS else None

    def put(self, key: str, model: str, reply: Mapping[str, Any]) -> None:
        """Keep a complete reply; the first one for a key stays."""
        with self._lock:
            self._pending.setdefault(bytes.fromhex(key), to_json(reply).decode())
            if len(self._pending) % BATCH == 0:
                self._write()

    def close(self) -> None:
        with self._lock, closing(self._base):
            self._write()
            if self._pending:
                self._warn(RuntimeError(f"{len(self._pending)} answers could not be written"))

    def _write(self) -> None:
        rows, self._pending = self._pending, {}
        try:
            self._base.execute("BEGIN IMMEDIATE")
            try:
                insert = "INSERT OR IGNORE INTO calls (key, reply) VALUES (?, ?)"
                self._base.executemany(insert, rows.items())
                if self._base.execute(_USED).fetchone()[0] > self._most_bytes:
                    self._base.execute(_DROP)
            finally:
                self._base.execute("COMMIT")
        except sqlite3.Error as problem:
            if len(rows) < MOST_PENDING:  # another process is writing: later, then
                self._pending = rows
            else:
                self._warn(problem)

    def _warn(self, problem: Exception) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(_without(self.path, problem), RuntimeWarning, stacklevel=4)


@contextmanager
def open_cache(wanted: bool = True) -> Iterator[CallCache | None]:
    """The user's call cache; None when not wanted, switched off (FOLKMOOT_CALLS_MB=0) or not to be had."""
    known = settings()
    folder, most_bytes = known.cache / "calls", known.calls_mb * 2**20
    cache = None
    if wanted and most_bytes:
        try:
            cache = CallCache(folder, most_bytes)
        except (OSError, sqlite3.Error) as problem:
            warnings.warn(_without(folder, problem), RuntimeWarning, stacklevel=3)
    try:
        yield cache
    finally:
        if cache is not None:
            cache.close()


def _without(path: Path, problem: Exception) -> str:
    return f"the call cache {path} cannot be used ({problem}): calls are made without it; mend or delete it"


ACTIVE_CACHE: ContextVar[CallCache | None] = ContextVar("folkmoot_call_cache", default=None)
"""The cache of the run in progress: read after its records, for LMs whose answers do not depend on order."""
