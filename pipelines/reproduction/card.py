"""What the folder of a reproduced table shows."""

from __future__ import annotations

from pathlib import Path

from ..base.cards import Card, Kind
from ..base.journal import read_object
from ..base.wording import counted
from ..lms.ledger import totals
from ..runs.manifest import MANIFEST

TABLE = "table.json"


def _describe(folder: Path) -> Card:
    table = read_object(folder / TABLE)
    if table is None:
        raise ValueError
    name = table["reproduce"]
    card = Card(f"published table {name}", program=str(name))
    card.ended(table.get("stopped"))
    card.paid(totals(folder).to_dict())
    rows = table["rows"]
    measured = [row for row in rows if row["measured"] is not None]
    inside = [row for row in measured if row["inside"]]
    if measured:
        figures = counted(len(measured), "measured figure")
        card.sentences = [f"{len(inside):,} of {figures} agree with the published ones."]
    card.children = [run for run in sorted(folder.glob("*")) if (run / MANIFEST).is_file()]
    return card


KIND = Kind(TABLE, "reproduce", "a published table", _describe)
