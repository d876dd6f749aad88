"""The cursor file, which says how far the tracking store matches a folder and is locked while open;
and the list of folders on this machine that the store does not have completely.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import BaseModel, Field, ValidationError

from ...modules.base.files import open_regular
from ..base.journal import read_object, write_json
from ..base.run_files import books_of
from ..base.settings import settings
from .context import CURSOR, NOWHERE, CallerPlace, caller_place
from .entry import Json
from .store import current_store


class RunState(BaseModel):
    """The parts of one run that the store has: its id, and a digest of each part that was sent.
    `traces` is the offset in the file of traces up to which they were sent.
    """

    run_id: str | None = None
    sent: dict[str, str] = {}
    traces: int = 0


class Beginning(BaseModel):
    """A run's notes for its push: when it began and ended, its caller's place in MLflow, whether it
    has a model, the LM of its seats, and the name to register it under.
    """

    began: int | None = None
    ended: int | None = None
    place: CallerPlace = NOWHERE
    model: bool = True
    lm: Json | None = None
    registered: str | None = None


def new_key() -> str:
    return uuid.uuid4().hex


class Cursor(BaseModel):
    """The content of the cursor file: the parts of a folder's runs that the store has. `clean` says
    that the last push finished its work; if it is false, the next push asks the store what it
    holds. `key` names the folder's runs in any store. By `place` and `inode` a copy of a folder is
    told from one that was moved.
    """

    store: str
    clean: bool = True
    key: str = Field(default_factory=new_key, pattern=r"^[0-9a-z]+$")
    place: str = ""  # of this file, with its number on the disk
    inode: int = 0
    noted: dict[str, Beginning] = {}
    runs: dict[str, RunState] = {}
    asks: bool = Field(default=False, exclude=True)
    file: int | None = Field(default=None, exclude=True)

    def save(self, *, clean: bool = False) -> None:
        """Write the file in place; after a full disk or a kill, the next push asks the store what
        it holds.
        """
        self.clean = clean
        if self.file is None:
            return
        text = self.model_dump_json(indent=1).encode()
        with suppress(OSError):
            # In place: a new file under the name would not have the lock that this one holds.
            os.pwrite(self.file, text, 0)
            os.ftruncate(self.file, len(text))


@contextmanager
def cursor_of(folder: Path) -> Iterator[Cursor]:
    """Open the cursor of a folder, for one thread at a time; others wait. The cursor of a folder
    that cannot be written is not kept, so every push asks the store; the same holds for a damaged
    file, and for one of another store.
    """
    store = current_store()
    place = books_of(folder) / CURSOR
    try:
        place.parent.mkdir(exist_ok=True)
        file = open_regular(place, os.O_RDWR | os.O_CREAT, links=False)
    except OSError:
        yield Cursor(store=store, asks=True)
        return
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield _read(place, file, store)
    finally:
        os.close(file)


def _read(place: Path, file: int, store: str) -> Cursor:
    text = os.pread(file, os.fstat(file).st_size, 0)
    try:
        cursor = Cursor.model_validate_json(text) if text else Cursor(store=store)
    except ValidationError:
        cursor = Cursor(store=store, clean=False)
    # What goes on in a copy of a folder that is still there is a run of its own.
    inode, copied = os.fstat(file).st_ino, False
    if cursor.inode not in (0, inode):
        with suppress(OSError, ValueError):
            copied = os.stat(cursor.place).st_ino == cursor.inode
    if copied:
        cursor.key, cursor.runs = new_key(), {}
    cursor.place, cursor.inode = str(place.absolute()), inode
    cursor.asks, cursor.file = not cursor.clean, file
    if cursor.store != store:
        # Ids of another store mean nothing here, where the runs may be all the same.
        cursor.store, cursor.runs, cursor.asks = store, {}, True
        for beginning in cursor.noted.values():
            beginning.place = caller_place()
    return cursor


def note_beginning(folder: Path, kind: str, beginning: Beginning, *, pushes: bool) -> bool:
    """Note when a run began, its caller's place in MLflow, and the needs of its model. Returns
    whether to ask the store what it holds. With `pushes`, this process will push the run; if it is
    killed or the disk is full before that, the next push asks.
    """
    with cursor_of(folder) as cursor:
        if (first := cursor.noted.get(kind)) is not None:  # an earlier attempt
            beginning.began, beginning.place = first.began or beginning.began, first.place
        cursor.noted[kind] = beginning
        cursor.save(clean=not (pushes or cursor.asks))
        return cursor.asks


def now() -> int:
    """Return milliseconds since 1970."""
    return int(time.time() * 1000)


def note_end(folder: Path, kind: str, ended: int) -> None:
    """Note when a run ended."""
    with cursor_of(folder) as cursor:
        cursor.noted.setdefault(kind, Beginning()).ended = ended
        cursor.save(clean=cursor.clean)


def kind_of(key: str) -> str:
    """Return the kind of a run, which its key names."""
    return key.split("/")[1]


def run_ids(folder: Path) -> dict[str, str]:
    """Return the ids of the folder's own runs in the store, by kind."""
    ids: dict[str, str] = {}
    with suppress(ValidationError):
        cursor = Cursor.model_validate(read_object(books_of(folder) / CURSOR) or {"store": ""})
        for key, state in cursor.runs.items():
            if state.run_id is not None:
                ids.setdefault(kind_of(key), state.run_id)  # the runs below it have longer keys
    return ids


def note_pushed(folder: Path, store: str, *, whole: bool) -> None:
    """Note whether a store has a folder completely; if so, a copy kept for sending is deleted."""
    pointer = _list() / f"{_name(folder)}.json"
    with suppress(OSError):
        if not whole:
            pointer.parent.mkdir(parents=True, exist_ok=True)
            write_json(pointer, {"folder": str(folder.absolute()), "store": store})
            return
        pointer.unlink(missing_ok=True)
        if folder.absolute().parent == _list().absolute():
            shutil.rmtree(folder)


def waiting(store: str | None = None) -> list[Path]:
    """Return the folders with something to send, to one store or to any, in order of their
    names.
    """
    folders = []
    for pointer in sorted(_list().glob("*.json")):
        entry = read_object(pointer) or {}
        folder = Path(str(entry.get("folder")))
        if not folder.is_dir():  # deleted since then
            with suppress(OSError):
                pointer.unlink()
        elif store in (None, entry.get("store")):
            folders.append(folder)
    return sorted(folders)


def keep_copy(folder: Path) -> Path:
    """Copy a folder that is about to be deleted, and keep the copy until it is sent."""
    target = _list() / f"run-{os.getpid()}-{_name(folder)}"
    shutil.copytree(folder, target, dirs_exist_ok=True)
    return target


def _list() -> Path:
    return settings().cache / "unsent"


def _name(folder: Path) -> str:
    return hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:16]
