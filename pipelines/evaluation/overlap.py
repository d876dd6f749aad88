"""What the command line checks before any LM is asked, and what it says when all questions failed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ...modules.protocols.ensemble import Ensemble
from ...modules.reading.question import Question
from ..base.wording import common_error
from ..data import load as data
from ..runs.rows import RESULTS, read_rows
from .check import check_folder, check_writable


def check_train(train: Sequence[Question], questions: Sequence[Question]) -> list[str]:
    """Warnings on training questions that are test questions, too; the same data twice is refused."""
    same = [test for learnt, test in data.overlap(train, questions) if learnt == test]
    if same:
        raise UserError(
            f"{len(same)} of {len(questions)} test questions are training questions (the first is "
            f"{same[0]!r}): evaluate on another split than --train"
        )
    warning = data.check_overlap(train, questions) if train else None
    return [warning] if warning else []


def check_shown(shown: set[str], train: Sequence[Question], questions: Sequence[Question]) -> None:
    """Raises UserError when a demonstration gives away the answer to a test question."""
    leaks = data.overlap([question for question in train if question.id in shown], questions)
    if leaks:
        raise UserError(
            f"the demonstration {leaks[0][0]!r} has the text of test question {leaks[0][1]!r}: "
            "choose another --demo-seed"
        )


def check_weighted(
    out: Path, weights: str, program: Ensemble, train: Sequence[Question], language_model: Any
) -> None:
    """Raises UserError when the folder of a run whose weights are to be fitted cannot be used.

    Which program `out` is to hold, the weights decide; those are fitted in its sub-folder by majority.
    """
    check_writable(out)
    vote, program.vote = program.vote, "majority"
    try:
        check_folder(out / weights, program, train, language_model)
    finally:
        program.vote = vote


def all_failed(out: Path) -> str:
    """Why a run has no answer at all: the reason that most of its rows share."""
    found = common_error(read_rows(out / RESULTS))
    if found is None:
        return f"no question is finished; what there is is kept in {out}"
    reason, times = found
    why = f"because {reason}" if times > 1 else f"the first because {reason}"
    return f"every question failed, {why}; mend the cause, and --retry-errors asks again"
