"""A list of the folders on this machine that the tracking store does not have whole yet."""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from pathlib import Path

from ..base.journal import read_object, write_json
from ..base.settings import settings


def note_pushed(folder: Path, store: str, *, whole: bool) -> None:
    """Note whether a store has a folder whole; a copy that was kept for it is then deleted."""
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
    """The folders with something to send, to one store or to any, in order of their names."""
    folders = []
    for pointer in sorted(_list().glob("*.json")):
        noted = read_object(pointer) or {}
        folder = Path(str(noted.get("folder")))
        if not folder.is_dir():  # deleted since then
            with suppress(OSError):
                pointer.unlink()
        elif store in (None, noted.get("store")):
            folders.append(folder)
    return sorted(folders)


def keep_copy(folder: Path) -> Path:
    """Copy a folder that is about to be deleted to where it is kept until it is sent."""
    target = _list() / f"run-{os.getpid()}-{_name(folder)}"
    shutil.copytree(folder, target, dirs_exist_ok=True)
    return target


def _list() -> Path:
    return settings().cache / "unsent"


def _name(folder: Path) -> str:
    return hashlib.sha256(os.fsencode(folder.absolute())).hexdigest()[:16]
