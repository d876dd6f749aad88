"""How far the tracking store matches a folder: one file, which is locked while it is open."""

from __future__ import annotations

import fcntl
import json
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypedDict, cast

from ...modules.base.files import open_regular
from ..base.journal import parsed, read_object
from .context import NOWHERE, CallerPlace
from .entry import Json
from .store import current_store

CURSOR = "pushed.json"


class RunState(TypedDict):
    """What is known of one run in the store: its id, and a digest of each part that was sent.

    `curve` is the last step of the curve that was sent, `traces` the place in the file of traces
    up to which they were sent.
    """

    run_id: str | None
    sent: dict[str, str]
    curve: int
    traces: int


class Noted(NamedTuple):
    """What a run's process noted of it: when it began and ended, where its caller was in MLflow,
    whether it has a model, the LM of its seats, and the name that it is to be registered under.
    """

    began: int | None
    ended: int | None
    place: CallerPlace
    model: bool
    lm: Json | None
    registered: str | None


class Cursor:
    """What the store has of a folder's runs.

    `asks` says that the last push failed or was killed, so that the store has to be asked what it
    holds; also of a damaged file, and of another store.
    """

    def __init__(self, file: int | None, fields: Json | None, store: str) -> None:
        self._file = file
        self.fields: Json = {} if fields is None else fields
        known_store = self.fields.get("store")
        self.asks = fields is None or not self.fields.get("clean", True)
        if known_store not in (None, store):
            self.asks = True
            self.fields.pop("runs", None)
        self.fields["store"] = store

    @property
    def key(self) -> str:
        """Names this folder's runs in any store."""
        key = self.fields.get("key")
        if not (isinstance(key, str) and key.isalnum()):
            key = self.fields["key"] = uuid.uuid4().hex
        return key

    def noted(self, kind: str) -> Noted:
        """What was noted when the run of a kind began."""
        known = self.fields.get("noted")
        noted = known.get(kind) if isinstance(known, dict) else None
        noted = noted if isinstance(noted, dict) else {}
        began, ended = noted.get("began"), noted.get("ended")
        lm, name = noted.get("lm"), noted.get("registered")
        place = noted.get("place")
        texts = {
            name: value
            for name, value in (place.items() if isinstance(place, dict) else ())
            if name in NOWHERE and isinstance(value, str)
        }
        return Noted(
            began if isinstance(began, int) else None,
            ended if isinstance(ended, int) else None,
            cast(CallerPlace, {**NOWHERE, **texts}),
            noted.get("model") is not False,
            lm if isinstance(lm, dict) else None,
            name if isinstance(name, str) else None,
        )

    def state(self, key: str) -> RunState:
        """The state of a run, which may be changed in place."""
        runs = self.fields.setdefault("runs", {})
        found = runs.get(key)
        if not (isinstance(found, dict) and isinstance(found.get("sent"), dict)):
            runs[key] = RunState(run_id=None, sent={}, curve=-1, traces=0)
        state: RunState = runs[key]
        return state

    def save(self, *, clean: bool = False) -> None:
        """Write the file in place; after a full disk or a kill, the next push asks."""
        self.fields["clean"] = clean
        if self._file is None:
            return
        text = json.dumps(self.fields, indent=1).encode()
        with suppress(OSError):
            os.pwrite(self._file, text, 0)
            os.ftruncate(self._file, len(text))


@contextmanager
def cursor_of(folder: Path) -> Iterator[Cursor]:
    """The cursor of a folder, for one thread at a time; others wait.

    A folder that cannot be written has one that is forgotten, and so asks the store.
    """
    try:
        file = open_regular(folder / CURSOR, os.O_RDWR | os.O_CREAT, links=False)
    except OSError:
        yield Cursor(None, None, current_store())
        return
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        text = os.pread(file, os.fstat(file).st_size, 0)
        yield Cursor(file, parsed(text) if text else {}, current_store())
    finally:
        os.close(file)


def note_beginning(folder: Path, kind: str, beginning: Noted, *, pushes: bool) -> bool:
    """Note when a run began, where its caller was in MLflow, and what its model needs besides.

    Returns whether the store is to be asked what it holds. With `pushes`, this process is going to
    push the run: should it be killed, or the disk be full by then, the next push asks.
    """
    with cursor_of(folder) as cursor:
        noted = cursor.fields.setdefault("noted", {}).setdefault(kind, {})
        first = {"began": noted.get("began"), "place": noted.get("place")}
        noted |= beginning._asdict() | {name: value for name, value in first.items() if value}
        _ = cursor.key
        cursor.save(clean=not (pushes or cursor.asks))
        return cursor.asks


def now() -> int:
    """Milliseconds since 1970."""
    return int(time.time() * 1000)


def note_end(folder: Path, kind: str, ended: int) -> None:
    """Note when a run ended."""
    with cursor_of(folder) as cursor:
        cursor.fields.setdefault("noted", {}).setdefault(kind, {})["ended"] = ended
        cursor.save(clean=cursor.fields.get("clean") is True)


def kind_of(key: str) -> str:
    """The kind of a run, which its key names."""
    return key.split("/")[1]


def run_ids(folder: Path) -> dict[str, str]:
    """The ids of the folder's own runs by kind, as far as the store has them."""
    fields = read_object(folder / CURSOR) or {}
    runs = fields.get("runs")
    ids: dict[str, str] = {}
    for key, state in runs.items() if isinstance(runs, dict) else ():
        if isinstance(state, dict) and isinstance(state.get("run_id"), str):
            ids.setdefault(kind_of(key), state["run_id"])  # those below it follow
    return ids
