"""Runs controls: asks each arm anew, and splits the gain of a recorded team into parts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

from ...modules.agents.transcript import Turn
from ...modules.base.calls import ROLLOUTS, Rollouts, bound
from ...modules.base.errors import UserError
from ...modules.base.usage import Usage, UsageFields
from ...modules.reading.row import ResultRow, taken
from ..base.budget import BudgetSpent
from ..base.journal import write_json
from ..base.request import entry
from ..base.wording import counted
from ..comparison.match_budget import run_match
from ..evaluation.earlier import Evaluation
from ..evaluation.evaluate import carry_out
from ..evaluation.repeats import ROLLOUTS_EACH
from ..plots.controls import waterfall_plot
from ..runs.manifest import RunFolder
from ..runs.rows import RESULTS, read_rows
from ..tracking.run import Run, disk_errors, running
from .arms import ARMS
from .dialogues import FIRST, Marker, levels_of
from .outcome import CONTROLS, RESULT, Controls, ControlsResult, result_of
from .plan import ControlsPlan, plan_controls
from .request import ControlsRequest

WATERFALL = "waterfall.png"
OWN_ROLLOUTS = 100
"""Arms are samples of their own: their rollouts lie beyond those of so many repeats."""

FOLDER = RunFolder(
    "comparison of arms",
    CONTROLS,
    {"recorded": "its recorded answers differ", "seed": "its seed differs"},
    {RESULTS: "an evaluation", "contest.json": "a contest", "compile.json": "a compilation"},
)


@entry(ControlsRequest)
def controls(request: ControlsRequest) -> Controls:
    """Say where a recorded team's gain over one of its agents comes from.

    Arms branch from the recorded first answers: agents who answer again alone, or shown what peers
    said about another question. The same call with the same folder goes on after a stop.

    Raises: UserError: no run of two or more agents, other questions, another LM than the team's, an
        arm that does not exist, and a budget that cannot be held. KeyboardInterrupt: what is
        finished is kept.
    """
    plan = plan_controls(request)
    for warning in plan.warnings:
        warnings.warn(warning, stacklevel=3)
    return carry_out_controls(plan)


def carry_out_controls(
    plan: ControlsPlan, show: Callable[[Controls], None] | None = None
) -> Controls:
    """Do what was planned. `show` gets the result before it is sent to the tracking store."""
    request, about = plan.request, plan.about()
    with (
        running(
            FOLDER,
            about,
            plan.out,
            cache=request.cache,
            budget=request.budget,
            engines=plan.engines,
        ) as run,
        disk_errors(run.folder),
    ):
        write_json(run.folder / CONTROLS, {**about, RESULT: None})
        if request.tracking:
            run.track(CONTROLS)
        arms, notes, stopped = _asked(plan)
        result = _result(plan, run, arms, notes, stopped)
        write_json(run.folder / CONTROLS, {**about, RESULT: result})
        waterfall_plot(result, run.folder / WATERFALL)
        found = Controls(run.folder, result, (plan.run, run.keep))
        run.end(partial(show, found) if show is not None and not stopped else None)
    return found


def _asked(plan: ControlsPlan) -> tuple[dict[str, Evaluation], list[str], str | None]:
    """The evaluation of each arm, notes on arms that ended without one, and why it stopped."""
    arms: dict[str, Evaluation] = {}
    notes: list[str] = []
    stopped: str | None = None
    for place, name in enumerate(ARMS):
        own = Rollouts((OWN_ROLLOUTS + place) * ROLLOUTS_EACH)
        with bound(ROLLOUTS, own):
            try:
                if name in plan.arms:
                    arms[name] = carry_out(plan.arms[name])
                    stopped = arms[name].summary.stopped
                elif name == "self_consistency" and plan.match is not None:
                    arms[name] = run_match(plan.match)
            except BudgetSpent as problem:
                if plan.request.budget is not None:
                    stopped = str(problem)
                notes.append(f"{name}: {problem}.")
            except UserError as problem:
                if name != "self_consistency":
                    raise
                notes.append(f"{name}: {problem}.")
        if name == FIRST and name in arms:
            _branch_from_fresh(plan, arms[name])
        if stopped:
            break
    return arms, notes, stopped


def _branch_from_fresh(plan: ControlsPlan, fresh: Evaluation) -> None:
    """Let the other arms go on from fresh first answers in place of the recorded ones."""
    plan.dialogues.first = {
        row["id"]: [replace(Turn.of(turn), usage=Usage()) for turn in row["transcript"]]
        for row in fresh.rows
        if row["error"] is None
    }


def _result(
    plan: ControlsPlan,
    run: Run[Any],
    arms: dict[str, Evaluation],
    notes: list[str],
    stopped: str | None,
) -> ControlsResult:
    rows: dict[str, dict[str, ResultRow]] = {}
    usages: dict[str, UsageFields] = {}
    for name, evaluation in arms.items():
        rows[name] = {row["id"]: row for row in read_rows(evaluation.folder / RESULTS)}
        takes = Usage()
        for row in rows[name].values():
            takes.add(taken(row))
        usages[name] = takes.to_dict()
    scale = plan.metric.scale
    ends = (scale.low or 0.0, 1.0 if scale.high is None else scale.high)
    levels = levels_of(plan.dialogues, rows, Marker(plan.metric))
    measured = result_of(levels, usages, unit=ends[1] - ends[0], rate=scale.rate is not False)
    for name, found in rows.items():
        if failed := sum(row["error"] is not None for row in found.values()):
            notes.append(f"{name}: {counted(failed, 'failed question')} left out.")
    notes += [f"{line}." for line in plan.not_asked]
    if plan.dialogues.left_out:
        left_out = counted(plan.dialogues.left_out, "row")
        notes.append(f"{left_out} without a whole dialogue left out.")
    empty: dict[str, Any] = {"levels": {}, "parts": {}, "arms": {}}
    nothing = dict.fromkeys(("value", "low", "high"))
    return cast(
        ControlsResult,
        {
            **empty,
            "talk": nothing,
            "total": nothing,
            "unit": "points",
            "sentence": "",
            **measured,
            "left_out": plan.dialogues.left_out,
            "agents": plan.dialogues.members,
            "notes": notes,
            "paid": run.books.paid.to_dict(),
            "stopped": stopped,
        },
    )
