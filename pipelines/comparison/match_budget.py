"""The budget-matched baseline: one agent, asked several times for the cost of another program."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import dspy

from ...modules.base.errors import UserError
from ...modules.base.registry import names_from
from ...modules.base.usage import Usage
from ...modules.protocols.program import Program
from ...modules.protocols.saved import hashes
from ...modules.protocols.single import SELF_CONSISTENCY, SingleAgent
from ...modules.reading.grading import metric_name
from ...modules.reading.metrics import JUDGE, Metric, metric_of
from ...modules.reading.question import Question
from ...modules.reading.row import CHECK, ResultRow
from ..base.account import Account, open_account
from ..base.budget import Budget, BudgetSpent
from ..base.journal import read_object
from ..base.request import CHECKED, LIMITS, AnyMetric, entry
from ..base.run_files import LMFields, Manifest
from ..base.wording import counted, money
from ..evaluation.earlier import Evaluation, earlier
from ..evaluation.estimate import estimate, left_of, likely
from ..evaluation.evaluate import evaluate
from ..evaluation.kept import questions_of
from ..lms.ledger import read_ledger, usage_of
from ..lms.named import billed_as, lm_given
from ..lms.named import lm as make_lm
from ..lms.prices import Prices
from ..programs.seats import Seating
from ..runs.books import open_books
from ..runs.describe import lms_of
from ..runs.manifest import MANIFEST, name_of_run
from ..tasks.check import Check, metric_asked
from ..tasks.picked import PICKED, asked_often
from .confounds import ARMS
from .matched import MATCH, TOLERANCE, Match, same_lm, tokens_per_question, usages_of
from .request import CompareRequest, MatchRequest
from .run_again import lms_of_run, noted_prices, program_of_run
from .words import say

PILOT = 8
"""Evenly spaced questions that are asked once to measure the cost of a sample."""


Agent = Callable[[int], Program]
"""One agent that is asked so often."""


@dataclass(frozen=True)
class Arm:
    """The baseline with one LM: the folder of its pilot and samples, and the number of calls that
    are still to be made.
    """

    lm: dspy.BaseLM
    identity: LMFields
    folder: Path
    match: Match
    calls: int

    @property
    def cost_usd(self) -> float | None:
        """The likely cost of those calls; None where the price is not known."""
        per_sample = self.match.cost_per_sample
        if per_sample is None:
            return None
        return per_sample * self.calls


@dataclass(frozen=True)
class MatchPlan:
    """A budget-matched baseline that is checked; no LM has been called.

    `ceiling` is the user's budget. By default it is, for each of the `arms`, 120% of what the run
    took on as many questions, the `pilot` included.
    """

    request: MatchRequest
    agent: Agent
    run: Evaluation
    pilot: Sequence[Question]
    arms: Sequence[Arm]
    metric: Metric
    out: Path
    name: str

    title = "compare"
    warnings: Sequence[str] = ()

    @property
    def ceiling(self) -> Budget:
        if budget := Budget.of(self.request.budget):
            return budget
        times = TOLERANCE * len(self.arms) * (len(self.request.questions) + len(self.pilot))
        bill = self.arms[0].match
        if bill.cost_per_question is not None:
            # Rounded as the plan shows it, so that what a user agrees to is what is enforced.
            return Budget(usd=float(f"{times * bill.cost_per_question:.3g}"))
        return Budget(tokens=math.ceil(times * bill.tokens_per_question))

    @property
    def cost(self) -> tuple[float, float] | None:
        """The likely and the highest cost in dollars; None where a price is not known."""
        expected = 0.0
        for arm in self.arms:
            if arm.cost_usd is None:
                return None
            expected += arm.cost_usd
        # Where nothing is to be paid, a ceiling has nothing to limit.
        most = (expected and self.ceiling.usd) or expected
        return min(expected, most), most

    def account(self) -> Account:
        """Return the account for what earlier attempts left of the ceiling. Raises UserError for a
        budget that cannot be enforced.
        """
        spent = Usage()
        for arm in self.arms:
            for folder in (arm.folder / "pilot", *arm.folder.glob("*-samples")):
                for line in read_ledger(folder):
                    # A call that a stop cut off is booked at the most that it may have cost: many
                    # of them would end the next attempt at once.
                    if self.request.budget is not None or not line.get("lost"):
                        spent.add(usage_of(line))
        return open_account(self.ceiling, [billed_as(arm.lm) for arm in self.arms], spent)

    def lines(self) -> list[str]:
        """Return the plan in words: the likely calls of each LM, their cost, and the ceiling."""
        questions, agent = counted(len(self.request.questions), "question"), "1 agent"
        unit = "call"
        if self.request.questions[0].kind in PICKED:
            agent, unit = "1 agent, and an LM that picks one of its answers,", "sample"
        lines = [f"{questions} again, by {agent} for the bill of {self.name}"]
        for arm in self.arms:
            samples, calls = counted(arm.match.samples, "sample"), counted(arm.calls, unit)
            line = f"{arm.identity['endpoint']}: {samples} per question, {calls}"
            if not arm.match.pilot:
                pilot = counted(len(self.pilot), "question")
                line += f" (estimated: a pilot of {pilot} decides)"
            lines.append(line)
        cost = f"cost: {money(self.cost and self.cost[0])}; at most {self.ceiling}"
        if not self.request.budget:
            cost += ", as much as it took and a fifth more; --budget sets another one"
        return [*lines, cost]

    def to_dict(self) -> dict[str, object]:
        arms = {}
        for arm in self.arms:
            figures = {"samples": arm.match.samples, "calls": arm.calls, "cost_usd": arm.cost_usd}
            arms[arm.identity.name] = figures
        return {
            "run": str(self.run.folder),
            "out": str(self.out),
            "questions": len(self.request.questions),
            "tokens_per_question": self.arms[0].match.tokens_per_question,
            "cost_per_question": self.arms[0].match.cost_per_question,
            "lms": arms,
            "cost_usd": self.cost,
            "budget": str(self.ceiling),
        }


@entry(MatchRequest)
def match_budget(request: MatchRequest) -> Evaluation:
    """Run one agent on a run's questions, as often as the run's bill allows: self-consistency, or
    on open answers and tasks a pick.

    `lm` is one that the run used; None takes DSPy's. Of a list, each is run alone for the whole
    bill, and the result is the one most often right. Without a `budget`, each LM may cost 120% of
    what the run took.

    Raises UserError for other questions than those of the run, another LM or metric, unknown tokens
    (a replayed or cached run), a sample that costs more than the run per question (unless a budget
    is given), a budget that cannot be enforced or ends before there is a baseline, and whatever
    `evaluate` raises.
    """
    return run_match(plan_match(request))


def plan_match(request: MatchRequest, name: str = "") -> MatchPlan:
    """Check the arguments of `match_budget`, estimate the cost and return the plan, without calling
    an LM. `name` is the name of the run in the plan.
    """
    matched = earlier(request.run)
    described, questions = matched.summary.run, questions_of(matched, request.questions)
    prices: Mapping[str, Any] = noted_prices(matched)
    wanted: object = request.lm
    if not isinstance(wanted, list) or not wanted:
        wanted = [wanted]
    lms = []
    for lm in wanted:
        if isinstance(lm, str):
            lms.append(make_lm(lm, price=prices.get(lm)))
        else:
            lms.append(lm_given(lm))
    metric = metric_of_run(described, metric_asked(request))
    agent = _agent(request, metric)
    used = [_checked_lm(matched, agent(1), each) for each in lms]
    spent = replace(_read_spending(matched), cost_per_question=_dollars_per_question(matched, lms))
    home = Path(request.out or matched.folder / MATCH)
    count = min(PILOT, len(questions))
    pilot = [questions[place * len(questions) // count] for place in range(count)]  # spread evenly
    arms = []
    for lm, identity in zip(lms, used, strict=True):
        folder, alone = home, spent
        if len(lms) > 1:
            # Names of LMs have slashes and colons.
            folder = home / re.sub(r"[^\w.-]+", "-", identity.name)
            alone = replace(spent, lm=identity.name)
        if request.single is not None:
            alone = _measure(alone, earlier(request.single))
        arms.append(_arm(agent, lm, identity, folder, alone, questions, pilot))
    named = name or name_of_run(described)
    plan = MatchPlan(request, agent, matched, pilot, arms, metric, home, named)
    plan.account()  # refuse a bad budget now, before any question is paid for
    return plan


def plan_costliest(
    request: CompareRequest,
    runs: Sequence[Evaluation],
    names: Sequence[str],
    reference: int,
    *,
    keyless: bool = False,
) -> MatchPlan:
    """Plan a match of the run that took most per question, in dollars where all are known, else in
    tokens. Its questions are read again and its LMs made again; with `keyless` (a plan alone),
    without their keys. On tasks, the agent is that of the run at the place `reference`.
    """
    # Dollars and tokens cannot be ranked together: with one unknown price, all are in tokens.
    spent = [_cost_per_question(run.rows) for run in runs]
    if None in spent:
        spent = [tokens_per_question(run.rows)[0] for run in runs]
    place = max(range(len(runs)), key=lambda place: spent[place] or 0.0)
    run = runs[place]
    _read_spending(run)  # refuse it before its questions are read
    questions = questions_of(run, request.data)
    single = runs[reference] if questions[0].kind == "task" and place != reference else None
    match = MatchRequest(
        run=run,
        questions=questions,
        single=single,
        lm=lms_of_run(run, Seating(request, keyless=keyless), "self-consistency"),
        **request.named("metric", "out", "budget", "concurrency", "progress", *CHECKED, *LIMITS),
    )
    return plan_match(match, names[place])


def run_match(plan: MatchPlan) -> Evaluation:
    """Carry out the plan; see `match_budget`. Raises UserError if not one sample fits the bill."""
    request, described = plan.request, plan.run.summary.run
    # Where an LM picks, its calls are on the bill, too.
    of_pilot, spec = 2, None
    if request.questions[0].kind not in PICKED:
        of_pilot, spec = 1, f"single:{SELF_CONSISTENCY}"
    settings = {
        **described["settings"],
        "command": "compare",
        "program_spec": spec,
        "sets": [],
        "demos": 0,
        "budget": str(plan.ceiling),
        "run_name": None,
        ARMS: [arm.identity.endpoint for arm in plan.arms],
    }
    tracking = request.tracking
    # Where nothing else is asked for, the baseline is tracked if the run was.
    if tracking is None:
        written = read_object(plan.run.folder / MANIFEST) or {}
        tracking = written.get("mlflow_run_id") is not None
    baselines = []
    with open_books(account=plan.account()):
        for arm in plan.arms:
            shared: dict[str, Any] = {
                "lm": arm.lm,
                "metric": plan.metric,
                **request.named("concurrency", *LIMITS),
            }
            match = arm.match
            if request.single is None:
                pilot = _ask_pilot(plan, arm.folder / "pilot", of_pilot, shared)
                match = _measure(match, pilot)
            # At this LM's price not one sample fits the bill; the other LMs may still be opponents.
            # A user's own budget allows the one sample.
            if request.budget is None and not match.fits:
                continue
            label = f"1 agent × {match.samples} for the budget of {plan.name}"
            if match.lm:
                label += f", on {match.lm}"
            baseline = evaluate(
                plan.agent(match.samples),
                request.questions,
                out=arm.folder / f"{match.samples}-samples",
                tracking=tracking,
                settings={
                    **settings,
                    "label": label,
                    **(request.settings or {}),
                    MATCH: asdict(match),
                },
                parent=described.get("mlflow_parent_id"),
                progress=request.progress,
                **shared,
            )
            stopped = baseline.summary.stopped
            # Which LM is the best is not known before all are finished.
            if stopped and (len(plan.arms) > 1 or not baseline.summary.counts.rows):
                raise BudgetSpent(stopped)
            baselines.append(baseline)
    if not baselines:
        raise UserError(
            f"{say('bill_reason', match)}, so not one sample fits the bill of {plan.run.folder}: "
            "match a run with more calls per question, or allow it with --budget"
        )
    best = max(baselines, key=lambda run: run.score)
    # The folder of the baseline may lie inside the folder of the matched run.
    return Evaluation(best.folder, best.summary, (plan.run, *baselines))


def _ask_pilot(plan: MatchPlan, out: Path, samples: int, shared: Mapping[str, Any]) -> Evaluation:
    """Return the answers of the baseline with so many samples to a few questions."""
    pilot = evaluate(
        plan.agent(samples),
        plan.pilot,
        out=out,
        cache=False,  # whose answers would not show what a sample costs
        tracking=False,
        progress=False,
        **shared,
    )
    if pilot.summary.stopped:
        raise BudgetSpent(pilot.summary.stopped)
    return pilot


def match_note(baseline: Evaluation, name: str) -> str:
    """Return a sentence on how the number of samples was matched to the run of this name."""
    settings = baseline.summary.run.settings
    return say("match_note", name, Match(**settings[MATCH]), settings[ARMS])


def _checked_lm(matched: Evaluation, program: Program, lm: object) -> LMFields:
    """Return the identity of the baseline's LM. Raises UserError if the run did not use it: tokens
    of different LMs cannot be compared.
    """
    used = lms_of(program, lm or dspy.settings.lm)["*"]
    described = matched.summary.run
    if not any(same_lm(used, other) for other in described.lms.values()):
        raise UserError(
            f"{used.endpoint} is not an LM of {matched.folder}, which used "
            f"{', '.join(described.endpoints) or 'none that is known'}: match it with one of these"
        )
    return used


def _arm(
    agent: Agent,
    lm: object,
    identity: LMFields,
    folder: Path,
    bill: Match,
    questions: Sequence[Question],
    pilot: Sequence[Question],
) -> Arm:
    """Return the expected cost of one LM alone: measured by its pilot or an earlier run, or
    estimated from a sample's prompt.
    """
    pilot_left, _ = left_of(folder / "pilot", pilot)
    if bill.pilot or not pilot_left:
        # Nothing is to be estimated where a run was given, or an earlier attempt ended the pilot.
        match = bill if bill.pilot else _measure(bill, earlier(folder / "pilot"))
        left, _ = left_of(folder / f"{match.samples}-samples", questions)
        return Arm(lm, identity, folder, match, match.samples * len(left))
    sample = estimate(agent(1), questions, lm, out=folder / "pilot")
    tokens = sum(map(likely, filter(None, (sample.prompt_tokens, sample.completion_tokens))))
    match = replace(bill, tokens_per_sample=tokens / len(questions), cost_per_sample=None)
    if sample.cost_usd is not None:
        match = replace(match, cost_per_sample=likely(sample.cost_usd) / len(questions))
    return Arm(lm, identity, folder, match, len(pilot_left) + match.samples * len(questions))


def _measure(spent: Match, pilot: Evaluation) -> Match:
    """Return the match for the cost of a sample in the pilot. Raises UserError if the pilot's calls
    have no counts.
    """
    tokens, questions = tokens_per_question(pilot.rows)
    if tokens is None:
        raise UserError(
            f"the cost of a sample is not known, since no question of the pilot in {pilot.folder} "
            "was answered by an LM that counts tokens: see the errors in its rows, and delete it "
            "to try again"
        )
    # Where an LM picks, the pilot asks twice, so that it has the price of the pick in it.
    times = pilot.summary.run.program.get("samples") or 1
    cost = _cost_per_question(pilot.rows)
    return replace(
        spent,
        tokens_per_sample=tokens / times,
        pilot=questions,
        cost_per_sample=cost and cost / times,
    )


def _agent(request: MatchRequest, metric: Metric) -> Agent:
    """Return the agent for a number of samples: self-consistency, or a pick if answers cannot be
    voted on. Raises UserError for tasks that need a program.
    """
    kind, single = request.questions[0].kind, request.single
    if kind not in PICKED:
        return lambda samples: SingleAgent(SELF_CONSISTENCY, samples=samples)
    program: Program = SingleAgent("cot")
    if single is not None:
        program = _same_program(earlier(single), request)
    elif isinstance(metric, Check) and metric.answer_file is None:
        raise UserError(
            "one prompt cannot act on tasks: name the run of a program that works alone (the "
            "first run of compare, --baseline of controls), or give --answer-file"
        )
    return partial(asked_often, program, kind=kind)


def _same_program(run: Evaluation, request: MatchRequest) -> Program:
    """Return the program of a run. Raises UserError if it has changed since."""
    try:
        program = program_of_run(run, Seating(request))
    except LookupError as problem:
        raise UserError(f"{run.folder} cannot be asked again: {problem}") from None
    if hashes(program)["program_hash"] != run.summary.run.program_hash:
        raise UserError(f"the program of {run.folder} has changed since: run it again")
    return program


def _cost_per_question(rows: Iterable[ResultRow], prices: Prices | None = None) -> float | None:
    """Return mean dollars per answered question, at the recorded or at other `prices`; None where a
    price or a number of tokens is not known, or nothing was paid.
    """
    spent, questions = 0.0, 0
    for usage in usages_of(rows):
        if usage.tokens is not None:
            cost = prices.cost(usage) if prices is not None else usage.cost_usd
            if cost is None:
                return None
            spent, questions = spent + cost, questions + 1
    if not spent:
        return None
    return spent / questions


def _read_spending(run: Evaluation) -> Match:
    """Return the match with the run's spending per question, before the cost of a sample is known.
    Raises UserError if the spending is unknown.
    """
    tokens, rows = tokens_per_question(run.rows)
    if tokens is None:
        raise UserError(
            f"what {run.folder} spent is not known: its questions failed, its answers came from a "
            "record or cache, or its LM did not count tokens; match a run that paid for its "
            f"answers, or set the samples of single:{SELF_CONSISTENCY} yourself"
        )
    return Match(tokens, rows)


def _dollars_per_question(run: Evaluation, lms: Sequence[dspy.BaseLM]) -> float | None:
    """Return what the run spent per question; None where the price of one of these LMs is not
    known.

    The tokens of a run with one LM are priced at that LM's current price, so that both sides are
    priced alike.
    """
    prices: list[Any] = [billed_as(lm).prices for lm in lms]
    if None in prices:
        return None
    # Prices in steps depend on the length of each prompt, which a question's sum of tokens hides.
    if len(run.summary.run.lm_names) > 1 or prices[0].steps:
        return _cost_per_question(run.rows)
    return _cost_per_question(run.rows, prices[0])


def metric_of_run(run: Manifest, override: AnyMetric | None = None) -> Metric:
    """Return the metric that a run was scored by, from its description.

    Pass a function of your own as `override`, as `metric_of` takes it: the name in a run is not
    imported. Raises UserError for a function that is missing, or that has changed since the run.
    """
    recorded = run.get("metric")
    if override is not None:
        metric = metric_of(override)
    elif not recorded:
        return metric_of(None)
    elif recorded.get("spec") == JUDGE:
        raise UserError(
            "the run was graded by a judge: evaluate the other program with the same judge yourself"
        )
    elif recorded["name"] == CHECK:
        raise UserError("the run was scored by a check of yours: give --check (check=…) again")
    elif not recorded.get("spec"):
        raise UserError(
            f"the run was scored by the function {recorded['name']}, which has no name to import "
            "it by: give it as metric="
        )
    else:
        with names_from("the run", "with --metric (metric=…)"):
            metric = metric_of(recorded["spec"])
    if metric.identity() != recorded:
        raise UserError(
            f"the run was scored by {metric_name(run)}, not by the metric {metric.name}: give "
            "that as --metric (metric=…), or run it again"
        )
    return metric
