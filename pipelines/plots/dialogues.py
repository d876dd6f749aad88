"""The dialogues most worth reading, as one HTML page; everything that a model or a file said is
escaped.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise, product
from typing import TYPE_CHECKING

from ...modules.reading.answers import golds_of, same_answer
from ...modules.reading.row import ResultRow, answering
from ..base.html import shown_text

if TYPE_CHECKING:
    from jinja2 import Template

MOST_DIALOGUES = 25
LONGEST_TEXT = 4000


def most_informative(rows: Iterable[ResultRow], most: int = MOST_DIALOGUES) -> list[ResultRow]:
    """Of all rows with a dialogue those worth reading, the best first; ties keep their order.

    First come questions that were argued over and lost, of these the ones that somebody once had
    right, then the other disagreements and the other wrong ones; among equals the one with more
    changes of mind. Holds at most `most` rows at a time.
    """
    # Of a large run most rows are passed over as they are read.
    return heapq.nlargest(most, (row for row in rows if row.transcript), key=_interest)


def _interest(row: ResultRow) -> tuple[int, bool, int]:
    kind, turns = row.kind, answering(row.transcript)
    answers = [turn.answer for turn in turns]
    argued = any(not same_answer(said, then, kind) for said, then in pairwise(answers))
    pairs = product(answers, golds_of(row.gold))
    had_it = not row.correct and any(same_answer(said, gold, kind) for said, gold in pairs)
    held: dict[str, set[str | None]] = {}
    for turn in turns:
        held.setdefault(turn.agent, set()).add(turn.answer)
    # What an agent said first is no change of mind.
    changes = sum(map(len, held.values())) - len(held)
    return argued + (not row.correct), had_it, changes


def dialogues_page(rows: Sequence[ResultRow], title: str, total: int) -> str:
    """Return a page without scripts or links: question, options, every turn, the decision and the
    gold answer.

    A worker's turn shows its steps, a supervisor's its decision and suggestion.
    """
    return _template().render(rows=rows, title=title, total=total, longest=LONGEST_TEXT)


@cache
def _template() -> Template:
    from jinja2 import Environment

    text = (files(__package__) / "templates" / "dialogues.html.j2").read_text(encoding="utf-8")
    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, finalize=shown_text
    )
    return environment.from_string(text)
