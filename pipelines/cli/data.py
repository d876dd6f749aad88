"""`folkmoot data check`: shows how a file of questions is read, and all of its faults."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypedDict

from ...modules.base.errors import UserError
from ..base.wording import counted
from ..data.aliases import naming
from ..data.load import DataError, DataReading, check_contexts, content_id, stands_at, understand
from .guard import BAD_INPUT
from .options import CheckRequest, View
from .show import console, finish, show_result

MOST_SHOWN = 12
"""Most different answers that are listed with their counts."""


def check(options: CheckRequest, view: View) -> None:
    reading = understand(
        options.source, options.split, columns=options.column_names(), kind=options.kind
    )
    needed = [question for question in reading.questions if str(question.kind) != "open"]
    labelled = any(question.answer is not None for question in needed)
    if needed and not labelled:
        reading.fault("", f"no row has an answer; say which column holds it {naming('answer')}")
    for question in reading.questions:
        if labelled and question.answer is None and str(question.kind) != "open":
            reading.fault(stands_at(question), "no answer, and what is scored needs one; add it")
        try:
            check_contexts([question])
        except UserError as error:
            reading.fault(stands_at(question), str(error))
    if not reading.questions and not reading.count:
        raise UserError(f"{reading.name} has no questions; give one with at least one row")
    description = described(reading)
    faulty = BAD_INPUT if reading.count else 0
    if view.as_json:
        finish(view, description, lambda: None, code=faulty)
        return
    if reading.questions:
        show_result(console(), reading.name, _lines(description))
    if faulty:
        raise DataError(reading.name, reading.faults, reading.count)


class Description(TypedDict):
    """The description of a file of questions, which `--json` shows."""

    name: str
    questions: int
    kinds: dict[str, int]
    options: dict[int, int]
    """Number of options → number of questions."""
    answers: dict[str, int]
    unlabelled: int
    made_ids: int
    duplicates: list[tuple[str, str]]
    """Places of an earlier row and of one with the same content."""
    read: str | None
    """The guesses about the columns, in words."""
    sample: dict[str, Any] | None
    faults: list[str]
    fault_count: int


def described(reading: DataReading) -> Description:
    """Describe the questions that were read: their kinds, answers, duplicates and faults."""
    questions = reading.questions
    places: dict[str, str] = {}
    duplicates = []
    for one in questions:
        before = places.setdefault(content_id(one), stands_at(one))
        if before != stands_at(one):
            duplicates.append((before, stands_at(one)))
    options = Counter(len(one.choices) for one in questions if one.choices)
    answers = Counter(str(one.answer) for one in questions if one.answer is not None)
    return {
        "name": reading.name,
        "questions": len(questions),
        "kinds": dict(Counter(str(one.kind) for one in questions)),
        "options": dict(sorted(options.items())),
        "answers": dict(answers.most_common()),
        "unlabelled": sum(one.answer is None for one in questions),
        "made_ids": reading.made_ids,
        "duplicates": duplicates,
        "read": reading.guesses.removeprefix("read ") or None,
        "sample": questions[0].to_row() if questions else None,
        "faults": reading.faults,
        "fault_count": reading.count,
    }


def _lines(description: Description) -> dict[str, str]:
    kinds = ", ".join(f"{count} {name}" for name, count in description["kinds"].items())
    lines = {"questions": f"{description['questions']} ({kinds})"}
    if description["options"]:
        lines["options"] = ", ".join(
            f"{size} in {counted(n, 'row')}" for size, n in description["options"].items()
        )
    answers = description["answers"]
    if len(answers) > MOST_SHOWN:
        lines["answers"] = f"{len(answers)} different ones"
    elif answers:
        lines["answers"] = ", ".join(f"{answer} {count}" for answer, count in answers.items())
    if description["read"]:
        lines["read"] = description["read"]
    if description["made_ids"]:
        lines["ids"] = f"made from the content of {counted(description['made_ids'], 'question')}"
    if description["duplicates"]:
        first, second = description["duplicates"][0]
        repeats = counted(len(description["duplicates"]), "row")
        lines["duplicates"] = f"{repeats} like an earlier one (the first: {second}, like {first})"
    if sample := description["sample"]:
        options = [f"{label}: {text}" for label, text in (sample["choices"] or {}).items()]
        answer = f"answer: {sample['answer']}"
        lines["first row"] = " | ".join([sample["question"], *options, answer])
    return lines
