"""What the folder of a trained strategy network shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base.cards import Card, Kind, Score
from ..base.journal import read_object
from ..evaluation.card import names_of_lms
from ..lms.ledger import totals
from ..runs.summary import SUMMARY

ABOUT = "training.json"


def _describe(folder: Path, document: Mapping[str, Any]) -> Card:
    card = Card(
        "trained network", program="network", lm=names_of_lms(document), data=document["data"]
    )
    card.paid(totals(folder / "training").to_dict())
    if not (folder / "network.json").exists():
        card.ended("not finished")
    tested, replayed = read_object(folder / SUMMARY), read_object(folder / "scores.json")
    if tested:
        card.scores = [Score.of("accuracy", tested["scores"]["accuracy"])]
    elif replayed:
        score = {**replayed["consensus"], "n": replayed["questions"]}
        card.scores = [Score.of("consensus", score)]
    card.next = f"folkmoot evaluate {folder} --data FILE"
    return card


KIND = Kind(ABOUT, "train", "a training", _describe, program=".", tested=True)
