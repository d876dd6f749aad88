"""The card of an import's folder."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base.cards import Card, Kind
from ..base.wording import counted
from ..runs.manifest import IMPORT


def _describe(folder: Path, document: Mapping[str, Any]) -> Card:
    agents = document["agents"]
    first, *others = document["sources"]
    # A benchmark has many files, whose names would not fit into a table.
    data = counted(1 + len(others), "file") if others else first["name"]
    card = Card("imported answers", program=counted(len(agents), "agent"), data=data)
    answers = counted(document["answers"], "answer")
    card.sentences = [f"{answers} to {counted(document['questions'], 'question')}."]
    card.children = [folder / place for place in agents.values()]
    card.next = shlex.join(["folkmoot", "compare", str(folder)])
    return card


KIND = Kind(IMPORT, "import", "an import", _describe)
