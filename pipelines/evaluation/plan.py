"""The plan of an evaluation: all input read and checked, its cost estimated, and no LM asked."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import dspy

from ...modules.base.errors import UserError, checked_whole
from ...modules.protocols.program import Program
from ...modules.protocols.saved import hashes
from ...modules.reading.answers import gold_text
from ...modules.reading.metrics import Metric, check_metric
from ...modules.reading.question import Question
from ...modules.reading.row import CHECK
from ...optimizers.prompts.demos import labelled_demos
from ..base.journal import as_json
from ..base.request import folder_at, pairs_text
from ..base.run_files import LMFields, Manifest, RunSettings
from ..base.wording import counted, duration
from ..data import questions as data
from ..lms.ledger import totals
from ..lms.named import Billed, billed_as
from ..programs.seats import (
    Seating,
    parse_sets,
    program_given,
)
from ..runs.books import account_of
from ..runs.describe import lms_of, manifest_of
from ..runs.manifest import RUN
from ..tracking.context import check_model_name
from .answering import lms_in, seat_engines, useful_concurrency
from .check import (
    check_orders,
    check_repeats,
    check_shown,
    check_train,
    check_writable,
    checked,
    noted,
    sampling_left_out,
)
from .earlier import earlier
from .judging import metric_given
from .request import EvaluateRequest

if TYPE_CHECKING:
    from ..base.account import Account
    from .estimate import CostEstimate

RUNS = Path("runs")
WEIGHTS = "weights"  # sub-folder: the run on the training questions that fit weights


@dataclass
class EvaluationPlan:
    """An evaluation whose input is checked; no LM has been called."""

    request: EvaluateRequest
    program: Program
    lm: dspy.BaseLM
    metric: Metric
    questions: list[Question]
    train: list[Question]
    judge_sample: list[Question] | None
    out: Path | None
    settings: RunSettings
    seated: dict[str, LMFields]
    warnings: list[str] = field(default_factory=list)

    @cached_property
    def engines(self) -> list[Billed]:
        """What counts and prices the calls of all LMs (`billed_as`), the judge's included."""
        return [*seat_engines(self.program, self.lm), *map(billed_as, self.metric.lms)]

    @property
    def lms(self) -> list[dspy.BaseLM]:
        """All LMs that may be called, the judge's included."""
        return [*lms_in(self.program, self.lm), *self.metric.lms]

    @cached_property
    def estimate(self) -> CostEstimate:
        """The estimated cost of the questions without a row, and what the whole sample can show."""
        from .estimate import estimate, left_of

        asked, each = self.questions * self.request.times, None
        if self.out is not None:
            asked, each = left_of(
                self.out, self.questions, self.request.retry_errors, repeats=self.request.times
            )
            if self.program.lacks_weights:
                asked += left_of(self.out / WEIGHTS, self.train, self.request.retry_errors)[0]
        return estimate(
            self.program,
            self.questions,
            self.lm,
            asked=asked,
            concurrency=self.request.concurrency,
            seconds_per_call=each,
            out=self.out,
            judged=(len(asked) + len(self.judge_sample or ())) * len(self.metric.lms),
        )

    @property
    def cost(self) -> tuple[float, float] | None:
        """The estimated cost in USD as (low, high); None if it is unknown."""
        return self.estimate.cost_usd

    def lines(self) -> list[str]:
        """Return the plan in a few lines: what is asked, what it may cost, and what it can show."""
        kinds = ", ".join(dict.fromkeys(question.kind for question in self.questions))
        what = f"{self.title} on {counted(len(self.questions), 'question')} ({kinds})"
        if self.settings.data:
            what += f" from {self.settings.data}"
        if self.request.times > 1:
            what += f", {self.request.times} times each"
        if self.program.lacks_weights:
            what += f" after {counted(len(self.train), 'training question')} for the weights"
        lms = []
        for seat, lm in self.seated.items():
            lms.append(f"{seat} {lm.name}".removeprefix("* "))
        from .estimate import estimate_lines

        bill, shows = estimate_lines(
            self.estimate, self.request.budget, is_rate=self.metric.rate is True
        )
        if self.request.recheck:
            bill = "its answers are checked again, which asks no LM"
        lines = [f"{what}, {', '.join(lms) or 'no LM'}", f"{bill}; {shows}"]
        if self.program.started:
            at_once, longest = counted(self.in_flight, "command"), self.program.as_given.timeout
            lines.append(f"at most {at_once} at once, each ended after {duration(longest)}")
        if any(question.kind == "task" for question in self.questions):
            from ..tasks.check import sandbox_of
            from ..tasks.cluster import where_code_runs

            lines.append(where_code_runs(sandbox_of(self.metric), self.request))
        return lines

    @property
    def in_flight(self) -> int:
        """The questions that are asked at a time."""
        most, on_cluster = self.request.concurrency, self.request.engine is not None
        return useful_concurrency(most, self.program, self.lm, on_cluster=on_cluster)

    @property
    def title(self) -> str:
        """The program as the user gave it, else its name."""
        return str(self.settings.get("program_spec") or self.program.describe()["program"])

    def to_dict(self) -> dict[str, object]:
        about = {"program": self.title, "lms": self.seated, "budget": self.request.budget}
        return {
            "out": str(self.out),
            **about,
            "settings": self.settings,
            "plan": self.estimate.to_dict(),
        }

    def account(self) -> Account | None:
        """Return the account of the budget, less what earlier attempts have paid; None without a
        budget. Raises UserError for a budget that cannot be enforced.
        """
        folders = () if self.out is None else (self.out, self.out / WEIGHTS)
        return account_of(self.request.budget, self.engines, *folders)

    @cached_property
    def manifest(self) -> Manifest:
        """The description of the run in `run.json`."""
        about = self.program, self.questions, self.lm, self.settings, self.metric
        return manifest_of(*about, data_fingerprint=self.data_fingerprint)

    @cached_property
    def data_fingerprint(self) -> str:
        return data.fingerprint(self.questions)

    def default_out(self) -> Path:
        """Return the folder of a run for which none was given. Its name has a hash of all that has
        to be equal for a run to be resumed.
        """
        learnt = self.settings.get("train_fingerprint")
        identity: list[object] = [hashes(self.program), self.settings["sets"], self.seated]
        identity += [self.data_fingerprint, learnt]
        if not self.metric.default:
            identity.append(self.metric.identity())
        if self.request.permute:
            identity.append("permute")
        digest = hashlib.sha256(
            json.dumps(identity, sort_keys=True, default=str).encode()
        ).hexdigest()
        spec = self.title
        if Path(spec).suffix in (".yaml", ".yml"):
            spec = Path(spec).stem
        parts = [Path(str(self.settings.get("data") or "")).stem, self.settings.get("split"), spec]
        slug = "-".join(re.sub(r"[^\w.=]+", "-", str(part)).strip("-") for part in parts if part)
        return RUNS / f"{slug[:100]}-{digest[:8]}"

    def kept_in(self, out: Path | None) -> EvaluationPlan:
        """Return a copy of the plan with its run in this folder. Raises UserError if that is not
        possible, or if the budget cannot be enforced.
        """
        planned = replace(self, out=out)
        planned._check_out()
        return planned

    def _check_out(self) -> None:
        if self.out is not None:
            check_writable(self.out)
            # Not before weights are fitted, since they are a part of the program.
            if not self.program.lacks_weights:
                RUN.earlier(self.out, self.manifest)
            check_orders(self.out, self.request.permute)
            if self.request.price and totals(self.out).cost_usd is None:
                self.warnings.append(
                    f"--price holds for calls from now on: those that {self.out} has paid for keep "
                    "an unknown price; to price them, choose another --out, which pays only for "
                    "answers that the call cache does not have"
                )
        self.account()  # raises for a bad budget now, before any question is paid for

    def on_training(self, part: str) -> EvaluationPlan:
        """Return the plan to evaluate on the training questions, in a sub-folder and untracked."""
        request = replace(
            self.request,
            budget=None,
            tracking=False,
            judge_sample=None,
            repeats=1,
            permute=False,
        )
        return replace(
            self,
            request=request,
            questions=self.train,
            judge_sample=None,
            out=self.out and self.out / part,
            settings=RunSettings(),
        )


def plan_evaluation(
    request: EvaluateRequest, *, stored: bool = False, keyless: bool = False
) -> EvaluationPlan:
    """Read and check all input; returns the plan. Raises UserError before any LM is called.

    With `stored`, a run without a folder gets one under `runs/`. With `keyless`, no keys are
    needed, since only the plan is wanted.
    """
    checked_whole("concurrency", request.concurrency)
    seating, sets = Seating(request, keyless=keyless), parse_sets(request.parameters())
    if request.recheck:
        from .kept import KeptAnswers

        program: Program = KeptAnswers(request.program)
        request.repeats = 1 + max(repeat for _, repeat in program.kept)
    else:
        program = _program(request, seating, sets)
    check_model_name(request.register, tracked=request.tracking)
    if request.register and program.foreign:
        raise UserError("--register needs a program that can be saved: this one is your own code")
    questions = _questions(program, request)
    train = _train(request, program)
    warnings = [*check_train(train, questions), *_doubts(questions)]
    program, train = _with_demos(request, program, train, questions)
    metric = metric_given(request, seating, request.judge_sample)
    check_metric(metric, questions)
    if request.engine is not None or request.meter_host is not None:
        from ..meter.programs import runs_on_workers
        from ..tasks.cluster import check_cluster

        check_cluster(request, request.recheck or runs_on_workers(program), questions)
    if not program.foreign:
        data.check_contexts(questions, tasks=True)
    sample = _judge_sample(request)
    lm = None
    if not request.recheck:
        program, lm = seating.seat(program)
    warnings += noted(program, questions, lm) + sampling_left_out(program, lm)
    check_repeats(request.repeats)
    if request.record is not None:
        check_writable(Path(request.record), "--record")
    out = folder_at(request.out)
    settings = _settings(request, questions, train, warnings)
    seated = lms_of(program, lm)
    plan = EvaluationPlan(
        request=request,
        program=program,
        lm=lm,
        metric=metric,
        questions=questions,
        train=train,
        judge_sample=sample,
        out=out,
        settings=settings,
        seated=seated,
        warnings=warnings,
    )
    if stored and out is None:
        out = plan.default_out()
    return plan.kept_in(out)


def _doubts(questions: Sequence[Question]) -> list[str]:
    """Return what a user has to know of the questions to understand their scores, in sentences."""
    warnings = []
    if find_spec("math_verify") is None and any(
        question.kind == "span" and "\\" in gold_text(question.gold) for question in questions
    ):
        warnings.append(
            "some answers are LaTeX: pip install 'folkmoot[math]' lets equal expressions be right"
        )
    if questions[0].kind == "task" and not any(task.tests for task in questions):
        warnings.append("no task has tests: the check finds a task's files and the answer alone")
    different = len(data.apart(questions)[0])
    if different < len(questions):
        warnings.append(
            f"only {different:,} of the {len(questions):,} questions are different ones: this "
            "interval counts all as independent; comparisons count equal ones as one"
        )
    return warnings


def _program(request: EvaluateRequest, seating: Seating, sets: dict[str, object]) -> Program:
    """Return the program of a request. Raises UserError if it cannot be evaluated as asked."""
    source = request.program
    if isinstance(source, str | Path):
        from ..programs.resolve import program_of

        source = program_of(source, sets, make_lm=seating.make)
    elif sets:
        raise UserError(
            "sets are for a program named by a spec: set these values where you make the program"
        )
    program = program_given(source, request.input_fields())
    if program.foreign and request.demos:
        raise UserError(
            "--demos are for folkmoot's programs: folkmoot compile gives yours demonstrations"
        )
    if request.seed is not None and "seed" not in sets and isinstance(request.program, str | Path):
        for _, part in program.parts(Program):
            part.reseed(request.seed)
    # Weights are fitted from rows, which only show the votes of the outermost ensemble.
    for _, inner in program.named_sub_modules(Program):
        if inner is not program and inner.lacks_weights:
            raise UserError(
                "a weighted ensemble inside the program has no weights: give them in its YAML file"
            )
    return program


def _questions(program: Program, request: EvaluateRequest) -> list[Question]:
    """Return the questions of a request. Raises UserError unless they can be scored."""
    if request.recheck:
        return _kept_questions(program, request)
    how = request.named("split", "limit", "seed", "kind", "show")
    return checked(data.listed(request.questions, columns=request.column_names(), **how))


def _kept_questions(program: Program, request: EvaluateRequest) -> list[Question]:
    """Return the questions that have an answer in the run that is checked again. Raises UserError
    without another check.
    """
    if request.check is None and getattr(request.metric, "name", None) != CHECK:
        raise UserError("--recheck runs another check on kept answers: give --check COMMAND")
    from .kept import questions_of

    names = {id for id, _ in program.kept}
    asked = questions_of(program.run, request.questions)
    return checked([question for question in asked if question.id in names])


def _judge_sample(request: EvaluateRequest) -> list[Question] | None:
    if request.judge_sample is None:
        return None
    from .judge_sample import sample_of  # heavy, by the readers of files

    return sample_of(request.judge_sample)


def _train(request: EvaluateRequest, program: Program) -> list[Question]:
    """Return the training questions of a request. Raises UserError if they are needed and not
    given, or given and not needed.
    """
    weights = program.lacks_weights
    if request.train is None:
        if weights:
            raise UserError(
                "the weighted ensemble has no weights: give --train to fit them, or --set "
                "weights=[…]"
            )
        if request.demos:
            raise UserError(
                "--demos needs --train: name the data that the demonstrations come from"
            )
        return []
    if not weights and not request.demos:
        raise UserError("--train is given, but nothing learns from it: add --demos N, or drop it")
    from ..data.parts import load_part

    columns = request.column_names()
    how = request.named("kind", "show")
    train, _ = load_part(request.train, "train", request.train_split, columns=columns, **how)
    data.check_asked(train)
    return train


def _with_demos(
    request: EvaluateRequest, program: Program, train: list[Question], questions: Sequence[Question]
) -> tuple[Program, list[Question]]:
    """Return the program with the requested demonstrations, and the training questions that are not
    among them. Raises UserError if a demonstration is a test question.
    """
    for _, part in program.parts(Program):
        worked = getattr(part, "demonstration", None)
        if not isinstance(worked, dict):
            continue
        text = worked["question"]
        if text in {question.question for question in questions}:
            raise UserError(
                f"the demonstration is a test question ({text[:60]!r}): take another one"
            )
    if not request.demos:
        return program, train
    program = labelled_demos(program, train, request.demos, seed=request.demo_seed)
    # Weights cannot be fitted on these: an agent would repeat the answer that it was shown.
    shown = {demo.get("id") for predictor in program.predictors() for demo in predictor.demos}
    check_shown(shown, train, questions)
    left = [question for question in train if question.id not in shown]
    if program.lacks_weights and not left:
        raise UserError(
            "no training questions are left to fit weights on: take fewer --demos or more "
            "training data"
        )
    return program, left


def _settings(
    request: EvaluateRequest,
    questions: Sequence[Question],
    train: Sequence[Question],
    warnings: Sequence[str],
) -> RunSettings:
    """Return the settings of the request that are written into `run.json`."""
    noted: dict[str, object] = {"command": "evaluate"}
    program, sets = None, parse_sets(request.parameters())
    if isinstance(request.program, str | Path):
        program = noted["program_spec"] = str(request.program)
    noted["sets"] = [f"{key}={json.dumps(value, default=str)}" for key, value in sets.items()]
    noted |= request.named("concurrency")
    if isinstance(request.questions, str | Path):
        from ..data.parts import recorded

        where = (str(request.questions), request.split, request.limit, request.seed)
        noted |= recorded(questions, *where)
    if request.columns or request.kind:  # needed to read the same questions again
        noted |= {"columns": pairs_text(request.columns), "kind": request.kind}
    if request.permute or request.repeats > 1:
        noted |= {"repeats": request.repeats, "permute": request.permute}
    if request.budget or request.price:
        noted |= {"budget": request.budget and str(request.budget), "prices": request.price}
    if train:
        noted |= request.named("train_split", "demos", "demo_seed")
        noted["train"] = str(request.train) if isinstance(request.train, str | Path) else None
        noted["train_fingerprint"] = data.fingerprint(train)
    if request.recheck:
        # With the settings of the checked run, which say where its questions come from.
        run = earlier(request.program)  # type: ignore[arg-type]
        noted |= {**run.summary.run.settings, "rechecked": program}
    if warnings:
        noted["warnings"] = list(warnings)
    return RunSettings.of(as_json({**noted, **(request.settings or {})}))
