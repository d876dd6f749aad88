"""`folkmoot controls`: where a team's gain comes from."""

from __future__ import annotations

from ..cli.command import Command
from ..cli.options import Confirmed
from .request import ControlsRequest


def run(request: ControlsRequest, view: Confirmed) -> None:
    from ..cli.life import live
    from ..cli.show import show_lines
    from .controls import carry_out_controls
    from .outcome import Controls, controls_in
    from .plan import plan_controls

    def show(result: Controls) -> None:
        lines = result.lines()
        if view.quiet:
            lines = lines[-1:]
        show_lines(lines)

    plan = plan_controls(request, keyless=view.dry_run)
    live(request, view, plan, carry_out_controls, controls_in, show)


COMMAND = Command(ControlsRequest, Confirmed, run)
