"""`folkmoot tune`: a search over a protocol's settings, and what it found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ...modules.reading.question import Question
from ..base.budget import Budget
from ..base.request import split_items
from ..data import load as data
from ..evaluation.forecast import Forecast, forecast, forecast_lines
from ..evaluation.judging import metric_given
from ..programs.resolve import parse_sets
from ..programs.seats import EVERY, Seating, parse_prices
from ..tuning.job import Job
from ..tuning.network import most_turns
from ..tuning.report import study_lines
from ..tuning.request import TuneRequest
from ..tuning.storage import is_local, safe_url
from ..tuning.tune import Study, run_study
from ..tuning.yaml_space import space_of
from .guard import STOPPED, resumable, warned
from .options import Confirmed
from .show import confirm, console, finish, show_result

SHOWN_ALWAYS = ("winner", "on validation", "the default there", "result")


def tune(options: TuneRequest, view: Confirmed) -> None:
    if options.out is None:
        raise UserError("--out is missing: name the folder that the study is kept in")
    if options.register and not options.tracking:
        raise UserError("--register needs MLflow: drop --no-track")
    with warned():
        planned = planned_study(options)
    confirm(options, view, planned.lines(), planned.to_dict, planned.cost)
    with resumable(options.out), warned():
        study = run_study(
            planned.job,
            planned.validation,
            options.out,
            tracking=options.tracking,
            progress=view.progress,
            **options.named("workers", "register"),
        )
    found = shown(study)

    def show() -> None:
        show_result(console(), options.space, shown_lines(found, quiet=view.quiet, track=options.tracking))

    failed = found["best"] is None
    stopped = found["stopped"] or (found["verdict"] if failed else None)
    finish(view, found, show, stopped, STOPPED if failed else 0)


@dataclass
class StudyPlan:
    """A study that is checked; no LM has been called.

    `most_turns` are the most calls that a question takes, and that training a network can ask of one.
    """

    options: TuneRequest
    job: Job
    validation: list[Question]
    forecast: Forecast
    most_turns: tuple[int, int]

    @property
    def most_training(self) -> int:
        """The most calls of one training."""
        return self.most_turns[1] * len(self.job.questions[1])

    @property
    def most_calls(self) -> int:
        scored, _ = self.job.questions
        calls = self.most_turns[0] * (len(scored) * self.job.trials + 2 * len(self.validation))
        return calls + self.most_training * (self.job.trials + 1)  # the default may be no trial

    @property
    def cost(self) -> tuple[float, float] | None:
        """USD of all trials, from and to; None where a price is unknown."""
        cost = self.forecast.cost_usd
        if cost is None:
            return None
        turns = (self.forecast.calls or (0, 0))[1]  # a training asks as the trial does, for as much a call
        times = (1 + (self.most_training / turns if turns else 0.0)) * self.job.trials
        return cost[0] * times, cost[1] * times

    def to_dict(self) -> dict[str, Any]:
        known = ("trials", "sampler", "seed", "out", "study", "workers", "budget", "concurrency", "cache")
        training = {"most_training_calls": self.most_training} if self.job.questions[1] else {}
        return {
            **{name: str(getattr(self.options, name)) for name in known},
            "objectives": str(self.job.objectives),
            "storage": safe_url(self.job.storage),
            "most_calls": self.most_calls,
            **training,
            "default_trial": self.forecast.to_dict(),
            "space": self.job.space.to_dict(),
        }

    def lines(self) -> list[str]:
        """The plan in words."""
        job, (scored, learnt) = self.job, self.job.questions
        _, estimated, *_, shows = forecast_lines(self.forecast, None, is_rate=job.metric.rate is True)
        found = [
            f"{job.trials} trials by {job.sampler_name} for {', '.join(job.objectives)}; {len(scored):,} "
            f"questions each, {len(self.validation):,} others for the winner and the default",
            f"at most {self.most_calls:,} calls, if no two trials shared one and none was stopped early",
            f"a trial of the default: {estimated}",
            shows,
        ]
        if learnt:
            most = f"at most {self.most_training:,} calls a setting"
            found.insert(1, f"{len(learnt):,} more to train networks on: {most}")
        if self.options.budget:
            held = "" if is_local(job.storage) else "; machines that join have budgets of their own"
            found.append(f"budget: {self.options.budget}, a fifth of it kept for the validation{held}")
        return found


def planned_study(options: TuneRequest) -> StudyPlan:
    """Read and check all input. Raises UserError before any LM is called."""
    lms = Seating(options)
    if lms.replays is not None:
        raise UserError("a recorded run cannot answer what a study asks: name an LM instead of replay/DIR")
    names, bases = lms.seated, lms.addresses
    seats: dict[str, Any] = {}
    for seat in (name for name in {**names, **bases} if name != EVERY):
        name = names.get(seat, names.get(EVERY))
        seats[seat] = {"name": name, "api_base": bases[seat]} if seat in bases else name
    space = space_of(options.space, parse_sets(options.sets), lms=seats, make_lm=lms.make)
    language_model = lms.make(names.get(EVERY))
    used = [language_model.model, *(str(one) for branch in space.branches for one in branch.lms.values())]
    for name in parse_prices(lms.asked("price")):
        if not any(name in one for one in used):
            raise UserError(f"--price names {name!r}, which is no LM of this study: correct it")
    validation = _load(options, options.validation, options.validation_split, options.validation_limit)
    job = Job(
        space=space,
        train=_load(options, options.train, options.train_split, options.train_limit),
        lm=language_model,
        metric=metric_given(options.metric, lms.make(options.judge_lm) if options.judge_lm else None),
        objectives=split_items(options.objective),
        folder=options.out or Path(),
        budget=Budget.parse(options.budget) if isinstance(options.budget, str) else options.budget,
        **options.named("storage", "study", "trials", "sampler", "seed", "concurrency", "cache"),
        settings={
            "command": "tune",
            "data": options.train,
            "split": options.train_split,
            "limit": options.train_limit,
            **options.named("kind", "columns", "validation", "validation_split", "validation_limit"),
            **options.named("space", "sets", "budget"),
        },
    ).checked(validation, options.workers)
    _, default = space.default()
    one = forecast(default, job.questions[0], job.lm, concurrency=job.concurrency)
    return StudyPlan(options, job, validation, one, most_turns(space))


def shown(study: Study) -> dict[str, Any]:
    """The report without the table of trials and the space, which `study.json` has; `calls_made` counts all
    that were paid, also for the validation."""
    kept = {name: value for name, value in study.report.items() if name not in ("table", "space", "versions")}
    calls = {"calls_made": kept["paid"]["calls"], "calls_saved": kept["calls"]["saved"]}
    return {"out": str(study.folder), **kept, **calls}


def shown_lines(found: Mapping[str, Any], *, quiet: bool, track: bool) -> dict[str, str]:
    """What a study found, a line each, and where the winner is."""
    lines = study_lines(found)
    if quiet or found["best"] is None:
        return {name: line for name, line in lines.items() if name in SHOWN_ALWAYS}
    lines["saved in"] = f"{found['out']}/winner"
    return lines | ({"look at it": "folkmoot ui"} if track else {})


def _load(options: TuneRequest, source: str, split: str | None, limit: int | None) -> list[Question]:
    questions = data.load(source, split, limit, columns=options.column_names(), kind=options.kind)
    data.check_labelled(questions)
    return questions
