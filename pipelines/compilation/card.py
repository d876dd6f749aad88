"""What the folder of a compilation shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...modules.reading.grading import metric_name
from ..base.cards import Card, Kind, Score
from ..evaluation.card import about
from ..lms.ledger import totals

COMPILE, PROGRAM, PROMPTS = "compile.json", "program", "prompts.md"


def _describe(folder: Path, document: Mapping[str, Any]) -> Card:
    card = about("compilation of", document)
    result = document.get("result") or {"stopped": "not finished"}
    card.ended(result.get("stopped"))
    card.paid(result.get("paid") or totals(folder).to_dict())
    if verdict := result.get("verdict"):
        card.sentences = [verdict]
    if held_out := result.get("after") or result.get("before"):
        name = metric_name(document)
        card.scores = [Score.of(name, held_out["scores"][name])]
    card.files = [folder / PROMPTS] if (folder / PROMPTS).exists() else []
    runs = [folder / "before", *sorted(folder.glob("after/*"))]
    card.children = [run for run in runs if run.is_dir()]
    if (folder / PROGRAM).is_dir():
        card.next = f"folkmoot evaluate {folder} --data FILE"
    return card


KIND = Kind(COMPILE, "compile", "a compilation", _describe, program=PROGRAM)
