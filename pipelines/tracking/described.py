"""What the entries of all kinds of runs have in common."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...modules.protocols.foreign import MODULE
from .entry import ModelEntry, RunEntry
from .values import experiment_name, params_of, scrubbed, tags_of, with_ends

STOPPED_TAG = "folkmoot.stopped"
"""Tells of a run with a result what ended it early, such as a budget, or `no`."""
LEFT_CONTEST = "left the contest"
"""How the reason begins for which a program of a contest was not asked all questions."""
DETAILS = ("program_hash", "prompt_hash", "data_fingerprint", "lms", "versions", "git_commit")


def described(run: Mapping[str, Any], key: str, name: str, document: Path, **more: Any) -> RunEntry:
    """An entry of what a manifest says: parameters, tags, data set, and the details as one file."""
    source = {field: run["settings"].get(field) for field in ("data", "split")}
    run = scrubbed(run)
    details = {name: run.get(name) for name in DETAILS}
    files = {"details.json": details, **more.pop("files", {})}
    return RunEntry(
        key=key,
        name=name,
        experiment=experiment_name(run),
        dataset={
            "digest": run["data_fingerprint"],
            "source": source,
            "rows": run["questions"],
        },
        params=params_of(run),
        tags={**tags_of(run), **more.pop("tags", {})},
        files=files,
        document=document,
        **more,
    )


def status_of(stopped: str | None) -> str:
    """How a run has ended: a lone name of an exception is a fault, other reasons are stops."""
    if stopped is None or stopped.startswith(LEFT_CONTEST):
        return "FINISHED"
    return "FAILED" if stopped.isidentifier() and stopped != "interrupted" else "KILLED"


def model_in(folder: Path, name: str = "program") -> ModelEntry | None:
    """The program saved in a folder; None for a user's own class, which is not imported here."""
    if not folder.is_dir() or folder.is_symlink() or (folder / MODULE).exists():
        return None
    return ModelEntry(folder, name)


def figures(tree: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers of a tree by name; scores have the ends of their intervals, too."""
    numbers: dict[str, float] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping) and "value" in value:
            numbers |= with_ends(f"{prefix}{name}", value)
        elif isinstance(value, Mapping):
            numbers |= figures(value, f"{prefix}{name}_")
        elif isinstance(value, int | float):
            numbers[f"{prefix}{name}"] = value
    return {name: value for name, value in numbers.items() if value == value}
