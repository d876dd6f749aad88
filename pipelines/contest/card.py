"""What the folder of a contest shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base.cards import Card, Kind, Score
from ..lms.ledger import totals
from ..reporting.contested import ContestResult, contest_in
from ..runs.manifest import CONTEST

WINNER = "winner"


def _describe(folder: Path, document: Mapping[str, Any]) -> Card:
    settings = document["manifest"]["settings"]
    card = Card(settings["label"], program=settings["label"], data=settings.get("data"))
    contest = contest_in(folder, ContestResult)
    if contest is None:
        card.ended("not finished")
        card.paid(totals(folder).to_dict())
        card.children = sorted((folder / "runs").glob("*"))
        return card
    rate = (document["metric"] or {}).get("rate", True)
    card.ended(contest.result["stopped"])
    card.paid(contest.paid)
    card.children = list(contest.folders.values())
    card.sentences = contest.sentences
    if contest.result["finished"]:
        card.program, card.lm = contest.winner_name, contest.result.get("lm")
        if contest.winning is not None and contest.winning.low is not None:
            won = {**vars(contest.winning), "value": contest.winning.right, "rate": rate}
            card.scores = [Score.of("right", won)]
        card.next = f"folkmoot ask {folder / WINNER} 'YOUR QUESTION'"
    return card


KIND = Kind(CONTEST, "try", "a contest", _describe, program=WINNER)
