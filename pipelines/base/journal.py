"""JSON on disk: files that are written atomically, and journals (one object per line) that survive
a kill.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import threading
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import orjson
import pydantic_core

from ...modules.base.errors import UserError
from ...modules.base.files import (
    cut_torn_line,
    open_regular,
    read_regular,
    whole_lines,
    write_whole,
)


def to_json(value: object) -> bytes:
    """Return the JSON of a value on one line, in UTF-8, with lone surrogates as escapes. Raises
    TypeError for what JSON cannot hold.
    """
    try:
        return orjson.dumps(value)
    except TypeError:  # as for lone surrogates, and for whole numbers beyond 64 bits
        return json.dumps(value).encode()


def from_json(text: str | bytes) -> Any:
    """Return the value of a JSON text. Raises ValueError, and RecursionError for one nested too
    deeply.
    """
    try:
        # Three times as fast as Python's own, but it refuses lone surrogates and control characters
        # within a text.
        return pydantic_core.from_json(text)
    except ValueError:
        return json.loads(text, strict=False)


def write_json(path: Path, value: object) -> None:
    """Write a JSON file atomically: a reader sees the whole old file or the whole new one."""
    write_whole(path, json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")


def as_json(value: object) -> Any:
    """Return the value after a round trip through JSON."""
    return json.loads(json.dumps(value, default=str))


def read_object(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file; None if the file is missing, unreadable, or has anything
    else.
    """
    try:
        return parsed(read_regular(path))
    except OSError:
        return None


def parsed(text: bytes, fields: Collection[str] = ()) -> dict[str, Any] | None:
    """Return the object in the text of a file or a line; None if it is damaged or lacks a field."""
    try:
        value = from_json(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) and value.keys() >= set(fields) else None


def records(file: Path | int, fields: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield the objects of a journal; lines that are torn, damaged or lack a field are skipped."""
    for _, line in whole_lines(file):
        if (record := parsed(line, fields)) is not None:
            yield record


ROOM_BYTES = 8 * 2**20


class Room:
    """Disk space that is reserved for the replies of calls in flight, so that a full disk loses no
    reply that is paid for. The first write that finds the disk full frees it (`take`), and from
    then on no further call is sent. Raises OSError if the disk is full already.
    """

    _held: ClassVar[dict[Path, Room]] = {}

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._file = self.folder / f".room-{os.getpid()}-{id(self):x}"
        self._taken = False
        _free_abandoned(self.folder)
        # Locked for as long as this process lives.
        self._lock = open(self._file, "wb")  # noqa: SIM115
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Not `truncate`, which takes no space on the disk.
            os.posix_fallocate(self._lock.fileno(), 0, ROOM_BYTES)
        except OSError as problem:  # some file systems cannot reserve space
            self._free()
            if problem.errno == errno.ENOSPC:
                raise
        Room._held[self.folder] = self

    def check(self) -> None:
        """Raise UserError once the space was taken."""
        if self._taken:
            raise UserError(
                f"{self.folder} has no space left, so no further call is sent: make room and run "
                "the command again"
            )

    @classmethod
    def take(cls, path: Path) -> bool:
        """Free the space that is reserved for a file's folder; returns whether that helps."""
        for folder in path.absolute().parents:
            room = cls._held.get(folder)
            if room is not None:
                first, room._taken = not room._taken, True
                room._free()
                return first
        return False

    def _free(self) -> None:
        self._file.unlink(missing_ok=True)
        self._lock.close()  # an open file keeps its space

    def close(self) -> None:
        self._free()
        if Room._held.get(self.folder) is self:
            del Room._held[self.folder]


def _free_abandoned(folder: Path) -> None:
    """Remove what killed processes had reserved, each of which would keep its space for ever."""
    for path in folder.glob(".room-*"):
        with suppress(OSError), open(path, "rb") as file:  # else its process is alive
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)


class Journal:
    """An append-only file of JSON objects, one per line, each line in one write. Thread-safe.

    Several processes may append to one journal. A process that is killed while writing leaves at
    most one torn line. The next line is written after a line end, and readers skip the torn one; if
    no other process writes to the journal (`alone`), it is removed.

    Raises OSError when the file cannot be opened.
    """

    def __init__(self, path: Path, *, alone: bool = False) -> None:
        self.path = path
        self._alone = alone
        self._lock = threading.Lock()
        self.file = open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, links=False)
        if alone:
            cut_torn_line(self.file)
        size = os.fstat(self.file).st_size
        self._torn = bool(size) and os.pread(self.file, 1, size - 1) != b"\n"

    def append(self, record: object) -> tuple[int, int]:
        """Append a line; returns its offset and length. Raises UserError when the disk is full."""
        try:
            return self.write(record)
        except OSError as problem:
            raise unwritten(self.path, problem) from None

    def write(self, record: object) -> tuple[int, int]:
        """As `append`, but raises OSError."""
        try:
            return self._write(record)
        except OSError:
            if not Room.take(self.path):
                raise
        return self._write(record)

    def _write(self, record: object) -> tuple[int, int]:
        line = to_json(record) + b"\n"
        with self._lock:
            # A line end first, after a torn line: readers then skip that line alone.
            whole = b"\n" + line if self._torn else line
            written = os.write(self.file, whole)
            end = os.lseek(self.file, 0, os.SEEK_CUR)  # where other processes append, too
            self._torn = written != len(whole)
            if self._torn:
                if self._alone:
                    # Removed, since no other process can have appended anything after it.
                    os.ftruncate(self.file, end - written)
                    self._torn = False
                raise OSError(errno.ENOSPC, f"only {written} of {len(whole)} bytes fitted")
            return end - len(line), len(line)

    def close(self) -> None:
        with self._lock:
            # Forgotten first: the number of a closed descriptor may be given to another file.
            file, self.file = self.file, -1
            os.close(file)


def unwritten(path: Path, problem: OSError) -> UserError:
    """Return the error about a file that could not be written."""
    return UserError(
        f"{path} could not be written ({problem.strerror}): make room and run the command again"
    )
