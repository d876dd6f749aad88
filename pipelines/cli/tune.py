"""`folkmoot tune`: a search over a protocol's settings, and what it found."""

from __future__ import annotations

from collections.abc import Callable

from ..tuning.plan import StudyPlan, plan_study
from ..tuning.request import TuneRequest
from ..tuning.tune import Study, study_in, tune_as_planned
from .guard import warned
from .life import live
from .options import Confirmed


def tune(request: TuneRequest, view: Confirmed) -> None:
    request.progress = view.progress
    with warned():
        live(request, view, plan_study(request, stored=True), _tuned, _left)


def _tuned(plan: StudyPlan, show: Callable[[Study], None]) -> Study:
    return tune_as_planned(plan, show)


def _left(plan: StudyPlan) -> Study | None:
    return study_in(plan.out)
