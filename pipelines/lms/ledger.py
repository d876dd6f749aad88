"""The ledger: every paid LM call, once, written to disk before its reply is used. Calls in flight
are in another file of the folder, so that those of a killed process count as spent.
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
RECENT = 25  # replies, whose sizes are used to estimate that of a lost one
SUMMED_AT_ONCE = 256  # lines; adding them one by one would take five times as long
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

    `key` is the call key of the request, `attempts` includes the failed ones before it, and `kept`
    says whether the reply was complete, so that a record or cache may return it again. A `lost`
    call was sent and has no known end: its tokens and cost are those of a typical reply. The fields
    below may be missing.
    """

    cached_prompt_tokens: int | None
    cache_write_tokens: int | None
    reasoning_tokens: int | None
    finish_reason: str
    time: str
    lost: bool


def usage_of(entry: Mapping[str, object]) -> Usage:
    """Return the usage of one paid call."""
    return Usage.of({**entry, "calls": 1})


class Ledger:
    """`DIR/ledger.jsonl`, appended in one write per call. Thread-safe.

    Calls in flight when it is closed are booked as lost. Calls that cannot be booked because the
    disk is full stay in the file of calls in flight, and are booked when the ledger is next opened.
    Raises OSError when it cannot be opened.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._total, self._lost = Usage(), Usage()
        self._new: list[Mapping[str, object]] = []  # lines that are not in the sums yet
        self._sizes: dict[str, deque[int]] = {}
        self._lock = threading.Lock()
        self._under_way: dict[int, Entry] = {}
        self._journal = Journal(folder / LEDGER)
        # Kept to notice if the file is deleted: writing to it would succeed, and be lost.
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
        returns its number for `settle`. Raises UserError when the disk is full or the folder gone.
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
            # If the ledger was closed meanwhile, that has booked the call.
            if self._under_way.pop(place, None) is None:
                return
            if entry is not None:
                line = _timed(entry)
                try:
                    self._add(line)
                except UserError:
                    # The line stays in the file of calls in flight, from which it is booked later.
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
        """Book the calls that dead processes left in flight."""
        for entry in _find_abandoned(self._journal.path.parent, take=True):
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
        """Add a line to the sums and to the sizes of replies."""
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
        """Return whether the rows of the folder paid for more calls than the ledger has, because it
        was damaged or deleted; the ledger then counts what the rows paid.
        """
        paid = (rows.calls or 0) - rows.cached_calls
        more = paid > self.total.calls + self._lost.calls
        if more:
            self._total = replace(rows, calls=paid, cached_calls=0)
        return more

    def typical_reply(self, model: str) -> int | None:
        """Return the median size, in tokens, of an LM's recent replies; None without any."""
        sizes = self._sizes.get(model)
        return int(median(sizes)) if sizes else None

    def bill(self) -> tuple[Usage, Usage]:
        """Return what was paid for answered calls, and what calls without a known end, including
        those in flight, may cost in addition.
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
    """A file that its process locks, with a line of fixed length for each call in flight.

    A line is written before the call is sent and blanked when it ends; then the next call gets its
    place. On closing, the file is deleted unless a line is left, of a call that the ledger could
    not book. Raises OSError when it cannot be created.
    """

    def __init__(self, folder: Path) -> None:
        self._free: list[int] = []
        self._slots = 0
        self._path = folder / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
        # Renamed once it is locked, so that no other process takes it for one of a dead process.
        made = self._path.with_suffix(".new")
        self._file = os.open(made, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        # On a file system without locks, it keeps the name under which nobody reads it.
        with suppress(OSError):
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(made, self._path)

    def begin(self, call: Mapping[str, object]) -> int:
        """Write a call; returns the number of its line. Raises UserError when the disk is full."""
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
            # It would run into the next call's line.
            line = to_json({**call, "question": None, "seat": None})
        if os.pwrite(self._file, line.ljust(SLOT - 1) + b"\n", place * SLOT) < SLOT:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def end(self, place: int) -> None:
        """Blank the line of a call that ended."""
        with suppress(OSError):
            # Without its opening brace, the line is skipped when the file is read.
            os.pwrite(self._file, b" ", place * SLOT)
        self._free.append(place)

    def close(self) -> None:
        if len(self._free) == self._slots:
            for path in (self._path, self._path.with_suffix(".new")):
                path.unlink(missing_ok=True)
        # Forgotten first: the number of a closed descriptor may be given to another file.
        file, self._file = self._file, -1
        os.close(file)


def _timed(entry: Entry) -> dict[str, object]:
    """Return the ledger's line of an entry: with the current time, to the millisecond."""
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    return {"time": f"{_second(seconds)}.{milliseconds:03}+00:00", **entry}


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    """Return a second as ISO 8601. Cached, as formatting it takes longer than writing the whole
    line.
    """
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def _lines(folder: Path) -> Iterator[Entry]:
    return cast(Iterator[Entry], records(folder / LEDGER, Entry.__required_keys__))


def _find_abandoned(folder: Path, *, take: bool = False) -> Iterator[Entry]:
    """Yield the calls that dead processes left in flight and that are not yet on the ledger; with
    `take`, the files of those processes are deleted.
    """
    # A `.new` file is not locked (yet), so it does not show whether its process is alive.
    for path in sorted(path for path in folder.glob(f"{_PREFIX}*") if path.suffix != ".new"):
        with suppress(OSError):  # its process is alive, or another process is taking the file
            file = open_regular(path, links=False)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A process may have died after it booked a call but before it blanked the line.
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
    """Yield the ledger's lines in order, without torn ones, then the calls that a killed run
    lost.
    """
    home = books_of(folder)
    yield from _lines(home)
    yield from _find_abandoned(home)


def totals(*folders: Path) -> Usage:
    """Return the usage that budgets count in these folders, over all their runs and resumptions:
    that of answered calls and of those that may have been billed.
    """
    return Usage.of_calls([entry for folder in folders for entry in read_ledger(folder)])


def lost_in(*folders: Path) -> Usage:
    """Return the part of `totals` for calls without an answer."""
    entries = (entry for folder in folders for entry in read_ledger(folder))
    return Usage.of_calls([entry for entry in entries if entry.get("lost")])


def answered_for(folder: Path, questions: Container[str | None]) -> dict[str, set[str]]:
    """For each of these questions, the keys of its paid requests that the records can answer."""
    keys: dict[str, set[str]] = {}
    for entry in read_ledger(folder):
        if entry["kept"] and entry["question"] in questions:
            keys.setdefault(str(entry["question"]), set()).add(entry["key"])
    return keys
