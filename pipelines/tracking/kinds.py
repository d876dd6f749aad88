"""The kinds of runs, each with what its folder shows in the tracking store.

A kind is told by the file that says what a folder is of; one folder may hold runs of two kinds, a
training and the evaluation of what it taught. To track another kind, add a function and its line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ...modules.base.errors import UserError
from ..runs.folder import MANIFEST
from .entry import RunEntry
from .evaluation import evaluation_entry
from .larger import (
    compilation_entry,
    contest_entry,
    controls_entry,
    distillation_entry,
    study_entry,
    table_entries,
    training_entry,
)

KINDS: Mapping[str, Callable[[Path, str], RunEntry | list[RunEntry]]] = {
    "compile.json": compilation_entry,
    "contest.json": contest_entry,
    "controls.json": controls_entry,
    "study_run.json": study_entry,
    "distil.json": distillation_entry,
    "table_run.json": table_entries,
    "training.json": training_entry,
    MANIFEST: evaluation_entry,
}
"""By the file that tells the kind."""


def entries_in(folder: Path, key: str, kind: str | None = None) -> list[RunEntry]:
    """The runs that a folder holds, or those of one kind; their keys begin with `key`.

    Raises UserError for a folder that holds none, and for one whose files are damaged.
    """
    found: list[RunEntry] = []
    for file, describe in KINDS.items():
        if kind in (None, file) and (folder / file).is_file():
            try:
                made = describe(folder, f"{key}/{file}")
            except (KeyError, TypeError, ValueError, AttributeError) as problem:
                raise UserError(
                    f"{folder / file} is damaged ({type(problem).__name__}: {problem}): run its "
                    f"command again"
                ) from None
            found += [made] if isinstance(made, RunEntry) else made
    if not found:
        raise UserError(f"{folder} holds no run: name the folder of a finished run")
    return found
