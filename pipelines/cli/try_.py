"""`folkmoot try`: a contest, from one screen before it to one screen after it."""

from __future__ import annotations

from ..comparison.verdict import check_fail_if
from ..contest.contest import carry_out_contest
from ..contest.outcome import Contest, contest_in
from ..contest.plan import ContestPlan, plan_contest
from ..contest.request import ContestRequest
from .compare import FAILED
from .life import live
from .options import TryView
from .show import console


def try_(request: ContestRequest, view: TryView) -> None:
    check_fail_if(view.fail_if)
    request.progress = view.progress
    plan = plan_contest(request, stored=True)

    def show(contest: Contest) -> None:
        lines = contest.sentences()[-1:] if view.quiet else contest.lines()
        for line in lines:
            console().print(line, soft_wrap=True)

    def code(contest: Contest) -> int:
        return FAILED if view.fail_if and contest.fails(view.fail_if) else 0

    live(request, view, plan, carry_out_contest, _left, show, code)


def _left(plan: ContestPlan) -> Contest | None:
    return contest_in(plan.out)
