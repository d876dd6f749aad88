"""The commands that prepare and look around: data check, datasets, lms; and ui, a server."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from rich.table import Table

from ...modules.base.errors import UserError
from ...modules.reading.question import Question
from ..base.address import shown_address
from ..base.settings import settings
from ..base.wording import counted
from ..data.load import DataError, DataReading, understand
from ..data.places import list_datasets
from ..data.questions import asked_again, check_contexts, check_labelled, stands_at
from ..lms.weights import get_weights, known_name, list_weights
from ..tracking.store import store_uri
from ..tracking.ui_server import newest_runs
from ..tracking.ui_server import serve as serve_ui
from .guard import BAD_INPUT, results, say
from .options import CheckRequest, DatasetsRequest, LmsRequest, UiRequest, View
from .show import console, finish, print_json, show_result

MOST_SHOWN = 12
"""At most this many different answers are listed with their counts."""


def datasets(request: DatasetsRequest, view: View) -> None:
    infos = list_datasets()
    columns = ("name", "kind", "splits (questions)", "licence", "comes from", "here")
    table = Table(box=None, pad_edge=False)
    short = console().is_terminal  # a line for each data set; --json has all of it
    for column, width in zip(columns, (16, 7, 22, 8, 14, 8), strict=True):
        table.add_column(column, no_wrap=short, max_width=width if short else None)
    for info in infos:
        splits = []
        for split, rows in info.splits.items():
            splits.append(f"{split} ?" if rows is None else f"{split} {rows}")
        here = ", ".join(info.here) or "no"
        table.add_row(info.name, info.kind, ", ".join(splits), info.licence, info.source, here)
    finish(view, [asdict(info) for info in infos], lambda: console().print(table))


def lms(request: LmsRequest, view: View) -> None:
    cache = settings().cache
    verb, *names = request.what or ["list"]
    if request.what and (verb != "get" or not names):
        raise UserError(f"folkmoot lms {verb} is not a command: write folkmoot lms get NAME")
    for name in [known_name(name) for name in names]:
        say(f"fetching the weights of {name}")
        say(f"{get_weights(name, cache)} is complete")
    rows = list_weights(cache)
    table = Table("name", "MB", "licence", "here", box=None, pad_edge=False)
    for row in rows:
        size, licence = f"{row['bytes'] / 1e6:,.0f}", row["licence"] or "as its page says"
        table.add_row(row["name"], size, licence, row["here"] or f"no: {row['get']}")
    finish(view, rows, lambda: console().print(table))


def ui(request: UiRequest, view: View) -> None:
    uri = store_uri()

    def ready(page: str, ending: str = "; Ctrl-C ends it") -> None:
        if view.as_json:
            print_json({"url": page.partition("/#")[0], "store": shown_address(uri)})
        else:
            shown = f"{page} shows {shown_address(uri)}{ending}"
            console().print(shown, soft_wrap=True)
        results().flush()

    if uri.startswith(("http://", "https://")):
        ready(newest_runs(shown_address(uri)), ending="")  # a server already runs there
    else:
        say("starting MLflow's UI, which takes some seconds")
        serve_ui(uri, request.host, request.port, ready)


def check(request: CheckRequest, view: View) -> None:
    reading = understand(
        request.source, request.split, columns=request.column_names(), kind=request.kind
    )
    needed = list(filter(_is_labelled, reading.questions))
    labelled = any(question.answer is not None for question in needed)
    if not labelled:
        try:
            check_labelled(needed)
        except UserError as error:
            reading.fault("", str(error))
    for question in reading.questions:
        if labelled and question.answer is None and _is_labelled(question):
            reading.fault(stands_at(question), "no answer, which scoring needs; add it")
        try:
            check_contexts([question])
        except UserError as error:
            reading.fault(stands_at(question), str(error))
    if not reading.questions and not reading.count:
        raise UserError(f"{reading.name} has no questions; give a file with at least one row")
    description, code, lines = described(reading), 0, dict[str, str]()
    if reading.questions:
        lines = _lines(description)
    if reading.count:
        code = BAD_INPUT
        if not view.as_json:
            show_result(console(), reading.name, lines)
            raise DataError(reading.name, reading.faults, reading.count)
    finish(view, description, lambda: show_result(console(), reading.name, lines), code=code)


def _is_labelled(question: Question) -> bool:
    """Return whether a question of its kind needs an answer."""
    return str(question.kind) not in ("open", "task")


def described(reading: DataReading) -> dict[str, object]:
    """Describe the questions of a file: their kinds, answers and faults."""
    questions = reading.questions
    options = Counter(len(question.choices) for question in questions if question.choices)
    again, differ = asked_again(questions)
    answers = Counter(str(question.answer) for question in questions if question.answer is not None)
    return {
        "name": reading.name,
        "questions": len(questions),
        "kinds": dict(Counter(str(question.kind) for question in questions)),
        "options": dict(sorted(options.items())),
        "answers": dict(answers.most_common()),
        "unlabelled": sum(question.answer is None for question in questions),
        "made_ids": reading.made_ids,
        "asked_again": again,
        "with_another_answer": differ,
        "read": reading.guesses.removeprefix("read ") or None,
        "sample": next((question.to_row() for question in questions), None),
        "faults": reading.faults,
        "fault_count": reading.count,
    }


def _lines(description: dict[str, Any]) -> dict[str, str]:
    kinds = ", ".join(f"{count} {name}" for name, count in description["kinds"].items())
    lines = {"questions": f"{description['questions']} ({kinds})"}
    if description["options"]:
        lines["options"] = ", ".join(
            f"{size} in {counted(n, 'row')}" for size, n in description["options"].items()
        )
    answers = [f"{answer} {count}" for answer, count in description["answers"].items()]
    if answers:
        lines["answers"] = ", ".join(answers)
    if len(answers) > MOST_SHOWN:
        lines["answers"] = f"{len(answers)} different ones"
    if description["asked_again"]:
        again, differ = description["asked_again"], description["with_another_answer"]
        lines["asked again"] = f"{counted(again, 'question')} ({differ} with another answer)"
    if description["read"]:
        lines["read"] = description["read"]
    if sample := description["sample"]:
        options = [f"{label}: {text}" for label, text in (sample["choices"] or {}).items()]
        end = f"answer: {sample['answer']}"
        if sample.get("kind") == "task":
            end = f"files: {', '.join(sample['files'] or ()) or 'none'}"
        lines["first row"] = " | ".join([sample["question"], *options, end])
    return lines
