"""`folkmoot evaluate --step-limits`: the same evaluation once for each step limit of a team."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from ...modules.base.errors import UserError
from ...modules.protocols.team.team import SupervisedTeam
from ..evaluation.step_limits import PICTURE, deepest_first, folder_of, write_curve
from . import show as show
from .evaluate import Plan, Request, Show, plan, run
from .guard import STOPPED, clean_stdout, say


def evaluate_limits(
    request: Request, limits: str, live: Show, *, dry_run: bool, yes: bool, as_json: bool, quiet: bool
) -> int:
    """Carry out `--step-limits 5,8,10,15` and show the curve; returns the exit code.

    Raises UserError before any LM is called.
    """
    with clean_stdout():
        plans = _plans(request, limits)
        errors = show.console(stderr=True)
        for limit, planned in plans:
            for warning in planned.warnings:
                say(f"warning: {warning}")
            for line in () if quiet else planned.lines():
                errors.print(f"{limit} steps: {line}")
        asks_first = any(planned.asks_first for _, planned in plans)
        go_on = not dry_run and (yes or not asks_first or show.agreed())
        found = _run_all(plans, live) if go_on else None
    if found is None:
        if dry_run and as_json:
            show.print_json({"step_limits": {str(limit): one.to_dict() for limit, one in plans}})
        return 0 if dry_run else STOPPED
    if found["stopped"]:
        say(found["stopped"])
    if as_json:
        show.print_json({key: value for key, value in found.items() if key != "code"})
    else:
        lines = {
            f"{point['limit']} steps": f"EM {show.percent(point['em'])}, F1 {show.percent(point['f1'])}"
            for point in found["points"]
        }
        lines |= {"time": show.duration(found["seconds"]), "curve": f"{found['out']}/{PICTURE}"}
        show.show_result(show.console(), request.program, lines)
    return int(found["code"])


def _plans(request: Request, limits: str) -> list[tuple[int, Plan]]:
    """A plan for each limit, the deepest first, as the call cache then answers the first steps of the others.

    Their folders are in the one that the evaluation would have without limits.
    """
    try:
        numbers = [int(part) for part in limits.split(",")]
    except ValueError:
        raise UserError(f"--step-limits {limits!r} are no numbers: write for example 5,8,10,15") from None
    if any(pair.partition("=")[0].strip() == "max_steps" for pair in request.sets):
        raise UserError("--step-limits sets max_steps itself: drop --set max_steps")
    wanted = deepest_first(numbers)
    first = plan(request)
    if not isinstance(first.program, SupervisedTeam):
        raise UserError(f"{request.program} has no step limit: give a team, such as team:bold,cautious")
    made = []
    for limit in wanted:
        sets = [*request.sets, f"max_steps={limit}"]
        made.append((limit, plan(replace(request, sets=sets, out=folder_of(first.out, limit)))))
    return made


def _run_all(plans: list[tuple[int, Plan]], live: Show) -> dict[str, Any]:
    """Carry the plans out, up to one that stops early, and write the curve of those that are finished."""
    began = time.monotonic()
    finished, stopped, code = [], None, 0
    for limit, planned in plans:
        outcome = run(planned, live)
        stopped, code = outcome.stopped, outcome.code
        if stopped or outcome.summary is None:
            break
        finished.append((limit, outcome.summary))
    out = plans[0][1].out.parent
    return {
        "out": str(out),
        "points": write_curve(out, finished),
        "seconds": time.monotonic() - began,
        "stopped": stopped,
        "code": code,
    }
