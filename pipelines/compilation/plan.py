"""Plans a compilation: reads and checks all input, and estimates calls and cost."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

import dspy
from dspy.teleprompt.reanchor.calibrate import decision_outputs

from ...modules.agents.adapter import profile_of
from ...modules.base.errors import UserError, checked_among, checked_whole
from ...modules.protocols.declaration import Trainable
from ...modules.protocols.foreign import Foreign
from ...modules.protocols.program import Program
from ...modules.protocols.registry import PROTOCOLS
from ...modules.protocols.saved import hashes, predictors_of
from ...modules.reading.metrics import Metric, check_metric
from ...modules.reading.question import Question
from ...optimizers.prompts.optimizers import OPTIMIZERS, PromptOptimizer, optimizer_of
from ..base.journal import as_json
from ..base.request import as_noted, folder_at, pairs_text
from ..base.wording import counted
from ..data import questions as data
from ..data.parts import load_part
from ..evaluation.answering import seat_engines
from ..evaluation.check import check_train, noted
from ..evaluation.estimate import READINGS, UNKNOWN, CostEstimate, estimate, estimate_lines
from ..evaluation.judging import metric_given
from ..lms.named import Billed, billed_as, lm_identity
from ..programs.resolve import program_of
from ..programs.seats import (
    Seating,
    parse_sets,
    program_given,
)
from ..runs.books import account_of
from ..runs.describe import lms_of
from ..runs.manifest import made_with
from .request import CompileRequest

MOST_ROUNDS = 3
"""How many times at most a program's parts are compiled, and it is trained on what they answer."""

MOST_QUESTIONS = {"light": 100, "medium": 300, "heavy": 1000}
"""The most training questions that are learned from, and the most that candidates are chosen by."""

_MISSING = {
    "train": "name the questions that the optimizer is to learn from",
    "validation": "name held-out questions, on which before and after are compared",
    "out": "name the folder that the result is kept in",
}


class Work(TypedDict):
    """What a compilation takes at most; None of a program whose calls nobody knows before it has
    run.
    """

    summary: str
    learn: int
    select: int
    proposals: int
    optimizer_calls: int
    comparison_calls: int
    calls: list[int] | None
    smallest_difference: tuple[float, float] | None


@dataclass
class CompilationPlan:
    """A compilation that is checked; no LM has been called.

    `task_lm` is the one of a program's seats that DSPy's optimizers run with, `learn` and `select`
    are the parts of `train`. `parts` are the compilations of what a strategy network chooses among,
    by name.
    """

    request: CompileRequest
    program: Program
    lm: dspy.BaseLM
    task_lm: dspy.BaseLM
    prompt_lm: dspy.BaseLM
    metric: Metric
    chosen: PromptOptimizer
    teacher: Program | None
    train: list[Question]
    validation: list[Question]
    learn: list[Question]
    select: list[Question]
    out: Path | None
    settings: dict[str, object]
    warnings: list[str]
    parts: dict[str, CompilationPlan]

    @property
    def title(self) -> str:
        return str(self.settings.get("program_spec") or self.program.describe()["program"])

    @property
    def engines(self) -> list[Billed]:
        """What all LMs are billed as."""
        engines = [*seat_engines(self.program, self.lm), billed_as(self.prompt_lm)]
        if self.teacher is not None:
            engines += seat_engines(self.teacher, self.lm)
        return [*engines, *map(billed_as, self.metric.lms)]

    @property
    def learning(self) -> Trainable | None:
        """How the program itself learns, between compilations of its parts."""
        return learning_of(self.program)

    @property
    def counts(self) -> dict[str, int]:
        """How many questions are learned from, selected by, and held out."""
        return {
            "learn": len(self.learn),
            "select": len(self.select),
            "validation": len(self.validation),
        }

    def about(self) -> dict[str, object]:
        """Return what `compile.json` says of it, but for the result."""
        request, prompt_lm = self.request, self.prompt_lm
        proposer: object = None
        teacher: object = None
        held_out: str | None = None
        if self.chosen.proposes:
            proposer = lm_identity(prompt_lm) or {"name": prompt_lm.model}
        if self.teacher is not None:
            teacher = [hashes(self.teacher)["program_hash"], lms_of(self.teacher, self.lm)]
        if self.validation:
            held_out = data.fingerprint(self.validation)
        described: dict[str, object] = as_json(
            {
                "program": self.program.describe(),
                **hashes(self.program),
                "lms": lms_of(self.program, self.lm),
                "prompt_lm": proposer,
                "teacher": teacher,
                "metric": self.metric.identity(),
                "train_fingerprint": data.fingerprint(self.train),
                "validation_fingerprint": held_out,
                **request.named("optimizer", "preset", "seed"),
                "questions": self.counts,
                "training": self.learning and self.program.learning.to_dict(),
                "settings": self.settings,
                **made_with(),
            }
        )
        return described

    @cached_property
    def estimate(self) -> CostEstimate | None:
        """What one evaluation on the held-out questions takes and shows; None without any."""
        if not self.validation:
            return None
        return estimate(
            self.program, self.validation, self.lm, concurrency=self.request.concurrency
        )

    @cached_property
    def work(self) -> Work:
        runs, proposals = self.chosen.most_work(
            self.request.preset,
            learn=len(self.learn),
            select=len(self.select),
            predictors=len(self.program.predictors()),
        )
        each = READINGS * self.program.most_turns() + len(self.metric.lms)
        summary = self.chosen.summary
        if self.parts:
            works = [part.work for part in self.parts.values()]
            # An agent is asked a question with each strategy once at most.
            runs = (1 + MOST_ROUNDS) * len(self.select)
            runs += MOST_ROUNDS * len(works) * len(self.learn)
            runs += MOST_ROUNDS * sum(work["optimizer_calls"] for work in works) // each
            proposals = MOST_ROUNDS * sum(work["proposals"] for work in works)
            summary += (
                f", for each of {len(works)} strategies; then the policy is trained on "
                f"what they answer; at most {MOST_ROUNDS} times"
            )
        else:
            runs += 2 * len(self.select)  # the given program and the result are scored, too
        comparison, optimizer = 2 * each * len(self.validation), runs * each + proposals
        calls: list[int] | None = None
        smallest: tuple[float, float] | None = None
        if self.estimate:
            smallest = self.estimate.smallest_difference
            if self.estimate.calls:
                calls = [2 * self.estimate.calls[0], comparison + optimizer]
        return Work(
            summary=summary,
            learn=len(self.learn),
            select=len(self.select),
            proposals=proposals,
            optimizer_calls=optimizer,
            comparison_calls=comparison,
            calls=calls,
            smallest_difference=smallest,
        )

    @property
    def cost(self) -> tuple[float, float] | None:
        if self.estimate is None or self.estimate.cost_usd is None:
            return None
        cost, work = self.estimate.cost_usd, self.work
        runs = work["comparison_calls"] + work["optimizer_calls"] - work["proposals"]
        # The estimate is that of one evaluation, `comparison_calls` are those of both.
        scale = 2 * runs / work["comparison_calls"]
        return cost[0] * scale, cost[1] * scale

    def lines(self) -> list[str]:
        work, request = self.work, self.request
        calls = UNKNOWN
        if work["calls"] is not None:
            calls = (
                f"at most {work['calls'][1]:,} calls: {work['comparison_calls']:,} to compare "
                f"before and after, {work['optimizer_calls']:,} by the optimizer; "
                "equal requests are paid for once"
            )
        lines = [
            f"{counted(len(self.train), 'training question')} ({work['learn']:,} to learn from, "
            f"{work['select']:,} to select by), {len(self.validation):,} held out",
            f"program {self.title}; {request.optimizer} ({request.preset}): {work['summary']}",
            calls,
        ]
        if request.budget:
            lines.append(f"budget: {request.budget}")
        if self.estimate:
            lines += estimate_lines(self.estimate, None, is_rate=self.metric.rate is True)[-1:]
        return lines

    def to_dict(self) -> dict[str, object]:
        about = {"program": self.title, **self.request.named("optimizer", "preset", "budget")}
        return {"out": str(self.out), **about, "settings": self.settings, "plan": self.work}


def plan_compilation(request: CompileRequest, *, stored: bool = False) -> CompilationPlan:
    """Read and check all input. Raises UserError before any LM is called.

    `stored` asks for all that a result needs that is kept: a folder, and held-out questions.
    """
    checked_among("way to keep", request.keep, ("best", "compiled"))
    for option, missing in _MISSING.items():
        if stored and getattr(request, option) is None:
            raise UserError(f"--{option} is missing: {missing}")
    chosen = optimizer_of(request.optimizer, request.preset)
    out = folder_at(request.out)
    seating = Seating(request)
    source = request.program
    if isinstance(source, str | Path):
        source = program_of(source, parse_sets(request.sets), make_lm=seating.make, untrained=True)
    program = program_given(source, request.input_fields())
    checked_whole("the seed", request.seed, 0)
    how = request.reading()
    limits = (request.train_split, request.train_limit, request.seed)
    train, train_split = load_part(request.train, "train", *limits, **how)
    validation, held_out_split = list[Question](), request.validation_split
    if request.validation is not None:
        limits = (held_out_split, request.validation_limit, request.seed)
        validation, held_out_split = load_part(request.validation, "validation", *limits, **how)
    needed = request.validation is not None
    train, validation, warnings = data.held_apart(train, validation, needed)
    metric = metric_given(request, seating)
    warnings += noted(program, [*train, *validation])
    warnings += check_input(program, train, validation, chosen, request.concurrency)
    for questions in (train, validation):
        check_metric(metric, questions)
    # DSPy's optimizers hand examples to a module of the user's by the names of its own inputs.
    asked = list(map(program.example, train)) if isinstance(program, Foreign) else train
    learning = learning_of(program)
    learns = chosen.learns or learning is not None
    learn, select = split(asked, learns, request.preset, request.seed)
    program, lm = seating.seat(program)
    lms_of(program, lm)  # refused here where a seat has no LM
    task_lm = lm or next(seat.predict.lm for seat in program.seats().values())
    prompt_lm = _prompt_lm(request, seating) or task_lm
    teacher, parts = _teacher(request.teacher, seating), dict[str, CompilationPlan]()
    if learning is not None:
        program = learning.fresh(program)
        for name, member in program.members.items():
            if predictors_of(member):
                part = CompileRequest(
                    member,
                    learn,
                    metric=metric,
                    lm=lm,
                    prompt_lm=prompt_lm,
                    teacher=teacher,
                    tracking=False,
                    **request.named("optimizer", "preset", "seed", "concurrency", "cache", "keep"),
                )
                parts[name] = plan_compilation(part)
    if not parts:
        teacher = _teaching(teacher, program, lm, chosen)
    plan = CompilationPlan(
        request=request,
        program=program,
        lm=lm,
        task_lm=task_lm,
        prompt_lm=prompt_lm,
        metric=metric,
        chosen=chosen,
        # Every strategy is taught by the same one.
        teacher=next(iter(parts.values())).teacher if parts else teacher,
        train=train,
        validation=validation,
        learn=learn,
        select=select,
        out=out,
        settings=_settings(request, train_split, held_out_split),
        warnings=warnings + advice(program, chosen, lm),
        parts=parts,
    )
    # refused now, if at all
    account_of(request.budget, plan.engines, *filter(None, [out]))
    return plan


def learning_of(program: Program) -> Trainable | None:
    protocol = PROTOCOLS.find(str(program.describe()["program"]))
    if protocol is None:
        return None
    return protocol.learning


def _teacher(teacher: object, seating: Seating) -> Any:
    """Return the teacher as a program, or the LM of that name."""
    # A name that is neither a file nor a protocol can only be that of an LM.
    if not isinstance(teacher, str | Path) or Path(teacher).expanduser().exists():
        return teacher
    if PROTOCOLS.spec(str(teacher)) is not None:
        return teacher
    return seating.make(teacher)


def _teaching(
    teacher: object, program: Program, lm: object, chosen: PromptOptimizer
) -> Program | None:
    """Return the program that writes the demonstrations: the teacher itself, or the program with
    the teacher, an LM, in every seat; None without a teacher. Any program teaches one with a single
    prompt.

    Raises UserError for an optimizer without a teacher, and for a teacher with other prompts where
    the program has several.
    """
    if teacher is None:
        return None
    if not chosen.taught:
        taught = [name for name, optimizer in OPTIMIZERS.items() if optimizer.taught]
        raise UserError(
            f"{chosen.name} takes no teacher: drop it, or choose one of {', '.join(taught)}"
        )
    if isinstance(teacher, dspy.BaseLM):
        made: Program = program.deepcopy()
        for seat in made.seats().values():
            seat.predict.lm = teacher
        return made
    made = program_given(teacher)
    for seat in made.seats().values():
        seat.predict.lm = seat.predict.lm or lm
    if not answers_alike(program, made) and not _has_one_prompt(program):
        raise UserError(
            "the teacher has other agents or instructions than the program, which has several "
            "prompts: give an LM, or the program with demonstrations or LMs of its own"
        )
    return made


def answers_alike(program: Program, teacher: Program) -> bool:
    """Return whether the teacher has the prompts of the program, so that its traces fit them."""
    ours, theirs = predictors_of(program), predictors_of(teacher)
    return ours.keys() == theirs.keys() and all(
        predictor.signature.equals(theirs[name].signature) for name, predictor in ours.items()
    )


def _has_one_prompt(program: Program) -> bool:
    """Return whether a team can teach the program: its answers then fit the only prompt there
    is.
    """
    outputs = [list(value.signature.output_fields) for value in predictors_of(program).values()]
    return len(outputs) == 1 and outputs[0][-1] == "answer"


def _settings(
    request: CompileRequest, train: str | None, validation: str | None
) -> dict[str, object]:
    """Return the settings for the run's record: questions and programs by name."""
    sources = {
        "program_spec": request.program,
        "data": request.validation,
        "train": request.train,
        "split": validation,
        "train_split": train,
    }
    more = {
        "limit": request.validation_limit,
        "train_limit": request.train_limit,
        "sets": pairs_text(request.sets or ()),
        "columns": pairs_text(request.columns or ()),
        "budget": str(request.budget or ""),
        "loaded_from": data.origin_of(request.validation) or data.origin_of(request.train),
    }
    return as_noted(sources, more, request.settings)


def _prompt_lm(request: CompileRequest, seating: Seating) -> dspy.BaseLM:
    """Return the LM that proposes instructions; None for that of the agents. Raises UserError for
    an address without an LM.
    """
    if request.prompt_lm is None:
        if request.prompt_api_base is not None:
            raise UserError("--prompt-api-base is given without --prompt-lm: name the LM behind it")
        return None
    if request.prompt_api_base is None:
        return seating.make(request.prompt_lm)
    return seating.make(request.prompt_lm, api_base=request.prompt_api_base)


def split(
    train: Sequence[Question], learns: bool, preset: str, seed: int
) -> tuple[list[Question], list[Question]]:
    """Return the questions to learn from and those to select by, drawn by the seed; no question is
    both.
    """
    # An optimizer may show its LM a whole example: what only a metric may see is left out.
    order = [Question(question, meta={}) for question in train]
    for copied, question in zip(order, train, strict=True):
        copied["answer"] = question.answer  # as demonstrations give it
    random.Random(seed).shuffle(order)
    # The most is taken after the shuffle, so that it is a sample of all.
    most = MOST_QUESTIONS[preset]
    if not learns:
        return [], order[:most]
    half = len(order) // 2
    return order[:half][:most], order[half:][:most]


def check_input(
    program: Program,
    train: Sequence[Question],
    validation: Sequence[Question],
    chosen: PromptOptimizer,
    concurrency: int,
) -> list[str]:
    """Return warnings about the input. Raises UserError for unusable input, before anything is
    spent.
    """
    if chosen.decides and not isinstance(program, Foreign):
        # Fitted thresholds are part of DSPy's own state alone.
        raise UserError(
            f"{chosen.name} fits the thresholds of decision outputs of a dspy.Module of your own, "
            "which folkmoot's programs do not keep: choose another optimizer"
        )
    if chosen.decides and not any(map(decision_outputs, predictors_of(program).values())):
        raise UserError(
            f"{chosen.name} fits the thresholds of decision outputs (bool, or DSPy's Score and "
            f"Choice), and the program has none: choose another optimizer"
        )
    if isinstance(program, Foreign):
        if chosen.name == "knn":
            raise UserError(
                "knn chooses the demonstrations for each question, which folkmoot's programs "
                "alone can do: choose another optimizer"
            )
        if not predictors_of(program):
            raise UserError(
                f"{program.own_name} has no prompts to improve: give a dspy.Module with predictors"
            )
    checked_whole("concurrency", concurrency)
    least = 2 if chosen.learns else 1
    if learning_of(program) is not None:
        least *= 2  # its parts get one half of the questions, and halve it again
        if chosen.name == "knn":
            raise UserError(
                "knn chooses the demonstrations for each question, as a strategy network chooses "
                "strategies: choose another optimizer"
            )
    if len(train) < least:
        raise UserError(
            f"{chosen.name} needs at least {least} training questions, and there are "
            f"{len(train)}: give more"
        )
    for questions in (train, validation):
        data.check_asked(questions)
    return check_train(train, validation)


def advice(program: Program, chosen: PromptOptimizer, lm: dspy.BaseLM) -> list[str]:
    """Return a warning if the LM never sees what the optimizer changes."""
    if not chosen.instructs:
        return []
    # An untuned LM is shown questions and answers alone.
    used = [seat.predict.lm or lm for seat in program.seats().values()]
    plain = {each.model for each in used if getattr(profile_of(each), "layout", "") == "plain"}
    if not plain:
        return []
    rest = "only its demonstrations count" if chosen.demonstrates else "it cannot change any answer"
    return [
        f"{', '.join(sorted(plain))} is asked without instructions, which {chosen.name} writes: "
        f"{rest}"
    ]
