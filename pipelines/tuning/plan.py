"""Plans a study: reads and checks all input, and says what it is going to take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import optuna

from ...modules.base.errors import UserError
from ...modules.base.keyed import without_none
from ...modules.reading.question import Question
from ..base.budget import Budget
from ..base.request import as_noted, folder_at, pairs_text
from ..comparison.request import split_items
from ..data import questions as data
from ..evaluation.estimate import READINGS, CostEstimate, estimate, estimate_lines
from ..evaluation.judging import metric_given
from ..lms.named import lm_given
from ..programs.seats import (
    EVERY,
    Seating,
    Unused,
    parse_prices,
    parse_sets,
)
from ..tracking.context import check_model_name
from .job import Job, StudySettings
from .learned import CompiledPrompts, most_turns
from .request import TuneRequest
from .space import NOT_COMPILED, OPTIMIZER, PRESET, Recipe, TuneSpace
from .storage import is_local, safe_url
from .yaml_space import space_of


@dataclass
class StudyPlan:
    """A study that is checked; no LM has been called.

    `most_turns` are the most calls that a question takes, and that training a network can ask of
    one.
    """

    request: TuneRequest
    job: Job
    validation: list[Question]
    estimate: CostEstimate
    most_turns: tuple[int, int]
    warnings: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        return self.job.space.where

    @property
    def out(self) -> Path | None:
        return folder_at(self.request.out)

    @property
    def most_training(self) -> int:
        """The most calls of one training."""
        if not self.job.space.trains:
            return 0
        return READINGS * self.most_turns[1] * len(self.job.questions[1])

    @cached_property
    def most_compiling(self) -> int:
        """The most calls of one compilation, of the first program."""
        branch, (_, learnt) = self.job.space.branches[0], self.job.questions
        _, default = self.job.space.default()
        most = 0
        for optimizer in branch.choices(OPTIMIZER):
            if optimizer == NOT_COMPILED:
                continue
            for preset in branch.choices(PRESET):
                plan = CompiledPrompts(self.job, learnt).plan(default, Recipe(optimizer, preset))
                most = max(most, plan.work["optimizer_calls"])
        return most

    @property
    def most_calls(self) -> int:
        scored, _ = self.job.questions
        each = READINGS * self.most_turns[0] + len(self.job.metric.lms)
        # The validation asks the winner and the default.
        calls = each * (len(scored) * self.job.trials + 2 * len(self.validation))
        calls += self.most_compiling * self.job.trials
        return calls + self.most_training * (self.job.trials + 1)  # the default may be no trial

    @property
    def cost(self) -> tuple[float, float] | None:
        """USD of all trials, from and to; None where a price is unknown."""
        cost = self.estimate.cost_usd
        if cost is None:
            return None
        _, turns = self.estimate.calls or (0, 0)
        each = 1.0
        if turns:
            # A training asks as the trial does, for as much a call.
            each += self.most_training / turns
        times = each * self.job.trials
        return cost[0] * times, cost[1] * times

    def to_dict(self) -> dict[str, object]:
        names = ("trials", "sampler", "seed", "out", "study", "workers", "budget", "concurrency")
        # Of a study that neither trains nor compiles, neither is said.
        learning = {
            "most_training_calls": self.most_training or None,
            "most_compiling_calls": self.most_compiling or None,
        }
        return {
            **{name: str(getattr(self.request, name)) for name in names},
            "cache": str(self.request.cache),
            "objectives": str(self.job.objectives),
            "storage": safe_url(self.job.storage),
            "most_calls": self.most_calls,
            **without_none(learning),
            "default_trial": self.estimate.to_dict(),
            "space": self.job.space.to_dict(),
        }

    def lines(self) -> list[str]:
        """Return the plan in words."""
        job, (scored, learnt) = self.job, self.job.questions
        estimated, shows = estimate_lines(self.estimate, None, is_rate=job.metric.rate is True)
        lines = [
            f"{job.trials} trials by {job.sampler_name} for {', '.join(job.objectives)}; "
            f"{len(scored):,} questions each, {len(self.validation):,} others for the winner and "
            f"the default",
            f"at most {self.most_calls:,} calls, if no two trials shared one and none was "
            f"stopped early",
            f"a trial of the default: {estimated}",
            shows,
        ]
        if job.space.trains:
            most = f"at most {self.most_training:,} calls per setting"
            lines.insert(1, f"{len(learnt):,} more to train networks on: {most}")
        elif job.space.compiles:
            most = f"at most {self.most_compiling:,} calls per structure"
            lines.insert(1, f"{len(learnt):,} more to compile prompts on: {most}")
        if self.request.budget:
            kept = "a fifth of it kept for the validation, if that pays for one"
            line = f"budget: {self.request.budget}, {kept}"
            if not is_local(job.storage):
                line += "; machines that join have budgets of their own"
            lines.append(line)
        return lines


def plan_study(request: TuneRequest, *, stored: bool = False) -> StudyPlan:
    """Read and check all input. Raises UserError before any LM is called.

    `stored` asks for a folder.
    """
    if stored and request.out is None:
        raise UserError("--out is missing: name the folder that the study is kept in")
    check_model_name(request.register, tracked=request.tracking)
    seating = Seating(request.handed_to(TuneRequest, progress=None))  # which worker processes get
    if seating.replays is not None:
        raise UserError(
            "a recorded run cannot answer what a study asks: name an LM instead of replay/DIR"
        )
    space = request.space
    if not isinstance(space, TuneSpace):
        space = _space(request, seating)
    lm = seating.make(seating.seated[EVERY]) if EVERY in seating.seated else lm_given(None)
    _check_prices(seating, space, lm)
    how = request.reading()
    train = data.listed(
        request.train, "train", split=request.train_split, limit=request.train_limit, **how
    )
    validation = data.listed(
        request.validation,
        "validation",
        split=request.validation_split,
        limit=request.validation_limit,
        **how,
    )
    train, others, said = data.held_apart(train, validation, bool(validation))
    own, study = request.study, str(request.study)
    if isinstance(own, optuna.Study):
        study = own.study_name
    elif isinstance(own, str | None):
        own = None
    else:
        raise UserError(f"study is {own!r}: give a name, or in Python a study of Optuna's")
    job = Job(
        space=space,
        train=train,
        lm=lm,
        metric=metric_given(request, seating),
        objectives=split_items(request.objectives),
        folder=folder_at(request.out) or Path(),
        study=study,
        own=own,
        budget=Budget.of(request.budget),
        callbacks=list(request.callbacks),
        settings=_settings(request),
        **_optuna_objects(request),
        **request.named("storage", "trials", "seed", "concurrency", "cache"),
    ).checked(others, request.workers)
    _, default = space.default()
    a_trial = estimate(default, job.questions[0], job.lm, concurrency=job.concurrency)
    return StudyPlan(request, job, others, a_trial, most_turns(space), said)


def _space(request: TuneRequest, seating: Seating) -> TuneSpace:
    """Return the space of a request. Raises UserError, and Unused for an LM of an agent that no
    setting has; one among the defaults may be for other programs, and is left out.
    """
    sets, seats = parse_sets(request.sets), _seats(seating)
    while True:
        try:
            return space_of(
                request.space,
                sets,
                lms=seats,
                compiled_by=request.compile,
                make_lm=seating.make,
            )
        except Unused as problem:
            if problem.name in seating.named or problem.name not in seats:
                raise
            del seats[problem.name]


def _seats(seating: Seating) -> dict[str, object]:
    """Return the LMs of seats that have one of their own, as a space takes them."""
    names, bases = seating.seated, seating.addresses
    seats: dict[str, object] = {}
    for seat in dict.fromkeys((*names, *bases, *seating.chosen)):
        if seat == EVERY:
            continue
        name, own = names.get(seat, names.get(EVERY)), seating.chosen_for(seat)
        if seat in bases:
            own["api_base"] = bases[seat]
        seats[seat] = {"name": name, **own} if own else name
    return seats


def _check_prices(seating: Seating, space: TuneSpace, lm: Any) -> None:
    used = [str(value) for branch in space.branches for value in branch.lms.values()]
    if lm is not None:
        used.append(lm.model)
    for name in parse_prices(seating.asked("price")):
        if not any(name in each for each in used):
            raise Unused(
                f"--price names {name!r}, which is not an LM of this study: correct it", name
            )


def _optuna_objects(request: TuneRequest) -> Mapping[str, Any]:
    """Sampler and pruner: those of a study of the user's, where she passes one."""
    sampler, pruner, own = request.sampler, request.pruner, request.study
    if isinstance(own, optuna.Study):
        # The request's default is nobody's wish: only another sampler contradicts the study's.
        if sampler == TuneRequest.sampler:
            sampler = None
        for what, asked, has in (
            ("sampler", sampler, own.sampler),
            ("pruner", pruner, own.pruner),
        ):
            if asked not in (None, has):
                raise UserError(
                    f"the study has a {what} of its own ({type(has).__name__}): leave out "
                    f"{what}=, or make the study with the other"
                )
        sampler, pruner = own.sampler, own.pruner
    return {"sampler": "tpe" if sampler is None else sampler, "pruner": pruner}


def _settings(request: TuneRequest) -> StudySettings:
    """Return what the study notes of how it was asked for; of questions and spaces, what names
    them.
    """
    sources = {"data": request.train, "validation": request.validation, "space": request.space}
    more = {
        "split": request.train_split,
        "limit": request.train_limit,
        **request.named("validation_split", "validation_limit", "kind"),
        "columns": pairs_text(request.columns),
        "sets": pairs_text(request.sets),
        "budget": str(request.budget or ""),
        "loaded_from": data.origin_of(request.validation),
    }
    return StudySettings.of(as_noted({"command": "tune", **sources}, more, request.settings))
