"""A key-value store for caches, in one SQLite file that processes and threads share."""

from __future__ import annotations

import hashlib
import math
import os
import sqlite3
import threading
import warnings
import zlib
from contextlib import closing
from pathlib import Path

from .files import open_regular

BUSY_SECONDS = 0.2  # short, since the event loop stands still while another process writes
MOST_PENDING = 4096
_TABLE = """
CREATE TABLE IF NOT EXISTS entries
(at INTEGER PRIMARY KEY, key BLOB UNIQUE NOT NULL, value BLOB NOT NULL, checksum INTEGER NOT NULL)
"""
_GET = "SELECT value, checksum FROM entries WHERE key = ?"
_PUT = "INSERT OR IGNORE INTO entries (key, value, checksum) VALUES (?, ?, ?)"
_USED = """
SELECT (page_count - freelist_count) * page_size
FROM pragma_page_count, pragma_freelist_count, pragma_page_size
"""
_DROP = "DELETE FROM entries WHERE at <= (SELECT min(at) + (max(at) - min(at)) / 8 FROM entries)"


class KeyValue:
    """Bytes by key in one SQLite file that only its owner may read. Thread-safe.

    The first value for a key stays. A damaged value counts as missing. If the file cannot be used
    (also because it is a link), there is one warning, and all values count as missing.

    Args:
        path: the file; its folder is made.
        what: the name of the store in the warning, such as `call cache`.
        without: what follows for the user if it cannot be used, for the warning.
        most_bytes: the size above which the oldest eighth is deleted.
        batch: values that are written together; a killed process loses at most this many.
    """

    def __init__(
        self, path: Path, what: str, without: str, *, most_bytes: float = math.inf, batch: int = 1
    ) -> None:
        self.path = path
        self._what, self._without = what, without
        self._most_bytes, self._batch = most_bytes, batch
        self._pending: dict[bytes, bytes] = {}
        self._lock = threading.Lock()
        self._warned = False
        self._base: sqlite3.Connection | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            os.close(open_regular(path, os.O_RDWR | os.O_CREAT, links=False))
            self._base = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            # A rollback journal works on network folders too, where a write-ahead log does not;
            # what a power cut may cost is only a cache.
            self._base.execute("PRAGMA synchronous=OFF")
            self._base.executescript(_TABLE)
        except (OSError, sqlite3.Error) as problem:
            self._warn(problem)

    def get(self, key: bytes) -> bytes | None:
        """Return the value kept for a key, or None."""
        with self._lock:
            if self._base is None or key in self._pending:
                return self._pending.get(key)
            try:
                value, checksum = self._base.execute(_GET, (key,)).fetchone() or (None, 0)
                if value is not None and zlib.crc32(value) != checksum:
                    # Deleted, since `put` never replaces a value.
                    self._base.execute("DELETE FROM entries WHERE key = ?", (key,))
                    return None
                return value
            except sqlite3.Error as problem:
                self._warn(problem)
                return None

    def put(self, key: bytes, value: bytes) -> None:
        """Store a value, unless there is one for this key."""
        with self._lock:
            self._pending.setdefault(key, value)
            if len(self._pending) % self._batch == 0:
                self._write()

    def close(self) -> None:
        """Write the pending values, and close the file."""
        with self._lock:
            self._write()
            if self._pending:
                self._warn(RuntimeError(f"{len(self._pending)} values could not be written"))
            if self._base is not None:
                with closing(self._base):
                    self._base = None

    def _write(self) -> None:
        """Write the pending values. If that fails, as while another process writes, they stay for
        the next time, unless they are too many.
        """
        values, self._pending = self._pending, {}
        if self._base is None or not values:
            return
        try:
            self._base.execute("BEGIN IMMEDIATE")
            try:
                rows = ((key, value, zlib.crc32(value)) for key, value in values.items())
                self._base.executemany(_PUT, rows)
                # Pages in use, not the size of the file, which deleting never makes smaller.
                if self._base.execute(_USED).fetchone()[0] > self._most_bytes:
                    self._base.execute(_DROP)
            finally:
                self._base.execute("COMMIT")
        except sqlite3.Error as problem:
            if len(values) < MOST_PENDING:
                self._pending = values
            else:
                self._warn(problem)

    def _warn(self, problem: Exception) -> None:
        if not self._warned:
            self._warned = True
            trouble = f"the {self._what} {self.path} cannot be used ({problem})"
            text = f"{trouble}: {self._without}; fix or delete it"
            warnings.warn(text, RuntimeWarning, stacklevel=4)


def key_of_texts(*texts: str) -> bytes:
    """Return a key of 32 bytes for these texts: their SHA-256."""
    return hashlib.sha256("\x1f".join(texts).encode("utf-8", "surrogatepass")).digest()
