"""The budget-matched baseline: self-consistency for the same cost as another program."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import dspy

from ...modules.base.errors import UserError
from ...modules.base.usage import total
from ...modules.protocols.single import SELF_CONSISTENCY, SingleAgent
from ...modules.reading.metrics import Metric, metric_of_run
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow
from ..base.budget import Account, Budget, BudgetSpent, open_account
from ..base.journal import read_object
from ..base.request import CHECKED, entry
from ..base.run_files import LMFields
from ..base.wording import counted, money
from ..evaluation.earlier import Evaluation, earlier
from ..evaluation.estimate import estimate, left_of, likely
from ..evaluation.evaluate import evaluate
from ..evaluation.kept import questions_of
from ..lms.foreign import billed_as
from ..lms.ledger import read_ledger, usage_of
from ..lms.named import lm as make_lm
from ..lms.named import lm_given
from ..lms.prices import Prices
from ..programs.seats import Seating
from ..runs.books import open_books
from ..runs.describe import lms_of
from ..runs.manifest import MANIFEST, name_of_run
from ..tasks.check import metric_asked
from .confounds import ARMS
from .matched import MATCH, TOLERANCE, Match, same_lm, tokens_per_question, usages_of
from .request import CompareRequest, MatchRequest
from .run_again import lms_of_run, noted_prices
from .words import say

PILOT = 8
"""Evenly spaced questions that are asked once to measure the cost of a sample."""


@dataclass(frozen=True)
class Arm:
    """One LM alone: the folder of its pilot and samples, and how many calls are left to make."""

    lm: Any
    identity: LMFields
    folder: Path
    match: Match
    calls: int

    @property
    def cost_usd(self) -> float | None:
        """The likely cost of those calls; None where the price is not known."""
        per_sample = self.match.cost_per_sample
        return None if per_sample is None else per_sample * self.calls


@dataclass(frozen=True)
class MatchPlan:
    """A budget-matched baseline that is checked; no LM has been called.

    `ceiling` is the user's budget. By default it is, for each of the `arms`, 120% of what the run
    took on as many questions, the `pilot` included.
    """

    request: MatchRequest
    run: Evaluation
    pilot: Sequence[Question]
    arms: Sequence[Arm]
    metric: Metric
    home: Path
    name: str

    @property
    def ceiling(self) -> Budget:
        budget = self.request.budget
        if budget is not None:
            return Budget.parse(budget) if isinstance(budget, str) else budget
        times = TOLERANCE * len(self.arms) * (len(self.request.questions) + len(self.pilot))
        bill = self.arms[0].match
        if bill.cost_per_question is not None:
            return Budget(usd=float(f"{times * bill.cost_per_question:.3g}"))
        return Budget(tokens=math.ceil(times * bill.tokens_per_question))

    @property
    def cost(self) -> tuple[float, float] | None:
        """The likely and the highest cost in dollars; None where a price is not known."""
        costs = [arm.cost_usd for arm in self.arms if arm.cost_usd is not None]
        if len(costs) < len(self.arms):
            return None
        most = self.ceiling.usd or sum(costs)
        return min(sum(costs), most), most if sum(costs) else 0.0

    def account(self) -> Account:
        """The part of the ceiling that earlier attempts left. Raises UserError for a budget that
        cannot be enforced.
        """
        places = [arm.folder for arm in self.arms]
        folders = [each for place in places for each in (place / "pilot", *place.glob("*-samples"))]
        # A call that a stop cut off is booked at the most that it may have cost: many of them would
        # end the next attempt at once.
        spent = total(
            usage_of(line)
            for folder in folders
            for line in read_ledger(folder)
            if self.request.budget is not None or not line.get("lost")
        )
        return open_account(self.ceiling, [billed_as(arm.lm) for arm in self.arms], spent)

    def lines(self) -> list[str]:
        """The plan in words: the likely calls of each LM, their cost, and the ceiling."""
        questions = counted(len(self.request.questions), "question")
        lines = [f"{questions} again, by 1 agent for the bill of {self.name}"]
        for arm in self.arms:
            samples, calls = counted(arm.match.samples, "sample"), counted(arm.calls, "call")
            pilot = f" (estimated: a pilot of {counted(len(self.pilot), 'question')} decides)"
            line = f"{arm.identity['endpoint']}: {samples} per question, {calls}"
            lines.append(line + pilot * (not arm.match.pilot))
        why = ", as much as it took and a fifth more; --budget sets another one"
        cost = money(self.cost and self.cost[0])
        return [*lines, f"cost: {cost}; at most {self.ceiling}{why * (not self.request.budget)}"]

    def to_dict(self) -> dict[str, object]:
        arms = {
            arm.identity["name"]: {
                "samples": arm.match.samples,
                "calls": arm.calls,
                "cost_usd": arm.cost_usd,
            }
            for arm in self.arms
        }
        return {
            "run": str(self.run.folder),
            "out": str(self.home),
            "questions": len(self.request.questions),
            "tokens_per_question": self.arms[0].match.tokens_per_question,
            "cost_per_question": self.arms[0].match.cost_per_question,
            "lms": arms,
            "cost_usd": self.cost,
            "budget": str(self.ceiling),
        }


@entry(MatchRequest)
def match_budget(request: MatchRequest) -> Evaluation:
    """Run self-consistency on a run's questions, with as many samples as the run's bill pays for.

    `lm` is the LM to sample from, one that the run used; None takes DSPy's configured LM. In a list
    of several, each LM is run alone for the whole bill, and the result is the one most often right:
    the fair opponent of a team of different LMs. Without a `budget`, the ceiling for each LM is
    120% of what the run took. A baseline that a budget ends early has `summary.stopped`; the same
    call resumes it.

    Raises: UserError: other questions than those of the run, another LM or metric, unknown tokens
        (a replayed or cached run), a sample that costs more than the run spent per question (unless
        a budget is given), a budget that cannot be enforced or ends before there is a baseline, and
        whatever `evaluate` raises.
    """
    return run_match(plan_match(request))


def plan_match(request: MatchRequest, name: str = "") -> MatchPlan:
    """Check the arguments of `match_budget`, and estimate the cost. No LM is called. `name` is the
    name of the run in the plan.
    """
    matched = earlier(request.run)
    described, questions = matched.summary.run, questions_of(matched, request.questions)
    prices: Mapping[str, Any] = noted_prices(matched)
    lms = [
        make_lm(each, price=prices.get(each)) if isinstance(each, str) else lm_given(each)
        for each in (request.lm if isinstance(request.lm, list) and request.lm else [request.lm])
    ]
    used = [_checked_lm(matched, each) for each in lms]
    metric = metric_of_run(described, metric_asked(request, request.metric))
    spent = replace(_spent_by(matched), cost_per_question=_dollars_per_question(matched, lms))
    home = matched.folder / MATCH if request.out is None else Path(request.out)
    count = min(PILOT, len(questions))
    pilot = [questions[place * len(questions) // count] for place in range(count)]  # spread evenly
    arms = []
    for one, identity in zip(lms, used, strict=True):
        folder = home if len(lms) == 1 else home / re.sub(r"[^\w.-]+", "-", identity["name"])
        alone = replace(spent, lm=identity["name"] if len(lms) > 1 else "")
        arms.append(_arm(one, identity, folder, alone, questions, pilot))
    plan = MatchPlan(request, matched, pilot, arms, metric, home, name or name_of_run(described))
    plan.account()  # refuse a bad budget now, before any question is paid for
    return plan


def plan_costliest(
    request: CompareRequest,
    runs: Sequence[Evaluation],
    names: Sequence[str],
    *,
    keyless: bool = False,
) -> MatchPlan:
    """Plan a match of the run that took most per question, in dollars where all are known, else in
    tokens. Its questions are read again and its LMs made again; with `keyless` (a plan alone),
    without their keys.
    """
    costs = [_cost_per_question(run.rows) for run in runs]
    spent = [tokens_per_question(run.rows)[0] for run in runs] if None in costs else costs
    place = max(range(len(runs)), key=lambda place: spent[place] or 0.0)
    run = runs[place]
    _spent_by(run)  # refuse it before its questions are read
    match = MatchRequest(
        run=run,
        questions=questions_of(run, request.data),
        lm=lms_of_run(run, Seating(request, keyless=keyless), "self-consistency"),
        **request.named("metric", "out", "budget", "concurrency", "progress", *CHECKED),
    )
    return plan_match(match, names[place])


def run_match(plan: MatchPlan) -> Evaluation:
    """Do what was planned; see `match_budget`."""
    request, described = plan.request, plan.run.summary.run
    settings = {
        **described["settings"],
        "command": "compare",
        "program_spec": f"single:{SELF_CONSISTENCY}",
        "sets": [],
        "demos": 0,
        "budget": str(plan.ceiling),
        "run_name": None,
        ARMS: [arm.identity["endpoint"] for arm in plan.arms],
    }
    tracked = (read_object(plan.run.folder / MANIFEST) or {}).get("mlflow_run_id") is not None
    baselines = []
    with open_books(account=plan.account()):
        for arm in plan.arms:
            shared: dict[str, Any] = {
                "lm": arm.lm,
                "metric": plan.metric,
                "concurrency": request.concurrency,
            }
            # Answers from the cache would not show what a sample costs.
            apart: dict[str, Any] = {"cache": False, "tracking": False, "progress": False}
            pilot = evaluate(_sampling(1), plan.pilot, out=arm.folder / "pilot", **apart, **shared)
            if pilot.summary.stopped:
                raise BudgetSpent(pilot.summary.stopped)
            match = _measured(arm.match, pilot)
            if request.budget is None and not match.fits:
                continue
            on = f", on {match.lm}" if match.lm else ""
            label = f"1 agent × {match.samples} for the budget of {plan.name}{on}"
            baseline = evaluate(
                _sampling(match.samples),
                request.questions,
                out=arm.folder / f"{match.samples}-samples",
                tracking=tracked if request.tracking is None else request.tracking,
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


def match_note(baseline: Evaluation, name: str) -> str:
    """A sentence on how the number of samples was chosen to match the run of this name."""
    settings: Any = baseline.summary.run["settings"]
    return say("match_note", name, Match(**settings[MATCH]), settings[ARMS])


def _checked_lm(matched: Evaluation, lm: Any) -> LMFields:
    """The identity of the baseline's LM. The run must have used it, since tokens of different LMs
    cannot be compared.
    """
    program: SingleAgent = _sampling(1)
    used = lms_of(program, lm or dspy.settings.lm)["*"]
    lms = matched.summary.run["lms"].values()
    if not any(same_lm(used, other) for other in lms):
        names = dict.fromkeys(str(other["endpoint"]) for other in lms)
        raise UserError(
            f"{used['endpoint']} is not an LM of {matched.folder}, which used "
            f"{', '.join(names) or 'none that is known'}: match it with one of these"
        )
    return used


def _arm(
    lm: Any,
    identity: LMFields,
    folder: Path,
    bill: Match,
    questions: Sequence[Question],
    pilot: Sequence[Question],
) -> Arm:
    """The expected cost of one LM alone: measured by its pilot, or estimated from a sample's
    prompt.
    """
    pilot_left, _ = left_of(folder / "pilot", pilot)
    if not pilot_left:
        match = _measured(bill, earlier(folder / "pilot"))
        left, _ = left_of(folder / f"{match.samples}-samples", questions)
        return Arm(lm, identity, folder, match, match.samples * len(left))
    sample = estimate(_sampling(1), questions, lm, out=folder / "pilot")
    tokens = sum(map(likely, filter(None, (sample.prompt_tokens, sample.completion_tokens))))
    cost = None if sample.cost_usd is None else likely(sample.cost_usd) / len(questions)
    match = replace(bill, tokens_per_sample=tokens / len(questions), cost_per_sample=cost)
    return Arm(lm, identity, folder, match, len(pilot_left) + match.samples * len(questions))


def _measured(spent: Match, pilot: Evaluation) -> Match:
    """The match if a sample costs what it cost in the pilot. Raises UserError where the pilot has
    no counts.
    """
    tokens, questions = tokens_per_question(pilot.rows)
    if tokens is None:
        raise UserError(
            f"the cost of a sample is not known, since no question of the pilot in {pilot.folder} "
            "was answered by an LM that counts tokens: see the errors in its rows, and delete it "
            "to try again"
        )
    cost = _cost_per_question(pilot.rows)
    return replace(spent, tokens_per_sample=tokens, pilot=questions, cost_per_sample=cost)


def _sampling(samples: int) -> SingleAgent:
    return SingleAgent(SELF_CONSISTENCY, samples=samples)


def _cost_per_question(rows: Iterable[ResultRow], prices: Prices | None = None) -> float | None:
    """Mean dollars per answered question, at the recorded or at other `prices`; None where a price
    or a number of tokens is not known, or nothing was paid.
    """
    usages = [usage for usage in usages_of(rows) if usage.tokens is not None]
    costs = [usage.cost_usd if prices is None else prices.cost(usage) for usage in usages]
    priced = [cost for cost in costs if cost is not None]
    return sum(priced) / len(priced) if any(priced) and len(priced) == len(costs) else None


def _spent_by(run: Evaluation) -> Match:
    """The match with what the run spent per question, before the cost of a sample is known. Raises
    UserError where the spending is not known.
    """
    tokens, rows = tokens_per_question(run.rows)
    if tokens is None:
        raise UserError(
            f"what {run.folder} spent is not known: its questions failed, its answers came from a "
            "record or cache, or its LM did not count tokens; match a run that paid for its "
            f"answers, or set the samples of single:{SELF_CONSISTENCY} yourself"
        )
    return Match(tokens, rows)


def _dollars_per_question(run: Evaluation, lms: Sequence[Any]) -> float | None:
    """What the run spent per question; None where the price of one of these LMs is not known.

    The tokens of a run with one LM are priced at that LM's current price, so that both sides are
    priced alike.
    """
    prices = [billed_as(name).prices for name in lms]
    if None in prices:
        return None
    alone = len({lm["name"] for lm in run.summary.run["lms"].values()}) == 1
    own = prices[0] if alone and prices[0] is not None and not prices[0].steps else None
    return _cost_per_question(run.rows, own)
