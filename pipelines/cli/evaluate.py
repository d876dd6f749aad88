"""`folkmoot evaluate`: checks everything, says what is going to happen, runs it, and sums it up."""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...modules.base.calls import FatalCallError, bound
from ...modules.base.errors import UserError
from ...modules.protocols.causal import CausalConsistency
from ...modules.protocols.ensemble import Ensemble
from ...modules.protocols.program import Program
from ...modules.reading.question import Question
from ...optimizers.prompts.demos import labelled_demos
from ..base.budget import ACCOUNTS, Account, BudgetSpent, open_account
from ..base.wording import counted
from ..data import catalogue
from ..data import load as data
from ..evaluation.check import (
    ASYNCIO,
    all_failed,
    check_engine,
    check_folder,
    check_shown,
    check_train,
    check_weighted,
    check_writable,
)
from ..evaluation.evaluate import CONCURRENCY, SUMMARY, Progress, evaluate
from ..evaluation.plan import Plan as Forecast
from ..evaluation.plan import left_of
from ..evaluation.plan import plan as forecast
from ..lms.ledger import totals
from ..lms.named import engine_of
from ..programs.resolve import parse_sets, program_of
from ..programs.seats import LMOptions
from ..runs.manifest import hashes, lms_of
from .show import plan_lines

RUNS = Path("runs")
EXPENSIVE_USD = 1.0
WEIGHTS = "weights"  # sub-folder of the run on training questions that weights are fitted on
Show = Callable[[str], AbstractContextManager[Callable[[Progress], None]]]


@dataclass
class Request:
    """An evaluation as the command line asks for it."""

    program: str
    source: str
    lms: LMOptions
    split: str | None = None
    limit: int | None = None
    seed: int | None = None
    kind: str | None = None
    columns: Sequence[str] = ()
    sets: Sequence[str] = ()
    train: str | None = None
    train_split: str | None = None
    demos: int = 0
    demo_seed: int | None = None
    out: Path | None = None
    record: Path | None = None
    concurrency: int = CONCURRENCY
    engine: str = ASYNCIO
    workers: int | None = None
    max_failures: int | None = None
    retry_errors: bool = False
    tracking: bool = True
    traces: float | None = None
    budget: str | None = None
    cache: bool = True


@dataclass
class Plan:
    """What is going to run: everything is checked, and no LM has been called."""

    request: Request
    program: Program
    lm: Any
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
            f"program {self.request.program}; {lms}",
            *plan_lines(self.forecast, self.request.budget),
        ]

    @property
    def asks_first(self) -> bool:
        return self.forecast.cost_usd is not None and self.forecast.cost_usd[1] > EXPENSIVE_USD

    def to_dict(self) -> dict[str, Any]:
        known = {"program": self.request.program, "lms": self.seated, "budget": self.request.budget}
        return {"out": str(self.out), **known, "settings": self.settings, "plan": self.forecast.to_dict()}

    def account(self) -> Account | None:
        """What earlier attempts left of the budget. Raises UserError for a budget that could not be held."""
        if self.request.budget is None:
            return None
        spent = totals(self.out)
        spent.add(totals(self.out / WEIGHTS))
        engines = [engine_of(seat.predict.lm or self.lm) for seat in self.program.seats().values()]
        return open_account(self.request.budget, engines, spent)


@dataclass
class Outcome:
    """How an evaluation ended: folder, summary (None if there is none), and why it stopped early.

    `training` has the weights that were fitted, the number of `questions`, and their own `usage`.
    """

    out: Path
    summary: dict[str, Any] | None
    seconds: float
    training: dict[str, Any] | None = None
    stopped: str | None = None
    code: int = 0


def plan(request: Request) -> Plan:
    """Read and check all input. Raises UserError before any LM is called."""
    sets = parse_sets(request.sets)
    program = program_of(request.program, sets, make_lm=request.lms.make)
    if request.seed is not None and "seed" not in sets:
        for _, part in program.parts(CausalConsistency):
            part.seed = request.seed
    for inner in _ensembles(program):
        if inner is not program and _lacks_weights(inner):
            raise UserError("a weighted ensemble inside the program has no weights: give them in the YAML")
    columns = parse_columns(request.columns)
    questions = data.load(
        request.source, request.split, request.limit, request.seed, columns=columns, kind=request.kind
    )
    data.check_labelled(questions)
    data.check_contexts(questions)
    train = _train(request, program, columns)
    warnings = check_train(train, questions)
    if request.demos:
        program = labelled_demos(program, train, request.demos, seed=request.demo_seed)
        shown = {demo.get("id") for predictor in program.predictors() for demo in predictor.demos}
        check_shown(shown, train, questions)
        # A question that an agent is shown with its answer says nothing about the weight it deserves.
        train = [question for question in train if question.id not in shown]
    if _lacks_weights(program) and not train:
        raise UserError(
            "no training questions are left to fit weights on: take fewer --demos or more training data"
        )
    language_model = request.lms.seat(program)
    seated = lms_of(program, language_model)
    settings = _settings(request, questions, train, warnings)
    out = request.out or _default_out(request, program, seated, questions, settings)
    check_engine(request.engine, request.workers, program, language_model, budget=request.budget is not None)
    if request.record is not None:
        check_writable(request.record, "--record")
    if isinstance(program, Ensemble) and _lacks_weights(program):
        check_weighted(out, WEIGHTS, program, train, language_model)
    else:
        check_folder(out, program, questions, language_model)
    asked, each = left_of(out, questions, request.retry_errors)
    if _lacks_weights(program):
        asked += left_of(out / WEIGHTS, train, request.retry_errors)[0]
    expected = forecast(
        program,
        questions,
        language_model,
        asked=asked,
        concurrency=request.concurrency,
        seconds_per_call=each,
    )
    planned = Plan(
        request, program, language_model, questions, train, out, settings, seated, expected, warnings
    )
    planned.account()  # refused now rather than after a question
    return planned


def run(plan: Plan, show: Show) -> Outcome:
    """Carry the plan out. Raises UserError for what is wrong with it; later stops are in the outcome."""
    request, program = plan.request, plan.program
    began = time.monotonic()
    started = _Started()
    shared: dict[str, Any] = {
        "lm": plan.lm,
        "concurrency": request.concurrency,
        "engine": request.engine,
        "workers": request.workers,
        "record": request.record,
        "max_failures": request.max_failures,
        "retry_errors": request.retry_errors,
        "cache": request.cache,
    }
    account = plan.account()
    stopped, code, training = None, 0, None
    try:
        with bound(ACCOUNTS, (account,) if account is not None else ()):
            if plan.fits_weights and isinstance(program, Ensemble):
                with show("weights") as told:
                    training = fit_weights(
                        program, plan.train, plan.out / WEIGHTS, progress=started.then(told), **shared
                    )
            with show("evaluate") as told:
                result = evaluate(
                    program,
                    plan.questions,
                    out=plan.out,
                    tracking=request.tracking,
                    traces=request.traces,
                    settings=plan.settings,
                    progress=started.then(told),
                    **shared,
                )
        if result.summary.stopped:
            stopped, code = result.summary.stopped, 1
    except BudgetSpent as problem:
        stopped, code = str(problem), 1
    except KeyboardInterrupt:
        stopped, code = f"interrupted: {_kept(plan.out)}; the same command takes it up again", 130
    except UserError as problem:
        if not started.any or (isinstance(problem, FatalCallError) and not started.answered):
            raise
        stopped, code = str(problem), 1
    summary = _summary(plan.out)
    if not code and summary and summary["counts"]["errors"] == summary["counts"]["rows"]:
        stopped, code = all_failed(plan.out), 1
    return Outcome(plan.out, summary, time.monotonic() - began, training, stopped, code)


def fit_weights(program: Ensemble, train: Sequence[Question], out: Path, **options: Any) -> dict[str, Any]:
    """Run the ensemble on training questions by majority, then set its weights from those rows.

    Returns `weights` by member, the number of `questions`, and the `usage` that this took.
    """
    program.vote = "majority"
    try:
        found = evaluate(program, train, out=out, tracking=False, **options)
        if found.summary.stopped:
            raise BudgetSpent(found.summary.stopped)
        weights = dict(zip(program.names, program.fit_weights(found.rows), strict=True))
        return {"weights": weights, "questions": len(train), "usage": found.summary.usage}
    finally:
        program.vote = "weighted"


def parse_columns(pairs: Sequence[str]) -> dict[str, str] | None:
    """`FIELD=COLUMN` pairs. Raises UserError."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, _, value = (part.strip() for part in pair.partition("="))
        if not key or not value or key in found:
            raise UserError(
                f"--columns {pair!r} is no FIELD=COLUMN pair, or its field stands twice: correct it"
            )
        found[key] = value
    return found or None


class _Started:
    """Notes whether an evaluation got as far as asking, and whether anything was answered."""

    def __init__(self) -> None:
        self.any = False
        self.answered = False

    def then(self, told: Callable[[Progress], None]) -> Callable[[Progress], None]:
        def progress(state: Progress) -> None:
            self.any = True
            self.answered = self.answered or state.done > state.resumed
            told(state)

        return progress


def _train(request: Request, program: Program, columns: Mapping[str, str] | None) -> list[Question]:
    weights = _lacks_weights(program)
    if request.train is None:
        if weights:
            raise UserError(
                "the weighted ensemble has no weights: give --train to fit them, or --set weights=[…]"
            )
        if request.demos:
            raise UserError("--demos needs --train: name the data that the demonstrations come from")
        return []
    if not weights and not request.demos:
        raise UserError("--train is given, but nothing learns from it: add --demos N, or drop it")
    is_file = catalogue.find(request.train) is None and Path(request.train).expanduser().exists()
    split = request.train_split or (None if is_file else "train")
    train = data.load(request.train, split, columns=columns if is_file else None, kind=request.kind)
    data.check_labelled(train)
    data.check_contexts(train)
    return train


def _ensembles(program: Program) -> list[Ensemble]:
    return [module for _, module in program.named_sub_modules(Ensemble)]


def _lacks_weights(program: Program) -> bool:
    return isinstance(program, Ensemble) and program.vote == "weighted" and program.weights is None


def _settings(
    request: Request, questions: Sequence[Question], train: Sequence[Question], warnings: Sequence[str]
) -> dict[str, Any]:
    described = data.describe(questions, request.source, request.split, request.limit, request.seed)
    settings: dict[str, Any] = {
        "command": "evaluate",
        "program_spec": request.program,
        "sets": list(request.sets),
        "data": described.pop("source"),
        **{
            key: value for key, value in described.items() if key not in ("fingerprint", "rows", "unlabelled")
        },
        "concurrency": request.concurrency,
        "engine": request.engine,
    }
    if request.columns or request.kind:  # what it takes to read the same questions again
        settings |= {"columns": list(request.columns), "kind": request.kind}
    if request.budget or request.lms.prices:
        settings |= {"budget": request.budget, "prices": list(request.lms.prices)}
    if train:
        settings |= {
            "train": request.train,
            "train_split": request.train_split,
            "train_fingerprint": data.fingerprint(train),
            "demos": request.demos,
            "demo_seed": request.demo_seed,
        }
    if warnings:
        settings["warnings"] = list(warnings)
    return settings


def _default_out(
    request: Request,
    program: Program,
    seated: Mapping[str, Any],
    questions: Sequence[Question],
    settings: Mapping[str, Any],
) -> Path:
    """A folder of its own for each run: the hash covers all that `evaluate` compares before it resumes."""
    learnt = settings.get("train_fingerprint")
    known = [hashes(program), settings["sets"], seated, data.fingerprint(questions), learnt]
    digest = hashlib.sha256(json.dumps(known, sort_keys=True, default=str).encode()).hexdigest()
    source = Path(str(settings["data"])).stem
    spec = request.program
    name = Path(spec).stem if Path(spec).suffix in (".yaml", ".yml") else spec
    parts = [source, settings["split"], name]
    slug = "-".join(re.sub(r"[^\w.=]+", "-", str(part)).strip("-") for part in parts if part)
    return RUNS / f"{slug[:100]}-{digest[:8]}"


def _summary(out: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads((out / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found


def _kept(out: Path) -> str:
    summary = _summary(out)
    rows = summary["counts"]["rows"] if summary else 0
    return f"{counted(rows, 'finished row')} {'is' if rows == 1 else 'are'} kept in {out}"
