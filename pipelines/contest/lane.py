"""A lane: the evaluation of one program of a contest, which answers a few questions at a time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from statistics import fmean

from ...modules.base.calls import EndpointDown, Usage, total
from ...modules.base.sync import run_sync
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow, evidence_in, is_cut_off, is_unreadable, taken
from ...modules.statistics.prices import price_unit
from ..base.budget import BudgetSpent
from ..base.run_files import Manifest
from ..evaluation.answering import each_in_turn
from ..evaluation.earlier import Evaluation
from ..evaluation.plan import EvaluationPlan
from ..evaluation.repeats import Ask
from ..evaluation.sheet import AnswerSheet
from ..meter.programs import Metered
from ..runs.manifest import MANIFEST, RUN
from ..runs.summary import Summary
from ..tracking.context import ABOVE
from ..tracking.run import Run, running
from .entrants import Entrant


@dataclass(frozen=True)
class Answer:
    """An answer as a contest keeps it: its score (0 to 1), its price, and its error.

    Over repeats: the mean score and the total price of the `answered` ones, and an error if none
    was.
    """

    score: float
    takes: Usage
    error: str | None
    unread: bool
    answered: int = 1

    @classmethod
    def of(cls, row: ResultRow, plan: EvaluationPlan) -> Answer:
        # The bounds of the watch hold for scores between 0 and 1 alone.
        scale = plan.metric.scale
        score, share = evidence_in(row, scale.least), 0.0
        if score is not None:
            share = min(1.0, max(0.0, scale.share(score)))
        return cls(share, taken(row), row.error, is_unreadable(row) or is_cut_off(row))

    @classmethod
    def over(cls, repeats: Sequence[Answer]) -> Answer:
        """Combine the answers to a question that was asked several times."""
        given = [repeat for repeat in repeats if repeat.error is None] or repeats
        return cls(
            score=fmean(repeat.score for repeat in given),
            takes=total([repeat.takes for repeat in given]),
            error=given[-1].error,
            unread=all(repeat.unread for repeat in given),
            answered=len(given),
        )


@dataclass
class Lane:
    """An open evaluation folder of one program, and the answers in it.

    Each lane has context variables of its own: its ledger and records are its program's alone,
    within the books of the contest around it.
    """

    entrant: Entrant
    plan: EvaluationPlan
    context: Context
    answers: dict[str, Answer] = field(default_factory=dict)
    repeats: dict[str, dict[int, Answer]] = field(default_factory=dict)
    """The answers of the repeats so far, by question."""

    out: str | None = None
    """Why it left the race; None while it is in."""

    @classmethod
    def opened(cls, entrant: Entrant, plan: EvaluationPlan) -> Lane:
        """Lock the folder for this process, and read the answers of earlier attempts."""
        lane = cls(entrant, plan, copy_context())
        lane.context.run(lane._open)
        return lane

    def _open(self) -> None:
        plan, request = self.plan, self.plan.request
        manifest: Manifest = plan.manifest
        self._folder, self._asking = ExitStack(), ExitStack()
        try:
            self._run: Run[Manifest] = self._folder.enter_context(
                running(
                    RUN,
                    manifest,
                    plan.out,
                    lms=manifest.lms,
                    cache=request.cache,
                    engines=plan.engines,
                )
            )
            self.sheet = self._asking.enter_context(
                AnswerSheet.opened(plan, self._run, earlier=self._take)
            )
            if request.tracking:
                self._run.track(MANIFEST, parent=ABOVE, lm=plan.lm)
            self._asking.enter_context(self.sheet.asking())
        except BaseException:
            # The folder last, as its lock keeps others out while the rest ends.
            self._asking.close()
            self._folder.close()
            raise

    async def answer(self, question: Question) -> None:
        """Answer one question. Raises BudgetSpent or EndpointDown, in which case no row is kept."""
        for repeat in range(self.plan.request.times):
            # Some repeats may be there from an earlier attempt.
            if repeat not in self.repeats.get(question.id, {}):
                self._take(await self.sheet.answer(Ask(question, repeat)))

    def _take(self, row: ResultRow) -> None:
        """Remember a row; a question is answered once it has all its repeats."""
        repeats = self.repeats.setdefault(row.id, {})
        repeats[row.repeat] = Answer.of(row, self.plan)
        if len(repeats) == self.plan.request.times:
            self.answers[row.id] = Answer.over(list(repeats.values()))

    def forget_doubts(self) -> None:
        """Forget the questions that failed last, if it is not known whether they or their endpoint
        are at fault: they stay unfinished.
        """
        for row, _ in self.sheet.doubts.held:
            self.answers.pop(row.id, None)
            self.repeats.get(row.id, {}).pop(row.repeat, None)

    def close(self, why: str | None = None, *, left: bool = False) -> Evaluation:
        """Write the summary of the run, and release the folder; `left` says that it left the
        contest, which is no stop.
        """
        return self.context.run(self._close, why, left)

    def _close(self, why: str | None, left: bool) -> Evaluation:
        run = self._run
        try:
            with self._asking:
                self.sheet.stopped, self.sheet.left = why, left
                # A run that a stop ended goes on later, and its doubts with it.
                if why is None or left:
                    with suppress(EndpointDown):
                        self.sheet.doubts.end()
                summary: Summary = self.sheet.summed_up(None)
            run.end()
        finally:
            self._folder.close()
        return Evaluation(run.folder, summary, run.keep, run.tracking, program=self.entrant.program)

    @property
    def each(self) -> Iterator[Answer]:
        """Every answer so far, each repeat for itself."""
        for repeats in self.repeats.values():
            yield from repeats.values()

    def to(self, questions: Sequence[Question]) -> list[Answer]:
        """Its answers to these questions, as far as it has them."""
        return [self.answers[each.id] for each in questions if each.id in self.answers]

    def given_to(self, questions: Sequence[Question]) -> dict[str, Answer]:
        """The same without those that failed, by the question's id."""
        given = {}
        for question in questions:
            answer = self.answers.get(question.id)
            if answer is not None and answer.error is None:
                given[question.id] = answer
        return given

    def failed(self, questions: Sequence[Question]) -> int:
        """How many of these questions failed; they are neither right nor wrong."""
        return len(self.to(questions)) - len(self.given_to(questions))

    def unread(self, questions: Sequence[Question]) -> int:
        """How many of the answers to these questions could not be read; they count as wrong."""
        return sum(answer.unread for answer in self.to(questions))

    @property
    def bill(self) -> Usage:
        """The cost of its answers, with every call at its price; failed questions have none."""
        return total(answer.takes for answer in self._given)

    @property
    def _given(self) -> list[Answer]:
        return [answer for answer in self.answers.values() if answer.error is None]

    def per_question(self, unit: str) -> float | None:
        """The cost of one answer in dollars, tokens or calls; None where it is not known."""
        return self._mean_cost(self._given, unit)

    def price(self, unit: str, questions: Sequence[Question]) -> float:
        """The same over the first questions alone, so that it is the same in every attempt; 0 where
        it is not known. A program that answers without a call through the meter is never the
        cheapest: its price is not known.
        """
        given = list(self.given_to(questions).values())
        metered = isinstance(self.entrant.program, Metered)
        if metered and not all(answer.takes.calls for answer in given):
            return math.inf
        return self._mean_cost(given, unit) or 0.0

    def _mean_cost(self, answers: Sequence[Answer], unit: str) -> float | None:
        values = [getattr(answer.takes, unit) for answer in answers]
        if None in values or not answers:
            return None
        # `takes` is the bill of all repeats.
        return float(sum(values)) / max(1, sum(answer.answered for answer in answers))

    def right(self, questions: Sequence[Question]) -> list[float]:
        """Its scores on the answered questions among these; failed ones have none."""
        return [answer.score for answer in self.given_to(questions).values()]


def unit_of(lanes: Sequence[Lane]) -> str:
    """The unit in which the programs' prices are compared."""
    return price_unit([lane.bill for lane in lanes])


def ask_all(
    lanes: Sequence[Lane],
    questions: Iterable[Question],
    report: Callable[[], None] = lambda: None,
) -> None:
    """Ask these programs the questions that they have not answered yet, concurrently.

    When a budget stops the asking, the questions in flight are finished first, and when an endpoint
    does, the calls that were sent. Then raises BudgetSpent or EndpointDown.
    """
    # Question by question, so that a stop leaves all programs with the same questions answered.
    waiting = []
    for question in questions:
        waiting += [(question, lane) for lane in lanes if question.id not in lane.answers]
    ending: list[BudgetSpent] = []

    async def work(todo: Iterable[tuple[Question, Lane]]) -> None:
        for question, lane in todo:
            try:
                # A copy per answer, so that concurrent answers share no context variable.
                await asyncio.create_task(lane.answer(question), context=lane.context.copy())
            except BudgetSpent as problem:
                ending.append(problem)
            if ending:
                return
            report()

    if waiting:
        run_sync(each_in_turn, waiting, max(each.plan.in_flight for each in lanes), work)
    if ending:
        raise ending[0]
