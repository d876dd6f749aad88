"""The card of an import's folder."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..base.cards import Card, Kind
from ..base.wording import counted
from ..runs.manifest import IMPORT

OUTCOMES = "outcomes.jsonl"


def _describe(folder: Path, document: Mapping[str, Any]) -> Card:
    agents = document["agents"]
    left_out = document.get("left_out") or {}
    first, *others = document["sources"]
    # A benchmark has many files, whose names would not fit into a table.
    data = counted(1 + len(others), "file") if others else first["name"]
    card = Card("imported answers", program=counted(len(agents), "agent"), data=data)
    answers, questions = (counted(document[f"{what}s"], what) for what in ("answer", "question"))
    card.sentences = [f"{answers} to {questions}."]
    card.sentences += [f"Left out: {number:,} {why}." for why, number in left_out.items()]
    card.sentences += [f"Read as: {how}." for how in document.get("read_as") or ()]
    card.children = [folder / place for place in agents.values()]
    card.files = [folder / OUTCOMES]
    # One run alone is not compared.
    command = "compare" if len(agents) > 1 else "report"
    card.next = shlex.join(["folkmoot", command, str(folder)])
    return card


KIND = Kind(IMPORT, "import", "an import", _describe)
