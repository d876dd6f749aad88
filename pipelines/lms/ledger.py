"""The ledger: every paid LM call, once, on disk before its reply is used. Calls in flight are in a
file beside it, so that calls of a killed process count as spent.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Container, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any, TypedDict, cast

from ...modules.base.calls import Usage
from ...modules.base.errors import UserError
from ...modules.base.files import open_regular
from ..base.journal import Journal, Room, records, to_json, unwritten
from ..base.run_files import books_of

LEDGER = "ledger.jsonl"
RECENT = 25  # replies whose sizes say what a lost one was like
SUMMED_AT_ONCE = 256  # lines: to sum up each one by itself would take five times as long
SLOT = 1024  # bytes per call in flight; question and seat are dropped if they do not fit
_PREFIX = ".in-flight-"


class _Entry(TypedDict):
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


class Entry(_Entry, total=False):
    """One paid call: tokens as the endpoint counted them (or None), cost in USD (None: price
    unknown).

    `key` is the hash of the request, `attempts` includes the failed ones before it, and `kept` says
    whether the reply was complete, so that a record or cache may return it again. A `lost` call was
    sent and has no known end: its tokens and cost are those of a typical reply. These fields
    may be missing.
    """

    cached_prompt_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    finish_reason: str
    time: str
    lost: bool


def usage_of(entry: Mapping[str, object]) -> Usage:
    return Usage.of({**entry, "calls": 1})


class Ledger:
    """`DIR/ledger.jsonl`, appended in one write per call. Calls in flight when it is closed are
    booked as lost. Calls that cannot be booked because the disk is full stay in the file of calls
    in flight, and are booked when the ledger is next opened. Thread-safe. Raises OSError when it
    cannot be opened.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._total, self._lost = Usage(), Usage()
        self._new: list[Mapping[str, object]] = []  # lines that the sums do not have yet
        self._sizes: dict[str, deque[int]] = {}
        self._lock = threading.Lock()
        self._under_way: dict[int, Entry] = {}
        self._journal = Journal(folder / LEDGER)
        # A deleted file can still be written to: what is paid would be lost with it.
        self._inode = os.fstat(self._journal.file).st_ino
        try:
            for entry in _lines(folder):
                self._count(entry)
            self.adopt()
            self._room = Room(folder)
            self._in_flight = _InFlight(folder)
        except BaseException:
            self._journal.close()
            raise

    def send(self, entry: Entry) -> int:
        """Write down a call before it is sent, with the usage to book if its end stays unknown;
        returns its place. Raises UserError when the disk is full, and when the folder is gone.
        """
        with self._lock:
            self._check_there()
            self._room.check()
            place = self._in_flight.begin(_timed(entry))
            self._under_way[place] = entry
        return place

    def settle(self, place: int, entry: Entry | None) -> None:
        """Book the end of a sent call; None for a call that was certainly not billed. Raises
        UserError when the disk is full.
        """
        with self._lock:
            # the ledger was closed meanwhile, which booked the call
            if self._under_way.pop(place, None) is None:
                return
            if entry is not None:
                line = _timed(entry)
                try:
                    self._add(line)
                except UserError:
                    # it then stays in flight, as a call without a known end
                    with suppress(OSError):
                        self._in_flight.write(place, line)
                    raise
            self._in_flight.end(place)

    def _check_there(self) -> None:
        """Raise UserError if somebody has moved or deleted the folder."""
        try:
            there = os.stat(self._journal.path).st_ino
        except OSError:
            there = None
        if there != self._inode:
            raise UserError(
                f"the folder {self._journal.path.parent} is gone, so no further call is sent: put "
                "it back, or choose another --out"
            )

    def adopt(self) -> None:
        """Book the calls that processes left in flight which have died meanwhile."""
        for entry in _abandoned(self._journal.path.parent, take=True):
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Append a paid call. Raises UserError when the disk is full."""
        with self._lock:
            self._add(_timed(entry))

    def _add(self, line: Mapping[str, object]) -> None:
        self._count(line)  # count it as paid, even if the disk is full
        self._journal.append(line)

    @property
    def total(self) -> Usage:
        """The sum of the answered calls."""
        with self._lock:
            self._sum_up()
        return self._total

    def _count(self, line: Mapping[str, Any]) -> None:
        self._new.append(line)
        if len(self._new) == SUMMED_AT_ONCE:
            self._sum_up()
        if line["completion_tokens"] and not line.get("lost"):
            sizes = self._sizes.setdefault(str(line["model"]), deque(maxlen=RECENT))
            sizes.append(line["completion_tokens"])

    def _sum_up(self) -> None:
        lines, self._new = self._new, []
        lost = [line for line in lines if line.get("lost")]
        self._lost.add(Usage.of_calls(lost))
        self._total.add(Usage.of_calls([line for line in lines if not line.get("lost")]))

    def at_least(self, rows: Usage) -> bool:
        """Count what the rows of the folder have paid, if that is more than what the ledger has,
        which then was damaged or deleted; returns whether it is.
        """
        paid = (rows.calls or 0) - rows.cached_calls
        more = paid > self.total.calls + self._lost.calls
        if more:
            self._total = replace(rows, calls=paid, cached_calls=0)
        return more

    def typical_reply(self, model: str) -> int | None:
        """The median size in tokens of the last replies of an LM; None without any."""
        sizes = self._sizes.get(model)
        return int(median(sizes)) if sizes else None

    def bill(self) -> tuple[Usage, Usage]:
        """The total paid for answers, and what calls without a known end may have cost besides,
        including calls in flight.
        """
        with self._lock:
            self._sum_up()
            paid, lost = replace(self._total), replace(self._lost)
            lost.add(Usage.of_calls(self._under_way.values()))
        return paid, lost

    def close(self) -> None:
        for place, entry in list(self._under_way.items()):
            with suppress(UserError):
                self.settle(place, entry)
        with self._lock:
            self._in_flight.close()
            self._journal.close()
            self._room.close()


class _InFlight:
    """A file that its process locks, with a line for each call in flight. A line is written before
    the call is sent and blanked when it ends, so the file grows only to the largest number of
    concurrent calls. On closing, it is deleted unless it still has a line, for a call that the
    ledger could not book. Raises OSError when it cannot be created.
    """

    def __init__(self, folder: Path) -> None:
        self._free: list[int] = []
        self._slots = 0
        self._path = folder / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        # renamed once it is locked, so that no other process reads it before
        made = self._path.with_suffix(".new")
        self._file = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        # a file system without locks, where other processes do not read it either
        with suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(made, self._path)

    def begin(self, call: Mapping[str, object]) -> int:
        """Write a call; returns its place. Raises UserError when the disk is full."""
        place = self._free.pop() if self._free else self._slots
        self._slots = max(self._slots, place + 1)
        try:
            self.write(place, call)
        except OSError as problem:
            self.end(place)
            raise unwritten(self._path, problem) from None
        return place

    def write(self, place: int, call: Mapping[str, object]) -> None:
        """Overwrite the line of a call, which needs no further disk space. Raises OSError."""
        line = to_json(call)
        if len(line) >= SLOT:
            # A longer line would run into the next call's.
            line = to_json({**call, "question": None, "seat": None})
        if os.pwrite(self._file, line.ljust(SLOT - 1) + b"\n", place * SLOT) < SLOT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def end(self, place: int) -> None:
        """Blank the line of an ended call, after it was booked or found to cost nothing."""
        with suppress(OSError):
            # Without its first brace the line is no record any more.
            os.pwrite(self._file, b" ", place * SLOT)
        self._free.append(place)

    def close(self) -> None:
        if len(self._free) == self._slots:
            for path in (self._path, self._path.with_suffix(".new")):
                path.unlink(missing_ok=True)
        file, self._file = self._file, -1  # the next file may get its number
        os.close(file)


def _timed(entry: Entry) -> dict[str, object]:
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    return {"time": f"{_second(seconds)}.{milliseconds:03}+00:00", **entry}


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    """A second as ISO 8601: kept, since writing it takes longer than the line of the ledger."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def _lines(folder: Path) -> Iterator[Entry]:
    return cast(Iterator[Entry], records(folder / LEDGER, Entry.__required_keys__))


def _abandoned(folder: Path, *, take: bool = False) -> Iterator[Entry]:
    """The calls that dead processes left in flight and that are not yet on the ledger; with `take`,
    the files of those processes are deleted.
    """
    # a new file is not locked yet, or never
    for path in sorted(path for path in folder.glob(f"{_PREFIX}*") if path.suffix != ".new"):
        with suppress(OSError):  # its process is alive, or another process is taking the file
            file = open_regular(path, links=False)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # a process may have died after it booked a call and before it blanked the line
                booked = {
                    (line["key"], line["attempts"]): line.get("time", "") for line in _lines(folder)
                }
                for call in records(file, ("key", "attempts")):
                    booked_at = booked.get((call["key"], call["attempts"]), "")
                    if booked_at < call.get("time", ""):
                        yield cast(Entry, call)
                if take:
                    path.unlink(missing_ok=True)
            finally:
                os.close(file)


def read_ledger(folder: Path) -> Iterator[Entry]:
    """The ledger's lines in order, without torn ones, then the calls that a killed run lost."""
    home = books_of(folder)
    yield from _lines(home)
    yield from _abandoned(home)


def totals(*folders: Path) -> Usage:
    """What budgets count in folders, over all their runs and resumptions: answered calls, and those
    that may have been billed.
    """
    return Usage.of_calls([entry for folder in folders for entry in read_ledger(folder)])


def lost_in(*folders: Path) -> Usage:
    """The part of `totals` for calls without an answer."""
    entries = (entry for folder in folders for entry in read_ledger(folder))
    return Usage.of_calls([entry for entry in entries if entry.get("lost")])


def answered_for(folder: Path, questions: Container[str | None]) -> dict[str, set[str]]:
    """For each of these questions, the keys of its paid requests that the records can answer."""
    keys: dict[str, set[str]] = {}
    for entry in read_ledger(folder):
        if entry["kept"] and entry["question"] in questions:
            keys.setdefault(str(entry["question"]), set()).add(entry["key"])
    return keys
