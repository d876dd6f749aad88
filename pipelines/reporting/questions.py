"""All questions of a report's runs, as data for the page's table: answers at once, dialogues
packed.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from statistics import fmean

from markupsafe import Markup

from ...modules.base.fence import clean
from ...modules.reading.answers import gold_text
from ...modules.reading.row import ResultRow, row_state, score_in
from ..base.wording import counted, duration, shortened, used
from ..evaluation.earlier import Evaluation
from ..runs.rows import Rows
from ..tracking.values import scrubbed
from .dialogues import (
    LONGEST_NOTE,
    LONGEST_QUESTION,
    LONGEST_TEXT,
    cut_text,
    question_name,
    shown,
)

PACK = 200_000
"""The least characters of a pack of dialogues, which the page unpacks at once."""

MOST_BYTES = 60_000_000
"""Of rows on disk: where there are more, the texts of dialogues are cut shorter, down to
SHORTEST_TEXT.
"""

SHORTEST_TEXT = 150
MOST_ANSWER = 300
STATES = ("wrong", "right", "unreadable", "failed", "scored")
"""What became of a question in a run, by its number on the page; scored is neither right nor wrong.
"""


def table_of(runs: Sequence[Evaluation]) -> dict[str, Markup]:
    """Return the table of every question that any of the runs has a row of, in the order of the
    first run that has one, as the page's script reads it.

    `questions` is JSON, a list per question: id, text, options (label, text), right answer, its
    `meta` as text, and for each run None or [state (a place in `STATES`), answer, score], of all
    repeats in one. `dialogues` is a JSON list of packs, of deflate in base64, and of the number of
    questions in each; the lines of an unpacked one are JSON lists, for each run None or [how it was
    decided, bill, error, turns (`ShownTurn`), how many turns more].
    """
    rows = [run.rows for run in runs]
    # The page is one file, with all dialogues in it: it has to stay small enough to be opened.
    size = sum(row.path.stat().st_size for row in rows)
    longest = max(SHORTEST_TEXT, min(LONGEST_TEXT, LONGEST_TEXT * MOST_BYTES // max(1, size)))
    questions: list[str] = []

    def lines() -> Iterator[str]:
        for answers in _join(rows):
            questions.append(_json(_question(answers)))
            yield _json([_dialogue(own, longest) if own else None for own in answers])

    packs = list(_pack(lines()))
    return {"questions": _safe(f"[{','.join(questions)}]"), "dialogues": json_in_page(packs)}


def _join(runs: Sequence[Rows]) -> Iterator[list[list[ResultRow]]]:
    """Return, for each question, the rows of each run: one for each repeat."""
    # Numbers of rows only: all rows of all runs would not fit into memory.
    places: list[defaultdict[str, list[int]]] = [defaultdict(list) for _ in runs]
    for rows, own in zip(runs, places, strict=True):
        for place, row in enumerate(rows):
            own[row.id].append(place)
    for name in dict.fromkeys(chain(*places)):
        yield [
            [rows[place] for place in own.get(name, ())]
            for rows, own in zip(runs, places, strict=True)
        ]


def _question(runs: Sequence[Sequence[ResultRow]]) -> list[object]:
    row = next(rows[0] for rows in runs if rows)
    choices = row.choices or {}
    about = [f"{name}: {value}" for name, value in scrubbed(row.meta or {}).items()]
    options = []
    for label, text in list(choices.items())[:20]:
        options.append([clean(str(label)), cut_text(text, MOST_ANSWER)])
    return [
        clean(question_name(row)),
        cut_text(row.question, LONGEST_QUESTION),
        options,
        clean(gold_text(row.gold)),
        shortened(clean("; ".join(about)), LONGEST_NOTE),
        *[_answer(rows) if rows else None for rows in runs],
    ]


def _answer(rows: Sequence[ResultRow]) -> list[object]:
    """Return state, answer and score of a question's rows; if its repeats differ in state, with
    their mean score.
    """
    states = {row_state(row) for row in rows}
    state, score, text = states.pop(), rows[0].score, rows[0].answer
    if states:
        state = "scored"
    if len(rows) > 1:
        score = fmean(map(score_in, rows))
        # such as `B (3 times), C (2 times)`
        counts = Counter(row.answer or "no answer" for row in rows).most_common()
        text = ", ".join(f"{answer} ({counted(times, 'time')})" for answer, times in counts)
    return [
        STATES.index(state),
        shortened(clean(text or ""), MOST_ANSWER),
        score and round(score, 4),
    ]


def _dialogue(rows: Sequence[ResultRow], longest: int) -> list[object]:
    """Return the dialogue of a question, of its first repeat."""
    row = rows[0]
    one = shown(row, longest)
    bill = used(row.usage)
    if row.seconds is not None:
        bill += f", {duration(row.seconds)}"
    if len(rows) > 1:
        bill = f"the first of {len(rows):,} answers: {bill}"
    return [
        clean(one.decided_by),
        bill,
        shortened(clean(scrubbed(row.error or "")), MOST_ANSWER),
        one.turns,
        one.more_turns,
    ]


def _pack(lines: Iterable[str]) -> Iterator[list[object]]:
    """Yield lines as packs: a number of them, and their deflate in base64."""
    held: list[str] = []
    # The None after the last line closes the last pack.
    for line in chain(lines, [None]):
        if line is not None:
            held.append(line)
        if held and (line is None or sum(map(len, held)) >= PACK):
            packed = zlib.compress("\n".join(held).encode(), 6)
            yield [len(held), base64.b64encode(packed).decode("ascii")]
            held = []


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def json_in_page(value: object) -> Markup:
    """Return a value as JSON for a script element of the page."""
    return _safe(_json(value))


def _safe(text: str) -> Markup:
    """Return JSON that can neither end the element around it nor open another."""
    return Markup(text.replace("<", "\\u003c"))
