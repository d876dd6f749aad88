"""What the folder of controls shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base.cards import Card, Kind, Score
from ..base.wording import counted
from ..lms.ledger import totals
from ..runs.manifest import MANIFEST
from .outcome import CONTROLS, RESULT


def _describe(folder: Path, document: Mapping[str, Any]) -> Card:
    result = document.get(RESULT) or {}
    card = Card("controls", program="controls")
    card.ended(result.get("stopped") if result else "not finished")
    card.paid(result if result else totals(folder).to_dict())
    if result:
        card.sentences = [f"On {counted(result['questions'], 'question')}, {result['sentence']}."]
        total = result["total"]
        if total["value"] is not None:
            gain = {**total, "n": result["questions"], "rate": result["rate"]}
            card.scores = [Score.of("gain", gain)]
    card.children = [run for run in sorted(folder.glob("arms/**/")) if (run / MANIFEST).is_file()]
    return card


KIND = Kind(CONTROLS, "controls", "controls", _describe)
