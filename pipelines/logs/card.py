"""What the folder of an import shows."""

from __future__ import annotations

from pathlib import Path

from ..base.cards import Card, Kind
from ..base.journal import read_object
from ..base.wording import counted
from ..runs.manifest import IMPORT


def _describe(folder: Path) -> Card:
    document = read_object(folder / IMPORT)
    if document is None:
        raise ValueError
    agents = document["agents"]
    sources = ", ".join(source["name"] for source in document["sources"])
    card = Card("imported answers", program=counted(len(agents), "agent"), data=sources)
    answers = counted(document["answers"], "answer")
    card.sentences = [f"{answers} to {counted(document['questions'], 'question')}."]
    card.children = [folder / place for place in agents.values()]
    card.next = f"folkmoot compare {folder}"
    return card


KIND = Kind(IMPORT, "import", "an import", _describe)
