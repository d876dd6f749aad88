"""The score of an answer, 0 to 1, for optimizers: whether it may be a demonstration, and feedback
on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import dspy

from ...modules.reading.answers import score
from ...modules.reading.grading import Graded
from ...modules.reading.question import Question
from .feedback import feedback

DEMONSTRABLE_F1 = 0.8
"""The least F1 of a span answer that may be a demonstration; answers of other kinds must be right.
"""

Scored = Callable[[Question, dspy.Prediction, float], None]


def value(question: Question, answer: str | None) -> float:
    """1 for a right choice, yes/no or number and 0 for a wrong one; the F1 of a span; unreadable is
    0.
    """
    if answer is None or question.answer is None:
        return 0.0
    # Of a phrase that is partly right an optimizer can tell better from worse.
    judged = score(answer, question.gold or "", question.kind, question.choices)
    return float(judged.correct) if judged.f1 is None else float(judged.f1)


def demonstrable(question: Question, answer: str | None) -> bool:
    """Return whether the calls that led to this answer may be demonstrations."""
    least = DEMONSTRABLE_F1 if question.kind == "span" else 1.0
    return value(question, answer) >= least


class OptimizerMetric:
    """The metric that every DSPy optimizer is given.

    Called to score, it gives `value`; called with a trace to collect demonstrations, whether the
    answer is `demonstrable`; called by GEPA about one predictor, `value` and `feedback`.

    Args: scored: called with every score, except those with a trace or feedback. seats: the name of
    the seat of each of the student's predictors. grade: another metric, which replaces `value` and
    `demonstrable`.
    """

    def __init__(
        self,
        scored: Scored | None = None,
        seats: Mapping[str, str] | None = None,
        grade: Callable[..., Graded] | None = None,
    ) -> None:
        self.scored = scored
        self.seats = dict(seats or {})
        self.grade = grade

    def __call__(
        self,
        gold: Question,
        pred: dspy.Prediction,
        trace: object = None,
        pred_name: str | None = None,
        pred_trace: object = None,
    ) -> float | dspy.Prediction:
        gold = _labelled(gold)
        if pred_name is not None:
            graded, scored = None, 0.0
            if self.grade is None:
                scored = value(gold, _answer_of(pred))
            else:
                graded = self.grade(gold, pred, trace, pred_name, pred_trace)
                scored = graded.score
                if graded.feedback is not None:
                    return dspy.Prediction(score=scored, feedback=graded.feedback)
            seat = self.seats.get(pred_name, pred_name)
            words = feedback(gold, pred or {}, seat, graded)
            return dspy.Prediction(score=scored, feedback=words)
        if trace is not None:
            return self.demonstrable(gold, pred, trace)
        scored = (
            value(gold, _answer_of(pred)) if self.grade is None else self.grade(gold, pred).score
        )
        if self.scored is not None:
            self.scored(gold, pred, scored)
        return scored

    def demonstrable(self, gold: Question, pred: dspy.Prediction, trace: object = ()) -> bool:
        """Return whether a prediction may be a demonstration: right, or a span with enough F1."""
        gold = _labelled(gold)
        if self.grade is None:
            return demonstrable(gold, _answer_of(pred))
        graded = self.grade(gold, pred, trace)
        return graded.score >= DEMONSTRABLE_F1 if graded.correct is None else graded.correct


def _labelled(gold: Question) -> Question:
    """Return the question with its label as the gold answer, of which a demonstration may show the
    option's text instead.
    """
    if gold.choices is None or gold.answer is None or gold.answer in gold.choices:
        return gold
    return Question(gold)


def _answer_of(pred: dspy.Prediction) -> str | None:
    """Return the answer of a prediction, which may have failed."""
    answer: str | None = (pred or {}).get("answer")
    return answer
