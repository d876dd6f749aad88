"""The plan of a contest: all input read and checked, its cost estimated, and no LM asked."""

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
from ...modules.base.errors import UserError, checked_among
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
from ..lms.named import Billed
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
"""With at least 300 questions, one in five (at least 60) is kept for the confirmation."""

JUDGE = "judge"
"""The agent whose LM `--lm judge=NAME` sets: it decides between the two who talk."""

MANY, MARGIN, NARROW = 600, 0.05, 0.02
"""The default margin is 5 points, or 2 points with at least 600 questions."""


@dataclass
class ContestPlan(PlanOfSteps):
    """A contest whose input is checked; no LM has been called.

    `race` are the questions of the race in the order in which they are asked, `demos` those that
    are set aside as examples, and `unseen` those that are kept for the confirmation; `listed` are
    all of them in the order of their file.
    """

    request: ContestRequest
    field: list[Entrant]
    lms: list[dspy.BaseLM]
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
    """Remarks on what was guessed when the file was read."""

    visible: Check | None = None
    """The check that the fair opponent may use."""

    forecast: str = ""
    """A sentence on how a vote would do, from earlier runs of the same questions."""

    @property
    def title(self) -> str:
        return f"contest on {self.source}"

    @cached_property
    def so_far(self) -> str:
        """A clause on what a task cost in an earlier attempt; empty for other kinds."""
        bills: dict[str, list[Usage]] = defaultdict(list)
        if self.out is not None and self.race[0].kind == "task":
            for file in (self.out / PLAYED).glob(f"*/{RESULTS}"):
                for row in read_rows(file):
                    bills[row.id].append(taken(row))
        # Only tasks that all programs have done: the others would look too cheap.
        asked_by = max(map(len, bills.values()), default=0)
        whole = [each for each in bills.values() if len(each) == asked_by]
        return task_prices(whole, len(self.race) - len(whole))

    @cached_property
    def plans(self) -> dict[str, EvaluationPlan]:  # type: ignore[override]
        """Name → the evaluation of each program of the field, on the race's questions."""
        raced = {question.id for question in self.race}
        # In the order of their file, by which other runs on it have the same fingerprint.
        questions = [question for question in self.listed if question.id in raced]
        return {each.name: self.evaluation(each, questions) for each in self.field}

    def evaluation(
        self, entrant: Entrant, questions: Sequence[Question], out: Path | None = None
    ) -> EvaluationPlan:
        """Return the plan to evaluate a program on these questions, with the contest's settings."""
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
                retry_errors=True,
                **request.named("concurrency", "repeats", "permute", "cache", "tracking", *LIMITS),
                **on_cluster,
                settings=settings,
                progress=False,
            )
        )

    def scores(self, *, whole: bool = True) -> Scores:
        """Return how scores are written; `whole` says whether all so far are 0 or 1."""
        return Scores.of(self.metric.name, self.metric.scale, whole=whole)

    @property
    def engines(self) -> list[Billed]:
        """What counts and prices the calls of all LMs (`billed_as`)."""
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
        """What follows the race; a finished contest with other steps is gone on with."""
        return {"confirm": len(self.unseen), "improve": self.improve_share}

    @property
    def budget(self) -> Budget | None:
        return Budget.of(self.request.budget)

    @cached_property
    def cost(self) -> tuple[float, float] | None:
        """The lowest and highest cost in USD if no program leaves; None if a price is unknown."""
        cost = total_cost(plan.estimate.cost_usd for plan in self.plans.values())
        if cost is None or self.budget is None or self.budget.usd is None:
            return cost
        return min(cost[0], self.budget.usd), min(cost[1], self.budget.usd)

    def lines(self) -> list[str]:
        """Return the plan in two lines, what is asked, and what it may cost and can show; and
        further ones about LMs, an earlier attempt, and where the code of tasks runs.
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
        # Rounded to whole points, since it is a rule of thumb.
        scores, smallest = self.scores(), round(smallest_differences(len(self.race))[1], 2)
        shown = f"can show differences from about {scores.size(smallest)} {scores.unit} up"
        if smallest >= 1:
            shown = "so few questions can show no difference"
        programs = counted(len(self.field), "program")
        if any(each.fair for each in self.field):
            # The fair opponent may be missing, if the dearest program costs as little as a prompt.
            programs = f"up to {programs}"
        lines = [
            f"{programs} on {counted(questions, 'question')} from {self.source}{apart}, with {lms}",
            f"{expected}; {shown}; up to {scores.size(self.margin)} {scores.unit} do not matter "
            "(--margin)",
        ]
        for each in self.field:
            # Shown if the agents have different LMs.
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
        """Return further lines: an example of a question, the programs, and a forecast."""
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
        """Return agent → LM, for replays; None if the programs have different ones."""
        first, *others = (lms_of(each.program, each.lm) for each in self.field)
        if any(other != first for other in others):
            return None
        return first

    def about(self) -> dict[str, object]:
        """Return the description in `contest.json`; a folder can only be resumed by a contest with
        the same one.
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
        """Return a manifest like that of a run, with the reference as its program."""
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
        """Return the folder of a contest for which none was given, different for different
        contests.
        """
        about = self.about()
        identity = [about[name] for name in ("field", "data_fingerprint", "margin", "seed")]
        text = json.dumps([*identity, self.request.early_stop], sort_keys=True, default=str)
        slug = re.sub(r"[^\w.=]+", "-", Path(self.source).stem).strip("-") or "questions"
        return RUNS / f"contest-{slug[:60]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def such_as(sample: Question) -> str:
    """Return a line with a question, its options and its answer, as an example of how they were
    read.
    """
    gold, options = str(sample.answer), ""
    if sample.choices:
        gold = f"{gold} ({sample.choices[gold]})"
        options = f" ({' / '.join(sample.choices.values())})"
    example = f"{sample.question} {options} → {gold}"
    if sample.kind == "task":
        example = sample.question
    return f"such as: {shortened(example, 140)}"


def plan_contest(request: ContestRequest, *, stored: bool = False) -> ContestPlan:
    """Read and check all input; returns the plan. Raises UserError before any LM is called.

    With `stored`, a contest without a folder gets one under `runs/`.
    """
    check_model_name(request.register)
    questions, source, guessed = _questions(request)
    # A list of LMs is not assigned to seats.
    seating = Seating(request.handed_to(ContestRequest, lm=None))
    lms, named = _lms(request, seating)
    seating.refuse_unknown(named, "with an LM of its own (--lm AGENT=NAME)")
    metric = metric_given(request, seating)
    check_metric(metric, questions)
    _check_scale(metric)
    demos, race, unseen = _split(questions, request)
    field = _field(request, metric, lms, named, demos, seating)
    acts = any(runs_on_workers(each.program) for each in field)
    check_cluster(request, acts, questions)
    predictors = chain.from_iterable(entrant.program.predictors() for entrant in field)
    if not any(predictor.demos for predictor in predictors):  # no program needs the examples
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
    seating.refuse_idle_prices({engine.model: None for engine in plan.engines})
    # Raises for a bad budget now, before any question is paid for.
    account_of(request.budget, plan.engines, *filter(None, [plan.out]))
    return plan


def _visible(request: ContestRequest, metric: Metric) -> Check | None:
    """Return the check that programs may use; None if none is given. Raises UserError without
    tasks.
    """
    if request.visible_check is None:
        return None
    if not isinstance(metric, Check):
        raise UserError("--visible-check is for tasks: give their --check, too")
    return metric.like(request.visible_check)


def _lms(request: ContestRequest, seating: Seating) -> tuple[list[object], dict[str, object]]:
    """Return the LMs of the field; and name → LM, for the judge, for other agents, and for the
    models that the user's own programs ask for.
    """
    lms: Any = request.lm or []
    pairs = list[tuple[str, Any]]()
    if isinstance(lms, Mapping):
        pairs, lms = [(str(seat), lm) for seat, lm in lms.items()], []
    elif not isinstance(lms, list | tuple):
        lms = [lms]
    for lm in lms:
        if isinstance(lm, str):
            pairs.append(seat_in(lm))
        else:
            pairs.append((EVERY, lm))
    named = {seat: seating.make(lm, seat=seat) for seat, lm in pairs if seat != EVERY}
    every = [seating.make(lm) for seat, lm in pairs if seat == EVERY]
    return every or [seating.make(dspy.settings.lm)], named


def _questions(request: ContestRequest) -> tuple[list[Question], str, str]:
    """Return the questions, the name of their source, and remarks on what was guessed. Raises
    UserError for too few.
    """
    # Reading them logs what is guessed; it is caught here, so that the plan can show it.
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
    """Return a sentence on how a vote would do, from earlier runs of the same questions on the same
    LMs; empty if they are too few.
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
        forecast = FUNCTIONS.find("forecast")  # found by name, since an attached room may be absent
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
    # Not for tasks, which have no answer that an example could show.
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
    """Return the field that a request asks for. Raises UserError for programs that do not fit."""
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
        # Without the default programs, which answer with a text and would have to write diffs.
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
        # Every field needs the fair opponent, and a reference if none is named.
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
    """Return the names in an option, split at commas, except for names of programs with a comma."""
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
    """Return the reference that a request names: a name in the field, or another program; None if
    it names none.
    """
    if (baseline := request.baseline) is None:
        return None
    if isinstance(baseline, str):
        try:
            return entrant_named(baseline, entrants).name
        except UserError:
            # A spec or a file is a program from outside the field; anything else is misspelt.
            if ":" not in baseline and not Path(baseline).exists():
                raise
    (own,) = own_programs([baseline])
    return own


def _check_scale(metric: Metric) -> None:
    """Raise UserError for a metric whose scores have no known limits."""
    scale = metric.scale
    if not scale.rate and (scale.low is None or scale.high is None):
        raise UserError(
            f"the metric {metric.name} has no known limits, and a contest needs them: give it as "
            "fm.Metric(function, low=0, high=1)"
        )
