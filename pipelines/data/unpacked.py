"""A counter of the bytes that a file is unpacked to, so that a small file cannot fill the
memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ...modules.base.errors import UserError

MOST_ROW = 8 * 2**20
"""Bytes of a row of input, unpacked."""
MOST_HELD = 2**30
"""Bytes of memory that a document, or one sample of a log, may take."""
MOST_GROWTH, SMALL = 200, 2**26
"""Most growth of a packed file, as a multiple of its size; `SMALL` bytes are always allowed."""
OBJECT = 64
"""Bytes of memory of a small Python object."""
TOO_LONG = f"longer than {MOST_ROW // 2**20} MB; shorten the row, or split it"

_STEP = 4096  # a step of some decompressors makes a hundred MB of this much
_INSIDE = bytes(set(range(256)) - set(b",:[{"))  # all but what JSON begins another object with


class Unpacked:
    """Counts the unpacked bytes of one file, and refuses to read on if there are too many.

    Args:
        name: the file's name in errors. packed: its bytes on disk if it is compressed; None
            otherwise.

    Raises UserError from each of its methods.
    """

    def __init__(self, name: str | Path, packed: int | None = None) -> None:
        self.name, self.held = str(name), 0
        self._left = float("inf") if packed is None else max(SMALL, MOST_GROWTH * packed)

    def grow(self, size: int) -> None:
        """Count bytes that the file has been unpacked to, whether still in memory or not. Raises
        UserError for too many.
        """
        self._left -= size
        if self._left <= 0:
            raise UserError(
                f"{self.name} is far larger once unpacked than its size allows; split it"
            )

    def hold(self, size: int) -> None:
        """Count bytes of memory in use until the row ends. Raises UserError for too many."""
        self.held += size
        if self.held > MOST_HELD:
            raise UserError(
                f"{self.name} would take more than {MOST_HELD // 2**30} GB of memory at once; "
                "split the file, or write one object per line (JSONL)"
            )

    @contextmanager
    def row(self) -> Iterator[None]:
        """At the end of the block, release the bytes counted in it."""
        before = self.held
        yield
        self.held = before

    def read(self, file: IO[bytes]) -> bytes:
        """Return the rest of an open file, as bytes."""

        def pieces() -> Iterator[bytes]:
            while piece := file.read(_STEP):
                if isinstance(piece, str):
                    piece = piece.encode()
                self.grow(len(piece))
                self.hold(len(piece))
                yield piece

        return b"".join(pieces())

    def read_json(self, file: IO[bytes]) -> bytes:
        """Return the JSON of an open file, and count its text and the objects that it becomes."""
        raw = self.read(file)
        width = 2 if raw.isascii() and b"\\u" not in raw else 8
        self.hold(width * len(raw) + OBJECT * len(raw.translate(None, _INSIDE)))
        return raw


def lines_of(file: IO[bytes], name: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield the lines of an open file, each with where it stands ("line 7"), after the file's name
    if one is given.

    Raises UserError for a line longer than a row may be.
    """
    number = 0
    while line := file.readline(MOST_ROW + 1):
        number += 1
        where = f"{name}, line {number}" if name else f"line {number}"
        # readline stops one byte beyond the limit, so a huge line is never held whole.
        if len(line) > MOST_ROW:
            raise UserError(f"{where}: {TOO_LONG}")
        yield where, line
