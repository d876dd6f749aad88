"""A judge as a metric: an LM says whether a free answer is right, given the reference and a
rubric.
"""

from __future__ import annotations

import hashlib

import dspy

from ...signatures.judging import GIVEN, REFERENCE, RUBRIC, Judging
from ..reading.answers import gold_text
from ..reading.grading import MetricError, MetricFields
from ..reading.metrics import JUDGE, Metric
from ..reading.question import Question
from .adapter import ProfileAdapter
from .prompt import MAX_NOTE_CHARS
from .seat import Seat
from .transcript import Task

_SAMPLING = ("temperature", "top_p", "seed")


class JudgeMetric(Metric):
    """An LM grades each answer as right or wrong, by the prompt in `signatures.judging`. A question
    may have its own rubric in `meta.rubric`. Answer, reference and rubric are quoted in fences, as
    the words of agents are.

    Args:
        lm: the LM that grades; its calls are billed as the metric's.
    """

    def __init__(self, lm: dspy.BaseLM) -> None:
        self.lm, self.lms = lm, [lm]
        self.seat = Seat("metric", Judging, lm=lm)
        super().__init__(self._judge, JUDGE, rate=True)
        self.spec = JUDGE

    def __reduce__(self) -> tuple[object, ...]:
        return JudgeMetric, (self.lm,)

    def identity(self) -> MetricFields:
        settings = getattr(self.lm, "kwargs", {})
        sampling = [settings.get(name) for name in _SAMPLING]
        asked = [Judging.instructions, str(self.lm.model), sampling]
        code = hashlib.sha256(repr(asked).encode()).hexdigest()[:16]
        return MetricFields(name=JUDGE, spec=JUDGE, code=code, low=0.0, high=1.0, rate=True)

    async def _judge(self, question: Question, prediction: dspy.Prediction) -> dspy.Prediction:
        rubric = question.meta.get("rubric")
        reference = {"title": REFERENCE, "text": gold_text(question.gold)}
        rules = [{"title": RUBRIC, "text": str(rubric)}] if rubric else []
        notes = [reference, *rules, {"title": GIVEN, "text": str(prediction.answer)}]
        # A prompt cuts longer texts, and a verdict on half an answer would be wrong.
        if any(len(note["text"]) > MAX_NOTE_CHARS for note in notes):
            raise MetricError(
                f"the judge reads texts of {MAX_NOTE_CHARS:,} characters at most: "
                "shorten what is longer"
            )
        with dspy.context(adapter=ProfileAdapter()):
            turn = await self.seat.ask(Task(question.question, kind="boolean"), notes=notes)
        if turn.answer is None:
            raise MetricError(
                "the judge's verdict could not be read: look at its replies, or take another LM"
            )
        return dspy.Prediction(score=turn.answer == "yes", feedback=turn.text)
