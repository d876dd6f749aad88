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
        below = []
        if isinstance(run, str | Path):
            below = _runs_below(Path(run).expanduser())
        runs += below or [run]
    return runs


def results_within(result: object) -> list[Any]:
    """Return the results that a result consists of, such as the steps of a pipeline; else
    itself.
    """
    if not isinstance(result, str | Path):
        return [result]
    folder = Path(result).expanduser()
    kind = result_kind(folder)
    if kind is None or (folder / MANIFEST).is_file():  # a run, whatever stands below it
        return [result]
    below = kind.card(folder).children
    if any((part / MANIFEST).is_file() for part in below):
        return [result]
    return below or [result]


def _runs_below(folder: Path) -> list[Path]:
    """Return the runs of a result in its folder; none in the folder of a run."""
    if (folder / MANIFEST).exists():
        return []
    kind = result_kind(folder)  # asked last: to find kinds, DSPy is imported
    if kind is None:
        return []
    # A damaged folder has no children on its card; the reader of the folder reports the damage.
    return [run for run in kind.card(folder).children if (run / MANIFEST).is_file()]


def left_in(folder: Path) -> Evaluation | None:
    """Return the evaluation that a stopped attempt left in a folder; None where no question is
    finished.
    """
    try:
        return earlier(folder)
    except UserError:
        return None
