"""Carries out a pipeline: each step from what the one before has made, within what is left."""

from __future__ import annotations

import shutil
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ..base.budget import Budget
from ..base.cards import Card
from ..base.html import ShownResult
from ..base.journal import read_object, write_json
from ..base.request import entry
from ..base.wording import counted, money
from ..compilation.compile import compile_as_planned
from ..contest.contest import carry_out_contest
from ..contest.plan import plan_contest
from ..lms.ledger import totals
from ..programs.resolve import parse_sets
from ..programs.saved import saved_program
from ..runs.manifest import RunFolder
from ..tracking.models import log_program
from ..tracking.run import disk_errors, running
from ..tuning.tune import tune
from .card import ENDED, KIND, PIPELINE, REGISTERED, RESULT, WINNER
from .plan import PLANS, PipelinePlan, PipelineStep, entered, plan_pipeline
from .request import PipelineRequest

FOLDER = RunFolder(
    "pipeline",
    PIPELINE,
    {"hash": "its file differs"},
    dict.fromkeys(("results.jsonl", "run.json"), "something else than a pipeline"),
)


@dataclass
class Pipeline(ShownResult):
    """A pipeline's result. `winner` names the `program` that came out; `sentences` has a line for
    each step; `registered` is its name in MLflow's registry.
    """

    folder: Path
    sentences: list[str] = field(default_factory=list)
    winner: str | None = None
    registered: str | None = None
    stopped: str | None = None
    paused: bool = False
    calls: int = 0
    cost_usd: float | None = None
    keep: Any = field(default=None, repr=False)

    @property
    def program(self) -> Any:
        """The program that came out. Raises UserError where there is none yet."""
        return saved_program(self.folder / WINNER)

    @property
    def empty(self) -> bool:
        return not self.sentences

    @property
    def card(self) -> Card:
        return KIND.card(self.folder)

    def in_words(self, *, quiet: bool = False) -> dict[str, str]:
        words = {f"step {number}": line for number, line in enumerate(self.sentences, 1)}
        if self.winner is not None:
            words["winner"] = f"{self.winner}, in {self.folder / WINNER}"
        if self.registered:
            words["registered"] = self.registered
        price = "" if self.cost_usd is None else f", {money(self.cost_usd)}"
        words["paid"] = f"{counted(self.calls, 'call')}{price}"
        return words

    def lines(self) -> list[str]:
        return [f"{name}: {text}" for name, text in self.in_words().items()]

    def to_dict(self) -> dict[str, object]:
        kept = {name: value for name, value in vars(self).items() if name != "keep"}
        return {**kept, "folder": str(self.folder)}


@entry(PipelineRequest)
def pipeline(request: PipelineRequest) -> Pipeline:
    """Go from data to a registered winner by one file, or by its content as a dict.

    Its steps are `compile`, `tune` and `contest`, with the options of these commands; each starts
    from what the one before it made.

    Raises UserError for an unknown key, and for what the steps raise. Finished work is kept, also
    at a KeyboardInterrupt.
    """
    plan = plan_pipeline(request)
    for warning in plan.warnings:
        warnings.warn(warning, stacklevel=3)
    return carry_out_pipeline(plan)


def carry_out_pipeline(
    plan: PipelinePlan, show: Callable[[Pipeline], None] | None = None
) -> Pipeline:
    """Do what was planned. `show` gets the result before it is sent to the tracking store."""
    begun = time.monotonic()
    with running(FOLDER, plan.about, plan.out, parts=True) as run, disk_errors(run.folder):
        written = read_object(run.folder / PIPELINE) or {}
        # A later step starts from these, so an earlier one is not asked again with more money.
        ended: list[dict[str, Any]] = written.get(ENDED) or []
        result = Pipeline(run.folder, keep=run.keep, registered=written.get(REGISTERED))

        def note(document: dict[str, object] | None = None) -> None:
            kept = {ENDED: ended, REGISTERED: result.registered, RESULT: document}
            write_json(run.folder / PIPELINE, {**plan.about, **kept})

        note()
        if plan.request.tracking:
            run.track(PIPELINE)
        made: dict[str, Path | str] = {program: program for program in plan.programs}
        for number, step in enumerate(plan.steps):
            if number == len(ended):
                budget = _share(plan, number, run.folder, time.monotonic() - begun)
                said = _carry_out(step, result, made, budget, plan.request.progress)
                if result.paused:
                    break
                if step.program is not None:
                    ended.append(said)
                    note()
            else:
                _take(step, ended[number], result, made)
        if result.winner is None and not result.paused:
            result.winner = plan.programs[0]
            _hand_over(made[plan.programs[0]], run.folder)
        paid = totals(*(run.folder / step.folder for step in plan.steps))
        result.calls, result.cost_usd = paid.calls, paid.cost_usd
        name = None if result.paused else plan.register
        if name is not None and result.registered != name:
            log_program(run.folder / WINNER, name)
            result.registered = name
        # The folder may be moved or sent to somebody, so that its file does not say where it is.
        note({**result.to_dict(), "folder": "."})
        run.end(None if show is None else lambda: show(result))
    return result


def _share(plan: PipelinePlan, number: int, folder: Path, seconds: float) -> Budget | None:
    """An equal share of what earlier steps have left, for each step that is to come."""
    if plan.request.budget is None:
        return None
    budget: Any = plan.request.budget
    paid = totals(*(folder / step.folder for step in plan.steps[:number]))
    tokens = (paid.prompt_tokens or 0) + (paid.completion_tokens or 0)
    spent = {"usd": paid.cost_usd or 0.0, "calls": paid.calls, "tokens": tokens, "seconds": seconds}
    to_come = len(plan.steps) - number

    def left(name: str, limit: float) -> float:
        # A budget of 0 is not one: a step for which nothing is left ends with its first call.
        return max(limit - spent.get(name, 0), limit / 1e6) / to_come

    share: Budget = budget.each(left)
    return share


def _carry_out(
    step: PipelineStep,
    result: Pipeline,
    made: dict[str, Path | str],
    budget: Budget | None,
    progress: Any,
) -> dict[str, Any]:
    """Carry out a step, and say how it ended; `made` gets the folder of the program that came
    out.
    """
    out = result.folder / step.folder
    request = replace(step.request, out=out, budget=budget, progress=progress)
    place: str | None = None
    stopped: str | None
    if step.program is None:
        contest = carry_out_contest(plan_contest(entered(request, _entrants(made))))
        stopped, said = contest.stopped, contest.reason
        result.paused = not contest.result["finished"]
        if not result.paused:
            result.winner = contest.winner_name
            _hand_over(out / "winner", result.folder)
    elif step.name == "compile":
        compiled = compile_as_planned(PLANS["compile"](request)).compilation
        stopped, said, result.paused = compiled.stopped, compiled.verdict, compiled.paused
        place = "program"
    else:
        # The space is that of the program which the step before has made.
        space = {**request.space, "program": str(made[step.program])}
        sets = parse_sets(request.sets)
        if isinstance(made[step.program], Path):
            sets.pop("own_roles", None)  # which the folder has
        study = tune(**{**_arguments(request), "space": space, "sets": sets})
        stopped, said, result.paused = study.stopped, study.report.verdict, study.paused
        if not study.empty:
            place = "winner"
    ended = {"said": said, "stopped": stopped, "made": place}
    _take(step, ended, result, made)
    return ended


def _take(
    step: PipelineStep,
    ended: Mapping[str, Any],
    result: Pipeline,
    made: dict[str, Path | str],
) -> None:
    """Note how a step ended, in this attempt or an earlier one."""
    stopped = ended["stopped"]
    # A step that its share of the budget ended has a result, and the next one begins with it.
    note = f" (stopped: {stopped})" if stopped else ""
    result.sentences.append(f"{step.title}: {ended['said']}{note}")
    if stopped:
        result.stopped = f"{step.title} stopped early: {stopped}"
    if step.program is not None and ended["made"]:
        made[step.program] = result.folder / step.folder / ended["made"]


def _entrants(made: Mapping[str, Path | str]) -> dict[str, str]:
    return {name: str(place) for name, place in made.items()}


def _arguments(request: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(request).items() if name != "defaults"}


def _hand_over(program: Path | str, folder: Path) -> None:
    """Copy the program that came out to where the pipeline's folder has it."""
    if not isinstance(program, Path) or not program.is_dir():
        raise UserError(
            f"no program came out of the steps in {folder}: give it a step to carry out"
        )
    # A copy: the step's folder stays what that step has made, and the winner's can be moved alone.
    shutil.rmtree(folder / WINNER, ignore_errors=True)
    shutil.copytree(program, folder / WINNER)


def pipeline_in(folder: Path | None) -> Pipeline | None:
    """The pipeline in a folder, as far as it has come; None where there is none."""
    document = None if folder is None else read_object(folder / PIPELINE)
    if folder is None or not document or not document.get(RESULT):
        return None
    return Pipeline(**{**document[RESULT], "folder": folder})
