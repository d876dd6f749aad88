"""`folkmoot show`: the dialogue of a question in a run, or which of its questions to look at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.console import Console
from rich.text import Text

from ...modules.base.errors import UserError, did_you_mean
from ...modules.reading.row import ResultRow
from ..base.wording import counted, shortened
from ..evaluation.earlier import Evaluation, earlier
from .options import Quietly, ShowRequest
from .show import answered, console, finish, plain_table, show_dialogue

LISTED = 15  # questions, so that all fits a screen
LONGEST_QUESTION = 60  # characters


def show(options: ShowRequest, view: Quietly) -> None:
    run = earlier(options.run)
    if options.question is None:
        listed = sorted(run.rows, key=_order)
        finish(view, listed, lambda: _show_list(console(), run, listed))
    else:
        rows = _rows_of(run, options.question)
        finish(view, rows, lambda: _show_rows(console(), rows))


def _rows_of(run: Evaluation, name: str) -> list[ResultRow]:
    """All repeats of a question, named by its id or by its place from 1 on. Raises UserError."""
    rows = list(run.rows)
    ids = list(dict.fromkeys(row["id"] for row in rows))
    if name not in ids and name.isdigit() and 1 <= int(name) <= len(ids):
        name = ids[int(name) - 1]
    if name not in ids:
        raise UserError(
            f"{run.folder} has no row of a question {name!r}{did_you_mean(name, ids)}: "
            f"folkmoot show {run.folder} lists its questions"
        )
    return [row for row in rows if row["id"] == name]


def _order(row: ResultRow) -> int:
    """What to look at first: failures, then unreadable answers, then wrong ones."""
    if row["error"]:
        return 0
    if row["answer"] is None:
        return 1
    return 3 if row["correct"] else 2


def _verdict(row: ResultRow) -> str:
    if row["error"]:
        return "failed"
    if row["answer"] is None:
        return "unreadable"
    if row["correct"] is None:
        return f"{row.get('score') or 0:.3g}"
    return "✓" if row["correct"] else "✗"


def _show_list(out: Console, run: Evaluation, rows: list[ResultRow]) -> None:
    table = plain_table("question", "", "answer", "gold", "", last_left=True, no_wrap=True)
    for row in rows[:LISTED]:
        text = shortened(row["error"] or row["question"], LONGEST_QUESTION)
        answer = shortened(str(row["answer"] or "–"), 20)
        table.add_row(row["id"], _verdict(row), answer, shortened(row["gold"] or "–", 20), text)
    for line in run.lines()[:1]:
        out.print(line, soft_wrap=True)
    out.print(table)
    if len(rows) > LISTED:
        out.print(f"and {counted(len(rows) - LISTED, 'more row')}")
    out.print(f"next: folkmoot show {run.folder} {rows[0]['id']}", soft_wrap=True)


def _show_rows(out: Console, rows: list[ResultRow]) -> None:
    first = rows[0]
    out.print(Text(first["question"], style="bold"))
    for label, text in (first["choices"] or {}).items():
        out.print(Text(f"  {label}. {text}"))
    for row in rows:
        out.print()
        if len(rows) > 1:
            out.print(Text(f"repeat {row['repeat']}", style="dim"))
        show_dialogue(out, row, row["choices"])
        for line in _ending(row):
            out.print(Text(line))


def _ending(row: ResultRow) -> Iterator[str]:
    """What the dialogue itself does not say: failure, the text of an unreadable answer, the gold
    answer.
    """
    if row["error"]:
        yield f"failed: {row['error']}"
    elif row["answer"] is None:
        turn: Any = row["transcript"][-1] if row["transcript"] else {}
        yield f"the reply was: {shortened(str(row.get('raw') or turn.get('raw') or ''), 500)!r}"
    if row["gold"] is not None:
        yield f"{_verdict(row)}  right is {answered(row['gold'], row['choices'])}"
