"""Labelled examples as demonstrations, without optimization."""

from __future__ import annotations

import random
from collections.abc import Sequence

import dspy

from ...modules.base.errors import UserError
from ...modules.protocols.program import Program
from ...modules.reading.question import Question


def labelled_demos(
    program: Program, train: Sequence[Question], k: int, *, seed: int | None = None
) -> Program:
    """Return a copy of the program in which every agent is shown labelled training questions.

    Args:
        program: the program, which is not changed.
        train: labelled questions.
        k: how many of them.
        seed: draws them; None takes the first k.

    Raises UserError when there are fewer than k training questions.
    """
    if k > len(train):
        raise UserError(
            f"{k} demonstrations need as many training questions, but there are only {len(train)}: "
            "give more, or take fewer demonstrations"
        )
    chosen = list(train[:k]) if seed is None else random.Random(seed).sample(list(train), k)
    shown: Program = program.deepcopy()
    for predictor in shown.predictors():
        if list(predictor.signature.output_fields)[-1] != "answer":
            continue  # a step that only prepares an answer has no labels to learn from
        predictor.demos = [dspy.Example(question) for question in chosen]
    return shown
