"""Checks of an evaluation before any LM call: program, questions, folder, and leaks of answers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import dspy

from ...modules.agents.adapter import profile_of
from ...modules.agents.seat import Seat
from ...modules.base.errors import UserError, checked_whole, system_errors
from ...modules.protocols.program import Program
from ...modules.protocols.saved import predictors_of
from ...modules.reading.question import Question
from ..base.journal import read_object
from ..data import questions as data
from ..lms.named import SAMPLING
from ..runs.manifest import MANIFEST

MOST_REPEATS = 1_000


def noted(program: Program, questions: Sequence[Question], lm: object = None) -> list[str]:
    """Return warnings about what is given to a program but will not be used: LMs, fields, prompts,
    and DSPy's adapter.

    Raises UserError if a user's own program needs a field that a question lacks.
    """
    warnings: list[str] = program.check(questions) if program.foreign else []
    if program.foreign and lm is not None:
        own = [name for name, predictor in predictors_of(program).items() if predictor.lm]
        if own:
            warnings.append(
                f"{', '.join(own)} of your program has an LM of its own, which answers instead of "
                f"{getattr(lm, 'model', lm)}"
            )
    if program.wording() and in_plain_text(program, lm):
        warnings.append(
            "an untuned LM is asked in plain text, without instructions: prompts and "
            "prompt_layout change nothing in what it is asked"
        )
    adapter = dspy.settings.adapter
    passing = [
        name
        for name, seat in program.seats().items()
        if isinstance(seat, Seat) and seat.adapter is None
    ]
    if adapter is not None and passing:
        warnings.append(
            f"DSPy is set to the {type(adapter).__name__}, but folkmoot's agents have an adapter "
            f"of their own ({', '.join(passing)}): program.seats()[{passing[0]!r}].adapter takes "
            "another one"
        )
    return warnings


def in_plain_text(program: Program, lm: object = None) -> bool:
    """Return whether an agent is asked in plain text, without its instructions, as untuned
    LMs are.
    """
    seats = (seat for seat in program.seats().values() if isinstance(seat, Seat))
    profiles = (profile_of(seat.predict.lm or lm) for seat in seats)
    return any(profile is not None and profile.layout == "plain" for profile in profiles)


def sampling_left_out(program: Program, lm: dspy.BaseLM) -> list[str]:
    """Return a warning for each setting of a seat that its LM does not accept."""
    warnings = []
    for seat in program.seats().values():
        if not isinstance(seat, Seat):
            continue
        seat_lm = seat.predict.lm or lm
        for key in seat.predict.config:
            if key not in getattr(seat_lm, "takes", SAMPLING):
                warnings.append(
                    f"{seat_lm.model} does not accept {key}: the agents' setting is left out"
                )
    # Once for several agents with the same LM and setting.
    return list(dict.fromkeys(warnings))


def checked(questions: Iterable[Question]) -> list[Question]:
    """Return the questions as a list. Raises UserError unless all are labelled and have different
    ids.
    """
    listed = list(questions)
    if not listed:
        raise UserError("there are no questions to evaluate: check the data, --split and --limit")
    data.check_contexts(listed)
    data.check_ids(listed)
    data.check_labelled(listed)
    return listed


def check_repeats(repeats: object) -> None:
    """Raise UserError unless `repeats` is a number from 1 to `MOST_REPEATS`."""
    if checked_whole("repeats", repeats) > MOST_REPEATS:
        raise UserError(f"repeats is {repeats:,}: ask each question at most {MOST_REPEATS:,} times")


def check_orders(folder: Path, permute: bool) -> None:
    """Raise UserError if the run in a folder has its options permuted and this one not, or vice
    versa.
    """
    settings = (read_object(folder / MANIFEST) or {}).get("settings") or {}
    if not permute and settings.get("permute"):
        raise UserError(f"{folder} holds repeats with permuted options: add --permute")
    if permute and settings.get("repeats", 1) > 1 and not settings.get("permute"):
        raise UserError(f"{folder} holds repeats in the options' own order: drop --permute")


def check_writable(folder: Path, option: str = "--out") -> None:
    """Raise UserError if a folder can be neither written nor created; this writes nothing."""
    with system_errors(folder, f"choose another {option}"):  # such as a name that is too long
        # The nearest folder that exists decides whether those below it can be created.
        place = next(place for place in (folder, *folder.parents) if place.exists())
    if not place.is_dir():
        raise UserError(f"{folder} cannot be written ({place} is a file): choose another {option}")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UserError(f"{place} cannot be written (no permission): choose another {option}")


def check_train(train: Sequence[Question], questions: Sequence[Question]) -> list[str]:
    """Return warnings about training questions that are similar to test questions. Raises UserError
    if the same question is in both.
    """
    if not train:
        return []
    same = [test for learnt, test in data.overlap(train, questions) if learnt == test]
    if same:
        raise UserError(
            f"{len(same)} of {len(questions)} test questions are training questions (the first is "
            f"{same[0]!r}): take them out of one, or name another split"
        )
    warning = data.check_overlap(train, questions)
    return list(filter(None, [warning]))


def check_shown(shown: set[str], train: Sequence[Question], questions: Sequence[Question]) -> None:
    """Raise UserError if a demonstration gives away the answer to a test question."""
    leaks = data.overlap([question for question in train if question.id in shown], questions)
    if leaks:
        raise UserError(
            f"the demonstration {leaks[0][0]!r} has the text of test question {leaks[0][1]!r}: "
            "choose another --demo-seed"
        )
