"""What the folder of a pipeline shows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..base.cards import Card, Kind, ask_command, kinds_in
from ..lms.ledger import totals

PIPELINE, WINNER = "pipeline.json", "winner"
ENDED, REGISTERED, RESULT = "ended", "registered", "result"


def steps_in(folder: Path) -> list[Path]:
    """The folders of the steps that have begun, in the order of the pipeline."""
    order = ("compile", "tune", "contest")
    found = [place for name in order for place in sorted(folder.glob(f"{name}*"))]
    return [place for place in found if place.is_dir() and kinds_in(place)]


def _describe(folder: Path, document: Mapping[str, Any]) -> Card:
    result = document.get(RESULT)
    manifest = document["manifest"]
    card = Card(f"pipeline {manifest['settings']['label']}", data=manifest["settings"]["data"])
    card.run, card.begun = partial(dict, manifest), result is None
    card.ended("not finished" if result is None else result["stopped"])
    card.children = steps_in(folder)
    card.paid(totals(*card.children).to_dict())
    if result is not None:
        card.sentences = list(result["sentences"])
        card.program = result["winner"]
        card.tags = {"folkmoot.winner": str(result["winner"])}
        # The step that ended last has judged the winner.
        last = next(kind.card(card.children[-1]) for kind in kinds_in(card.children[-1]))
        card.scores, card.costs = last.scores, last.costs
        asked = last.run()  # the questions that the winner was judged on
        of_data = {name: asked[name] for name in ("questions", "data_fingerprint") if name in asked}
        card.run = partial(dict, {**manifest, **of_data})
        if (folder / WINNER).is_dir():
            card.next = ask_command(folder, folder / WINNER, asked["lms"])
    return card


KIND = Kind(PIPELINE, "pipeline", "a pipeline", _describe, program=WINNER)
