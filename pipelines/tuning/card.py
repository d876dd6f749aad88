"""What the folder of a study shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base.cards import Card, Kind, Score
from ..base.journal import read_object
from ..lms.ledger import totals

STUDY, BEGUN, WINNER = "study.json", "study_run.json", "winner"


def _describe(folder: Path, _: Mapping[str, Any]) -> Card:
    document = read_object(folder / STUDY) or {}
    settings = document.get("settings") or {}
    space = settings.get("space")
    card = Card(f"study of {space or 'programs'}", program=space, data=settings.get("data"))
    card.ended(document.get("stopped") if document else "not finished")
    card.paid(document.get("paid") or totals(folder).to_dict())
    if held_out := (document.get("validation") or {}).get("winner"):
        card.scores = [Score.of(document["objectives"][0], held_out)]
    card.children = [run for run in sorted(folder.glob("validation/*")) if run.is_dir()]
    if (folder / WINNER).is_dir():
        card.next = f"folkmoot evaluate {folder} --data FILE"
    return card


KIND = Kind(BEGUN, "tune", "a study", _describe, program=WINNER)
