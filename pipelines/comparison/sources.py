"""Finds the runs and results to compare in the folders that a user names."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ..base.cards import result_kind
from ..evaluation.earlier import Evaluation, earlier
from ..runs.manifest import MANIFEST


def runs_in(sources: Iterable[object]) -> list[Any]:
    """Return the runs, where a folder that has runs below it (of a contest, an import, a
    compilation, a study) is replaced by these.
    """
    runs: list[object] = []
    for run in sources:
        # A damaged folder has no parts on its card; the reader of the folder reports the damage.
        runs += [part for part in _parts(run) if _is_run(part)] or [run]
    return runs


def results_within(result: object) -> list[Any]:
    """Return the results that a result consists of, such as the steps of a pipeline; else
    itself.
    """
    parts = _parts(result)
    if any(map(_is_run, parts)):
        return [result]
    return parts or [result]


def _parts(result: object) -> list[Path]:
    """Return the folders that belong to the result in a folder; none of a run, whatever stands
    below it.
    """
    if not isinstance(result, str | Path):
        return []
    folder = Path(result).expanduser()
    # Asked last: to find kinds, DSPy is imported.
    if _is_run(folder) or (kind := result_kind(folder)) is None:
        return []
    return kind.card(folder).children


def _is_run(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


def left_in(folder: Path) -> Evaluation | None:
    """Return the evaluation that a stopped attempt left in a folder; None where no question is
    finished.
    """
    try:
        return earlier(folder)
    except UserError:
        return None
