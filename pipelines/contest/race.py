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
"""The folder of prompts that are only asked to find the fair opponent (`_prompts_alone`)."""


@dataclass
class Race:
    """The race: the lanes of its programs, and what is decided so far. `run` shows its course.

    A place is the index of a program in the watch, whose names are in `order`. `tell` is called
    after every answer, and `note` when there is something to write into the contest's file.
    """

    plan: ContestPlan
    folder: Path
    books: Books
    tell: Callable[[Race], None] = lambda _: None
    note: Callable[[Race], None] = lambda _: None
    planned_for: dict[str, int] = field(default_factory=dict)
    """Budget → the number of questions that was planned for it, also in earlier attempts."""

    lanes: dict[str, Lane] = field(default_factory=dict)
    runs: dict[str, Evaluation] = field(default_factory=dict)
    watch: FieldWatch | None = None
    order: list[str] = field(default_factory=list)
    """The names of the programs in the watch, by place."""

    seen: int = 0
    """The number of questions whose answers the watch has got."""

    planned: int = 0
    """The number of questions that the race is planned to have."""

    ended: str = ""
    """What ended the race: `decided`, `questions`, `money`, or `open` if it has to go on later;
    empty while it runs."""

    stopped: str | None = None
    """Why asking stopped against the user's will, in a sentence."""

    course: list[Step] = field(default_factory=list)
    """The difference of every program to the reference, each time that the watch got answers."""

    latest: str = ""
    """A line on the last question on which the programs differ."""

    began: float = field(default_factory=time.monotonic)

    @property
    def questions(self) -> list[Question]:
        return self.plan.race

    @property
    def paid(self) -> Usage:
        """The usage of all calls that were paid so far, without those in flight."""
        if self.books.ledger is None:
            return Usage()
        return self.books.ledger.total

    @property
    def scores(self) -> Scores:
        """How its scores are written."""
        if self.plan.metric.scale.rate is None:
            # The metric does not say whether it tells right from wrong, but its scores may.
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
        """The lanes that get the next question: those that are racing, and always those of the
        reference and the fair opponent, unless they cannot be compared.
        """
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
        """The lanes of the programs in the watch, by place."""
        return [self.lanes[name] for name in self.order]

    @property
    def reference(self) -> int:
        """The place of the reference."""
        return next(place for place, lane in enumerate(self.watched) if lane.entrant.reference)

    @property
    def kept(self) -> list[int]:
        """The places of the reference and the fair opponent."""
        return [place for place, lane in enumerate(self.watched) if lane.entrant.kept]

    def cluster_of(self, question: Question) -> str | None:
        """Return the group of related questions to which this one belongs; None without groups."""
        cluster = question.meta.get(self.plan.cluster or "")
        return None if cluster is None else str(cluster)

    @property
    def answered(self) -> int:
        """The number of answers that each of the `asked` programs has at least."""
        return min((len(lane.answers) for lane in self.asked), default=0)

    def _all_answered(self, question: Question) -> bool:
        """Return whether all `asked` programs have answered a question; False if none is left."""
        return bool(self.asked) and all(question.id in lane.answers for lane in self.asked)

    @property
    def task_prices(self) -> str:
        """A clause on what a task costs the `asked` programs, once the pilot is answered; empty for
        other kinds of questions.
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
                if not entrant.fair:  # `_settle_samples` opens it, once prices are known
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
            # If nothing was ever answered, the address is more likely wrong than the endpoint down.
            if not any(lane.sheet.state.done for lane in self.lanes.values()):
                self._close_all()
                raise
            self.ended, self.stopped = "open", paused(problem)
        except BaseException as problem:
            if not isinstance(problem, UserError):
                self.stopped = "interrupted"
            # Report the first error, even if closing fails after it.
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
        """Open the lane of a program."""
        # The plan lacks the fair opponent, whose number of samples the race has settled.
        plan = self.plan.plans.get(entrant.name) or self.plan.evaluation(entrant, self.questions)
        lane = Lane.opened(entrant, plan.kept_in(self.folder / RUNS / entrant.folder))
        self.lanes[entrant.name] = lane
        return lane

    def _ask(self, lanes: Sequence[Lane], questions: Iterable[Question]) -> None:
        ask_all(lanes, questions, lambda: self.tell(self))

    def _close_all(self) -> None:
        for name, lane in self.lanes.items():
            why, left = self.stopped, False
            # If the race was not stopped, a run that is incomplete has left it.
            if why is None and len(lane.answers) != len(self.questions):
                why, left = f"left the contest: {lane.out or 'it was over'}", True
            self.runs[name] = lane.close(why, left=left)

    # The pilot
    # ------------------------------------------------------------------------------

    def _pilot(self) -> None:
        """Ask every program a few questions. If one fails on all of them, it leaves the race; but
        for the reference and a user's own program, UserError is raised.
        """
        some = self.questions[:PILOT]
        lanes = self.asked
        # The reference first: if it cannot answer, the others need not be paid for.
        for part in (lanes[:1], lanes[1:]):
            self._ask(part, some)
            for lane in part:
                self._check_pilot(lane, some)

    def _check_pilot(self, lane: Lane, questions: Sequence[Question]) -> None:
        """Check whether a program could answer any of these questions; see `_pilot`."""
        answers, entrant = lane.to(questions), lane.entrant
        name, leave_out = entrant.name, ""
        # --without does not accept those that are kept.
        if not entrant.kept:
            leave_out = f"or leave it out (--without {name!r})"
        if all(answer.error for answer in answers):
            # The user has to know what is wrong with a program of her own; one of ours may just not
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
        """Enter the fair opponent: one prompt, asked as often as the price of the dearest team
        allows. It answers the first questions, too.

        The prompt is the one that was most often right so far (of equal ones the cheaper), and the
        number of samples follows from its price on its own LM. Samples of an earlier attempt are in
        the contest's records, so only missing ones are paid for.
        """
        if not any(entrant.fair for entrant in self.plan.field):
            return
        first = self.questions[:FEWEST]
        kind = first[0].kind
        # On tasks, the reference is what is asked several times, whatever it consists of.
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
            # The opponent would be this very program, so it becomes the opponent itself.
            if any(lane.entrant.team for lane in teams):
                best.entrant = replace(best.entrant, fair=True)
            return
        fair = fair_opponent(best.entrant, samples, kind, self.plan.visible)
        self._ask([self._open(fair)], first)

    def _prompts_alone(self, questions: Sequence[Question]) -> list[Lane]:
        """Return one prompt on each LM, asked these questions outside of the race: the field has no
        prompt that could be asked several times.
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
        """Make the watch, which tests the field from its first question on, at current prices."""
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
        """Fix the number of questions of the race, and so when its last test is, once for each
        budget.

        It is the number that the whole budget pays for, whatever was spent already. If an earlier
        attempt had another budget, it is the number of answered questions plus those that the money
        left pays for.
        """
        budget = str(self.plan.budget or "")
        if budget in self.planned_for:
            self.planned = self.planned_for[budget]
            return
        pays = self.answered + self._affordable() if self.planned_for else self._affordable(Usage())
        self.planned = int(min(len(self.questions), max(FEWEST, pays)))
        self.planned_for[budget] = self.planned
        self.note(self)

    def _affordable(self, spent: Usage | None = None) -> float:
        """Return how many more questions the money pays for, after the reserve for later steps.
        `spent` is what counts as spent already; None takes what was spent.
        """
        bills = [lane.bill for lane in self.asked]
        worth = total(lane.bill for lane in self.lanes.values())
        # A call that several programs have in common is on each one's bill, but is paid once.
        shared = {}
        for unit in UNITS:
            if billed := amount(worth, unit):
                shared[unit] = min(1.0, amount(self.paid, unit) / billed)
        reserve = self._reserve()
        return affordable(self.books.account, reserve, bills, shared, self.answered, spent)

    def _reserve(self) -> dict[str, float]:
        """By unit, what improving and confirming the dearest possible winner may cost."""
        kept, account = len(self.plan.unseen), self.books.account
        reserve = {}
        for unit in UNITS:
            prices, share = [lane.per_question(unit) or 0.0 for lane in self.asked], 0.0
            if account is not None:
                share = self.plan.improve_share * (account.budget.limits.get(unit) or 0.0)
            # For reference and winner: the cheapest price, as the reference's, and the dearest.
            both = min(prices) + max(prices)
            reserve[unit] = kept * self.plan.request.times * both + share
        return reserve

    @property
    def short(self) -> bool:
        """Whether a larger budget would have paid for more questions."""
        planned = self.ended == "questions" and self.planned < len(self.questions)
        return self.plan.budget is not None and (planned or self.ended == "money")

    # Rounds
    # ------------------------------------------------------------------------------

    def _round(self) -> None:
        """Ask the racing programs some more questions, and let programs leave that are decided."""
        if self.plan.request.early_stop and self.watching.decided:
            self.ended = "decided"
            return
        size = min(ROUND, self.planned - self.seen)
        if size <= 0:
            self.ended = "questions" if self.seen == self.planned else "money"
            return
        batch = self.questions[self.seen : self.seen + size]
        # If an earlier attempt has answered them, they cost nothing, and money is no limit.
        if not all(map(self._all_answered, batch)):
            size = int(min(size, self._affordable()))
            if size < 1:
                self.ended = "money"
                return
        self._ask(self.asked, batch[:size])
        self._look(self.seen + size)

    def _look(self, until: int) -> None:
        """Give the watch the answers up to this number of questions, in order, and let programs
        leave that it has decided about.
        """
        for question in self.questions[self.seen : until]:
            answers = {}
            for place, lane in enumerate(self.watched):
                # Without failed answers, which have no score.
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
        """Have the watch conclude nothing about programs of which too many answers so far failed or
        could not be read. If they are too many even of all planned questions, the program leaves.
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
        if not too_many_failed(failed, len(seen)):
            lane.out = f"not compared: {lane.unread(seen)} of {asked} could not be read"
            if lane.entrant.reference:
                self.ended = "decided"  # more questions would show nothing
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
        """Yield the current difference of each racing program to the reference."""
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
        """Note why these programs have left the race."""
        for each in exits:
            by = self.order[each.by]
            why = f"{by} is better"
            if each.why != "beaten":
                scores = self.scores
                gap = f"{scores.size(self.plan.margin)} {scores.unit}"
                why = f"not {gap} better than {by}, no cheaper"
            self.lanes[self.order[each.program]].out = f"{why} (after {self.seen})"

    def _differs(self, question: Question) -> str:
        """Return a line on a question, and the programs with the best answers to it."""
        scores = {lane.entrant.name: sum(lane.right([question])) for lane in self.asked}
        top, title = max(scores.values(), default=0.0), "best"
        best = ", ".join(name for name, score in scores.items() if score == top)
        if self.scores.rate:
            title = "right"
        return f"{shortened(question.question, 60)} → {title}: {best}"

    def _watch_what_there_is(self) -> None:
        """At the end, give the watch the further questions that every racing program has answered,
        and leave out the programs that cannot be compared.
        """
        if self.watch is None and self.lanes:
            self._begin_watch()
        # Only up to the first question that one has not answered: those with the quickest answers
        # would be no random choice.
        new = list(takewhile(self._all_answered, self.questions[self.seen :]))
        if new:
            self._look(self.seen + len(new))
        watch = self.watch
        if watch is None or self.seen < FEWEST:
            return
        self._withdraw()  # once more: `forget_doubts` may have dropped answers
        seen = self.questions[: self.seen]
        for place in watch.doubted & watch.racing:
            # A reference that cannot be read stays: the verdict says so (`standing._unread`).
            failed = too_many_failed(self.watched[place].failed(seen), len(seen))
            if failed or place != self.reference:
                self._leave_out(place)
