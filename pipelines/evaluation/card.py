"""What the folder of an evaluation shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...modules.protocols.short_names import full_name
from ...modules.reading.grading import metric_name
from ..base.cards import Card, Kind, Score, State
from ..base.journal import read_object
from ..lms.ledger import totals
from ..runs.manifest import MANIFEST
from ..runs.rows import RESULTS
from ..runs.summary import SUMMARY
from .earlier import earlier

WITHIN = ("controls", "match-budget")
"""Where commands about a run put their own folders."""


def about(title: str, document: Mapping[str, Any]) -> Card:
    """A card with what a manifest says of program, LMs and data."""
    settings = document["settings"]
    program = settings.get("program_spec") or full_name(document["program"])
    parts = (settings.get("data"), settings.get("split"))
    data = " ".join(str(part) for part in parts if part) or None
    return Card(f"{title} {program}", program=program, lm=names_of_lms(document), data=data)


def names_of_lms(document: Mapping[str, Any]) -> str | None:
    names = (
        f"{'' if seat == '*' else f'{seat}='}{lm['name']}" for seat, lm in document["lms"].items()
    )
    return ", ".join(names) or None


def _describe(folder: Path, document: Mapping[str, Any]) -> Card:
    card = about("evaluation of", document)
    summary = read_object(folder / SUMMARY) or {}
    rows = folder / RESULTS
    ahead = rows.exists() and rows.stat().st_size > 0
    if ahead and summary and rows.stat().st_mtime_ns <= (folder / SUMMARY).stat().st_mtime_ns:
        ahead = False
    if ahead:  # of a killed run the rows are ahead of the summary
        summary = earlier(folder).summary.to_dict()
    card.paid(summary.get("paid") or totals(folder).to_dict())
    questions = document["questions"]
    counts = summary.get("counts") or {"rows": 0, "questions": questions, "errors": 0}
    if counts["rows"]:
        card.scores = [Score.of(name, score) for name, score in summary["scores"].items()]
        main = metric_name(document)
        card.scores.sort(key=lambda score: score.name != main)
    finished = card.score.n or 0 if card.score else 0
    if 0 < counts["rows"] == counts["errors"]:
        card.state, card.problem = State.FAILED, "every question failed"
    elif finished < counts["questions"]:
        unfinished = f"{finished:,} of {counts['questions']:,} rows"
        card.ended(summary.get("stopped") or unfinished)
    card.files = [rows] if rows.exists() else []
    card.children = [folder / name for name in WITHIN if (folder / name).is_dir()]
    card.next = f"folkmoot report {folder}"
    return card


KIND = Kind(MANIFEST, "evaluate", "an evaluation", _describe, program="program")
