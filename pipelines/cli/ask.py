"""`folkmoot ask`: one question to one program, with the whole dialogue shown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import dspy

from ...modules.base.errors import UserError
from ...modules.reading.question import MAX_CHOICES, from_row
from ..data.load import check_contexts
from ..programs.resolve import parse_sets, program_given, program_of
from ..programs.seats import Seating
from ..runs.books import open_books
from ..runs.describe import lms_of
from .options import AskRequest, Quietly
from .show import console, finish, show_dialogue
from .stdin import DASH, piped_text

_LABELLED = re.compile(r"([A-Z]|\d{1,2})=(.*)", re.DOTALL)


def ask(options: AskRequest, view: Quietly) -> None:
    lms = Seating(options)
    program = program_given(
        program_of(str(options.program), parse_sets(options.parameters()), make_lm=lms.make),
        options.input_fields(),
    )
    # A question from the command line's words is refused as a row of a file would be.
    question = piped_text() if options.question == DASH else options.question
    words = {"question": question, "choices": labelled(options.choice), "context": options.context}
    asked = from_row({"id": "ask", **words}, "the question asked", options.kind)
    check_contexts([asked])
    program, lm = lms.seat(program)
    with (
        dspy.context(lm=lm, disable_history=True),
        open_books(
            records=[] if options.record is None else [Path(options.record)],
            lms=None if options.record is None else lms_of(program, lm),
            cache=options.cache,
            option="--record",
        ),
    ):
        prediction = program(**asked.inputs())
    found = {"question": asked.question, "choices": asked.choices, **prediction.toDict()}

    def show() -> None:
        if view.quiet:
            console().print(found["answer"] or "", soft_wrap=True)
        else:
            show_dialogue(console(), found, asked.choices)

    finish(view, found, show)


def labelled(choices: Sequence[str]) -> Mapping[str, str] | list[str] | None:
    """`A=TEXT` options by label; plain texts as they are, to be labelled A, B, …; None without
    options.
    """
    if not choices:
        return None
    if not 2 <= len(choices) <= MAX_CHOICES:
        times = "once" if len(choices) == 1 else f"{len(choices)} times"
        raise UserError(
            f"--choice is given {times}: give it 2 to {MAX_CHOICES} times, or not at all for a "
            f"question "
            "without options"
        )
    matches = [_LABELLED.fullmatch(choice) for choice in choices]
    if not any(matches):
        return list(choices)
    found: dict[str, str] = {}
    for choice, match in zip(choices, matches, strict=True):
        if match is None:
            raise UserError(
                f"--choice {choice!r} has no label, but others have: give all as LABEL=TEXT or none"
            )
        if match[1] in found:
            raise UserError(f"--choice gives the label {match[1]!r} twice: make the labels differ")
        found[match[1]] = match[2]
    return found
