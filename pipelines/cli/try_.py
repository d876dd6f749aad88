"""`folkmoot try`: a contest, from one screen before it to one screen after it."""

from __future__ import annotations

import sys

import typer

from ..contest.contest import carry_out_contest
from ..contest.outcome import Contest, contest_in
from ..contest.plan import ContestPlan, plan_contest
from ..contest.request import ContestRequest
from ..contest.screen import Piped
from .guard import say
from .life import live
from .options import TryView
from .show import console

FAILED = 3
"""The exit code of --fail-if."""


def try_(request: ContestRequest, view: TryView) -> None:
    request.progress = view.progress
    if not (view.quiet or sys.stderr.isatty()):
        request.progress = Piped()
    plan = plan_contest(request, stored=True)
    outcomes: list[Contest] = []

    def show(found: Contest) -> None:
        outcomes.append(found)
        if view.quiet:
            console().print(found.sentences()[-1], soft_wrap=True)
            return
        for line in found.lines():
            console().print(line, soft_wrap=True)

    live(request, view, plan, carry_out_contest, _left, show)
    found = contest_in(plan.out)
    if view.fail_if and found is not None and found.fails(view.fail_if):
        say(f"the outcome is {found.outcome}, and --fail-if {view.fail_if} was given")
        raise typer.Exit(FAILED)


def _left(plan: ContestPlan) -> Contest | None:
    return contest_in(plan.out)
