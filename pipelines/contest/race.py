"""The race of a contest: all programs answer the same questions in rounds, until it is decided."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from ...modules.base.calls import EndpointDown, Usage, total
from ...modules.base.errors import UserError
from ...modules.base.usage import UNITS, price_unit
from ...modules.reading.question import Question
from ...optimizers.statistics.field import FEWEST, FieldWatch
from ..base.budget import BudgetSpent
from ..base.wording import counted, shortened
from ..evaluation.earlier import Evaluation
from ..evaluation.evaluate import none_readable
from ..reporting.contested import RUNS, Step
from ..runs.books import Books
from ..runs.rows import read_rows
from ..tracking.entry import LEFT_CONTEST
from .entrants import FIRST_SAMPLES, Entrant, fair_opponent, lm_title
from .lane import Lane, ask_all
from .money import affordable, amount, samples_for
from .plan import ContestPlan

PILOT, ROUND = 3, 10
FIRST = "first"
"""The folder of the pilot of one prompt asked a few times."""


@dataclass
class Race:
    """The race: the lanes of its programs, and what is decided so far.

    `tell` is called after every answer.
    """

    plan: ContestPlan
    folder: Path
    books: Books
    tell: Callable[[Race], None] = lambda _: None
    lanes: dict[str, Lane] = field(default_factory=dict)
    runs: dict[str, Evaluation] = field(default_factory=dict)
    watch: FieldWatch | None = None
    order: list[str] = field(default_factory=list)
    """Names of the programs in the order of the watch."""

    seen: int = 0
    """The number of questions that have been looked at."""

    planned: int = 0
    ended: str = ""
    """What ended the race: `decided`, `questions`, `money`, `open`; empty while it runs."""

    stopped: str | None = None
    """Why asking stopped against the user's will, in a sentence."""

    course: list[Step] = field(default_factory=list)
    """The difference of every program to the reference at each look."""

    latest: str = ""
    """The last question on which programs differ, in a line."""

    began: float = field(default_factory=time.monotonic)

    @property
    def questions(self) -> list[Question]:
        return self.plan.race

    @property
    def paid(self) -> Usage:
        """What was paid so far, without calls in flight."""
        return Usage() if self.books.ledger is None else self.books.ledger.total

    @property
    def asked(self) -> list[Lane]:
        """The programs that get the next question, always with reference and fair opponent."""
        return [one for one in self.lanes.values() if one.out is None or one.entrant.kept]

    def run(self) -> None:
        """Ask until it is decided, the questions are used up, or the money is gone."""
        try:
            for entrant in self.plan.field:
                self._open(entrant, FIRST if entrant.fair else RUNS)
            self._pilot()
            self._ask(self.asked, self.questions[:FEWEST])
            self._settle_samples()
            self.planned = int(min(len(self.questions), FEWEST + self._affordable() // 1))
            self._begin_watch(self.planned)
            self._look(min(FEWEST, len(self.questions)))
            while not self.ended:
                self._round()
            if self.ended == "questions" and self.watch is not None:
                self.watch.last_look()
                self._leave()
        except BudgetSpent as problem:
            self.ended, self.stopped = "money", str(problem)
        except EndpointDown as problem:
            if not any(lane.answers for lane in self.lanes.values()):
                self._close_all()
                raise UserError(f"no LM has answered: {problem}") from None
            self.ended = "open"
            self.stopped = (
                f"paused, since an endpoint fails ({problem}); this counts against no program, and "
                "the same command continues"
            )
        except BaseException as problem:
            if not isinstance(problem, UserError):
                self.stopped = "interrupted"
            with suppress(Exception):
                self._close_all()
            raise
        self._watch_what_there_is()
        self._close_all()

    # Opening, asking, closing
    # ------------------------------------------------------------------------------

    def _open(self, entrant: Entrant, where: str) -> Lane:
        plan = self.plan.plans.get(entrant.name) or self.plan.evaluation(entrant, self.questions)
        if where == FIRST:
            plan = replace(plan, request=replace(plan.request, tracking=False))
        home = plan.kept_in(self.folder / where / entrant.folder)
        self.lanes[entrant.name] = lane = Lane.opened(entrant, home)
        return lane

    def _ask(self, lanes: Sequence[Lane], questions: Iterable[Question]) -> None:
        ask_all(lanes, questions, self.plan.request.concurrency, lambda: self.tell(self))

    def _close_all(self) -> None:
        for name, lane in self.lanes.items():
            complete = len(lane.answers) == len(self.questions)
            left = None if complete else f"{LEFT_CONTEST}: {lane.out or 'it was over'}"
            self.runs[name] = lane.close(self.stopped or left)

    # The pilot
    # ------------------------------------------------------------------------------

    def _pilot(self) -> None:
        """Ask every program a few questions, the reference first; raise UserError for one that
        fails on all.
        """
        some = self.questions[:PILOT]
        lanes = self.asked
        for part in (lanes[:1], lanes[1:]):
            self._ask(part, some)
            for lane in part:
                self._check_pilot(lane, some)

    def _check_pilot(self, lane: Lane, questions: Sequence[Question]) -> None:
        answers = [lane.answers[one.id] for one in questions]
        name = lane.entrant.name
        if all(one.error for one in answers):
            raise UserError(
                f"{name} failed on all of the first {counted(len(answers), 'question')}, the last "
                f"because {answers[-1].error}: fix the cause and run the same command again"
                f"{'' if lane.entrant.kept else f', or leave it out (--without {name!r})'}"
            )
        if all(one.unread or one.error for one in answers):
            rows = [row for row in read_rows(lane.job.rows.path) if row["error"] is None]
            left_out = "" if lane.entrant.kept else f"; or leave it out (--without {name!r})"
            raise UserError(f"{name}: {none_readable(rows[-1], len(rows))}{left_out}")

    # Prices, samples, and the watch
    # ------------------------------------------------------------------------------

    def _settle_samples(self) -> None:
        """Ask the fair opponent as often as the dearest team's price allows, on the first questions
        too.

        Its earlier samples are in the contest's records, so only missing ones are paid for.
        """
        fair = next((lane for lane in self.asked if lane.entrant.fair), None)
        if fair is None:
            return
        lanes = [lane for lane in self.asked if not lane.entrant.fair]
        lm, of = fair.entrant.lm, ""
        if len(self.plan.lms) > 1:
            alone = {id(one.entrant.lm): one for one in lanes if not one.entrant.team}
            best = max(alone.values(), key=lambda one: sum(one.right(self.questions[:FEWEST])))
            lm, of = best.entrant.lm, f", {lm_title(best.entrant.lm)}"
        samples = self._samples(fair, lanes)
        del self.lanes[fair.entrant.name]
        fair.close("asked again as often as the dearest team costs")
        lane = self._open(fair_opponent(lm, samples, of), RUNS)
        self._ask([lane], self.questions[:FEWEST])

    def _samples(self, fair: Lane, lanes: Sequence[Lane]) -> int:
        """How many samples the dearest team's cost per question pays for."""
        teams = [lane for lane in lanes if lane.entrant.team] or list(lanes)
        unit = price_unit([fair.bill, *(lane.bill for lane in teams)])
        sample = (fair.per_question(unit) or 0.0) / FIRST_SAMPLES
        return samples_for(max(lane.per_question(unit) or 0.0 for lane in teams), sample)

    def _begin_watch(self, planned: int | None = None) -> None:
        """Watch the field from its first question on, at the current prices."""
        lanes = self.asked
        unit = price_unit([lane.bill for lane in lanes])
        self.order = [lane.entrant.name for lane in lanes]
        self.watch = FieldWatch(
            [lane.per_question(unit) or 0.0 for lane in lanes],
            planned=planned,
            margin=self.plan.margin,
            kept=[place for place, lane in enumerate(lanes) if lane.entrant.kept],
            stops=self.plan.request.early_stop,
        )

    def _affordable(self) -> float:
        """How many more questions the money pays for, without the reserve for later steps."""
        going_on = self.asked
        asked = min(len(lane.answers) for lane in going_on)
        bills = [lane.bill for lane in going_on]
        worth = total([lane.bill for lane in self.lanes.values()])
        paid = self.paid
        shared = {
            unit: min(1.0, amount(paid, unit) / amount(worth, unit))
            for unit in UNITS
            if amount(worth, unit)
        }
        return affordable(self.books.account, self._reserve(going_on), bills, shared, asked)

    def _reserve(self, lanes: Sequence[Lane]) -> dict[str, float]:
        """The reserve: what confirming the dearest possible winner and improving may cost."""
        kept, account = len(self.plan.unseen), self.books.account
        limits = {} if account is None else account.budget.limits
        reserve = {}
        for unit in UNITS:
            each = sorted(lane.per_question(unit) or 0.0 for lane in lanes)
            share = self.plan.improve_share * (limits.get(unit) or 0.0)
            reserve[unit] = kept * self.plan.request.times * (each[0] + each[-1]) + share
        return reserve

    # Rounds
    # ------------------------------------------------------------------------------

    def _round(self) -> None:
        """Ask the racing programs some more questions, and let decided programs leave."""
        assert self.watch is not None
        if self.plan.request.early_stop and self.watch.decided:
            self.ended = "decided"
            return
        size = min(ROUND, self.planned - self.seen)
        if size <= 0:
            self.ended = "questions" if self.seen == self.planned else "money"
            return
        batch = self.questions[self.seen : self.seen + size]
        missing = any(q.id not in lane.answers for q in batch for lane in self.asked)
        if missing:
            size = int(min(size, self._affordable()))
            if size < 1:
                self.ended = "money"
                return
        self._ask(self.asked, batch[:size])
        self._look(self.seen + size)

    def _look(self, until: int) -> None:
        """Give the watch the answers up to this question, in order, and let it decide."""
        assert self.watch is not None
        lanes = {name: self.lanes[name] for name in self.order}
        for question in self.questions[self.seen : until]:
            answers = {
                place: lane.answers[question.id].score
                for place, lane in enumerate(lanes.values())
                if question.id in lane.answers
            }
            cluster = question.meta.get(self.plan.cluster) if self.plan.cluster else None
            self.watch.update(answers, None if cluster is None else str(cluster))
            if len(set(answers.values())) > 1:
                self.latest = self._differs(question)
        self.seen = until
        self.course += self._steps()
        self._leave()
        self.tell(self)

    def _steps(self) -> Iterator[Step]:
        """Note the difference of each racing program to the reference."""
        assert self.watch is not None
        reference = next(
            place for place, name in enumerate(self.order) if self.lanes[name].entrant.reference
        )
        for place in sorted(self.watch.racing - {reference}):
            gaps = self.watch.differences(place, reference)
            ends = self.watch.interval(place, reference)
            yield Step(
                questions=self.seen,
                name=self.order[place],
                difference=sum(gaps) / len(gaps) if gaps else 0.0,
                low=ends.low,
                high=ends.high,
            )

    def _leave(self) -> None:
        """Let decided programs leave the race, and note why."""
        assert self.watch is not None
        for one in self.watch.decide():
            by = self.order[one.by]
            points = f"{100 * self.plan.margin:g} points"
            why = f"{by} is better" if one.why == "beaten" else f"{by} is within {points}, cheaper"
            self.lanes[self.order[one.program]].out = f"{why} (after {self.seen})"

    def _differs(self, question: Question) -> str:
        right = [
            lane.entrant.name
            for lane in self.asked
            if question.id in lane.answers and lane.answers[question.id].score >= 0.5
        ]
        return f"{shortened(question.question, 60)} → right: {', '.join(right) or 'nobody'}"

    def _watch_what_there_is(self) -> None:
        """After an early stop, use all questions that every racing program has answered."""
        if self.watch is None and self.lanes:
            self._begin_watch()
        until = self.seen
        for question in self.questions[self.seen :]:
            if not all(question.id in lane.answers for lane in self.asked):
                break
            until += 1
        if until > self.seen:
            self._look(until)
