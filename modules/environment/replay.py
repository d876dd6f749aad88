"""Environments that record the answers of another one in a file, and that replay such a file."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

from ..base.errors import UserError, system_errors
from ..base.fence import cut
from ..base.files import locked, open_regular, whole_lines
from .base import Environment, Page

VERSION = 1


class About(TypedDict):
    """The first line of a record: which environment was recorded."""

    version: int
    source: str
    fingerprint: str


class RecordingEnvironment(Environment):
    """Asks `environment`, and records its answers in the JSONL file at `path`; recorded requests
    are answered from it. Several processes may add to one record.

    Raises UserError when the file is the record of another environment, or cannot be written.
    """

    def __init__(self, environment: Environment, path: str | Path) -> None:
        self._environment = environment
        self.source = environment.source
        about: About = {
            "version": VERSION,
            "source": environment.source,
            "fingerprint": environment.fingerprint,
        }
        self._record = _Record(Path(path), about)

    def __reduce__(self) -> tuple[object, ...]:
        """In another process, the copy adds to the same file."""
        return RecordingEnvironment, (self._environment, self._record.path.absolute())

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the recorded environment."""
        return self._environment.fingerprint

    @property
    def text_form(self) -> str | None:
        """The text form of the recorded environment, since only this run writes the record."""
        return self._environment.text_form

    async def fetch(self, title: str) -> Page | None:
        kept = self._record.get("fetch", title)
        if kept is None:
            page = await self._environment.fetch(title)
            answer = None if page is None else asdict(page)
            kept = self._record.put(answer, "fetch", title)
        return _page(kept[0])

    async def closest(self, query: str, n: int) -> list[str]:
        kept = self._record.get("closest", query, n)
        if kept is None:
            kept = self._record.put(await self._environment.closest(query, n), "closest", query, n)
        return list(kept[0])

    async def close(self) -> None:
        self._record.close()
        await self._environment.close()


class ReplayEnvironment(Environment):
    """Replays the record of a `RecordingEnvironment` at `path`, without a network.

    Raises UserError when there is no such record, and for a request that is not on it.
    """

    def __init__(self, path: str | Path) -> None:
        self._record = _Record(Path(path), None)
        self.source = self._record.about["source"]

    def __reduce__(self) -> tuple[object, ...]:
        """In another process, the copy opens the same file."""
        return ReplayEnvironment, (self._record.path.absolute(),)

    @cached_property
    def fingerprint(self) -> str:
        """`replay:` and the start of a SHA-256 of the record's lines, whatever their order."""
        digest = hashlib.sha256(b"".join(sorted(self._record.digests()))).hexdigest()
        return f"replay:{digest[:16]}"

    @property
    def text_form(self) -> str | None:
        return f"replay:{self._record.path.absolute()}"

    async def fetch(self, title: str) -> Page | None:
        return _page(self._answer("fetch", title))

    async def closest(self, query: str, n: int) -> list[str]:
        return list(self._answer("closest", query, n))

    async def close(self) -> None:
        self._record.close()

    def _answer(self, *asked: str | int) -> Any:
        """Return the recorded answer. Raises UserError if there is none."""
        kept = self._record.get(*asked)
        if kept is None:
            request = cut(f"{asked[0]}({', '.join(map(repr, asked[1:]))})", 200)
            raise UserError(
                f"{self._record.path} has no answer to {request}: the program, questions or LM "
                "differ from those recorded; record this run as well"
            )
        return kept[0]


def _page(kept: dict[str, str] | None) -> Page | None:
    return None if kept is None else Page(**kept)


class _Record:
    """Answers by request in a JSONL file: the first line is an `About`, each other one an object
    with `asked` and `gave`.

    With `about`, answers can be added: a line is written whole under a lock or not at all, and a
    line that a killed process left half-written is dropped. Without, the record is only read. The
    positions of lines are held in memory, not the answers.
    """

    def __init__(self, path: Path, about: About | None) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._spans: dict[bytes, tuple[int, int]] = {}
        # Start and length of the line of each request, by its key.
        self._read_to = 0
        self._first: list[About] = []
        instead = "record one first, or correct the path"
        with system_errors(f"the record {path}", instead, "cannot be opened"):
            if about is None:
                self._file = open_regular(path)
                self._scan()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
                with self._alone():
                    if not self._first:
                        self._append(about)
        if not self._first:
            raise UserError(f"{path} is empty: it is not a record of an environment")
        self.about = self._first[0]
        if about is not None and self.about != about:
            raise UserError(
                f"{path} is the record of another environment ({self.about['fingerprint']}): "
                "name another file"
            )

    def get(self, *asked: str | int) -> tuple[Any] | None:
        """Return the recorded answer in a tuple, since it may be None; None if there is none."""
        with self._lock:
            span = self._spans.get(_key(asked))
            return None if span is None else (json.loads(self._line(*span))["gave"],)

    def put(self, gave: object, *asked: str | int) -> tuple[Any]:
        """Record an answer, unless another process was faster; returns the recorded one."""
        with self._lock, self._alone():
            # Another process may have recorded it while this one asked.
            if _key(asked) not in self._spans:
                self._append({"asked": asked, "gave": gave})
            return (json.loads(self._line(*self._spans[_key(asked)]))["gave"],)

    def digests(self) -> Iterator[bytes]:
        """Yield a digest of each line."""
        yield json.dumps(self.about, sort_keys=True).encode()
        for span in list(self._spans.values()):
            yield hashlib.sha256(self._line(*span)).digest()

    def close(self) -> None:
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
            self._file = -1

    def _line(self, start: int, length: int) -> bytes:
        return os.pread(self._file, length, start)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Lock the file within the block, after reading the lines that other processes added."""
        with locked(self.path):
            self._scan()
            os.ftruncate(self._file, self._read_to)  # drops a line that a killed process left half
            yield

    def _append(self, row: object) -> None:
        line = json.dumps(row).encode() + b"\n"
        try:
            written = os.write(self._file, line)
        except OSError:
            written = 0
        if written != len(line):
            os.ftruncate(self._file, self._read_to)
            raise UserError(f"the record {self.path} could not be written: make room and run again")
        self._index(line)

    def _scan(self) -> None:
        """Index the complete lines that were added since the last scan."""
        for _, line in whole_lines(self._file, self._read_to):
            self._index(line)

    def _index(self, line: bytes) -> None:
        """Note the position of a line that begins where the last one ended. Raises UserError for
        one that is not of a record.
        """
        try:
            row = json.loads(line)
            if self._first:
                self._spans.setdefault(_key(row["asked"]), (self._read_to, len(line)))
            elif row["version"] == VERSION:
                source, fingerprint = str(row["source"]), str(row["fingerprint"])
                self._first.append(About(version=VERSION, source=source, fingerprint=fingerprint))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise UserError(
                f"{self.path} has a line that is not one of a record: record the run again"
            ) from None
        self._read_to += len(line)


def _key(asked: Sequence[str | int]) -> bytes:
    return hashlib.blake2b(json.dumps(list(asked)).encode(), digest_size=16).digest()
