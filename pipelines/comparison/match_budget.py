"""The budget-matched baseline: self-consistency for what another program spent."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import dspy

from ...modules.base.errors import UserError
from ...modules.protocols.single import SELF_CONSISTENCY, SingleAgent
from ...modules.reading.metrics import metric_of_run
from ...modules.reading.question import Question
from ..base.budget import Budget, BudgetSpent
from ..base.journal import read_object
from ..base.request import entry
from ..base.run_files import LMFields
from ..data import load as data
from ..evaluation.earlier import Evaluation, earlier
from ..evaluation.evaluate import evaluate
from ..lms.named import lm as make_lm
from ..lms.named import lm_given
from ..programs.seats import Seating
from ..runs.books import open_books
from ..runs.describe import lms_of
from ..runs.manifest import MANIFEST, name_of_run
from .confounds import ARMS
from .match_plan import (
    Match,
    MatchPlan,
    arm_of,
    costliest,
    dollars_per_question,
    measured_match,
    sampling,
    spent_by,
)
from .matched import MATCH, same_lm
from .request import CompareRequest, MatchRequest
from .run_again import lms_of_run, noted_prices, questions_of
from .words import say


@entry(MatchRequest)
def match_budget(request: MatchRequest) -> Evaluation:
    """Run self-consistency on the same questions, with as many samples as fit into a run's bill.

    `lm` is the LM to sample from, by rights one of those that the run used. Of several, in a list,
    each is run alone for the whole bill, and the result is the one most often right: the fair
    opponent of a team of unlike LMs. None takes DSPy's configured one. Without a `budget`, the
    ceiling is what the run took, for each LM, and a fifth more. A baseline that a budget ends early
    has `summary.stopped`; the same call goes on.

    Raises: UserError: other questions than those of the run, another LM or metric, unknown tokens
        (a replayed or cached run), a sample that takes more than the run spent per question (unless
        a budget is given), a budget that cannot be held or ends before there is a baseline, and
        whatever `evaluate` raises.
    """
    return run_match(plan_match(request), request)


def plan_match(request: MatchRequest, name: str = "") -> MatchPlan:
    """Check everything that `match_budget` takes, and estimate what it needs. No LM is called.

    `name` is what the plan calls the run.
    """
    matched, questions = earlier(request.run), request.questions
    described = matched.summary.run
    if data.fingerprint(questions) != described["data_fingerprint"]:
        raise UserError(
            f"the questions are not those that {matched.folder} ran on: give the same ones, in "
            f"the same order"
        )
    if request.pilot < 1:
        raise UserError(f"pilot is {request.pilot}: give a number of questions from 1 up")
    prices: Mapping[str, Any] = noted_prices(matched)
    lms = [
        make_lm(one, price=prices.get(one)) if isinstance(one, str) else lm_given(one)
        for one in (request.lm if isinstance(request.lm, list) and request.lm else [request.lm])
    ]
    used = [_checked_lm(matched, one) for one in lms]
    metric = metric_of_run(described, request.metric)
    spent = replace(spent_by(matched), cost_per_question=dollars_per_question(matched, lms))
    home = matched.folder / MATCH if request.out is None else Path(request.out)
    pilot = evenly_spaced(questions, request.pilot)
    arms = []
    for one, identity in zip(lms, used, strict=True):
        folder = home if len(lms) == 1 else home / re.sub(r"[^\w.-]+", "-", identity["name"])
        alone = replace(spent, lm=identity["name"] if len(lms) > 1 else "")
        arms.append(arm_of(one, identity, folder, alone, questions, pilot, metric))
    budget = Budget.parse(request.budget) if isinstance(request.budget, str) else request.budget
    name = name or name_of_run(described)
    plan = MatchPlan(
        matched, questions, pilot, arms, metric, home, budget, request.concurrency, name
    )
    plan.account()  # refused now rather than after a question
    return plan


def plan_costliest(
    request: CompareRequest,
    runs: Sequence[Evaluation],
    names: Sequence[str],
    *,
    keyless: bool = False,
) -> tuple[MatchPlan, MatchRequest]:
    """Plan a match of the run that took most per question, on its own questions and LMs, which are
    read and made again; for a plan alone, `keyless`, without their keys.
    """
    place = costliest(runs)
    run = runs[place]
    match = MatchRequest(
        run=run,
        questions=questions_of(run, request.data),
        lm=lms_of_run(run, Seating(request, keyless=keyless), "self-consistency"),
        **request.named("metric", "out", "budget", "concurrency", "progress"),
    )
    return plan_match(match, names[place]), match


def run_match(plan: MatchPlan, request: MatchRequest) -> Evaluation:
    """Do what was planned; see `match_budget`."""
    described = plan.run.summary.run
    tracked = (read_object(plan.run.folder / MANIFEST) or {}).get("mlflow_run_id") is not None
    settings = {
        **described["settings"],
        **_BASELINE,
        "budget": str(plan.ceiling),
        "run_name": None,
        ARMS: [arm.identity["endpoint"] for arm in plan.arms],
    }
    baselines = []
    with open_books(account=plan.account()):
        for arm in plan.arms:
            shared: dict[str, Any] = {
                "lm": arm.lm,
                "metric": plan.metric,
                "concurrency": plan.concurrency,
            }
            # From the cache, the pilot would not tell what a sample takes.
            pilot = evaluate(
                sampling(1),
                plan.pilot,
                out=arm.folder / "pilot",
                cache=False,
                tracking=False,
                progress=False,
                **shared,
            )
            if pilot.summary.stopped:
                raise BudgetSpent(pilot.summary.stopped)
            match = measured_match(arm.match, pilot)
            if plan.budget is None and not match.fits:
                continue
            label = {"label": _label(match, plan.name)}
            baseline = evaluate(
                sampling(match.samples),
                plan.questions,
                out=arm.folder / f"{match.samples}-samples",
                tracking=tracked if request.tracking is None else request.tracking,
                settings={**settings, **label, **(request.settings or {}), MATCH: asdict(match)},
                parent=described.get("mlflow_parent_id"),
                progress=request.progress,
                **shared,
            )
            stopped = baseline.summary.stopped
            # Which LM is the best is not known before all are finished.
            if stopped and (len(plan.arms) > 1 or not baseline.summary.counts["rows"]):
                raise BudgetSpent(stopped)
            baselines.append(baseline)
    if not baselines:
        raise UserError(
            f"{say('bill_reason', match)}, so not one sample fits the bill of {plan.run.folder}: "
            "match a run of more calls per question, or allow it with --budget"
        )
    best = max(baselines, key=lambda run: run.score)
    # The matched run may own the folder that all of this lies in.
    return Evaluation(best.folder, best.summary, (plan.run, *baselines))


def match_note(baseline: Evaluation, name: str) -> str:
    """How the samples of a baseline were found, in a sentence about the run of this name."""
    settings: Any = baseline.summary.run["settings"]
    return say("match_note", name, Match(**settings[MATCH]), settings[ARMS])


_BASELINE = {
    "command": "compare",
    "program_spec": f"single:{SELF_CONSISTENCY}",
    "sets": [],
    "demos": 0,
}


def _label(match: Match, name: str) -> str:
    on = f", on {match.lm}" if match.lm else ""
    return f"1 agent × {match.samples} for the budget of {name}{on}"


def evenly_spaced(questions: Sequence[Question], most: int) -> list[Question]:
    """At most so many questions, evenly spaced."""
    count = min(most, len(questions))
    return [questions[index * len(questions) // count] for index in range(count)]


def _checked_lm(matched: Evaluation, lm: Any) -> LMFields:
    """What is known of the baseline's LM, which the run must have used: another one's tokens are
    another currency.
    """
    program: SingleAgent = sampling(1)
    used = lms_of(program, lm or dspy.settings.lm)["*"]
    lms = matched.summary.run["lms"].values()
    if not any(same_lm(used, other) for other in lms):
        names = dict.fromkeys(str(other["endpoint"]) for other in lms)
        raise UserError(
            f"{used['endpoint']} is not an LM of {matched.folder}, which used "
            f"{', '.join(names) or 'none that is known'}: match it with that one"
        )
    return used
