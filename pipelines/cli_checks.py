"""What the command line checks about questions before any LM is asked."""

from __future__ import annotations

from collections.abc import Sequence

from ..modules.errors import UserError
from ..modules.question import Question
from . import data


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
