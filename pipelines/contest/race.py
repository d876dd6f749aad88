"""The race of a contest: all programs answer the same questions in rounds, until it is decided."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
from pathlib import Path

from ...modules.base.calls import EndpointDown, Usage, total
from ...modules.base.errors import UserError
from ...modules.reading.question import Question
from ...modules.statistics.field import Exit, FieldWatch
from ...modules.statistics.prices import UNITS
from ...modules.statistics.statistics import FEWEST
from ..base.budget import BudgetSpent, BudgetUnheld
from ..base.wording import counted, paused, shortened
from ..comparison.matched import samples_for
from ..evaluation.earlier import Evaluation
from ..evaluation.sheet import none_readable
from ..reporting.contested import RUNS, Step
from ..runs.books import Books
from ..runs.caveats import too_many_failed
from .entrants import ONE, Entrant, fair_opponent, lm_alone, lm_title
from .lane import Lane, ask_all, unit_of
from .money import PILOT, affordable, amount, task_prices
from .plan import ContestPlan
from .scores import Scores

ROUND = 10
FIRST = "first"
"""The folder of prompts that are asked for their price alone."""


@dataclass
class Race:
    """The race: the lanes of its programs, and what is decided so far.

    `tell` is called after every answer.
    """

    plan: ContestPlan
    folder: Path
    books: Books
    tell: Callable[[Race], None] = lambda _: None
    note: Callable[[Race], None] = lambda _: None
    planned_for: dict[str, int] = field(default_factory=dict)
    """The numbers of questions that were planned, by budget; `note` stores a new one."""

    lanes: dict[str, Lane] = field(default_factory=dict)
    runs: dict[str, Evaluation] = field(default_factory=dict)
    watch: FieldWatch | None = None
    order: list[str] = field(default_factory=list)
    """Names of the programs in the order of the watch."""

    seen: int = 0
    """The number of questions whose answers the watch has."""

    planned: int = 0
    ended: str = ""
    """What ended the race: `decided`, `questions`, `money`, `open`; empty while it runs."""

    stopped: str | None = None
    """Why asking stopped against the user's will, in a sentence."""

    course: list[Step] = field(default_factory=list)
    """The difference of every program to the reference, each time the watch has new answers."""

    latest: str = ""
    """The last question on which programs differ, in a line."""

    began: float = field(default_factory=time.monotonic)

    @property
    def questions(self) -> list[Question]:
        return self.plan.race

    @property
    def paid(self) -> Usage:
        """What was paid so far, without calls in flight."""
        if self.books.ledger is None:
            return Usage()
        return self.books.ledger.total

    @property
    def scores(self) -> Scores:
        """How its scores are written."""
        if self.plan.metric.scale.rate is None:
            # The metric does not say what its scores are: the answers so far do.
            for own in chain.from_iterable(lane.each for lane in self.lanes.values()):
                if own.score not in (0.0, 1.0):
                    return self.plan.scores(whole=False)
        return self.plan.scores()

    @property
    def watching(self) -> FieldWatch:
        """The watch, once it has begun."""
        assert self.watch is not None
        return self.watch

    @property
    def asked(self) -> list[Lane]:
        """The programs that get the next question, always with reference and fair opponent."""
        left_out = set[str]()
        if self.watch is not None:
            left_out = {self.order[place] for place in self.watch.withdrawn}
        asked = []
        for name, lane in self.lanes.items():
            if name not in left_out and (lane.out is None or lane.entrant.kept):
                asked.append(lane)
        return asked

    @property
    def watched(self) -> list[Lane]:
        """The programs in the order of the watch."""
        return [self.lanes[name] for name in self.order]

    @property
    def reference(self) -> int:
        """The place of the reference in that order."""
        return next(place for place, lane in enumerate(self.watched) if lane.entrant.reference)

    @property
    def kept(self) -> list[int]:
        """The places of the reference and the fair opponent."""
        return [place for place, lane in enumerate(self.watched) if lane.entrant.kept]

    def cluster_of(self, question: Question) -> str | None:
        """What the question belongs to, where the data set says so."""
        cluster = question.meta.get(self.plan.cluster or "")
        return None if cluster is None else str(cluster)

    @property
    def answered(self) -> int:
        """How many answers each of these programs has at least."""
        return min((len(lane.answers) for lane in self.asked), default=0)

    def _all_answered(self, question: Question) -> bool:
        # Where all have left, nobody has answered.
        return bool(self.asked) and all(question.id in lane.answers for lane in self.asked)

    @property
    def task_prices(self) -> str:
        """What a task costs the programs that are asked, once the pilot is answered; empty for
        other questions.
        """
        fair = any(lane.entrant.fair for lane in self.lanes.values())
        bills = []
        for question in self.questions:
            if question.kind == "task" and self._all_answered(question):
                bills.append([lane.answers[question.id].takes for lane in self.asked])
        left = (self.planned or len(self.questions)) - len(bills)
        return task_prices(bills, left, again=not fair)

    def run(self) -> None:
        """Ask until it is decided, the questions are used up, or the money is gone."""
        try:
            for entrant in self.plan.field:
                if not entrant.fair:  # its prompt and its price are known after some questions
                    self._open(entrant)
            self._pilot()
            self._ask(self.asked, self.questions[:FEWEST])
            self._settle_samples()
            self._plan_questions()
            self._begin_watch(self.planned)
            self._look(min(FEWEST, len(self.questions)))
            while not self.ended:
                self._round()
            if self.ended == "questions":
                self._leave(self.watching.last_look())
        except BudgetUnheld as problem:
            self.ended, self.stopped = "open", str(problem)
        except BudgetSpent as problem:
            self.ended, self.stopped = "money", str(problem)
        except EndpointDown as problem:
            # Where nothing was ever answered, it is rather a wrong address than an outage.
            if not any(lane.sheet.state.done for lane in self.lanes.values()):
                self._close_all()
                raise
            self.ended, self.stopped = "open", paused(problem)
        except BaseException as problem:
            if not isinstance(problem, UserError):
                self.stopped = "interrupted"
            # The first error is the one to report, whatever closing makes of it.
            with suppress(Exception):
                self._close_all()
            raise
        if self.ended in ("money", "open"):
            for lane in self.lanes.values():
                lane.forget_doubts()
        self._watch_what_there_is()
        self._close_all()

    # Opening, asking, closing
    # ------------------------------------------------------------------------------

    def _open(self, entrant: Entrant) -> Lane:
        # A fair opponent whose samples the race has settled is not in the plan.
        plan = self.plan.plans.get(entrant.name) or self.plan.evaluation(entrant, self.questions)
        lane = Lane.opened(entrant, plan.kept_in(self.folder / RUNS / entrant.folder))
        self.lanes[entrant.name] = lane
        return lane

    def _ask(self, lanes: Sequence[Lane], questions: Iterable[Question]) -> None:
        ask_all(lanes, questions, lambda: self.tell(self))

    def _close_all(self) -> None:
        for name, lane in self.lanes.items():
            why, left = self.stopped, False
            # A program that left before the end is no stop of its run.
            if why is None and len(lane.answers) != len(self.questions):
                why, left = f"left the contest: {lane.out or 'it was over'}", True
            self.runs[name] = lane.close(why, left=left)

    # The pilot
    # ------------------------------------------------------------------------------

    def _pilot(self) -> None:
        """Ask every program a few questions, the reference first; raise UserError for the reference
        and one of the user's own if it fails on all. Others leave the race then.
        """
        some = self.questions[:PILOT]
        lanes = self.asked
        # The reference alone first: where it cannot answer, the others need not be paid for.
        for part in (lanes[:1], lanes[1:]):
            self._ask(part, some)
            for lane in part:
                self._check_pilot(lane, some)

    def _check_pilot(self, lane: Lane, questions: Sequence[Question]) -> None:
        answers, entrant = lane.to(questions), lane.entrant
        name, leave_out = entrant.name, ""
        # The verdict needs those that are kept, so --without does not take them.
        if not entrant.kept:
            leave_out = f"or leave it out (--without {name!r})"
        if all(answer.error for answer in answers):
            # The user has to know what is wrong with a program of her own; another may just not
            # suit the questions or the LM.
            own = entrant.program.foreign or entrant.added
            if not (own or entrant.kept or entrant.reference):
                why = shortened(answers[-1].error or "")
                lane.out = f"not compared: the first {len(answers)} questions failed ({why})"
                return
            raise UserError(
                f"{name} failed on all of the first {counted(len(answers), 'question')}, the last "
                f"because {answers[-1].error}: fix the cause and run the same command again"
                f"{leave_out and ', '}{leave_out}"
            )
        if all(answer.unread or answer.error for answer in answers):
            rows = [row for row in lane.sheet.rows if row.error is None]
            unread = none_readable(rows[-1], len(rows))
            raise UserError(f"{name}: {unread}{leave_out and '; '}{leave_out}")

    # Prices, samples, and the watch
    # ------------------------------------------------------------------------------

    def _settle_samples(self) -> None:
        """Ask the fair opponent as often as the dearest team's price allows, on the first questions
        too.

        The prompt is the one that was most often right so far, of equal ones the cheaper, and the
        number of samples follows from the price of that prompt on its own LM. Samples of an earlier
        attempt are in the contest's records, so only missing ones are paid for.
        """
        if not any(entrant.fair for entrant in self.plan.field):
            return
        first = self.questions[:FEWEST]
        kind = first[0].kind
        # On tasks, the agent that is asked again is the reference, whatever it is made of.
        teams, singles = list[Lane](), list[Lane]()
        for lane in self.asked:
            if lane.entrant.single or (kind == "task" and lane.entrant.reference):
                singles.append(lane)
            elif lane.entrant.team:
                teams.append(lane)
        teams = teams or self.asked
        singles = singles or self._prompts_alone(first)
        unit = unit_of([*singles, *teams])
        best = max(singles, key=lambda lane: (sum(lane.right(first)), -lane.price(unit, first)))
        prices = [lane.price(unit, first) for lane in teams]
        dearest = max(filter(math.isfinite, prices), default=0.0)  # of those that are known
        samples = samples_for(dearest, best.price(unit, first))
        if samples == 1 and best in self.lanes.values():
            # It would be the same program again, which could never be told apart from it.
            if any(lane.entrant.team for lane in teams):
                best.entrant = replace(best.entrant, fair=True)
            return
        fair = fair_opponent(best.entrant, samples, kind, self.plan.visible)
        self._ask([self._open(fair)], first)

    def _prompts_alone(self, questions: Sequence[Question]) -> list[Lane]:
        """One prompt on each LM, asked beside a field in which no prompt can be asked several
        times.
        """
        lanes = []
        for number, lm in enumerate(self.plan.lms):
            name = f"{ONE}, {lm_title(lm)}" if len(self.plan.lms) > 1 else ONE
            entrant = lm_alone(lm, name)
            plan = self.plan.evaluation(entrant, self.questions)
            plan = replace(plan, request=replace(plan.request, tracking=False))
            lane = Lane.opened(entrant, plan.kept_in(self.folder / FIRST / str(number)))
            lanes.append(lane)
        try:
            self._ask(lanes, questions)
        finally:
            for lane in lanes:
                lane.close("asked as often as the dearest team costs instead", left=True)
        return lanes

    def _begin_watch(self, planned: int | None = None) -> None:
        """Watch the field from its first question on, at the current prices."""
        lanes = self.asked
        unit = unit_of(lanes)
        self.order = [lane.entrant.name for lane in lanes]
        self.watch = FieldWatch(
            [lane.price(unit, self.questions[:FEWEST]) for lane in lanes],
            planned=planned,
            margin=self.plan.margin,
            kept=self.kept,
            stops=self.plan.request.early_stop,
        )

    def _plan_questions(self) -> None:
        """Fix the number of questions of the race, and so of its last look, once for each budget.

        It is the number that the whole budget pays for, whatever was spent on the way. With a
        larger budget than before, it is the number of answered questions and of those that the
        money left pays for.
        """
        budget = str(self.plan.budget or "")
        if budget in self.planned_for:
            self.planned = self.planned_for[budget]
            return
        # Where another budget was planned for, its money is gone: what it paid for is answered.
        pays = self.answered + self._affordable() if self.planned_for else self._affordable(Usage())
        self.planned = int(min(len(self.questions), max(FEWEST, pays)))
        self.planned_for[budget] = self.planned
        self.note(self)

    def _affordable(self, spent: Usage | None = None) -> float:
        """How many more questions the money pays for, without the reserve for later steps. `spent`
        is what counts as spent already; None is all that was.
        """
        bills = [lane.bill for lane in self.asked]
        worth = total(lane.bill for lane in self.lanes.values())
        # Equal calls of several programs are on the bill of each, and are paid once.
        shared = {}
        for unit in UNITS:
            if billed := amount(worth, unit):
                shared[unit] = min(1.0, amount(self.paid, unit) / billed)
        reserve = self._reserve()
        return affordable(self.books.account, reserve, bills, shared, self.answered, spent)

    def _reserve(self) -> dict[str, float]:
        """The reserve: what confirming the dearest possible winner and improving may cost."""
        kept, account = len(self.plan.unseen), self.books.account
        reserve = {}
        for unit in UNITS:
            prices, share = [lane.per_question(unit) or 0.0 for lane in self.asked], 0.0
            if account is not None:
                share = self.plan.improve_share * (account.budget.limits.get(unit) or 0.0)
            # Two are asked again, reference and winner: about the cheapest, at most the dearest.
            both = min(prices) + max(prices)
            reserve[unit] = kept * self.plan.request.times * both + share
        return reserve

    @property
    def short(self) -> bool:
        """Whether a larger budget would have asked more questions."""
        planned = self.ended == "questions" and self.planned < len(self.questions)
        return self.plan.budget is not None and (planned or self.ended == "money")

    # Rounds
    # ------------------------------------------------------------------------------

    def _round(self) -> None:
        """Ask the racing programs some more questions, and let decided programs leave."""
        if self.plan.request.early_stop and self.watching.decided:
            self.ended = "decided"
            return
        size = min(ROUND, self.planned - self.seen)
        if size <= 0:
            self.ended = "questions" if self.seen == self.planned else "money"
            return
        batch = self.questions[self.seen : self.seen + size]
        # Answers of an earlier attempt cost nothing, so that the money does not limit them.
        if not all(map(self._all_answered, batch)):
            size = int(min(size, self._affordable()))
            if size < 1:
                self.ended = "money"
                return
        self._ask(self.asked, batch[:size])
        self._look(self.seen + size)

    def _look(self, until: int) -> None:
        """Give the watch the answers up to this question, in order, and let it decide."""
        for question in self.questions[self.seen : until]:
            answers = {}
            for place, lane in enumerate(self.watched):
                # A failed answer has no score, and so no part in the test.
                for answer in lane.given_to([question]).values():
                    answers[place] = answer.score
            self.watching.update(answers, self.cluster_of(question))
            if len(set(answers.values())) > 1:
                self.latest = self._differs(question)
        self.seen = until
        self._withdraw()
        self.course += self._steps()
        self._leave(self.watching.decide())
        self.tell(self)

    def _withdraw(self) -> None:
        """Conclude nothing, so far, of programs of whose questions too many failed or could not be
        read. One that is past help, because they are too many of all that are planned, leaves.
        """
        seen, planned = self.questions[: self.seen], self.planned or len(self.questions)
        for place, lane in enumerate(self.watched):
            failed, unread = lane.failed(seen), lane.unread(seen)
            self.watching.doubted.discard(place)
            lost = max(failed, unread)
            if too_many_failed(lost, len(seen)):
                self.watching.doubted.add(place)
            if self.seen >= FEWEST and not lane.out and too_many_failed(lost, planned):
                self._leave_out(place)

    def _leave_out(self, place: int) -> None:
        """Let a program leave that cannot be compared; without the reference, the race ends."""
        self.watching.withdraw(place)
        lane, seen = self.watched[place], self.questions[: self.seen]
        failed, asked = lane.failed(seen), counted(len(seen), "question")
        # Failures are no evidence about the program: they neither beat it nor spare it.
        if not too_many_failed(failed, len(seen)):
            lane.out = f"not compared: {lane.unread(seen)} of {asked} could not be read"
            if lane.entrant.reference:
                self.ended = "decided"  # there is nothing to be concluded from more questions
            return
        lane.out = f"not compared: {failed} of {asked} failed"
        if lane.entrant.reference:
            *_, last = filter(None, (answer.error for answer in lane.to(seen)))
            self.ended = "open"
            self.stopped = self.stopped or (
                f"{failed} of {asked} of {lane.entrant.name} failed (the last: "
                f"{last}), so that nothing can be compared with it; the same command asks them "
                "again, and --baseline takes another reference"
            )

    def _steps(self) -> Iterator[Step]:
        """Note the difference of each racing program to the reference."""
        scores = self.scores
        for place in sorted(self.watching.racing - {self.reference}):
            gap = self.watching.against(place, self.reference)
            difference, low, high = map(scores.own_gap, gap)
            yield Step(
                questions=self.seen,
                name=self.order[place],
                difference=difference,
                low=low,
                high=high,
            )

    def _leave(self, exits: Sequence[Exit]) -> None:
        """Note why decided programs leave the race."""
        for each in exits:
            by = self.order[each.by]
            why = f"{by} is better"
            if each.why != "beaten":
                scores = self.scores
                gap = f"{scores.size(self.plan.margin)} {scores.unit}"
                why = f"not {gap} better than {by}, no cheaper"
            self.lanes[self.order[each.program]].out = f"{why} (after {self.seen})"

    def _differs(self, question: Question) -> str:
        scores = {lane.entrant.name: sum(lane.right([question])) for lane in self.asked}
        top, title = max(scores.values(), default=0.0), "best"
        best = ", ".join(name for name, score in scores.items() if score == top)
        if self.scores.rate:
            title = "right"
        return f"{shortened(question.question, 60)} → {title}: {best}"

    def _watch_what_there_is(self) -> None:
        """After an early stop, use all questions that every racing program has answered."""
        if self.watch is None and self.lanes:
            self._begin_watch()
        # Questions that only some have answered would be those with the quickest answers: a choice
        # that is not random.
        new = list(takewhile(self._all_answered, self.questions[self.seen :]))
        if new:
            self._look(self.seen + len(new))
        watch = self.watch
        if watch is None or self.seen < FEWEST:
            return
        self._withdraw()  # of a failing endpoint's last answers, some were forgotten
        seen = self.questions[: self.seen]
        for place in watch.doubted & watch.racing:
            # Without a reference that is read, there is a verdict that says so.
            failed = too_many_failed(self.watched[place].failed(seen), len(seen))
            if failed or place != self.reference:
                self._leave_out(place)
