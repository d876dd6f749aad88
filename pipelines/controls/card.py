"""The card of the folder of controls."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..base.cards import Card, Content, Gap, Kind, TableEntry, kept_files
from ..base.wording import counted
from ..lms.ledger import totals
from ..runs.manifest import MANIFEST
from .outcome import CONTROLS, RESULT, WATERFALL, controls_in


def _describe(folder: Path, document: Mapping[str, Any]) -> Card:
    result = document.get(RESULT) or {}
    card = Card("controls", program="controls", run=partial(dict, document["manifest"]))
    card.begun = not result.get("questions")
    if not result:
        card.ended("not finished")
        card.paid(totals(folder).to_dict())
    else:
        card.ended(result.get("stopped"))
        card.paid(result)
        card.sentences = [f"On {counted(result['questions'], 'question')}, {result['sentence']}."]
        total = result["total"]
        if total["value"] is not None:
            about = {"n": result["questions"], "rate": result["rate"]}
            card.scores = [Gap.of("difference", {**total, **about})]
        controls = controls_in(folder)
        if controls is not None:
            card.labels = controls.names
            for name, part in controls.steps.items():
                card.scores.append(Gap(name, *part, rate=controls.rate))
        card.artifacts = partial(_artifacts, folder, dict(document))
        card.pictures[folder / WATERFALL] = " ".join(card.sentences)
    # The budget-matched agent has its runs a folder deeper.
    card.children = [run for run in sorted(folder.glob("arms/**/")) if (run / MANIFEST).is_file()]
    return card


def _artifacts(folder: Path, document: dict[str, Any]) -> dict[str, Content]:
    parts = document[RESULT]["parts"]
    rows = [[name, part["value"], part["low"], part["high"]] for name, part in parts.items()]
    table = TableEntry(["part", "value", "low", "high"], rows)
    return {**kept_files(folder, [WATERFALL]), "parts.json": table, CONTROLS: document}


KIND = Kind(CONTROLS, "controls", "controls", _describe)
