"""Opens the folder of an earlier run, so that its rows and scores can be used again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ..runs.manifest import MANIFEST
from ..runs.rows import RESULTS, read_rows
from ..runs.summary import summarise
from .evaluate import SUMMARY, Evaluation

_DESCRIBED = ("program", "program_hash", "lms", "data_fingerprint", "questions", "settings")


def earlier(run: Evaluation | str | Path) -> Evaluation:
    """The evaluation in a folder that `evaluate` wrote, finished or not; an evaluation is returned as it is.

    Scores are summed up from the rows as they are now: the summary of a run that was killed lags behind them.

    Raises:
        UserError: neither an evaluation nor the name of a folder, no such folder, no run in it, a damaged
            file, or no finished row yet.
    """
    if isinstance(run, Evaluation):
        return run
    if not isinstance(run, str | Path):
        raise UserError(f"a run is {_short(run)}: pass an evaluation, or the name of the folder of one")
    folder = Path(run).expanduser()
    if not folder.is_dir():
        raise UserError(f"there is no folder {folder}: name one that an evaluation wrote")
    described = _read(folder / MANIFEST)
    if described is None or any(key not in described for key in _DESCRIBED):
        raise UserError(f"{folder} holds no run ({MANIFEST} is missing or damaged): name a run's folder")
    told = _read(folder / SUMMARY) or {}
    rows = folder / RESULTS
    summary = summarise(
        read_rows(rows) if rows.exists() else (),
        described["questions"],
        lambda _: told.get("report") or {},  # what only the program itself can work out
        described,
    )
    summary.paid, summary.stopped = told.get("paid"), told.get("stopped")
    if not summary.counts["rows"]:
        raise UserError(f"{folder} has no finished row yet: run its evaluation first")
    return Evaluation(folder, summary)


def _short(value: object) -> str:
    return str(value) if value is None else f"a {type(value).__name__}"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
