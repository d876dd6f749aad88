"""Sends to the tracking store what it could not take while a run lasted."""

from __future__ import annotations

import shutil
import threading
from contextlib import suppress
from dataclasses import fields
from pathlib import Path

from ...modules.base.errors import UserError
from ...modules.protocols.foreign import MODULE
from ..base.journal import read_object
from ..programs.saved import load_program
from ..runs.folder import claimed
from ..runs.manifest import MANIFEST, read_run
from ..runs.summary import SUMMARY, Summary
from ..tracking.store import current_store
from ..tracking.tracker import start_tracking
from ..tracking.unsent import SAVED, is_copy, unsent_in, waiting_beside
from ..tracking.uploads import ModelUpload
from .logged import evaluation_uploads

SECONDS = 120.0  # what runs that wait for the store may take at the end of another
_OTHERS = {
    "compile.json": "compilation",
    "study.json": "study",
    "distil.json": "distillation",
    "training.json": "training",
}
"""What stands in folders that hold more than one run, or none; their commands log them."""


def push(folder: Path) -> list[str]:
    """Log a finished run's folder, into the tracked run that it has or a new one; what was not
    taken.

    A folder that notes nothing as missing is logged whole. Raises UserError for a folder that holds
    no finished run, such as that of a compilation or study, or one that another process is writing
    to.
    """
    for name, what in _OTHERS.items():
        if (folder / name).is_file() and not (folder / MANIFEST).exists():
            raise UserError(
                f"{folder} holds a {what}, whose own MLflow run is logged by giving its command "
                f"again, which "
                "asks nothing anew"
            )
    about = unsent_in(folder) or {"status": "FINISHED", "key": None}
    if not folder.is_dir():
        raise UserError(f"{folder} cannot be read (no such folder): name the folder of a run")
    with claimed(folder, "name another folder"):
        try:
            run = read_run(folder)
            found = read_object(folder / SUMMARY) or {}
            known = {
                field.name: found[field.name] for field in fields(Summary) if field.name in found
            }
            summary = Summary(**known, run=run)
        except (UserError, TypeError):
            raise UserError(
                f"{folder} holds no finished run ({MANIFEST} or {SUMMARY} is missing or "
                f"damaged): run its "
                "command again"
            ) from None
        saved, model = folder / SAVED, None
        # a user's own class, which is not imported here
        if saved.is_dir() and not (saved / MODULE).exists():
            model = ModelUpload(load_program(saved))
        tracker = start_tracking(run, folder, key=about.get("key"))
        missing = tracker.end(
            evaluation_uploads(summary, folder, tracker), about["status"], folder, model, warn=False
        )
        if missing:
            return missing
    if is_copy(folder):
        shutil.rmtree(folder, ignore_errors=True)
    return []


def push_others(folder: Path) -> None:
    """Send what the store, now that it took the folder's run, could not take of earlier ones."""
    others = waiting_beside(folder, current_store())

    def work() -> None:
        for one in others:
            with suppress(UserError):  # another process has it, or it is damaged
                push(one)

    if others:
        thread = threading.Thread(target=work, name="folkmoot-push", daemon=True)
        thread.start()
        thread.join(SECONDS)
