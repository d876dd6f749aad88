"""`folkmoot ask`: one question to one program, with the whole dialogue shown."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dspy

from ...modules.base.calls import bound
from ...modules.base.errors import UserError
from ...modules.protocols.program import Program
from ...modules.reading.question import MAX_CHOICES, Question, from_row
from ..data.load import check_contexts
from ..lms.cache import ACTIVE_CACHE, open_cache
from ..lms.store import ACTIVE, CallStore, write_lms
from ..programs.resolve import parse_sets, program_of
from ..programs.seats import LMOptions
from ..runs.manifest import lms_of

_LABELLED = re.compile(r"([A-Z]|\d{1,2})=(.*)", re.DOTALL)


def ask(
    program: str,
    question: str,
    *,
    choices: Sequence[str] = (),
    context: str | None = None,
    kind: str | None = None,
    sets: Sequence[str] = (),
    lms: LMOptions,
    record: Path | None = None,
    cache: bool = True,
) -> dict[str, Any]:
    """The prediction as a dict, with the question's `choices`. Raises UserError or CallError."""
    built = program_of(program, parse_sets(sets), make_lm=lms.make)
    asked = question_of(question, choices, context, kind)
    check_contexts([asked])
    language_model = lms.seat(built)
    with (
        dspy.context(lm=language_model, disable_history=True),
        open_cache(cache) as known,
        bound(ACTIVE_CACHE, known),
    ):
        prediction = _recorded(built, asked, language_model, record)
    return {"question": asked.question, "choices": asked.choices, **prediction.toDict()}


def _recorded(program: Program, asked: Question, language_model: Any, record: Path | None) -> dspy.Prediction:
    if record is None:
        return program(**asked.inputs())
    try:
        store = CallStore(record)
        write_lms(record, lms_of(program, language_model))
    except OSError as problem:
        raise UserError(f"{record} cannot be written ({problem.strerror}): choose another --record") from None
    token = ACTIVE.set((store,))
    try:
        return program(**asked.inputs())
    finally:
        ACTIVE.reset(token)
        store.close()


def question_of(question: str, choices: Sequence[str], context: str | None, kind: str | None) -> Question:
    """A question from the command line's words. Raises UserError as a row of a file would."""
    row = {"id": "ask", "question": question, "choices": labelled(choices), "context": context}
    return from_row(row, "the question asked", kind)


def labelled(choices: Sequence[str]) -> Mapping[str, str] | list[str] | None:
    """`A=TEXT` options by label; plain texts as they are, to be labelled A, B, …; None without options."""
    if not choices:
        return None
    if not 2 <= len(choices) <= MAX_CHOICES:
        times = "once" if len(choices) == 1 else f"{len(choices)} times"
        raise UserError(
            f"--choice is given {times}: give it 2 to {MAX_CHOICES} times, or not at all for a question "
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
