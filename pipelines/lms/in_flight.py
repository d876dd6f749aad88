"""Calls that were sent and have not ended, on disk: what a killed process had under way counts as
spent.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..base.journal import records, to_json, unwritten

SLOT = 1024  # bytes for a call; question and seat go where they do not fit
_PREFIX = ".in-flight-"


class InFlight:
    """A file in a folder that its process holds locked, with a line for each call under way.

    A line is written before the call is sent and blanked when it has ended, so that the file is as
    long as the most calls at once. When it is closed, it goes unless it still has a line: a call
    that the ledger could not take. Thread-safe. Raises OSError when it cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        self._free: list[int] = []
        self._slots = 0
        self._path = folder / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        made = self._path.with_suffix(".new")  # nobody looks at it before it is locked
        self._file = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        with suppress(OSError):  # of a file system without locks: then nobody looks either
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(made, self._path)

    def begin(self, call: Mapping[str, Any]) -> int:
        """Write a call down; its place. Raises UserError when the disk takes no more."""
        with self._lock:
            place = self._free.pop() if self._free else self._slots
            self._slots = max(self._slots, place + 1)
        try:
            self.write(place, call)
        except OSError as problem:
            self.end(place)
            raise unwritten(self._path, problem) from None
        return place

    def write(self, place: int, call: Mapping[str, Any]) -> None:
        """Put a call where one stands already: that takes no more room. Raises OSError."""
        line = to_json(call)
        if len(line) >= SLOT:
            line = to_json({**call, "question": None, "seat": None})
        if os.pwrite(self._file, line.ljust(SLOT - 1) + b"\n", place * SLOT) < SLOT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def end(self, place: int) -> None:
        """Blank the line of a call that has ended, once it is on the ledger or is known to cost
        nothing.
        """
        with suppress(OSError):
            os.pwrite(self._file, b" ", place * SLOT)
        with self._lock:
            self._free.append(place)

    def close(self) -> None:
        if len(self._free) == self._slots:
            for path in (self._path, self._path.with_suffix(".new")):
                path.unlink(missing_ok=True)
        file, self._file = self._file, -1  # the next file may get its number
        os.close(file)


def abandoned(folder: Path, *, take: bool = False) -> Iterator[list[dict[str, Any]]]:
    """The calls that each dead process left under way; with `take` its file then goes."""
    for path in sorted(path for path in folder.glob(f"{_PREFIX}*") if path.suffix != ".new"):
        with suppress(OSError):  # its process lives, or another process has taken it
            file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield list(records(file, ("key", "attempts")))
                if take:
                    path.unlink(missing_ok=True)
            finally:
                os.close(file)
