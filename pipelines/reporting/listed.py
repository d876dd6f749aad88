"""The runs in folders, a line each: what ran, how it scored, what it cost, and how far it is."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ...modules.base.files import locked
from ...modules.protocols.short_names import full_name
from ...modules.reading.grading import metric_name
from ..base.journal import read_object
from ..evaluation.earlier import earlier
from ..lms.ledger import totals
from ..runs.manifest import MANIFEST
from ..runs.rows import RESULTS
from ..runs.summary import SUMMARY

Document = Mapping[str, Any]
_TRACKED = re.compile("[0-9a-f]{32}")
WITHIN = ("match-budget",)  # runs that commands put into a run's folder by themselves


@dataclass
class ListedRun:
    """A run as `folkmoot runs` shows it; what is not known is None.

    `score` has `name`, `value`, `low`, `high` and `n`; `when` is the time of the last change (ISO,
    UTC); `state` is finished, stopped, running, failed (every question) or damaged; `problem` says
    why.
    """

    folder: str
    kind: str
    when: str
    state: str = "finished"
    problem: str | None = None
    program: str | None = None
    lm: str | None = None
    data: str | None = None
    score: dict[str, Any] | None = None
    calls: int | None = None
    cost_usd: float | None = None


def list_runs(folders: Iterable[str | Path]) -> list[ListedRun]:
    """Every run in these folders and in folders within, the newest first; a damaged one says so.

    Raises UserError for what is not a folder.
    """
    runs: dict[Path, ListedRun] = {}
    for name in folders:
        folder = Path(name).expanduser()
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}: name one that holds runs")
        for place, file in _places(folder):
            runs.setdefault(place.resolve(), _listed(place, file))
    return sorted(runs.values(), key=lambda run: run.when, reverse=True)


def _places(folder: Path) -> Iterator[tuple[Path, str]]:
    for root, within, files in os.walk(folder):
        tracked = _TRACKED.fullmatch(Path(root).name)  # the tracking store keeps copies
        within[:] = sorted(
            name
            for name in within
            if not name.startswith(".") and not (tracked and name == "artifacts")
        )
        file = next((name for name in KINDS if name in files), None)
        if file is not None:
            within[:] = [name for name in within if name in WITHIN]
            yield Path(root), file


def _listed(folder: Path, file: str) -> ListedRun:
    kind, read = KINDS[file]
    files = [folder / name for name in (file, RESULTS, SUMMARY)]
    changed = max(path.lstat().st_mtime for path in files if os.path.lexists(path))
    when = datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds")
    run = ListedRun(str(folder), kind, when)
    document = read_object(folder / file)
    try:
        if document is None and file != DATABASE:
            raise TypeError
        read(run, folder, document or {})
        _check(run)
    except UserError as problem:
        run = ListedRun(str(folder), kind, when, "damaged", str(problem))
    except (OSError, TypeError, ValueError, LookupError, AttributeError):
        # A file may say anything.
        run = ListedRun(str(folder), kind, when, "damaged", f"{file} is damaged")
    if run.state == "stopped" and _is_held(folder):
        run.state = "running"
    return run


def _check(run: ListedRun) -> None:
    """Raise TypeError or ValueError for what cannot be shown in a table."""
    words = (run.program, run.lm, run.data, run.problem)
    score = run.score or dict.fromkeys(("value", "low", "high"), 0)
    amounts = (run.calls or 0, run.cost_usd or 0, score.get("n") or 0)
    "".join(word or "" for word in words)
    math.fsum((*amounts, *(score[end] for end in ("value", "low", "high"))))


def _evaluated(run: ListedRun, folder: Path, document: Document) -> None:
    _about(run, document)
    summary = read_object(folder / SUMMARY) or {}
    rows, questions = folder / RESULTS, document["questions"]
    ahead = rows.exists() and rows.stat().st_size > 0
    if ahead and summary and rows.stat().st_mtime_ns <= (folder / SUMMARY).stat().st_mtime_ns:
        ahead = False
    if ahead:  # of a killed run the rows are ahead of the summary
        summary = earlier(folder).summary.to_dict()
    _paid(run, summary.get("paid") or totals(folder).to_dict())
    counts = summary.get("counts") or {"rows": 0, "questions": questions, "errors": 0}
    if counts["rows"]:
        name = metric_name(document)
        name = name if name in summary["scores"] else next(iter(summary["scores"]))
        run.score = {"name": name, **summary["scores"][name]}
    finished = run.score["n"] if run.score else 0
    if 0 < counts["rows"] == counts["errors"]:
        run.state, run.problem = "failed", "every question failed"
    elif finished < counts["questions"]:
        unfinished = f"{finished:,} of {counts['questions']:,} rows"
        run.state, run.problem = "stopped", summary.get("stopped") or unfinished


def _compiled(run: ListedRun, folder: Path, document: Document) -> None:
    _about(run, document)
    result = document.get("result") or {"stopped": "not finished"}
    _ended(run, folder, result)
    if held_out := result.get("after") or result.get("before"):
        name = metric_name(document)
        run.score = {"name": name, **held_out["scores"][name]}


def _tuned(run: ListedRun, folder: Path, document: Document) -> None:
    settings = document.get("settings") or {}
    run.program, run.data = settings.get("space"), settings.get("data")
    _ended(run, folder, document or {"stopped": "not finished"})
    if held_out := (document.get("validation") or {}).get("winner"):
        run.score = {"name": document["objectives"][0], **held_out}


def _trained(run: ListedRun, folder: Path, document: Document) -> None:
    run.program, run.data, run.lm = "network", document["data"], _lms(document)
    _paid(run, totals(folder / "training").to_dict())
    if not (folder / "network.json").exists():
        run.state, run.problem = "stopped", "not finished"
    tested, replayed = read_object(folder / SUMMARY), read_object(folder / "scores.json")
    if tested:
        run.score = {"name": "accuracy", **tested["scores"]["accuracy"]}
    elif replayed:
        run.score = {"name": "consensus", **replayed["consensus"], "n": replayed["questions"]}


def _about(run: ListedRun, document: Document) -> None:
    settings = document["settings"]
    run.program = settings.get("program_spec") or full_name(document["program"])
    run.lm = _lms(document)
    parts = (settings.get("data"), settings.get("split"))
    run.data = " ".join(str(part) for part in parts if part) or None


def _lms(document: Document) -> str | None:
    names = (
        f"{'' if seat == '*' else f'{seat}='}{lm['name']}" for seat, lm in document["lms"].items()
    )
    return ", ".join(names) or None


def _ended(run: ListedRun, folder: Path, result: Document) -> None:
    if result.get("stopped"):
        run.state, run.problem = "stopped", str(result["stopped"])
    _paid(run, result.get("paid") or totals(folder).to_dict())


def _paid(run: ListedRun, paid: Document) -> None:
    run.calls, run.cost_usd = paid["calls"], paid["cost_usd"]


def _is_held(folder: Path) -> bool:
    """Whether a process is writing to the folder."""
    try:
        with locked(folder, wait=False):
            return False
    except OSError as problem:
        return isinstance(problem, BlockingIOError)


DATABASE = "study.db"
KINDS: dict[str, tuple[str, Callable[[ListedRun, Path, Document], None]]] = {
    "compile.json": ("compile", _compiled),
    "study.json": ("tune", _tuned),
    DATABASE: ("tune", _tuned),
    "training.json": ("train", _trained),
    MANIFEST: ("evaluate", _evaluated),
}
"""What a run of each kind is known by, and what reads it; a network's test has its training's
folder.
"""
