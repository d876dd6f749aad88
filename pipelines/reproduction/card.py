"""The card of the folder of a reproduced table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base.cards import Card, Kind
from ..base.wording import counted
from ..lms.ledger import totals
from ..training.card import CALLS

TABLE = "table.json"


def _describe(folder: Path, table: Mapping[str, Any]) -> Card:
    name = table["reproduce"]
    card = Card(f"published table {name}", program=str(name))
    card.ended(table.get("stopped"))
    rows = table["rows"]
    runs = dict.fromkeys(row["run"] for row in rows if row["run"])
    card.children = list(map(Path, runs))
    # A training pays in a folder of its own, below that of its test.
    trainings = [run / CALLS for run in card.children]
    card.paid(totals(*card.children, *trainings).to_dict())
    # Nothing to agree with: figures that the paper lacks, and those of runs that failed too often.
    compared = [row["inside"] for row in rows if row["inside"] is not None]
    if compared:
        figures = counted(len(compared), "measured figure")
        card.sentences = [f"{sum(compared):,} of {figures} agree with the published ones."]
    return card


KIND = Kind(TABLE, "reproduce", "a published table", _describe)
