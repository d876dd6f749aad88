"""`folkmoot controls`: where a team's gain comes from."""

from __future__ import annotations

from ..controls.controls import carry_out_controls
from ..controls.outcome import Controls, controls_in
from ..controls.plan import ControlsPlan, plan_controls
from ..controls.request import ControlsRequest
from .life import live
from .options import Confirmed
from .show import console


def controls(request: ControlsRequest, view: Confirmed) -> None:
    request.progress = view.progress
    plan = plan_controls(request, keyless=view.dry_run)

    def show(found: Controls) -> None:
        for line in found.lines()[-1:] if view.quiet else found.lines():
            console().print(line, soft_wrap=True, markup=False)

    live(request, view, plan, carry_out_controls, _left, show)


def _left(plan: ControlsPlan) -> Controls | None:
    return controls_in(plan.out)
