"""Recorded observations: one environment records what another gives, one replays the record."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from ..base.errors import UserError
from ..base.fence import cut
from ..base.files import locked, open_regular, whole_lines
from .base import Environment, Page

VERSION = 1


class RecordingEnvironment(Environment):
    """Asks `environment`, and keeps what it gave in the JSONL file at `path`.

    What is on record already is given from there, so that whatever changes in between (a live wiki
    does), every agent saw what the record says. Several processes, one after the other or at once,
    may add to one record.

    Raises UserError when the file is the record of another environment, or cannot be written.
    """

    def __init__(self, environment: Environment, path: str | Path) -> None:
        self._environment = environment
        self.source = environment.source
        about = {
            "version": VERSION,
            "source": environment.source,
            "fingerprint": environment.fingerprint,
        }
        self._record = _Record(Path(path), about)

    def __deepcopy__(self, memo: dict[int, Any]) -> RecordingEnvironment:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process, which adds to the same file."""
        return RecordingEnvironment, (self._environment, self._record.path.absolute())

    @property
    def fingerprint(self) -> str:
        """That of the environment recorded."""
        return self._environment.fingerprint

    @property
    def text_form(self) -> str | None:
        """That of the environment recorded: what is written down is the business of one run."""
        return self._environment.text_form

    async def fetch(self, title: str) -> Page | None:
        kept = self._record.get("fetch", title)
        if kept is None:
            page = await self._environment.fetch(title)
            kept = self._record.put(page and dataclasses.asdict(page), "fetch", title)
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
    """Gives again what `RecordingEnvironment` kept at `path`: the same observations, without a
    network.

    Raises UserError when there is no such record, and for a request that is not on it.
    """

    def __init__(self, path: str | Path) -> None:
        self._record = _Record(Path(path), None)
        self.source = self._record.source

    def __deepcopy__(self, memo: dict[int, Any]) -> ReplayEnvironment:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process, which opens the same file."""
        return ReplayEnvironment, (self._record.path.absolute(),)

    @cached_property
    def fingerprint(self) -> str:
        """`replay:` and the start of a SHA-256 over the lines of the record, in whatever order they
        stand.
        """
        digest = hashlib.sha256(b"".join(sorted(self._record.digests()))).hexdigest()
        return f"replay:{digest[:16]}"

    @property
    def text_form(self) -> str | None:
        return f"replay:{self._record.path.absolute()}"

    async def fetch(self, title: str) -> Page | None:
        return _page(self._found("fetch", title))

    async def closest(self, query: str, n: int) -> list[str]:
        return list(self._found("closest", query, n))

    async def close(self) -> None:
        self._record.close()

    def _found(self, *asked: str | int) -> Any:
        kept = self._record.get(*asked)
        if kept is None:
            request = cut(f"{asked[0]}({', '.join(map(repr, asked[1:]))})", 200)
            raise UserError(
                f"{self._record.path} has no answer to {request}: the program, questions or LM "
                f"differ "
                "from those recorded; record this run as well"
            )
        return kept[0]


def _page(kept: dict[str, str] | None) -> Page | None:
    return None if kept is None else Page(**kept)


class _Record:
    """Answers by request in a JSONL file: a first line about the environment, then `{"asked",
    "gave"}` each.

    With `about`, a record to add to: a line is written whole under a lock or not at all, and what a
    killed process left half-written is dropped. Without, one that is only read. Only places are
    held in memory.
    """

    def __init__(self, path: Path, about: dict[str, Any] | None) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._places: dict[bytes, tuple[int, int]] = {}
        self._read_to = self._lines = 0
        self._about: Any = None
        try:
            if about is None:
                self._file: int | None = open_regular(path)
                self._scan(self._file)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._file = open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
                with self._alone() as file:
                    if self._about is None:
                        self._append(file, about)
        except OSError as problem:
            advice = (
                "record one first, or correct the path" if about is None else "name another file"
            )
            raise UserError(
                f"the record {path} cannot be opened ({problem.strerror}): {advice}"
            ) from None
        if self._about is None:
            raise UserError(f"{path} is empty: it is no record of an environment")
        if about is not None and self._about != about:
            raise UserError(
                f"{path} is the record of another environment ({self._about['fingerprint']}): "
                "name another file"
            )

    @property
    def source(self) -> str:
        """Which environment was recorded."""
        return str(self._about["source"])

    def get(self, *asked: str | int) -> tuple[Any] | None:
        """What was given, in a tuple, since it may be None; None if that is not on record."""
        with self._lock:
            place = self._places.get(_key(asked))
            return None if place is None else (self._gave(place),)

    def put(self, gave: Any, *asked: str | int) -> tuple[Any]:
        """Keep what was given, unless another process has been quicker; what is on record now."""
        with self._lock, self._alone() as file:
            if _key(asked) not in self._places:
                self._append(file, {"asked": asked, "gave": gave})
            return (self._gave(self._places[_key(asked)]),)

    def digests(self) -> Iterator[bytes]:
        """One for each line, equal for equal lines."""
        yield json.dumps(self._about, sort_keys=True).encode()
        for start, length in list(self._places.values()):
            yield hashlib.sha256(os.pread(self._open(), length, start)).digest()

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _open(self) -> int:
        if self._file is None:
            raise ValueError("The record has been closed.")
        return self._file

    def _gave(self, place: tuple[int, int]) -> Any:
        return json.loads(os.pread(self._open(), place[1], place[0]))["gave"]

    @contextmanager
    def _alone(self) -> Iterator[int]:
        """The locked file, once all lines that other processes added are known."""
        file = self._open()
        with locked(self.path):
            self._scan(file)
            if os.fstat(file).st_size > self._read_to:
                os.ftruncate(file, self._read_to)
            yield file

    def _append(self, file: int, row: dict[str, Any]) -> None:
        line = json.dumps(row).encode() + b"\n"
        try:
            written = os.write(file, line)
            reason = f"only {written} of {len(line)} bytes fitted"
        except OSError as problem:
            written, reason = 0, problem.strerror or str(problem)
        if written != len(line):
            os.ftruncate(file, self._read_to)
            raise UserError(
                f"the record {self.path} could not be written ({reason}): make room and run again"
            )
        self._index(line)

    def _scan(self, file: int) -> None:
        """Index the complete lines that were added since the last scan."""
        for _, line in whole_lines(file, self._read_to):
            self._index(line)

    def _index(self, line: bytes) -> None:
        try:
            row = json.loads(line)
            if self._lines == 0:
                if (
                    row["version"] != VERSION
                    or not isinstance(row["source"], str)
                    or "fingerprint" not in row
                ):
                    raise ValueError("not the first line of a record of this version")
                self._about = row
            else:
                _check(row)
                self._places.setdefault(_key(row["asked"]), (self._read_to, len(line)))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise UserError(
                f"{self.path}, line {self._lines + 1}: this is no line of a record; record the "
                f"run again"
            ) from None
        self._lines += 1
        self._read_to += len(line)


def _key(asked: Sequence[str | int]) -> bytes:
    return hashlib.blake2b(json.dumps(list(asked)).encode(), digest_size=16).digest()


def _check(row: Any) -> None:
    """Raises one of Python's own errors unless `row` is a request and what it gave."""
    asked, gave = row["asked"], row["gave"]
    if asked[0] == "fetch":
        fields = {field.name for field in dataclasses.fields(Page)}
        texts = [] if gave is None else [*gave.values()] if gave.keys() == fields else [None]
    elif asked[0] == "closest":
        texts = [*gave]
    else:
        raise ValueError(asked[0])
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("what an environment gives is text")
