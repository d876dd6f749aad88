"""One agent asked several times on questions whose answers cannot be voted on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

import dspy

from ...modules.agents.seat import Seat
from ...modules.agents.transcript import Task, Turn
from ...modules.base.calls import ASKER
from ...modules.base.saved_file import Described
from ...modules.base.together import together
from ...modules.protocols.ensemble import Ensemble
from ...modules.protocols.program import Program, prediction_of
from ...modules.reading.grading import MetricError
from ...modules.reading.metrics import Metric
from ...modules.reading.question import Question
from .check import Check

PICKED = ("open", "task")
"""The kinds of question whose answers cannot be voted on."""


class Picked(Ensemble):
    """A pick among the samples of a program, or the first that passes a check which the user lets
    programs see.
    """

    def __init__(
        self, members: Sequence[Program], samples: int = 1, visible: Check | None = None
    ) -> None:
        super().__init__(members, vote="pick", samples=samples)
        self.visible = visible

    def describe(self) -> Described:
        visible = {} if self.visible is None else {"visible_check": self.visible.identity()["code"]}
        return {**super().describe(), **visible}

    async def _picked(self, task: Task, turns: list[Turn], picker: Seat) -> dspy.Prediction:
        if self.visible is not None:
            asked = Question(
                id=task.key, question=task.question, kind="task", files=ASKER.get().files
            )
            for turn in turns:
                try:
                    graded = await self.visible.grade(asked, dspy.Prediction(answer=turn.answer))
                except MetricError:  # of an answer that has no place in the folder
                    continue
                if graded.correct:
                    return prediction_of(task, turn.answer, "visible check", turns)
        return await super()._picked(task, turns, picker)


def asked_often(program: Program, samples: int, kind: str, visible: Check | None = None) -> Program:
    """Return one agent that is asked several times: its most frequent answer, or, where answers
    cannot be voted on, a pick, or the first that passes the visible check.
    """
    if samples == 1:
        own: Program = program
    elif kind in PICKED:
        own = Picked([program], samples, visible)
    else:
        own = program.sampled(samples)
    return own


Answered = tuple[Question, str]


async def checked_scores(
    check: Metric, answers: Iterable[Answered]
) -> dict[tuple[str, str], float]:
    """Return the score of each answer by question id and answer. One that has no place in the
    folder has the lowest.
    """
    scores = dict[tuple[str, str], float]()

    async def scored(question: Question, answer: str) -> None:
        scores[question.id, answer] = check.scale.least
        with suppress(MetricError):
            graded = await check.grade(question, dspy.Prediction(answer=answer))
            scores[question.id, answer] = graded.score

    by_key = {(question.id, answer): (question, answer) for question, answer in answers}
    await together(scored(question, answer) for question, answer in by_key.values())
    return scores
