"""Stores of replies by call key: the record of a run, and the user's cache; and the books (ledgers,
budgets, stores) that a call passes.
"""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...modules.agents.profile import Profile
from ...modules.base.context import OPEN_BOOKS, bound
from ...modules.base.errors import UserError
from ...modules.base.files import open_regular, own_folder, read_regular, whole_lines
from ...modules.base.keyvalue import KeyValue
from ..base.journal import Journal, as_json, from_json, parsed, to_json, unwritten, write_json
from ..base.run_files import books_of
from ..base.settings import settings
from .endpoint import Reply
from .ledger import Entry, Ledger, usage_of

if TYPE_CHECKING:
    from ..base.account import Account

CALLS = "calls.jsonl"
LMS = "lms.json"
CACHE = "calls.sqlite"
METERS: set[str] = set()
"""The addresses, up to `/v1`, that meters in this process serve; calls to them are booked there."""
BATCH = 64  # replies written together; a kill loses them here, but not in the record of their run
_FIELDS = frozenset(field.name for field in fields(Reply))
_NEEDED = frozenset(field.name for field in fields(Reply) if field.default is MISSING)


class _Line(NamedTuple):
    """Where a reply is in the file, and whether it ended well."""

    start: int
    length: int
    ended_well: bool


class CallStore:
    """Calls by key in `DIR/calls.jsonl`, one JSON object a line, appended in one write each.

    Several processes may append to the same folder; a miss reads what others have added since. Only
    byte positions are kept in memory. Thread-safe.

    Replies that were cut off, refused or empty are only returned by a read-only store, which
    replays a run, and by the store that wrote them, so that the programs of one contest share them.
    A resumed run asks for them again.
    """

    def __init__(self, folder: Path, *, readonly: bool = False) -> None:
        self.folder = folder
        self.readonly = readonly
        self._path = folder / CALLS
        self._lock = threading.Lock()
        self._lines: dict[bytes, _Line] = {}
        self._written: set[bytes] = set()  # keys of replies that this store wrote
        self._read_to = 0
        self._file: int | None = None
        self._journal: Journal | None = None
        if self._path.is_symlink():
            raise UserError(
                f"{self._path} is a link to another place: name a folder with the file itself"
            )
        if readonly and not self._path.is_file():
            raise UserError(
                f"{folder} holds no recorded calls ({CALLS} is missing): name a folder written "
                "by --record"
            )
        if not readonly:
            folder.mkdir(parents=True, exist_ok=True)

    def __reduce__(self) -> tuple[object, ...]:
        """Return how another process makes this store: from the same folder."""
        return partial(CallStore, readonly=self.readonly), (self.folder.absolute(),)

    def __len__(self) -> int:
        with self._lock:
            self._scan()
            return sum(line.ended_well for line in self._lines.values())

    def get(self, key: str) -> Reply | None:
        """Return the recorded reply, or None."""
        name = bytes.fromhex(key)
        with self._lock:
            line = self._lines.get(name)
            if line is None or not line.ended_well:  # another process may have added one since
                self._scan()
                line = self._lines.get(name)
            if line is None or not (line.ended_well or self.readonly or name in self._written):
                return None
            text = os.pread(self._descriptor(), line.length, line.start)
        return Reply(**from_json(text)["reply"])

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield the key and the line of every recorded call that ended well."""
        with self._lock:
            self._scan()
            for key, line in self._lines.items():
                if line.ended_well:
                    yield key, os.pread(self._descriptor(), line.length, line.start)

    def put(self, key: str, model: str, reply: Reply) -> None:
        """Append a reply, unless there is one for this key that ended well. Raises UserError when
        the disk is full.
        """
        name = bytes.fromhex(key)
        with self._lock:
            try:
                self._scan()
                line, complete = self._lines.get(name), reply.complete
                if line is not None and (line.ended_well or not complete):
                    return
                if self._journal is None:
                    self._journal = Journal(self._path)
                written = {"key": key, "model": model, "reply": reply.kept}
                start, length = self._journal.write(written)
                self._written.add(name)
                if start == self._read_to:  # no other process has written, so nothing is to scan
                    self._read_to = start + length
                    self._lines[name] = _Line(start, length, complete)
            except OSError as problem:
                raise unwritten(self._path, problem) from None

    def close(self) -> None:
        with self._lock:
            if self._journal is not None:
                self._journal.close()
                self._journal = None
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _descriptor(self) -> int:
        if self._file is None:
            self._file = open_regular(self._path, links=False)
        return self._file

    def _scan(self) -> None:
        """Index the complete lines that were added since the last read."""
        if self._file is None and not self._path.exists():
            return
        descriptor = self._descriptor()
        if os.fstat(descriptor).st_size <= self._read_to:
            return
        for start, line in whole_lines(descriptor, self._read_to):
            self._read_to = start + len(line)
            record = parsed(line, ("key", "reply"))
            # A damaged line is skipped: a killed process left it, before it used the reply.
            with suppress(ValueError, TypeError, AttributeError):
                if record is not None and (reply := _reply_of(record["reply"])):
                    name = bytes.fromhex(record["key"])
                    # Of several replies for a key, the first one that ended well counts.
                    if name not in self._lines or not self._lines[name].ended_well:
                        self._lines[name] = _Line(start, len(line), reply.complete)


class CallCache:
    """Replies by call key in `DIR/calls.sqlite`, a `KeyValue` of at most `most_bytes`.

    Unlike a `CallStore`, which indexes a whole record in memory, it may be large and opens at once.
    If the disk gives trouble, there is one warning, and calls are made without the cache.
    """

    readonly = False

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.path = folder / CACHE
        self._store = KeyValue(
            self.path, "call cache", "calls are made without it", most_bytes=most_bytes, batch=BATCH
        )

    def close(self) -> None:
        self._store.close()

    def get(self, key: str) -> Reply | None:
        """Return the cached reply, or None."""
        text = self._store.get(bytes.fromhex(key))
        return None if text is None else _reply_of(parsed(text))

    def put(self, key: str, model: str, reply: Reply) -> None:
        """Store a complete reply, unless there is one for this key."""
        self._store.put(bytes.fromhex(key), to_json(reply.kept))


def _reply_of(value: object) -> Reply | None:
    """Return the reply with these fields; None if some are missing or unknown."""
    known = isinstance(value, dict) and _NEEDED <= value.keys() <= _FIELDS
    return Reply(**value) if known else None  # type: ignore[arg-type]


def write_lms(folder: Path, lms: Mapping[str, Mapping[str, object]]) -> None:
    """Write down which LM answered for which agent (`*`: all others), so that `replay/DIR` asks in
    the same way. Raises UserError if the folder is the record of a run with other LMs.
    """
    if (folder / LMS).exists() and read_lms(folder) != as_json(lms):
        raise UserError(
            f"{folder} is the record of a run with other LMs: choose another folder to record to"
        )
    write_json(folder / LMS, lms)


def read_lms(folder: Path) -> dict[str, dict[str, Any]]:
    """Return agent → identity of its LM, as `write_lms` wrote it. Raises UserError if the file is
    missing or damaged.
    """
    try:
        lms = json.loads(read_regular(books_of(folder) / LMS))
        for identity in lms.values():
            Profile(**identity["profile"])
    except OSError:
        raise UserError(
            f"{folder} is not a recorded run ({LMS} is missing): name a folder written by --record"
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError) as problem:
        raise UserError(
            f"{folder / LMS} cannot be read ({problem}): record the run again"
        ) from None
    return dict(lms)


@contextmanager
def open_cache(wanted: bool = True) -> Iterator[CallCache | None]:
    """The user's call cache, open in the block; None if it is not wanted or switched off
    (FOLKMOOT_CALLS_MB=0), and, with a warning, if its folder is a link or another user's.
    """
    limits = settings()
    folder, cache = limits.cache / "calls", None
    if wanted and limits.calls_mb:
        try:
            own_folder(folder)
            cache = CallCache(folder, limits.calls_mb * 2**20)
        except OSError as problem:
            warnings.warn(
                f"the call cache {folder} cannot be used ({problem.strerror}): calls are made "
                "without it; delete it, or set FOLKMOOT_CACHE to a folder of your own",
                RuntimeWarning,
                stacklevel=4,
            )
    try:
        yield cache
    finally:
        if cache is not None:
            cache.close()


@dataclass(frozen=True)
class BooksAround:
    """The books of the runs around a call, the innermost first.

    Before a call, the stores are searched in order, then the cache (but not for LMs whose answers
    depend on earlier calls). A call that is made has to pass all accounts, is written to every
    ledger, and its reply to every store. `meter` counts the calls of LMs that `fm.lm` did not make.
    """

    ledgers: tuple[Ledger, ...] = ()
    accounts: tuple[Account, ...] = ()
    stores: tuple[CallStore, ...] = ()
    cache: CallCache | None = None
    meter: Any = None


@contextmanager
def limited_by(account: Account) -> Iterator[None]:
    """Make calls in the block pass this account, too."""
    books = books_around()
    with bound(OPEN_BOOKS, replace(books, accounts=(account, *books.accounts))):
        yield


def at_meter(address: object) -> bool:
    """Return whether an address is that of a meter in this process, which books the calls to it."""
    return str(address).startswith(tuple(METERS))


def books_around() -> BooksAround:
    """Return the books of the runs around the current call."""
    books: BooksAround | None = OPEN_BOOKS.get()
    return books or BooksAround()


@dataclass
class Booking:
    """One call in the books around it: the accounts that have admitted it, and the ledgers that
    have it in flight.
    """

    admitted: list[Account] = field(default_factory=list)
    _sent: list[tuple[Ledger, int]] = field(default_factory=list)

    def send(self, lost: Entry) -> None:
        """Write the call to the ledgers as in flight; `lost` is what to book if its end is never
        known. Raises UserError if the disk does not allow it.
        """
        for ledger in books_around().ledgers:
            self._sent.append((ledger, ledger.send(lost)))

    def settle(self, entry: Entry | None) -> None:
        """Book the end of the call; None if nothing was paid. Raises UserError if the disk is full,
        after the accounts have counted the call.
        """
        for account in self.admitted:
            if entry is not None:
                account.charge(usage_of(entry), entry["model"])
            account.leave()
        for ledger, place in self._sent:
            ledger.settle(place, entry)
