"""The runs in folders, a line each: what ran, how it scored, what it cost, and how far it is."""

from __future__ import annotations

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
WITHIN = ("match-budget", "distil")  # runs that commands put into a run's folder by themselves


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

    Raises UserError for what is no folder.
    """
    found: dict[Path, ListedRun] = {}
    for name in folders:
        folder = Path(name).expanduser()
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}: name one that holds runs")
        for place, file in _places(folder):
            found.setdefault(place.resolve(), _listed(place, file))
    return sorted(found.values(), key=lambda run: run.when, reverse=True)


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
    found = ListedRun(
        str(folder), kind, datetime.fromtimestamp(changed, UTC).isoformat(timespec="seconds")
    )
    said = read_object(folder / file)
    try:
        if said is None and file != DATABASE:
            raise UserError(f"{file} is damaged")
        read(found, folder, said or {})
        _check(found)
    except UserError as problem:
        found = ListedRun(str(folder), kind, found.when, "damaged", str(problem))
    except (
        OSError,
        TypeError,
        ValueError,
        KeyError,
        AttributeError,
    ) as problem:  # a file may say anything
        found = ListedRun(
            str(folder), kind, found.when, "damaged", f"{file} lacks or breaks {problem}"
        )
    if found.state == "stopped" and _is_held(folder):
        found.state = "running"
    return found


def _check(run: ListedRun) -> None:
    number = (int, float, type(None))
    score = run.score or {}
    held: list[tuple[Any, tuple[type, ...]]] = [
        *((text, (str, type(None))) for text in (run.program, run.lm, run.data, run.problem)),
        *((value, number) for value in (run.calls, run.cost_usd, score.get("n"))),
        *((score[end], number[:2]) for end in ("value", "low", "high") if score),
    ]
    for value, kinds in held:
        if not isinstance(value, kinds):
            raise TypeError(f"what {str(value)[:80]!r} stands for")


def _evaluated(run: ListedRun, folder: Path, said: Document) -> None:
    _about(run, said, said["settings"])
    summary = read_object(folder / SUMMARY)
    rows = folder / RESULTS
    if rows.exists() and (
        summary is None or rows.stat().st_mtime_ns > (folder / SUMMARY).stat().st_mtime_ns
    ):  # a killed run: its rows are ahead of its summary
        try:
            summary = earlier(folder).summary.to_dict()
        except UserError as problem:
            if rows.stat().st_size:
                raise
            run.problem = str(problem)
    _paid(run, (summary or {}).get("paid") or totals(folder).to_dict())
    counts = (summary or {}).get("counts") or {
        "rows": 0,
        "questions": said["questions"],
        "errors": 0,
    }
    finished = 0
    if counts["rows"]:
        scores = summary["scores"]  # type: ignore[index]
        name = metric_name(said)
        name = name if name in scores else next(iter(scores))
        run.score, finished = {"name": name, **scores[name]}, scores[name]["n"]
    if 0 < counts["rows"] == counts["errors"]:
        run.state, run.problem = "failed", "every question failed"
    elif finished < counts["questions"]:
        run.state = "stopped"
        run.problem = (summary or {}).get(
            "stopped"
        ) or f"{finished:,} of {counts['questions']:,} rows"


def _compiled(run: ListedRun, folder: Path, said: Document) -> None:
    _about(run, said, said["settings"])
    result = said.get("result") or {"stopped": "not finished"}
    _ended(run, result)
    _paid(run, result.get("paid") or totals(folder).to_dict())
    held_out = result.get("after") or result.get("before")
    if held_out:
        name = metric_name(said)
        run.score = {"name": name, **held_out["scores"][name]}


def _tuned(run: ListedRun, folder: Path, said: Document) -> None:
    settings = said.get("settings") or {}
    run.program, run.data = settings.get("space"), settings.get("data")
    _ended(run, said or {"stopped": "not finished"})
    _paid(run, said.get("paid") or totals(folder).to_dict())
    if held_out := (said.get("validation") or {}).get("winner"):
        run.score = {"name": said["objectives"][0], **held_out}


def _distilled(run: ListedRun, folder: Path, said: Document) -> None:
    run.program, run.lm, run.data = said["name"], said["lm"]["name"], said["run"]
    _ended(run, said)
    _paid(run, said["paid"])
    kept = (said.get("programs") or {}).get(said.get("keep"))
    if kept:
        run.score = {"name": "accuracy", **kept["accuracy"]}


def _trained(run: ListedRun, folder: Path, said: Document) -> None:
    run.program, run.data, run.lm = "network", said["data"], _lms(said)
    _paid(
        run,
        totals(folder / "training").to_dict()
        if said["kind"] == "live"
        else {"calls": 0, "cost_usd": 0},
    )
    if not (folder / "network.json").exists():
        run.state, run.problem = "stopped", "not finished"
    tested, replayed = read_object(folder / SUMMARY), read_object(folder / "scores.json")
    if tested:
        run.score = {"name": "accuracy", **tested["scores"]["accuracy"]}
    elif replayed:
        run.score = {"name": "consensus", **replayed["consensus"], "n": replayed["questions"]}


def _about(run: ListedRun, said: Document, settings: Document) -> None:
    run.program = settings.get("program_spec") or full_name(said["program"])
    run.lm = _lms(said)
    parts = (settings.get("data"), settings.get("split"))
    run.data = " ".join(str(part) for part in parts if part) or None


def _lms(said: Document) -> str | None:
    names = (
        f"{'' if seat == '*' else f'{seat}='}{known['name']}" for seat, known in said["lms"].items()
    )
    return ", ".join(names) or None


def _ended(run: ListedRun, said: Document) -> None:
    if said.get("stopped"):
        run.state, run.problem = "stopped", str(said["stopped"])


def _paid(run: ListedRun, paid: Document) -> None:
    run.calls, run.cost_usd = paid["calls"], paid["cost_usd"]


def _is_held(folder: Path) -> bool:
    """Whether a process is writing to the folder."""
    try:
        with locked(folder, wait=False):
            return False
    except BlockingIOError:
        return True
    except OSError:
        return False


DATABASE = "study.db"
KINDS: dict[str, tuple[str, Callable[[ListedRun, Path, Document], None]]] = {
    "compile.json": ("compile", _compiled),
    "study.json": ("tune", _tuned),
    DATABASE: ("tune", _tuned),
    "distil.json": ("distil", _distilled),
    "training.json": ("train", _trained),
    MANIFEST: ("evaluate", _evaluated),
}
"""What a run of each kind is known by, and what reads it; a network's test has its training's
folder.
"""
