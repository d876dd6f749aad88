"""`folkmoot data check`: what a file of questions is understood as, and everything that is wrong
with it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from ...modules.base.errors import UserError
from ..base.wording import counted
from ..data.aliases import naming
from ..data.load import DataError, DataReading, check_contexts, content_id, stands_at, understand
from .guard import BAD_INPUT
from .options import CheckRequest, View
from .show import console, finish, show_result

MOST_SHOWN = 12  # answers of the balance


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


def described(reading: DataReading) -> dict[str, Any]:
    """What `--json` shows: counts, answers, duplicates, a sample row, what was guessed, and the
    faults.
    """
    questions = reading.questions
    first: dict[str, str] = {}
    twice = [
        [before, stands_at(one)]
        for one in questions
        if (before := first.setdefault(content_id(one), stands_at(one))) != stands_at(one)
    ]
    return {
        "name": reading.name,
        "questions": len(questions),
        "kinds": dict(Counter(one.kind for one in questions)),
        "options": dict(
            sorted(Counter(len(one.choices) for one in questions if one.choices).items())
        ),
        "answers": dict(
            Counter(str(one.answer) for one in questions if one.answer is not None).most_common()
        ),
        "unlabelled": sum(one.answer is None for one in questions),
        "made_ids": reading.made_ids,
        "duplicates": twice,
        "read": reading.guesses.removeprefix("read ") or None,
        "sample": questions[0].to_row() if questions else None,
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
    answers = description["answers"]
    shown = ", ".join(f"{answer} {count}" for answer, count in list(answers.items())[:MOST_SHOWN])
    if answers and len(answers) <= MOST_SHOWN:
        lines["answers"] = shown
    elif answers:
        lines["answers"] = f"{len(answers)} different ones"
    if description["read"]:
        lines["read"] = description["read"]
    if description["made_ids"]:
        lines["ids"] = f"made from the content of {counted(description['made_ids'], 'question')}"
    if description["duplicates"]:
        first, second = description["duplicates"][0]
        repeats = counted(len(description["duplicates"]), "row")
        lines["duplicates"] = f"{repeats} like an earlier one (the first: {second}, like {first})"
    sample = description["sample"]
    options = (f"{label}: {text}" for label, text in (sample["choices"] or {}).items())
    lines["first row"] = " | ".join([sample["question"], *options, f"answer: {sample['answer']}"])
    return lines
