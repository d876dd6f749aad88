"""Carries out a pipeline: each step starts from the result of the one before, within the budget
that is left.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...modules.base.calls import Usage
from ...modules.base.errors import UserError, system_errors
from ..base.budget import Budget
from ..base.cards import ShownResult
from ..base.journal import read_object, write_json
from ..base.request import entry, warned
from ..lms.ledger import totals
from ..programs.saved import saved_program
from ..runs.manifest import RunFolder
from ..tracking.context import to_show
from ..tracking.run import running
from .card import DONE, ENDED, PIPELINE, REGISTERED, WINNER
from .plan import CONTEST, PipelinePlan, plan_pipeline
from .request import PipelineRequest

FOLDER = RunFolder(
    "pipeline",
    PIPELINE,
    {"hash": "its file differs", "questions": "its data differs"},
    dict.fromkeys(("results.jsonl", "run.json"), "something else than a pipeline"),
)


class Pipeline(ShownResult):
    """A pipeline's result. `winner` names the `program` that came out, or is None; `sentences` has
    a line for each step, the last first; `registered` is its name in MLflow's registry.
    """

    def __init__(self, folder: Path, keep: object = None) -> None:
        self.folder, self._keep = folder, keep
        card = self.card
        self.sentences, self.stopped = card.sentences, card.problem
        self.calls, self.cost_usd = card.calls, card.cost_usd
        self.winner = card.program
        self.registered = card.tags.get(f"folkmoot.{REGISTERED}") or None
        self.paused, self.empty = self.winner is None, not self.sentences

    @property
    def program(self) -> Any:
        """The program that came out. Raises UserError where there is none yet."""
        return saved_program(self.folder / WINNER)

    def to_dict(self) -> dict[str, object]:
        own = {"winner": self.winner, "registered": self.registered, "stopped": self.stopped}
        return {**self.card.to_dict(), **own}

    def __repr__(self) -> str:
        return f"Pipeline({self.folder}: {self.winner or self.stopped})"


@entry(PipelineRequest)
def pipeline(request: PipelineRequest) -> Pipeline:
    """Go from data to a registered winner by one file.

    Its steps are `compile`, `tune` and `contest`, with the options of these commands; each starts
    from what the one before it made.

    Raises UserError for an unknown key, and for what the steps raise. Finished work is kept, also
    at a KeyboardInterrupt.
    """
    return carry_out_pipeline(warned(plan_pipeline(request)))


def carry_out_pipeline(
    plan: PipelinePlan, show: Callable[[Pipeline], None] | None = None
) -> Pipeline:
    """Carry out the plan. `show` gets the result before it is sent to the tracking store."""
    began = time.monotonic()
    with running(FOLDER, plan.about, plan.out, parts=True) as run, system_errors(run.folder):
        earlier = read_object(run.folder / PIPELINE) or {}
        # A later step starts from these, so that they are not asked again with more money.
        noted = {ENDED: earlier.get(ENDED, 0), REGISTERED: earlier.get(REGISTERED)}

        def note(**now: object) -> None:
            noted.update(now)
            write_json(run.folder / PIPELINE, {**run.about, WINNER: None, DONE: False, **noted})

        note()
        if plan.request.tracking:
            run.track(PIPELINE, registered=plan.register)
        programs: dict[Any, Any] = {**plan.programs}
        winner: str | None = next(iter(plan.programs))
        for number, step in enumerate(plan.steps):
            place = run.folder / step.folder
            if number >= noted[ENDED]:
                paid = totals(*(run.folder / before.folder for before in plan.steps[:number]))
                seconds, to_come = time.monotonic() - began, len(plan.steps) - number
                share = _share(plan.request.budget, paid, seconds, to_come)
                given = {"out": place, "budget": share, "progress": plan.request.progress}
                ended = step.kind.carry_out(step.plan(programs, **given))
                if ended.paused:
                    winner = None
                    break
                # A contest may go on with more money: nothing starts from it.
                if step.key == CONTEST:
                    winner = ended.winner_name
                else:
                    note(**{ENDED: number + 1})
            if (made := place / str(step.kind.shown.program)).is_dir():
                programs[step.program] = made
        if winner is not None:
            _hand_over(programs[plan.steps[-1].program], run.folder)
            noted[REGISTERED] = plan.register or noted[REGISTERED]
        note(**{WINNER: winner, DONE: True})
        result = Pipeline(run.folder, run.keep)
        run.end(to_show(show, result))
    return result


def _hand_over(program: str | Path, folder: Path) -> None:
    """Copy the resulting program to its place in the pipeline's folder. Raises UserError if there
    is none.
    """
    if not Path(program).is_dir():
        raise UserError(f"no program came out of the steps in {folder}: give a larger budget")
    # A copy: the winner can be moved alone, and a step's folder stays what that step has made.
    shutil.rmtree(folder / WINNER, ignore_errors=True)
    shutil.copytree(program, folder / WINNER)


def _share(budget: Any, paid: Usage, seconds: float, to_come: int) -> Budget | None:
    """Return an equal share, for each step to come, of the budget that earlier steps have left;
    None without a budget.
    """
    if budget is None:
        return None
    spent = {"usd": paid.cost_usd, "calls": paid.calls, "tokens": paid.tokens, "seconds": seconds}
    # A budget of 0 is not one: a step for which nothing is left ends with its first call.
    share: Budget = budget.each(
        lambda name, limit: max(limit - (spent[name] or 0), limit / 1e6) / to_come
    )
    return share


def pipeline_in(folder: Path) -> Pipeline | None:
    """Return the result of the pipeline in a folder so far; None if no step has a result."""
    if not (folder / PIPELINE).exists():
        return None
    left = Pipeline(folder)
    return None if left.empty else left
