"""Plans a contest: reads and checks all input, and estimates its cost and what it can show."""

from __future__ import annotations

import hashlib
import json
import logging
import random
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

import dspy

from ...modules.base.calls import Usage
from ...modules.base.errors import UserError, checked_among, checked_whole
from ...modules.base.keyed import without
from ...modules.base.registry import FUNCTIONS
from ...modules.protocols.saved import hashes
from ...modules.reading.metrics import Metric, check_metric
from ...modules.reading.question import Question
from ...modules.reading.row import taken
from ..base.budget import Budget
from ..base.journal import read_object
from ..base.life import PlanOfSteps
from ..base.request import LIMITS, folder_at
from ..base.run_files import LMFields, RunSettings
from ..base.wording import counted, rounded_money, shortened, total_cost
from ..comparison.request import share_of_points, split_items
from ..data import catalogue
from ..data import questions as data
from ..evaluation.check import check_writable, checked
from ..evaluation.estimate import likely
from ..evaluation.judging import metric_given
from ..evaluation.plan import EvaluationPlan, plan_evaluation
from ..evaluation.request import EvaluateRequest
from ..meter.programs import runs_on_workers
from ..programs.seats import EVERY, Seating, seat_in
from ..reporting.contested import RUNS as PLAYED
from ..runs.books import account_of
from ..runs.caveats import smallest_differences
from ..runs.describe import lms_of, manifest_of
from ..runs.manifest import MANIFEST, made_with
from ..runs.rows import RESULTS, read_rows
from ..tasks.check import Check, sandbox_of
from ..tasks.cluster import check_cluster, where_code_runs
from ..tracking.context import check_model_name
from .entrants import (
    DEMOS,
    FAIR,
    FEWEST_FOR_DEMOS,
    FIRST_SAMPLES,
    PAPERS,
    TALK,
    Entrant,
    default_field,
    entrant_named,
    entrants_by_name,
    fair_opponent,
    field_of,
    lm_alone,
    lm_name,
    own_programs,
    paper_programs,
)
from .money import task_prices
from .request import ContestRequest
from .scores import Scores

RUNS = Path("runs")
FEWEST_QUESTIONS = 4
CONFIRMED_FROM, CONFIRMED_SHARE, FEWEST_CONFIRMED = 300, 5, 60
"""With at least this many questions, one in five (at least 60) is kept for the confirmation."""

JUDGE = "judge"
"""The name that `--lm judge=NAME` gives the LM that judges the two who talk."""

MANY, MARGIN, NARROW = 600, 0.05, 0.02
"""The default margin is 5 points, or 2 points with at least this many questions."""


@dataclass
class ContestPlan(PlanOfSteps):
    """A contest that is checked; no LM has been called.

    `race` are the questions of the race in the order in which they are asked, `demos` those that
    were set aside as examples, and `unseen` those that are kept for the confirmation; `listed` are
    all of them in the order of their file.
    """

    request: ContestRequest
    field: list[Entrant]
    lms: list[Any]
    metric: Metric
    race: list[Question]
    demos: list[Question]
    unseen: list[Question]
    listed: list[Question]
    margin: float
    out: Path | None
    source: str
    cluster: str | None = None
    guessed: str = ""
    """Remarks about what the reader of the file guessed."""

    visible: Check | None = None
    """The check that the fair opponent may use."""

    forecast: str = ""
    """What earlier runs of the same questions say of a vote."""

    @property
    def title(self) -> str:
        return f"contest on {self.source}"

    @cached_property
    def so_far(self) -> str:
        """What a task cost in an earlier attempt; empty for other questions."""
        bills: dict[str, list[Usage]] = defaultdict(list)
        if self.out is not None and self.race[0].kind == "task":
            for file in (self.out / PLAYED).glob(f"*/{RESULTS}"):
                for row in read_rows(file):
                    bills[row.id].append(taken(row))
        # Only tasks that all programs have answered: others would look too cheap.
        asked_by = max(map(len, bills.values()), default=0)
        whole = [each for each in bills.values() if len(each) == asked_by]
        return task_prices(whole, len(self.race) - len(whole))

    @cached_property
    def plans(self) -> dict[str, EvaluationPlan]:  # type: ignore[override]
        """The evaluation of each program of the field, on the race's questions."""
        raced = {question.id for question in self.race}
        # In the order of their file, so that its other runs have the same fingerprint.
        questions = [question for question in self.listed if question.id in raced]
        return {each.name: self.evaluation(each, questions) for each in self.field}

    def evaluation(
        self, entrant: Entrant, questions: Sequence[Question], out: Path | None = None
    ) -> EvaluationPlan:
        """An ordinary evaluation of a program of the field, within the contest's books."""
        request = self.request
        settings, on_cluster = {"label": entrant.name, "command": "contest"}, dict[str, Any]()
        if self.cluster:
            settings["data"] = self.source
        if runs_on_workers(entrant.program):
            on_cluster = request.named("engine", "meter_host")
        return plan_evaluation(
            EvaluateRequest(
                entrant.program,
                list(questions),
                lm=entrant.lm,
                metric=self.metric,
                out=out,
                concurrency=request.concurrency,
                retry_errors=True,
                repeats=request.repeats,
                permute=request.permute,
                cache=request.cache,
                tracking=request.tracking,
                **request.named(*LIMITS),
                **on_cluster,
                settings=settings,
                progress=False,
            )
        )

    def scores(self, *, whole: bool = True) -> Scores:
        """How its scores are written; `whole` says whether all so far are right or wrong."""
        return Scores.of(self.metric.name, self.metric.scale, whole=whole)

    @property
    def engines(self) -> list[Any]:
        """The engine names under which the LMs are billed."""
        return list(chain.from_iterable(plan.engines for plan in self.plans.values()))

    @property
    def improve_share(self) -> float:
        """The share of the budget that improving spends; 0 without it."""
        improve = self.request.improve
        if improve is True:
            return self.request.improve_share
        return float(improve or 0.0)

    @property
    def steps(self) -> dict[str, object]:
        """What follows the race."""
        return {"confirm": len(self.unseen), "improve": self.improve_share}

    @property
    def budget(self) -> Budget | None:
        return Budget.of(self.request.budget)

    @cached_property
    def cost(self) -> tuple[float, float] | None:
        """Lowest and highest cost in USD if no program leaves; None where a price is not known."""
        cost = total_cost(plan.estimate.cost_usd for plan in self.plans.values())
        if cost is None or self.budget is None or self.budget.usd is None:
            return cost
        return min(cost[0], self.budget.usd), min(cost[1], self.budget.usd)

    def lines(self) -> list[str]:
        """The plan in two lines: what is asked, and what it may cost and can show. Tasks have a
        line more, on where code runs.
        """
        questions = len(self.race) + len(self.demos) + len(self.unseen)
        parts = [f"{len(self.race):,} for the race"]
        if self.demos:
            parts.append(f"{len(self.demos)} as examples")
        if self.unseen:
            parts.append(f"{len(self.unseen):,} kept to confirm the winner")
        apart = f" ({', '.join(parts)})" if len(parts) > 1 else ""
        lms = ", ".join(map(lm_name, self.lms))
        calls = [likely(plan.estimate.calls) for plan in self.plans.values() if plan.estimate.calls]
        expected = "price not known before the first questions"
        if self.cost is not None and any(self.cost):
            expected = f"likely {rounded_money(likely(self.cost))}"
        elif len(calls) == len(self.plans):
            expected = f"likely {counted(round(sum(calls)), 'call')}"
        if self.budget:
            expected += f", at most {self.budget}"
        # In whole points, as it is a rule of thumb.
        scores, smallest = self.scores(), round(smallest_differences(len(self.race))[1], 2)
        shown = f"can show differences from about {scores.size(smallest)} {scores.unit} up"
        if smallest >= 1:
            shown = "so few questions can show no difference"
        programs = counted(len(self.field), "program")
        if any(each.fair for each in self.field):
            # Where the dearest costs too little for three samples, that is one prompt again.
            programs = f"up to {programs}"
        lines = [
            f"{programs} on {counted(questions, 'question')} from {self.source}{apart}, with {lms}",
            f"{expected}; {shown}; up to {scores.size(self.margin)} {scores.unit} do not matter "
            "(--margin)",
        ]
        for each in self.field:
            # Who sits where matters where LMs differ in what they know and cost.
            seats = lms_of(each.program, each.lm)
            if each.name == TALK and len(seats) > 1:
                named = [f"{seat} {lm.name}" for seat, lm in seats.items()]
                lines.append(f"{each.name}: {', '.join(named).replace('*', 'others')}")
        if self.so_far:
            lines.append(f"so far: {self.so_far}")
        if self.race[0].kind == "task":
            lines.append(where_code_runs(sandbox_of(self.metric), self.request))
        return lines

    def details(self) -> list[str]:
        """How a question is read, the programs, and what earlier runs forecast."""
        asked, programs = "one prompt", []
        if self.race[0].kind == "task":
            asked = self.field[0].name
        for each in self.field:
            if each.fair:
                programs.append(f"{asked}, as often as the dearest team costs, if 3 times or more")
            else:
                programs.append(each.name)
        lines = [such_as(self.race[0]), f"programs: {'; '.join(programs)}"]
        if self.forecast:
            lines.append(self.forecast)
        return lines

    def shared_lms(self) -> dict[str, LMFields] | None:
        """The LMs of every agent, for replays; None where programs have different ones."""
        first, *others = (lms_of(each.program, each.lm) for each in self.field)
        if any(other != first for other in others):
            return None
        return first

    def about(self) -> dict[str, object]:
        """The description in `contest.json`; a folder can only be resumed by a contest with the
        same one.
        """
        field, metric = {}, None
        for each in self.field:
            field[each.name] = {**hashes(each.program), "lms": lms_of(each.program, each.lm)}
        if not self.metric.default:
            metric = self.metric.identity()
        return {
            "field": field,
            "data_fingerprint": data.fingerprint([*self.race, *self.demos, *self.unseen]),
            "questions": len(self.race),
            "margin": self.margin,
            "seed": self.request.seed,
            "early_stop": self.request.early_stop,
            "repeats": self.request.times,
            "permute": self.request.permute,
            "metric": metric,
            "source": self.source,
            "manifest": self._manifest(),
            **made_with(),
        }

    def _manifest(self) -> dict[str, object]:
        """The manifest of the contest as of a run: the reference's program and all questions."""
        reference = self.field[0]
        settings = {
            "command": "contest",
            "label": f"contest of {counted(len(self.field), 'program')}",
            "data": self.source,
            "margin": self.margin,
            "seed": self.request.seed,
            "budget": self.request.budget and str(self.request.budget),
            "programs": ", ".join(entrants_by_name(self.field)),
        }
        manifest = manifest_of(
            *(reference.program, self.race, reference.lm, RunSettings(), self.metric),
            data_fingerprint=data.fingerprint(self.listed),
        )
        return {**manifest, "settings": settings}

    def to_dict(self) -> dict[str, object]:
        return {
            "out": str(self.out),
            "programs": list(entrants_by_name(self.field)),
            "questions": {
                "race": len(self.race),
                "examples": len(self.demos),
                "confirmation": len(self.unseen),
            },
            "margin": self.margin,
            "cost_usd": self.cost,
            "budget": self.budget and str(self.budget),
        }

    def default_out(self) -> Path:
        """A folder of its own for each contest."""
        about = self.about()
        identity = [about[name] for name in ("field", "data_fingerprint", "margin", "seed")]
        text = json.dumps([*identity, self.request.early_stop], sort_keys=True, default=str)
        slug = re.sub(r"[^\w.=]+", "-", Path(self.source).stem).strip("-") or "questions"
        return RUNS / f"contest-{slug[:60]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def such_as(sample: Question) -> str:
    """A question as it is read, in a line."""
    gold, options = str(sample.answer), ""
    if sample.choices:
        gold = f"{gold} ({sample.choices[gold]})"
        options = f" ({' / '.join(sample.choices.values())})"
    example = f"{sample.question} {options} → {gold}"
    if sample.kind == "task":
        example = sample.question
    return f"such as: {shortened(example, 140)}"


def plan_contest(request: ContestRequest, *, stored: bool = False) -> ContestPlan:
    """Read and check all input. Raises UserError before any LM is called.

    With `stored`, a contest without a folder gets one under `runs/`.
    """
    checked_whole("concurrency", request.concurrency)
    check_model_name(request.register)
    questions, source, guessed = _questions(request)
    alone = replace(request, lm=None)  # a list of LMs is not assigned to seats
    alone.defaults = request.defaults
    seating = Seating(alone)
    lms, named = _lms(request, seating)
    metric = metric_given(request, seating)
    check_metric(metric, questions)
    _check_scale(metric)
    demos, race, unseen = _split(questions, request)
    field = _field(request, metric, lms, named, demos, seating)
    acts = any(runs_on_workers(each.program) for each in field)
    check_cluster(request, acts, questions)
    predictors = chain.from_iterable(entrant.program.predictors() for entrant in field)
    if not any(predictor.demos for predictor in predictors):  # the user left that program out
        race, demos = [*race, *demos], []
    if request.improve and not unseen:
        raise UserError(
            f"--improve needs unseen questions to judge by: give at least {CONFIRMED_FROM}, and "
            "drop --no-confirm"
        )
    margin = NARROW if len(questions) >= MANY else MARGIN
    if request.margin is not None:
        margin = share_of_points(request.margin)
    out = folder_at(request.out)
    plan = ContestPlan(
        request=request,
        field=field,
        lms=lms,
        metric=metric,
        race=race,
        demos=demos,
        unseen=unseen,
        listed=list(questions),
        margin=margin,
        out=out,
        source=source,
        cluster=catalogue.cluster_of(source),
        guessed=guessed and f"{guessed}, {such_as(race[0])}.",
        visible=_visible(request, metric),
        forecast=_forecast(questions, lms),
    )
    if stored and out is None:
        plan.out = plan.default_out()
    if plan.out is not None:
        check_writable(plan.out)
    # refuse a bad budget now, before any question is paid for
    account_of(request.budget, plan.engines, *filter(None, [plan.out]))
    return plan


def _visible(request: ContestRequest, metric: Metric) -> Check | None:
    """The check that the user lets programs see."""
    if request.visible_check is None:
        return None
    if not isinstance(metric, Check):
        raise UserError("--visible-check is for tasks: give their --check, too")
    return metric.like(request.visible_check)


def _lms(request: ContestRequest, seating: Seating) -> tuple[list[object], dict[str, object]]:
    """The LMs of the field; and, by name, the judge's, and those of models that the user's own
    programs name.
    """
    lms: object = request.lm
    if isinstance(lms, Mapping):
        raise UserError("lm is a mapping: a contest takes one LM, or a list of several")
    if lms is None:
        lms = []
    elif not isinstance(lms, list | tuple):
        lms = [lms]
    pairs = list[tuple[str, Any]]()
    for lm in lms:
        if isinstance(lm, str):
            pairs.append(seat_in(lm))
        else:
            pairs.append((EVERY, lm))
    named = {seat: seating.make(lm, seat=seat) for seat, lm in pairs if seat != EVERY}
    every = [seating.make(lm) for seat, lm in pairs if seat == EVERY]
    return every or [seating.make(dspy.settings.lm)], named


def _questions(request: ContestRequest) -> tuple[list[Question], str, str]:
    """The questions, their name, and remarks about what the reader guessed."""
    # What a reader guesses it says to the log; the plan shows it, before anything is paid.
    notes: list[str] = []
    handler, log = logging.Handler(), logging.getLogger("folkmoot")
    handler.emit = lambda record: notes.append(record.getMessage())  # type: ignore[method-assign]
    log.addHandler(handler)
    try:
        how = request.named("split", "limit", "seed", "kind", "show")
        listed = data.listed(request.questions, columns=request.column_names(), **how)
    finally:
        log.removeHandler(handler)
    questions, asked_twice = data.apart(checked(listed))
    left_out = ""
    if asked_twice is not None:
        notes.append(asked_twice)
        left_out = f" ({asked_twice})"
    if len(questions) < FEWEST_QUESTIONS:
        raise UserError(
            f"{counted(len(questions), 'question')} cannot tell programs apart: give at least "
            f"{FEWEST_QUESTIONS}, better 50 to 500{left_out}"
        )
    source = data.origin_of(questions)
    if isinstance(request.questions, str | Path):
        source = str(request.questions)
    return questions, source or "questions", " ".join(notes)


def _forecast(questions: Sequence[Question], lms: Sequence[object]) -> str:
    """What earlier runs of the same questions on the same LMs say of a vote; empty where they are
    too few.
    """
    asked, names = data.fingerprint(questions), set(map(lm_name, lms))
    runs = []
    for file in sorted(RUNS.glob(f"*/{MANIFEST}")):
        run = read_object(file) or {}
        used: object = run.get("lms")
        if run.get("data_fingerprint") != asked or not isinstance(used, dict) or not used:
            continue
        if names.issuperset(lm.get("name") for lm in used.values()):
            runs.append(file.parent)
    try:
        forecast = FUNCTIONS.find("forecast")  # its room is attached, and may be missing
        if forecast is None:
            return ""
        words = forecast(runs, sizes=[5]).lines()[0]
    except UserError:  # too few runs
        return ""
    return f"forecast from {len(runs)} earlier runs in {RUNS}/: {words}"


def _split(
    questions: Sequence[Question], request: ContestRequest
) -> tuple[list[Question], list[Question], list[Question]]:
    """Examples, questions of the race, and unseen questions, in an order drawn by the seed."""
    order = list(questions)
    random.Random(request.seed).shuffle(order)
    shown = kept = 0
    # A task has no answer that an example could show.
    if len(order) >= FEWEST_FOR_DEMOS and order[0].kind != "task":
        shown = DEMOS
    if request.confirm and len(order) >= CONFIRMED_FROM:
        kept = max(FEWEST_CONFIRMED, len(order) // CONFIRMED_SHARE)
    end = len(order) - kept
    return order[:shown], order[shown:end], order[end:]


def _field(
    request: ContestRequest,
    metric: Metric,
    lms: list[object],
    named: Mapping[str, object],
    demos: list[Question],
    seating: Seating,
) -> list[Entrant]:
    first, make = lms[0], seating.make
    models = without(named, [JUDGE])
    own = partial(
        own_programs,
        lm=first,
        named=named,
        make_lm=make,
        pass_env=request.pass_env,
        roles=request.roles,
    )
    acts = isinstance(metric, Check) and metric.answer_file is None
    if acts and request.field == FAIR:
        # Programs that answer with a text would have to write diffs.
        entrants = [fair_opponent(lm_alone(first), FIRST_SAMPLES)]
        if request.baseline is None:
            raise UserError(
                "the tasks need a program that acts as the reference: give --baseline 'cmd:…', or "
                "--answer-file PATH for programs that answer with a text"
            )
    elif isinstance(request.field, str):
        checked_among("field", request.field, (FAIR, PAPERS))
        entrants = default_field(lms, demos, request.seed, named.get(JUDGE))
        if request.field == PAPERS:
            entrants += paper_programs(first, make)
    else:
        # Every field needs the fair opponent, and a reference where none is named.
        standard = default_field(lms, [], request.seed)
        entrants = [*own(request.field), *[each for each in standard if each.fair]]
        if request.baseline is None:
            entrants = [standard[0], *entrants]
    entrants += [replace(entrant, added=True) for entrant in own(request.added)]
    baseline = _baseline(request, entrants, own)
    every = list(entrants)
    if isinstance(baseline, Entrant):
        every.append(baseline)
    nobody = list(models)
    for each in every:
        nobody = [name for name in nobody if not each.program.has_seat(name)]
    if nobody:
        raise UserError(
            f"--lm gives {', '.join(nobody)} its own LM, and no program here has such an agent or "
            "is metered: add yours with --with, or drop it"
        )
    return field_of(
        entrants,
        baseline=baseline,
        only=_names(request.only, entrants),
        without=_names(request.without, entrants),
    )


def _names(options: Sequence[str], entrants: Sequence[Entrant]) -> list[str]:
    """The names in an option, apart at commas but for those of programs that have one."""
    whole = {entrant.name.casefold() for entrant in entrants}
    names = list[str]()
    for option in options:
        if option.casefold() in whole:
            names.append(option)
        else:
            names += split_items([option])
    return names


def _baseline(
    request: ContestRequest,
    entrants: list[Entrant],
    own_programs: Callable[[Sequence[object]], list[Entrant]],
) -> str | Entrant | None:
    """The reference: the name of a program of the field, or a program from outside it."""
    if (baseline := request.baseline) is None:
        return None
    if isinstance(baseline, str):
        try:
            return entrant_named(baseline, entrants).name
        except UserError:
            # A misspelt name is a mistake; a spec or a file is a program from outside the field.
            if ":" not in baseline and not Path(baseline).exists():
                raise
    (own,) = own_programs([baseline])
    return own


def _check_scale(metric: Metric) -> None:
    scale = metric.scale
    if not scale.rate and (scale.low is None or scale.high is None):
        raise UserError(
            f"the metric {metric.name} has no known limits, and a contest needs them: give it as "
            "fm.Metric(function, low=0, high=1)"
        )
