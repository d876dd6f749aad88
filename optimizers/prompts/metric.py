"""The score of an answer, 0 to 1, for optimizers: whether it may be a demonstration, and feedback on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import dspy

from ...modules.reading.answers import score
from ...modules.reading.question import Question
from .feedback import feedback

DEMONSTRABLE_F1 = 0.8
"""The least F1 at which a span answer may be shown as an example; every other kind has to be right."""

Scored = Callable[[Question, Any, float], None]


def value(question: Question, answer: str | None) -> float:
    """1 for a right choice, yes/no or number and 0 for a wrong one; the F1 of a span; unreadable is 0."""
    if answer is None or question.answer is None:
        return 0.0
    judged = score(answer, question.answer, question.kind, question.choices)
    return float(judged.correct) if judged.f1 is None else float(judged.f1)


def demonstrable(question: Question, answer: str | None) -> bool:
    """Whether what led to this answer may be shown as an example."""
    return value(question, answer) >= (DEMONSTRABLE_F1 if question.kind == "span" else 1.0)


class Metric:
    """The metric that every DSPy optimizer is given.

    Called to score, it gives `value`; called with a trace to collect demonstrations, whether the answer is
    `demonstrable`; called by GEPA about one predictor, `value` and `feedback`.

    Args:
        scored: called with every score, but not of those that come with a trace or feedback.
        seats: the name of the seat behind each of the student's predictors.
    """

    def __init__(self, scored: Scored | None = None, seats: Mapping[str, str] | None = None) -> None:
        self.scored = scored
        self.seats = dict(seats or {})

    def __call__(
        self,
        gold: Question,
        pred: Any,
        trace: Any = None,
        pred_name: str | None = None,
        pred_trace: Any = None,
    ) -> Any:
        answer = None if pred is None else pred.get("answer")
        if pred_name is not None:
            said = feedback(gold, {} if pred is None else pred, self.seats.get(pred_name, pred_name))
            return dspy.Prediction(score=value(gold, answer), feedback=said)
        if trace is not None:
            return demonstrable(gold, answer)
        found = value(gold, answer)
        if self.scored is not None:
            self.scored(gold, pred, found)
        return found
