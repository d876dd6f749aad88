"""The commands about existing runs: show, runs, report, push. Modules that import DSPy, which is
slow, are imported only when a command needs them.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from ...modules.base.errors import UserError, did_you_mean
from ...modules.reading.answers import gold_text
from ...modules.reading.row import ResultRow, row_state
from ..base.cards import Card, Kind, result_kind
from ..base.wording import as_sentence, counted, money, shortened
from ..comparison.request import split_items
from ..evaluation.earlier import Evaluation, earlier
from ..tracking.store import store_uri
from .guard import BAD_INPUT, STOPPED, say
from .options import (
    PushRequest,
    Quietly,
    ReportRequest,
    RunsRequest,
    ShowRequest,
    View,
)
from .show import answered, console, finish, plain_table, show_dialogue, show_lines

LISTED = 15  # questions in a list, so that it fits a screen
LONGEST_QUESTION = 60  # characters
OTHERS = 20  # columns of a list of questions besides name and text, where answers are labels
LONGEST_ID = 16
COLUMNS = ("folder", "kind", "program", "LM", "data", "score", "n", "calls", "cost", "when (UTC)")
WIDE = 120  # columns of a terminal that has room for all of them
NARROW = ("folder", "kind", "score", "calls")
WIDTHS = (26, 12, 20, 6)  # of these, at most
LONGEST_LINE = 2000  # columns when there is no terminal
MOST_PROBLEM = 80  # characters of the reason why a run stopped; folkmoot show has all of it


def report(request: ReportRequest, view: Quietly) -> None:
    from ..reporting.report import report as write

    page = write(
        request.runs,
        out=request.out,
        names=split_items(request.names),
        tracking=request.tracking,
        export=request.export,
        **request.tested(),
    )
    lines = [str(page.path)]
    if not view.quiet:
        notes = [f"Note: {note}" for note in page.figures["warnings"]]
        lines = [page.headline, *notes, f"Report: {page.path}"]
        if request.export:
            lines.append(f"Plots and tables: {request.export}")
    finish(view, page.figures, lambda: show_lines(lines))


def push(request: PushRequest, view: View) -> None:
    from ..tracking.cursor import waiting

    store_uri()  # sets the environment that MLflow reads on import
    from ..tracking.push import push as send

    runs, code = list[dict[str, object]](), 0
    for folder in request.folders or waiting():
        try:
            missing, said = send(folder).missing, f"sent {folder}"
            problem = "; ".join(dict.fromkeys(missing.values())) or None
            if missing:
                said = (
                    f"the tracking store did not take {', '.join(missing)} of {folder}: {problem}"
                )
        except UserError as error:
            missing, problem = {"everything": ""}, str(error)
            said, code = problem, BAD_INPUT
        say(said)
        if missing:
            code = code or STOPPED
        runs.append({"folder": str(folder), "missing": list(missing), "problem": problem})
    if not runs:
        say("nothing waits to be sent to the tracking store")
    finish(view, {"ok": not code, "runs": runs}, lambda: None, code=code)


SORTED_BY: dict[str, Callable[[Card], Any]] = {
    "time": lambda card: card.when,
    "score": lambda card: card.score and card.score.value,
    "cost": lambda card: card.cost_usd,
    "calls": lambda card: card.calls,
}


def runs(request: RunsRequest, view: View) -> None:
    from ..reporting.listed import list_cards

    if request.sort not in SORTED_BY:
        raise UserError(f"--sort {request.sort!r} is not an order: give {', '.join(SORTED_BY)}")
    default, key = Path("runs"), SORTED_BY[request.sort]
    listed = list_cards(request.folders or ([default] if default.is_dir() else []))
    known = [card for card in listed if key(card) is not None]
    unknown = [card for card in listed if key(card) is None]
    listed = [*sorted(known, key=key, reverse=True), *unknown]
    if not listed:
        say(f"no runs in {', '.join(request.folders) or default}")
    finish(view, [card.to_dict() for card in listed], lambda: _show_cards(listed))


def _show_cards(cards: list[Card]) -> None:
    out = console()
    # rich would cut columns to 80 where there is no terminal to fit them into.
    if not out.is_terminal:
        out.width = LONGEST_LINE
    wide = out.width >= WIDE
    names = COLUMNS if wide else NARROW
    table = plain_table(*names, "state", last_left=True)
    if not wide:
        for column, width in zip(table.columns, WIDTHS, strict=False):
            column.no_wrap, column.max_width = True, width
    for column in table.columns[: names.index("score")]:
        column.justify = "left"
    for card in cards:
        cells = {
            "folder": str(card.folder),
            "kind": str(card.kind),
            "program": card.program or "",
            "LM": card.lm or "",
            "data": card.data or "",
            "cost": money(card.cost_usd),
            "when (UTC)": card.when[:16].replace("T", " "),
            "state": str(card.state),
        }
        if card.children:
            cells["kind"] += f" ({len(card.children)})"
        if card.score:
            cells["score"] = str(card.score)
            if card.score.n:
                cells["n"] = f"{card.score.n:,}"
        if card.calls is not None:
            cells["calls"] = f"{card.calls:,}"
        if card.problem and wide:
            cells["state"] += f": {shortened(card.problem, MOST_PROBLEM)}"
        table.add_row(*(cells.get(name, "") for name in (*names, "state")))
    if cards:
        out.print(table)


def show(request: ShowRequest, view: Quietly) -> None:
    kind = result_kind(Path(request.run))
    if kind is not None and kind.command != "evaluate":
        _show_card(request, view, kind)
        return
    run = earlier(request.run)
    if request.question is None:
        listed = sorted(run.rows, key=lambda row: STATES.index(row_state(row)))
        finish(view, listed, lambda: _show_list(console(), run, listed))
    else:
        rows = _rows_of(run, request.question)
        finish(view, rows, lambda: _show_rows(console(), rows))


def _show_card(request: ShowRequest, view: Quietly, kind: Kind) -> None:
    from ..reporting.listed import card_of

    card = card_of(Path(request.run), kind)
    if request.question is not None:
        runs = ", ".join(map(str, card.children)) or "none"
        raise UserError(
            f"{request.run} is {kind.what}, and its runs have the questions: name one of {runs}"
        )
    finish(view, card.to_dict(), lambda: show_lines(card.lines()))


def _rows_of(run: Evaluation, name: str) -> list[ResultRow]:
    """Return the rows of all repeats of a question; `name` is its id or its number from 1 on.
    Raises UserError if there is none.
    """
    rows = list(run.rows)
    ids = list(dict.fromkeys(row.id for row in rows))
    if name not in ids and name.isdigit() and 1 <= int(name) <= len(ids):
        name = ids[int(name) - 1]
    if name not in ids:
        raise UserError(
            f"{run.folder} has no row of the question {name!r}{did_you_mean(name, ids)}: "
            f"folkmoot show {run.folder} lists its questions"
        )
    return [row for row in rows if row.id == name]


STATES = ("failed", "unreadable", "wrong", "scored", "right")
"""The states of rows in the order of the list: those to look at come first."""


def _verdict(row: ResultRow) -> str:
    marks = {"right": "✓", "wrong": "✗", "scored": f"{row.score or 0:.3g}"}
    return marks.get(row_state(row), row_state(row))


def _show_list(out: Console, run: Evaluation, rows: list[ResultRow]) -> None:
    table = plain_table("question", "", "answer", "gold", "", last_left=True, no_wrap=True)
    # A long id would be cut: its question is then named by its number, as `show` takes it, too.
    names = {row.id: row.id for row in run.rows}
    if max(map(len, names)) > LONGEST_ID:
        names = {name: str(number) for number, name in enumerate(names, 1)}
    left = out.width - max(map(len, ["question", *names.values()])) - OTHERS
    room = max(10, min(LONGEST_QUESTION, left))
    for row in rows[:LISTED]:
        text = shortened(row.error or row.question, room)
        answer = shortened(str(row.answer or "–"), 20)
        gold = shortened(gold_text(row.gold) or "–", 20)
        table.add_row(names[row.id], _verdict(row), answer, gold, text)
    if run.stopped:
        out.print(as_sentence(run.stopped), soft_wrap=True)
    out.print(run.lines()[0], soft_wrap=True)
    out.print(table)
    if len(rows) > LISTED:
        out.print(f"and {counted(len(rows) - LISTED, 'more row')}")
    following = shlex.join(["folkmoot", "show", str(run.folder), names[rows[0].id]])
    out.print(f"next: {following}", soft_wrap=True)


def _show_rows(out: Console, rows: list[ResultRow]) -> None:
    first = rows[0]
    out.print(Text(first["question"], style="bold"))
    for label, text in (first["choices"] or {}).items():
        out.print(Text(f"  {label}. {text}"))
    for row in rows:
        out.print()
        if len(rows) > 1:
            out.print(Text(f"repeat {row.repeat}", style="dim"))
        show_dialogue(out, row, row.choices)
        for line in _ending(row):
            out.print(Text(line))


def _ending(row: ResultRow) -> Iterator[str]:
    """Yield what a dialogue lacks: the error, an unreadable answer's text, the gold answer, and the
    feedback of a metric or a check.
    """
    if row.error:
        yield f"failed: {row.error}"
    elif row.answer is None:
        reply = row.raw
        if not reply and row.transcript:
            reply = row.transcript[-1].raw
        yield f"the reply was: {shortened(str(reply or ''), 500)!r}"
    if row.gold is not None:
        yield f"{_verdict(row)}  right is {answered(gold_text(row.gold), row.choices)}"
    if row.feedback:
        yield f"{_verdict(row)}  feedback: {row.feedback.strip()}"
