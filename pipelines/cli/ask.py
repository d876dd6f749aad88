"""`folkmoot ask`: one question to one program, with the whole dialogue shown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import dspy

from ...modules.base.calls import EndpointDown
from ...modules.base.errors import UserError
from ...modules.reading.asked import MAX_CHOICES
from ...modules.reading.question import NAMELESS, from_row
from ...modules.reading.row import ResultRow
from ..base.wording import counted
from ..data.questions import check_contexts
from ..evaluation.answering import ENDPOINT, lm_names
from ..programs.resolve import program_of
from ..programs.seats import (
    Seating,
    parse_sets,
    program_given,
)
from ..runs.books import open_books
from ..runs.describe import lms_of
from .options import AskRequest, Quietly
from .show import console, finish, show_dialogue
from .stdin import DASH, piped_text

_LABELLED = re.compile(r"([A-Z]|\d{1,2})=(.*)", re.DOTALL)


def ask(request: AskRequest, view: Quietly) -> None:
    lms = Seating(request)
    program = program_given(
        program_of(str(request.program), parse_sets(request.parameters()), make_lm=lms.make),
        request.input_fields(),
    )
    question = request.question
    if question == DASH:
        question = piped_text()
    words = {"question": question, "choices": labelled(request.choice), "context": request.context}
    asked = from_row({"id": NAMELESS, **words}, "", request.kind)
    check_contexts([asked])
    program, lm = lms.seat(program)
    with (
        dspy.context(lm=lm, disable_history=True),
        open_books(
            records=[] if request.record is None else [Path(request.record)],
            lms=None if request.record is None else lms_of(program, lm),
            cache=request.cache,
            option="--record",
        ),
    ):
        try:
            prediction = program(**asked.inputs())
        except ENDPOINT as problem:  # rather a wrong address than an outage
            raise EndpointDown(str(problem)) from None
    answer = {"question": asked.question, "choices": asked.choices, **prediction.toDict()}

    def show() -> None:
        if view.quiet:
            console().print(answer["answer"] or "", soft_wrap=True)
        else:
            show_dialogue(console(), ResultRow.of(answer), asked.choices)
            console().print(f"answered by {lm_names(program, lm)}", soft_wrap=True)

    finish(view, answer, show)


def labelled(choices: Sequence[str]) -> Mapping[str, str] | list[str] | None:
    """Return `A=TEXT` options by label, plain texts as a list, to be labelled A, B, …, or None
    without options. Raises UserError unless they are 2 to 26, and all or none have a label of their
    own.
    """
    if not choices:
        return None
    if not 2 <= len(choices) <= MAX_CHOICES:
        raise UserError(
            f"--choice is given {counted(len(choices), 'time')}: give it 2 to {MAX_CHOICES} times, "
            "or not at all for a question without options"
        )
    matches = [_LABELLED.fullmatch(choice) for choice in choices]
    if not any(matches):
        return list(choices)
    options = {match[1]: match[2] for match in matches if match}
    if len(options) < len(choices):
        raise UserError(
            "--choice has options without a label, or a label twice: give all as LABEL=TEXT with "
            "different labels, or none"
        )
    return options
