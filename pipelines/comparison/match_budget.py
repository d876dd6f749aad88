"""The budget-matched baseline: self-consistency for the tokens that another program spent."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from glob import glob
from pathlib import Path
from typing import Any, cast

from ...modules.base.errors import UserError
from ...modules.protocols.single import SELF_CONSISTENCY, SingleAgent
from ...modules.reading.metrics import metric_of_run
from ...modules.reading.question import Question
from ..base.budget import Budget, BudgetSpent
from ..base.journal import read_object
from ..base.run_files import LMFields
from ..data import load as data
from ..evaluation.answering import CONCURRENCY
from ..evaluation.earlier import Evaluation, earlier
from ..evaluation.evaluate import evaluate
from ..lms.named import lm as make_lm
from ..lms.named import lm_given
from ..runs.books import open_books
from ..runs.describe import lms_of
from ..runs.manifest import MANIFEST
from ..runs.progress import Progress
from ..tracking.values import run_name
from .confounds import ARMS
from .match_plan import (
    Match,
    MatchPlan,
    arm_of,
    dollars_per_question,
    measured_match,
    sampling,
    spent_by,
    tokens_per_question,
)
from .run_again import noted_prices, same_lm

PILOT = 8
MATCH = "match-budget"  # sub-folder of the run that is matched
MATCHED = "self-consistency, same budget"
Show = Callable[[Progress], None]


def match_budget(
    evaluation: Evaluation | str | Path,
    questions: Sequence[Question],
    *,
    lm: Any = None,
    metric: Any = None,
    out: str | Path | None = None,
    pilot: int = PILOT,
    budget: str | Budget | None = None,
    concurrency: int = CONCURRENCY,
    tracking: bool | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: bool | Show | None = None,
    told: Callable[[Match], None] | None = None,
) -> Evaluation:
    """Self-consistency on the same questions, with as many samples as fit into what the evaluation
    spent.

    Args: evaluation: the run to match, or its folder. questions: those that it ran on. lm: the LM
        to sample from, or its name; by rights one of those that the run used. Of several, in a
        list, each is run alone for the whole bill, and the result is the one most often right: the
        fair opponent of a team of unlike LMs. None takes DSPy's configured one.
        metric: what the run was scored by, where that is a function of your own: as `evaluate`
            takes it.
        out: folder for the pilot and the baseline; by default `match-budget` in that of the run.
            The same call resumes.
        pilot: how many questions are asked once to learn what a sample takes; they are spread
            evenly.
        budget: ceilings such as `"2 USD, 500 calls"`, over all resumptions of the folder (time: for
            this one). None takes what the run took, for each LM, and a fifth more. A baseline that
            it ends early has `summary.stopped`.
        concurrency, settings, progress: as in `evaluate`, of the baseline.
        tracking: log the baseline beside the run; None does where the run was tracked.
        told: called with the match after the pilot, before the baseline starts.

    Raises: UserError: other questions than those of the run, another LM or metric, unknown tokens
        (a replayed or cached run), a sample that takes more than the run spent per question (unless
        a budget is given), a budget that cannot be held or ends before there is a baseline, and
        whatever `evaluate` raises.
    """
    plan = plan_match(
        evaluation,
        questions,
        lm=lm,
        metric=metric,
        out=out,
        pilot=pilot,
        budget=budget,
        concurrency=concurrency,
    )
    return run_match(plan, tracking=tracking, settings=settings, progress=progress, told=told)


def plan_match(
    evaluation: Evaluation | str | Path,
    questions: Sequence[Question],
    *,
    lm: Any = None,
    metric: Any = None,
    out: str | Path | None = None,
    pilot: int = PILOT,
    budget: str | Budget | None = None,
    concurrency: int = CONCURRENCY,
) -> MatchPlan:
    """Check everything that `match_budget` takes, and estimate what it needs. No LM is called."""
    matched = earlier(evaluation)
    described = matched.summary.run
    if data.fingerprint(questions) != described["data_fingerprint"]:
        raise UserError(
            f"the questions are not those that {matched.folder} ran on: give the same ones, in "
            f"the same order"
        )
    if pilot < 1:
        raise UserError(f"pilot is {pilot}: give a number of questions from 1 up")
    prices: Mapping[str, Any] = noted_prices(matched)
    lms = [
        make_lm(one, price=prices.get(one)) if isinstance(one, str) else lm_given(one)
        for one in (lm if isinstance(lm, list | tuple) and lm else [lm])
    ]
    used = [_checked_lm(matched, sampling(1), one) for one in lms]
    scored_by = metric_of_run(described, metric)
    spent = replace(spent_by(matched), cost_per_question=dollars_per_question(matched, lms))
    home = matched.folder / MATCH if out is None else Path(out)
    some = evenly_spaced(questions, pilot)
    arms = []
    for one, identity in zip(lms, used, strict=True):
        folder = home if len(lms) == 1 else home / re.sub(r"[^\w.-]+", "-", identity["name"])
        alone = replace(spent, lm=identity["name"] if len(lms) > 1 else "")
        arms.append(arm_of(one, identity, folder, alone, questions, some, scored_by))
    given = Budget.parse(budget) if isinstance(budget, str) else budget
    plan = MatchPlan(matched, questions, some, arms, scored_by, home, given, concurrency)
    plan.account()  # refused now rather than after a question
    return plan


def run_match(
    plan: MatchPlan,
    *,
    tracking: bool | None = None,
    settings: Mapping[str, Any] | None = None,
    progress: bool | Show | None = None,
    told: Callable[[Match], None] | None = None,
) -> Evaluation:
    """Do what was planned; see `match_budget`."""
    described = plan.run.summary.run
    notes = {**described["settings"], **_BASELINE, "budget": str(plan.ceiling), "run_name": None}
    notes[ARMS] = [arm.identity["endpoint"] for arm in plan.arms]
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
            match = measured_match(arm.fewest, pilot)
            if told is not None:
                told(match)
            if plan.budget is None and not match.fits:
                continue
            title = f"{SELF_CONSISTENCY} × {match.samples} for the budget of {run_name(described)}"
            title += f", on {match.lm}" if match.lm else ""
            baseline = evaluate(
                sampling(match.samples),
                plan.questions,
                out=arm.folder / f"{match.samples}-samples",
                tracking=_is_tracked(plan.run) if tracking is None else tracking,
                settings={**notes, "label": title, **(settings or {}), MATCH: asdict(match)},
                parent=described.get("mlflow_parent_id"),
                progress=progress,
                **shared,
            )
            stopped = baseline.summary.stopped
            # Which LM is the best is not known before all are finished.
            if stopped and (len(plan.arms) > 1 or not baseline.summary.counts["rows"]):
                raise BudgetSpent(stopped)
            baselines.append(baseline)
    if not baselines:
        raise UserError(
            f"{match.amounts}, so not one sample fits the bill of {plan.run.folder}: match a run "
            f"of more "
            "calls per question, or allow it with --budget"
        )
    best = max(baselines, key=lambda run: run.score)
    # the matched one may own the folder
    return Evaluation(best.folder, best.summary, (plan.run, *baselines))


def made_match(run: Evaluation) -> Evaluation | None:
    """The baseline that was matched to a run before, the most often right of its LMs'; None without
    one.

    It is looked for in the run's folder and in those beside it.
    """
    if (found := _best_of((run.folder / MATCH).glob("**/*-samples"))) is not None:
        return found
    beside = run.folder.resolve().parent
    # Unlike a Path's, this glob goes on where a folder of others vanishes or cannot be read.
    homes = (
        Path(pilot).parent
        for each in ("*/pilot", "*/*/pilot")
        for pilot in glob(each, root_dir=beside)
    )
    places = (
        beside / home / place
        for home in homes
        for place in glob("*-samples", root_dir=beside / home)
    )
    return _best_of(places, lambda one: _made_for(run, one))


def run_or_match(run: Evaluation | str | Path) -> Evaluation:
    """As `earlier`; the folder that a baseline and its pilot were sent to stands for the
    baseline.
    """
    if isinstance(run, str | Path) and not (Path(run).expanduser() / MANIFEST).exists():
        home = Path(run).expanduser()
        return _best_of([*home.glob("*-samples"), *home.glob("*/*-samples")]) or earlier(run)
    return earlier(run)


def _best_of(
    places: Iterable[Path], fits: Callable[[Evaluation], bool] = lambda _: True
) -> Evaluation | None:
    """The most often right of the finished baselines in these folders."""
    found = []
    for place in sorted(places):
        with suppress(UserError, OSError):
            one = earlier(place)
            if (
                is_match(one)
                and one.summary.finished == one.summary.counts["questions"]
                and fits(one)
            ):
                found.append(one)
    return max(found, key=lambda one: one.score, default=None)


def _made_for(run: Evaluation, baseline: Evaluation) -> bool:
    """Whether the questions, the LM and what was spent on how many rows are those of the run."""
    made, described = baseline.summary.run, run.summary.run
    noted: Mapping[str, Any] = cast(Mapping[str, Any], made["settings"])[MATCH]
    return (
        made["data_fingerprint"] == described["data_fingerprint"]
        and all(
            any(same_lm(lm, one) for one in described["lms"].values())
            for lm in made["lms"].values()
        )
        and isinstance(noted, dict)
        and (noted.get("tokens_per_question"), noted.get("rows")) == tokens_per_question(run.rows)
    )


def with_matches(
    names: Sequence[str], runs: Sequence[Evaluation]
) -> tuple[list[str], list[Evaluation]]:
    """The runs, and after them the baselines that were matched to them before, if they are not
    among them.
    """
    known, new = {run.folder.resolve() for run in runs}, []
    for name, run in zip(names, runs, strict=True):
        found = made_match(run)
        if found is not None and found.folder.resolve() not in known:
            known.add(found.folder.resolve())
            new.append((name, found))
    titles = [MATCHED if len(new) == 1 else f"{MATCHED} as {name}" for name, _ in new]
    return [*names, *titles], [*runs, *(found for _, found in new)]


def is_match(run: Evaluation) -> bool:
    """Whether the run is a baseline that `match_budget` made."""
    return MATCH in run.summary.run["settings"]


_BASELINE = {
    "command": "compare",
    "program_spec": f"single:{SELF_CONSISTENCY}",
    "sets": [],
    "demos": 0,
}


def _is_tracked(run: Evaluation) -> bool:
    return (read_object(run.folder / MANIFEST) or {}).get("mlflow_run_id") is not None


def evenly_spaced(questions: Sequence[Question], most: int) -> list[Question]:
    """At most so many questions, evenly spaced."""
    count = min(most, len(questions))
    return [questions[index * len(questions) // count] for index in range(count)]


def _checked_lm(matched: Evaluation, program: SingleAgent, lm: Any) -> LMFields:
    """What is known of the baseline's LM, which the run must have used: another one's tokens are
    another currency.
    """
    import dspy

    used = lms_of(program, lm or dspy.settings.lm)["*"]
    known = matched.summary.run["lms"].values()
    if not any(same_lm(used, other) for other in known):
        names = (
            ", ".join(dict.fromkeys(str(other["endpoint"]) for other in known))
            or "none that is known"
        )
        raise UserError(
            f"{used['endpoint']} is not an LM of {matched.folder}, which used {names}: match it "
            f"with that one"
        )
    return used
