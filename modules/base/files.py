"""Safe reading, writing and locking of files: whole after a kill, bounded in size, no links, FIFOs
or devices.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import BinaryIO

from .errors import UserError

MOST_BYTES = 256 * 2**20
"""The largest file that is read at once."""

MOST_NAME = 255
"""The most bytes that the name of a file may have."""

MOST_LINE, MOST_IN_ALL = 32 * 2**20, 16 * 2**30
"""The longest line of a file, and the most bytes of a file that is read line by line."""


def write_whole(path: Path, content: str | bytes, *, sync: bool = False) -> None:
    """Replace a file atomically: a reader sees the whole old one or the whole new one.

    With `sync` that holds after a power cut, too. Lone surrogates are written as escapes.
    """
    # In the same folder, since a rename is atomic only within one file system.
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    if isinstance(content, str):
        content = content.encode("utf-8", "backslashreplace")
    try:
        with open(scratch, "wb") as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(scratch, path)
    except OSError as problem:
        scratch.unlink(missing_ok=True)
        problem.filename = str(path)  # nobody knows the other one
        raise


def open_regular(path: Path, flags: int = os.O_RDONLY, *, links: bool = True) -> int:
    """Return the descriptor of a regular file; if it is created, only its owner can read it.

    Raises OSError for anything else (reading a FIFO would wait for a writer, and a device has no
    end), and for a link unless `links` are followed.
    """
    try:
        file = os.open(path, flags | os.O_NONBLOCK | (0 if links else os.O_NOFOLLOW), 0o600)
    except OSError as problem:
        if problem.errno == errno.ELOOP and path.is_symlink():
            raise OSError(errno.ELOOP, "it is a link to another place", str(path)) from None
        raise
    # Not stat on the path, which may name another file by now.
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return file


def opened(path: Path) -> BinaryIO:
    """Return a regular file, open for reading. Raises OSError for anything else, and for a file of
    more than `MOST_IN_ALL` bytes.
    """
    file = open(open_regular(path), "rb")  # noqa: SIM115
    if os.fstat(file.fileno()).st_size > MOST_IN_ALL:
        file.close()
        raise OSError(errno.EFBIG, f"it has more than {MOST_IN_ALL:,} bytes", str(path))
    return file


def lines_in(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of an open file. Raises OSError for a line of more than `MOST_LINE` bytes."""
    while line := file.readline(MOST_LINE + 1):
        if len(line) > MOST_LINE:
            raise OSError(errno.EFBIG, f"a line has more than {MOST_LINE:,} bytes", file.name)
        yield line


def own_folder(path: Path) -> None:
    """Create a folder that only its owner can use; an existing one is closed to other readers.

    Raises OSError for a link, and for a folder that another user owns or may write to.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Not stat, which would follow a link into a folder that somebody else has prepared.
    state = path.lstat()
    if stat.S_ISLNK(state.st_mode):
        raise OSError(errno.ELOOP, "it is a link to another place", str(path))
    if state.st_uid != os.geteuid():
        raise OSError(errno.EPERM, "it belongs to another user", str(path))
    if state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OSError(errno.EPERM, "other users may write to it", str(path))
    # A folder that was there before may still be open to readers.
    path.chmod(0o700)


def read_regular(path: Path, most: int = MOST_BYTES, *, links: bool = True) -> bytes:
    """Return the content of a regular file. Raises OSError for anything else, for a file of more
    than `most` bytes, and for a link unless `links` are followed.
    """
    with open(open_regular(path, links=links), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise OSError(errno.EFBIG, f"it has more than {most:,} bytes", str(path))
        return file.read(size)  # not `most`: Python allocates as much memory as it is asked to read


def whole_lines(file: Path | int, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield the complete lines of a file (a path or a descriptor) from the offset `start` on, each
    with its own offset. A last line without a line end is left out: it is still being written, or
    was torn by a kill. A missing file has no lines.
    """
    try:
        descriptor = file if isinstance(file, int) else open_regular(file)
    except FileNotFoundError:
        return
    with open(descriptor, "rb", closefd=not isinstance(file, int)) as lines:
        lines.seek(start)
        for line in lines_in(lines):
            if not line.endswith(b"\n"):
                return
            yield start, line
            start += len(line)


def cut_torn_line(file: Path | int) -> None:
    """Remove the last line of a file if a kill left it without a line end. Nobody else may be
    writing to the file.
    """
    if isinstance(file, int):
        os.ftruncate(file, sum(len(line) for _, line in whole_lines(file)))
        return
    with open(open_regular(file, os.O_RDWR, links=False), "rb") as written:
        cut_torn_line(written.fileno())


CACHES = frozenset((".git", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"))
"""Folders that are ignored in a task's files, and in those that a program leaves."""


def check_inside(path: str, where: str) -> None:
    """Raise UserError, which begins with `where`, for a file's path that leads out of its folder or
    into `.git`, and for a name that no file system accepts.
    """
    parts = path.split("/")
    if {"", ".", "..", ".git"} & set(parts) or "\\" in path or "\0" in path:
        raise UserError(f"{where}: the path {path!r} is refused: give one inside the folder")
    longest = max(parts, key=len)
    if len(longest.encode(errors="replace")) > MOST_NAME:
        raise UserError(
            f"{where}: the name {longest[:20]!r}… is refused: give one of at most {MOST_NAME} bytes"
        )


@contextmanager
def locked(path: Path, *, wait: bool = True, needed: bool = True) -> Iterator[None]:
    """Hold an exclusive lock on a folder, or on a lock file, which is created if it is missing.

    The operating system ends the lock with the process, however that ends. Raises BlockingIOError
    when another process has it and `wait` is False, and another OSError when the path cannot be
    opened, or its file system has no locks and one is `needed`.
    """
    file = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT, 0o644)
    try:
        with nullcontext() if needed else suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(file)
