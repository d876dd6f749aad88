"""A lane: the evaluation of one program in a contest, which asks it a few questions at a time."""

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
    """What a contest keeps of an answer: its score (0 to 1), its cost without caches, its error,
    and whether it was unreadable or cut off.

    For several repeats: the mean score and the total cost of those that were `answered`, and an
    error only if none was.
    """

    score: float
    takes: Usage
    error: str | None
    unread: bool
    answered: int = 1

    @classmethod
    def of(cls, row: ResultRow, plan: EvaluationPlan) -> Answer:
        """Return the answer in a row."""
        # From 0 to 1, since the tests of the race are only valid for such scores.
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
    """The open evaluation of one program, with the answers so far.

    It runs in its own `context`, so that its ledger and records get the calls of this program alone
    (the books of the contest around it get all).
    """

    entrant: Entrant
    plan: EvaluationPlan
    context: Context
    answers: dict[str, Answer] = field(default_factory=dict)
    repeats: dict[str, dict[int, Answer]] = field(default_factory=dict)
    """Question → number of the repeat → answer."""

    out: str | None = None
    """Why its program has left the race; None while it is in."""

    @classmethod
    def opened(cls, entrant: Entrant, plan: EvaluationPlan) -> Lane:
        """Return a lane whose folder is locked for this process, with the answers of earlier
        attempts.
        """
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
            # The folder last: its lock keeps other processes out until then.
            self._asking.close()
            self._folder.close()
            raise

    async def answer(self, question: Question) -> None:
        """Answer one question. Raises BudgetSpent or EndpointDown, in which case no row is kept."""
        for repeat in range(self.plan.request.times):
            # An earlier attempt may have answered some repeats.
            if repeat not in self.repeats.get(question.id, {}):
                self._take(await self.sheet.answer(Ask(question, repeat)))

    def _take(self, row: ResultRow) -> None:
        """Count a row. A question is answered once all its repeats are."""
        repeats = self.repeats.setdefault(row.id, {})
        repeats[row.repeat] = Answer.of(row, self.plan)
        if len(repeats) == self.plan.request.times:
            self.answers[row.id] = Answer.over(list(repeats.values()))

    def forget_doubts(self) -> None:
        """Forget the answers to questions that failed last, if their endpoint may be at fault: they
        have no row either (`answering.Doubts`).
        """
        for row, _ in self.sheet.doubts.held:
            self.answers.pop(row.id, None)
            self.repeats.get(row.id, {}).pop(row.repeat, None)

    def close(self, why: str | None = None, *, left: bool = False) -> Evaluation:
        """Write the summary of the run, and release the folder; returns the evaluation.

        `why` says why not all questions were asked; `left` that this is because the program has
        left the contest, so that the run does not go on later.
        """
        return self.context.run(self._close, why, left)

    def _close(self, why: str | None, left: bool) -> Evaluation:
        run = self._run
        try:
            with self._asking:
                self.sheet.stopped, self.sheet.left = why, left
                # A run that was stopped goes on later, and asks the doubtful questions again.
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
        """Every answer so far, of each repeat separately."""
        for repeats in self.repeats.values():
            yield from repeats.values()

    def to(self, questions: Sequence[Question]) -> list[Answer]:
        """Return its answers to these questions, failed ones included, as far as they were
        asked.
        """
        return [self.answers[each.id] for each in questions if each.id in self.answers]

    def given_to(self, questions: Sequence[Question]) -> dict[str, Answer]:
        """Return its answers to these questions by the question's id, without failed ones."""
        given = {}
        for question in questions:
            answer = self.answers.get(question.id)
            if answer is not None and answer.error is None:
                given[question.id] = answer
        return given

    def failed(self, questions: Sequence[Question]) -> int:
        """Return how many of these questions failed, which makes them neither right nor wrong."""
        return len(self.to(questions)) - len(self.given_to(questions))

    def unread(self, questions: Sequence[Question]) -> int:
        """Return how many answers to these questions could not be read, and so count as wrong."""
        return sum(answer.unread for answer in self.to(questions))

    @property
    def bill(self) -> Usage:
        """The cost of its answers without caches; failed questions are left out."""
        return total(answer.takes for answer in self._given)

    @property
    def _given(self) -> list[Answer]:
        return [answer for answer in self.answers.values() if answer.error is None]

    def per_question(self, unit: str) -> float | None:
        """Return the mean cost of an answer in this unit (`cost_usd`, `tokens` or `calls`); None if
        it is unknown.
        """
        return self._mean_cost(self._given, unit)

    def price(self, unit: str, questions: Sequence[Question]) -> float:
        """Return the mean cost of an answer to these questions, by which programs are ordered; 0 if
        it is unknown.

        Infinite for a metered program that answered without a call through its meter: its real cost
        is not known, and it must not count as the cheapest.
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
        # `takes` is the cost of all repeats.
        return float(sum(values)) / max(1, sum(answer.answered for answer in answers))

    def right(self, questions: Sequence[Question]) -> list[float]:
        """Return its scores on these questions, without those that failed or were not asked."""
        return [answer.score for answer in self.given_to(questions).values()]


def unit_of(lanes: Sequence[Lane]) -> str:
    """Return the unit in which the programs' prices are compared."""
    return price_unit([lane.bill for lane in lanes])


def ask_all(
    lanes: Sequence[Lane],
    questions: Iterable[Question],
    report: Callable[[], None] = lambda: None,
) -> None:
    """Ask these programs, concurrently, the questions that they have not answered yet; `report` is
    called after every answer.

    Raises BudgetSpent once the questions in flight are finished, and EndpointDown once the calls
    that were sent are.
    """
    # Question by question, so that after a stop all programs have answered the same questions.
    waiting = []
    for question in questions:
        waiting += [(question, lane) for lane in lanes if question.id not in lane.answers]
    ending: list[BudgetSpent] = []

    async def work(todo: Iterable[tuple[Question, Lane]]) -> None:
        for question, lane in todo:
            try:
                # A copy of the context for each answer, since answers run concurrently.
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
