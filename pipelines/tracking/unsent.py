"""Runs that MLflow does not have whole yet: a note in the run's folder, and a list of such
folders.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..base.journal import read_object, write_json
from ..base.settings import settings

UNSENT = "unsent.json"
TRACES_LEFT = "traces"
SAVED = "program"
"""The folder of a program that waits to be logged."""
WHOLES = ("compile.json", "study.json", "study.db", "distil.json")
"""What is in a folder whose parts are runs."""


def note_unsent(folder: Path, about: Mapping[str, Any]) -> bool:
    """Note what is missing: `missing` (names), `store`, `status` and the tracker's `key`.

    False where a full disk does not take the note, and an earlier one that says more or the same
    command has to do.
    """
    try:
        write_json(folder / UNSENT, about)
        pointer = _pointer(folder)
        pointer.parent.mkdir(parents=True, exist_ok=True)
        write_json(pointer, {"folder": str(folder.absolute()), "store": about["store"]})
    except OSError:
        return unsent_in(folder) is not None
    return True


def unsent_in(folder: Path) -> dict[str, Any] | None:
    """What is missing of the run in a folder; None when nothing is."""
    found = read_object(folder / UNSENT)
    if found is None or not isinstance(found.get("missing"), list):
        return None
    return {**found, "missing": [str(name) for name in found["missing"]]}


def note_sent(folder: Path, what: str | None = None) -> None:
    """Take one thing off what is missing; None, or the last one, deletes the note."""
    found = unsent_in(folder)
    left = [name for name in found["missing"] if name != what] if found and what else []
    if found and left:
        note_unsent(folder, {**found, "missing": left})
        return
    for path in (folder / UNSENT, _pointer(folder)):
        with suppress(OSError):
            path.unlink(missing_ok=True)


def waiting(store: str | None = None) -> list[Path]:
    """The folders on this machine with something to send, to one store or to any, in order of their
    names.
    """
    found = []
    for pointer in sorted(_list().glob("*.json")):
        known = read_object(pointer)
        if known is None or not isinstance(known.get("folder"), str):
            continue
        folder = Path(known["folder"])
        if unsent_in(folder) is None:  # sent since then, or deleted
            with suppress(OSError):
                pointer.unlink()
        elif store is None or known.get("store") == store:
            found.append(folder)
    return sorted(found)


def waiting_beside(folder: Path, store: str) -> list[Path]:
    """Those that wait for a store and can be sent with the folder's run.

    Other parts of the compilation or study that it is a part of are left out: as children of its
    run they are sent in their turn.
    """
    whole = _whole(folder)
    return [
        one
        for one in waiting(store)
        if one != folder.absolute() and (whole is None or not one.is_relative_to(whole))
    ]


def _whole(folder: Path) -> Path | None:
    parents = folder.absolute().parents
    return next((one for one in parents if any((one / name).exists() for name in WHOLES)), None)


def keep_copy(folder: Path) -> Path:
    """Where the files of a folder that is about to be deleted are kept until they are sent."""
    import shutil

    target = _list() / f"run-{os.getpid()}-{_name(folder)}"
    shutil.copytree(folder, target, dirs_exist_ok=True)
    return target


def is_copy(folder: Path) -> bool:
    return folder.absolute().parent == _list().absolute()


def _list() -> Path:
    return settings().cache / "unsent"


def _pointer(folder: Path) -> Path:
    return _list() / f"{_name(folder)}.json"


def _name(folder: Path) -> str:
    return hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:16]
