"""`folkmoot evaluate`: checks everything, says what is going to happen, runs it, and sums it up."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...modules.base.calls import FatalCallError
from ...modules.base.errors import UserError
from ...modules.protocols.ensemble import Ensemble
from ...modules.protocols.foreign import Foreign
from ...modules.protocols.program import Program
from ...modules.protocols.saved import hashes
from ...modules.protocols.team.team import SupervisedTeam
from ...modules.reading.metrics import Metric, check_metric
from ...modules.reading.question import Question
from ...optimizers.prompts.demos import labelled_demos
from ..base.budget import Account, BudgetSpent
from ..base.journal import read_object
from ..base.wording import counted, duration, percent, used
from ..data import load as data
from ..evaluation.check import (
    all_failed,
    check_engine,
    check_folder,
    check_shown,
    check_train,
    check_weighted,
    check_writable,
)
from ..evaluation.evaluate import evaluate as evaluate_program
from ..evaluation.judging import metric_given
from ..evaluation.plan import Forecast, account_of, forecast, left_of
from ..evaluation.step_limits import PICTURE, deepest_first, folder_of, write_curve
from ..programs.resolve import parse_sets, program_given, program_of
from ..programs.seats import LMOptions
from ..runs.books import open_books
from ..runs.lines import result_lines
from ..runs.manifest import lms_of
from ..runs.progress import Progress
from ..runs.summary import SUMMARY, Summary
from .guard import INTERRUPTED, STOPPED, say
from .options import EvaluateOptions, listed
from .show import confirm, console, evaluating, finish, forecast_lines, leave, present, show_result
from .train import evaluate_outcomes

RUNS = Path("runs")
WEIGHTS = "weights"  # sub-folder of the run on training questions that weights are fitted on


def evaluate(options: EvaluateOptions) -> None:
    if options.outcomes or options.data is None:
        evaluate_outcomes(options)
    elif options.step_limits:
        evaluate_limits(options)
    else:
        planned = plan(options)
        for warning in planned.warnings:
            say(f"warning: {warning}")
        confirm(options, planned.lines(), planned.to_dict, planned.forecast.cost_usd)
        shown: list[EvaluationOutcome] = []

        def show(outcome: EvaluationOutcome) -> None:
            shown.append(outcome)
            present(options, outcome.to_dict(), lambda: show_outcome(options, outcome))

        outcome = run(planned, show)
        if not shown:
            show(outcome)
        leave(outcome.stopped, outcome.code)


@dataclass
class EvaluationPlan:
    """An evaluation that is checked; no LM has been called."""

    options: EvaluateOptions
    program: Program
    lm: Any
    metric: Metric
    questions: list[Question]
    train: list[Question]
    out: Path
    settings: dict[str, Any]
    seated: dict[str, Any]
    forecast: Forecast
    warnings: list[str] = field(default_factory=list)

    @property
    def fits_weights(self) -> bool:
        return _lacks_weights(self.program)

    def lines(self) -> list[str]:
        """The plan in words: questions, program, LMs, what it takes, and what it can show."""
        kinds = ", ".join(self.settings["kinds"])
        yet = (
            f" after {counted(len(self.train), 'training question')} for the weights"
            if self.fits_weights
            else ""
        )
        lms = "; ".join(
            f"{'LM' if seat == '*' else seat}: {known['endpoint']}" for seat, known in self.seated.items()
        )
        return [
            f"{counted(len(self.questions), 'question')} ({kinds}) from {self.settings['data']}{yet}",
            f"program {self.options.program}; {lms}",
            *forecast_lines(self.forecast, self.options.budget, is_rate=self.metric.rate is True),
        ]

    def to_dict(self) -> dict[str, Any]:
        known = {"program": self.options.program, "lms": self.seated, "budget": self.options.budget}
        return {"out": str(self.out), **known, "settings": self.settings, "plan": self.forecast.to_dict()}

    def account(self) -> Account | None:
        """What earlier attempts left of the budget. Raises UserError for a budget that could not be held."""
        return account_of(self.options.budget, self.program, self.lm, self.out, self.out / WEIGHTS)


@dataclass
class EvaluationOutcome:
    """How an evaluation ended: folder, summary (None if there is none), and why it stopped early.

    `training` has the weights that were fitted, the number of `questions`, and their own `usage`.
    """

    out: Path
    summary: dict[str, Any] | None
    seconds: float
    training: dict[str, Any] | None = None
    stopped: str | None = None
    code: int = 0

    def to_dict(self) -> dict[str, Any]:
        training = {"training": self.training} if self.training else {}
        return {"out": str(self.out), **training, **(self.summary or {}), "stopped": self.stopped}


def show_outcome(options: EvaluateOptions, outcome: EvaluationOutcome) -> None:
    if outcome.summary is None:
        return
    lines = result_lines(outcome.summary, outcome.seconds)
    if options.quiet:
        lines = dict([next(iter(lines.items()))])
    else:
        if learnt := outcome.training:
            weights = ", ".join(f"{name} {weight:.2f}" for name, weight in learnt["weights"].items())
            fitted = f"fitted on {counted(learnt['questions'], 'question')} with {used(learnt['usage'])}"
            lines["weights"] = f"{weights}; {fitted}"
        lines["rows"] = str(outcome.out / "results.jsonl")
        lines |= {"look at it": "folkmoot ui"} if options.track else {}
    show_result(console(), options.program, lines)


def plan(options: EvaluateOptions) -> EvaluationPlan:
    """Read and check all input. Raises UserError before any LM is called."""
    lms, sets = options.into(LMOptions), parse_sets(options.sets)
    program = program_given(program_of(options.program, sets, make_lm=lms.make), options.fields())
    if isinstance(program, Foreign) and options.demos:
        raise UserError("--demos are for folkmoot's programs: folkmoot compile gives yours demonstrations")
    if options.seed is not None and "seed" not in sets:
        for _, part in program.parts(Program):
            part.reseed(options.seed)
    for inner in _ensembles(program):
        if inner is not program and _lacks_weights(inner):
            raise UserError("a weighted ensemble inside the program has no weights: give them in the YAML")
    columns = options.column_names()
    questions = data.load(
        str(options.data), options.split, options.limit, options.seed, columns=columns, kind=options.kind
    )
    data.check_asked(questions)
    train = _train(options, program, columns)
    warnings = check_train(train, questions)
    if options.demos:
        program = labelled_demos(program, train, options.demos, seed=options.demo_seed)
        shown = {demo.get("id") for predictor in program.predictors() for demo in predictor.demos}
        check_shown(shown, train, questions)
        # Questions that stand in an agent's demonstrations, with their answers, say nothing about its weight.
        train = [question for question in train if question.id not in shown]
    if _lacks_weights(program) and not train:
        raise UserError(
            "no training questions are left to fit weights on: take fewer --demos or more training data"
        )
    judge_lm = lms.make(options.judge_lm) if options.judge_lm else None
    metric = metric_given(options.metric, judge_lm, options.judge_sample)
    check_metric(metric, questions)
    language_model = lms.seat(program)
    seated = lms_of(program, language_model)
    settings = _settings(options, questions, train, warnings)
    out = options.out or _default_out(options, program, seated, questions, settings, metric)
    check_engine(
        options.engine,
        options.workers,
        program,
        language_model,
        budget=options.budget is not None,
        metric=metric,
    )
    if options.record is not None:
        check_writable(options.record, "--record")
    if isinstance(program, Ensemble) and _lacks_weights(program):
        check_weighted(out, WEIGHTS, program, train, language_model)
    else:
        check_folder(out, program, questions, language_model, metric)
    asked, each = left_of(out, questions, options.retry_errors)
    if _lacks_weights(program):
        asked += left_of(out / WEIGHTS, train, options.retry_errors)[0]
    expected = forecast(
        program,
        questions,
        language_model,
        asked=asked,
        concurrency=options.concurrency,
        seconds_per_call=each,
        out=out,
    )
    planned = EvaluationPlan(
        options, program, language_model, metric, questions, train, out, settings, seated, expected, warnings
    )
    planned.account()  # refused now rather than after a question
    return planned


def run(
    plan: EvaluationPlan, show: Callable[[EvaluationOutcome], None] = lambda outcome: None
) -> EvaluationOutcome:
    """Carry the plan out. Raises UserError for what is wrong with it; later stops are in the outcome.

    A run that ended well is shown before it is sent to the tracking store.
    """
    options, program = plan.options, plan.program
    began = time.monotonic()
    started = _Started()
    names = ("concurrency", "engine", "workers", "record", "max_failures", "retry_errors", "cache")
    shared: dict[str, Any] = {"lm": plan.lm, "metric": plan.metric, **options.named(*names)}
    account = plan.account()
    stopped, code, training = None, 0, None
    try:
        with open_books(account=account):
            if plan.fits_weights and isinstance(program, Ensemble):
                with evaluating(options, "weights") as progress:
                    training = fit_weights(
                        program, plan.train, plan.out / WEIGHTS, progress=started.then(progress), **shared
                    )
            with ExitStack() as line:
                progress = line.enter_context(evaluating(options, "evaluate"))

                def ended(summary: Summary) -> None:
                    line.close()
                    counts = summary.counts
                    if summary.stopped is None and counts["errors"] < counts["rows"]:
                        found = read_object(plan.out / SUMMARY)
                        show(EvaluationOutcome(plan.out, found, time.monotonic() - began, training))

                result = evaluate_program(
                    program,
                    plan.questions,
                    judge_sample=options.judge_sample,
                    out=plan.out,
                    tracking=options.track,
                    traces=options.traces,
                    settings=plan.settings,
                    progress=started.then(progress),
                    ended=ended,
                    **shared,
                )
        stopped = result.summary.stopped  # by a budget, which is no error where there is a result
        code = STOPPED if stopped and not result.summary.counts["rows"] else 0
    except BudgetSpent as problem:
        stopped, code = str(problem), STOPPED
    except KeyboardInterrupt:
        stopped = f"interrupted: {_kept(plan.out)}; the same command takes it up again"
        code = INTERRUPTED
    except UserError as problem:
        if not started.any or (isinstance(problem, FatalCallError) and not started.answered):
            raise
        stopped, code = str(problem), STOPPED
    summary = read_object(plan.out / SUMMARY)
    if not code and summary and summary["counts"]["errors"] == summary["counts"]["rows"]:
        stopped, code = all_failed(plan.out), STOPPED
    return EvaluationOutcome(plan.out, summary, time.monotonic() - began, training, stopped, code)


def fit_weights(program: Ensemble, train: Sequence[Question], out: Path, **options: Any) -> dict[str, Any]:
    """Run the ensemble on training questions by majority, then set its weights from those rows.

    Returns `weights` by member, the number of `questions`, and the `usage` that this took.
    """
    with program.unweighed():
        found = evaluate_program(program, train, out=out, tracking=False, **options)
        if found.summary.stopped:
            raise BudgetSpent(found.summary.stopped)
        weights = dict(zip(program.names, program.fit_weights(found.rows), strict=True))
        return {"weights": weights, "questions": len(train), "usage": found.summary.usage}


class _Started:
    """Notes whether an evaluation has asked anything, and whether anything was answered."""

    def __init__(self) -> None:
        self.any = False
        self.answered = False

    def then(self, progress: Callable[[Progress], None]) -> Callable[[Progress], None]:
        def noted(state: Progress) -> None:
            self.any = True
            self.answered = self.answered or state.done > state.resumed
            progress(state)

        return noted


def _train(options: EvaluateOptions, program: Program, columns: Mapping[str, str] | None) -> list[Question]:
    weights = _lacks_weights(program)
    if options.train is None:
        if weights:
            raise UserError(
                "the weighted ensemble has no weights: give --train to fit them, or --set weights=[…]"
            )
        if options.demos:
            raise UserError("--demos needs --train: name the data that the demonstrations come from")
        return []
    if not weights and not options.demos:
        raise UserError("--train is given, but nothing learns from it: add --demos N, or drop it")
    train, _ = data.load_part(options.train, "train", options.train_split, columns=columns, kind=options.kind)
    data.check_asked(train)
    return train


def _ensembles(program: Program) -> list[Ensemble]:
    return [module for _, module in program.named_sub_modules(Ensemble)]


def _lacks_weights(program: Program) -> bool:
    return isinstance(program, Ensemble) and program.weighs and program.weights is None


def _settings(
    options: EvaluateOptions,
    questions: Sequence[Question],
    train: Sequence[Question],
    warnings: Sequence[str],
) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "command": "evaluate",
        "program_spec": options.program,
        **data.recorded(questions, str(options.data), options.split, options.limit, options.seed),
        **options.named("sets", "concurrency", "engine"),
    }
    if options.columns or options.kind:  # what it takes to read the same questions again
        settings |= options.named("columns", "kind")
    if options.budget or options.price:
        settings |= {"budget": options.budget, "prices": options.price}
    if train:
        settings |= options.named("train", "train_split", "demos", "demo_seed")
        settings["train_fingerprint"] = data.fingerprint(train)
    if warnings:
        settings["warnings"] = list(warnings)
    return settings


def _default_out(
    options: EvaluateOptions,
    program: Program,
    seated: Mapping[str, Any],
    questions: Sequence[Question],
    settings: Mapping[str, Any],
    metric: Metric,
) -> Path:
    """A folder of its own for each run: the hash covers all that `evaluate` compares before it resumes."""
    learnt = settings.get("train_fingerprint")
    known = [hashes(program), settings["sets"], seated, data.fingerprint(questions), learnt]
    known += [] if metric.default else [metric.identity()]
    digest = hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()
    source = Path(str(settings["data"])).stem
    spec = options.program
    name = Path(spec).stem if Path(spec).suffix in (".yaml", ".yml") else spec
    parts = [source, settings["split"], name]
    slug = "-".join(re.sub(r"[^\w.=]+", "-", str(part)).strip("-") for part in parts if part)
    return RUNS / f"{slug[:100]}-{digest[:8]}"


def _kept(out: Path) -> str:
    summary = read_object(out / SUMMARY)
    rows = summary["counts"]["rows"] if summary else 0
    return f"{counted(rows, 'finished row')} {'is' if rows == 1 else 'are'} kept in {out}"


# A team at several step limits -----------------------------------------------------------------------


def evaluate_limits(options: EvaluateOptions) -> None:
    """The same evaluation once for each step limit, and the curve."""
    plans = _plans(options)
    for _, planned in plans:
        for warning in planned.warnings:
            say(f"warning: {warning}")
    costs = [planned.forecast.cost_usd for _, planned in plans]
    confirm(
        options,
        [f"{limit} steps: {line}" for limit, planned in plans for line in planned.lines()],
        lambda: {"step_limits": {str(limit): planned.to_dict() for limit, planned in plans}},
        max((cost for cost in costs if cost is not None), key=lambda cost: cost[1], default=None),
    )
    began = time.monotonic()
    finished, stopped, code = [], None, 0
    for limit, planned in plans:
        outcome = run(planned)
        stopped, code = outcome.stopped, outcome.code
        if stopped or outcome.summary is None:
            break
        finished.append((limit, outcome.summary))
    out = plans[0][1].out.parent
    points, seconds = write_curve(out, finished), time.monotonic() - began

    def show() -> None:
        lines = {
            f"{point['limit']} steps": f"EM {percent(point['em'])}, F1 {percent(point['f1'])}"
            for point in points
        }
        lines |= {"time": duration(seconds), "curve": f"{out}/{PICTURE}"}
        show_result(console(), options.program, lines)

    found = {"out": str(out), "points": points, "seconds": seconds, "stopped": stopped}
    finish(options, found, show, stopped, code if finished else code or STOPPED)


def _plans(options: EvaluateOptions) -> list[tuple[int, EvaluationPlan]]:
    """A plan for each limit, the deepest first, as the call cache then answers the first steps of the others.

    Their folders are in the one that the evaluation would have without limits.
    """
    try:
        numbers = [int(part) for part in listed(options.step_limits)]
    except ValueError:
        said = ",".join(options.step_limits)
        raise UserError(f"--step-limits {said!r} are no numbers: write for example 5,8,10,15") from None
    if any(pair.partition("=")[0].strip() == "max_steps" for pair in options.sets):
        raise UserError("--step-limits sets max_steps itself: drop --set max_steps")
    wanted = deepest_first(numbers)
    first = plan(options)
    if not isinstance(first.program, SupervisedTeam):
        raise UserError(f"{options.program} has no step limit: give a team, such as team:bold,cautious")
    return [
        (
            limit,
            plan(
                replace(options, sets=[*options.sets, f"max_steps={limit}"], out=folder_of(first.out, limit))
            ),
        )
        for limit in wanted
    ]
