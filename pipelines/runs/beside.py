"""The runs in folders beside a run's own, which tell what to expect and what to compare with."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..base.journal import read_object
from ..base.run_files import Manifest
from .manifest import MANIFEST

MOST_RUNS = 8


def former_runs(out: Path) -> list[tuple[Path, Mapping[str, Any]]]:
    """The run in a folder, if there is one, and those beside it, youngest first, each with its
    manifest.
    """
    beside: list[Path] = []
    with suppress(OSError):
        beside = [path.parent for path in out.parent.glob(f"*/{MANIFEST}") if path.parent != out]
        beside.sort(key=lambda folder: -(folder / MANIFEST).stat().st_mtime)
    found: list[tuple[Path, Mapping[str, Any]]] = [
        (folder, read_object(folder / MANIFEST) or {}) for folder in [out, *beside]
    ]
    return [(folder, run) for folder, run in found if "lms" in run][: MOST_RUNS + 1]


def rival_of(folder: Path, run: Manifest) -> Path | None:
    """The youngest run beside a folder with the same questions and another program or LM."""
    for other, manifest in former_runs(folder):
        same = [manifest.get(name) == run.get(name) for name in ("program_hash", "lms")]
        asked_the_same = manifest.get("data_fingerprint") == run["data_fingerprint"]
        if other != folder and asked_the_same and not all(same):
            return other
    return None
