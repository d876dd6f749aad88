"""`folkmoot forecast`: what a vote of more agents gains."""

from __future__ import annotations

from ..cli.command import Command
from ..cli.options import View
from .request import ForecastRequest


def run(request: ForecastRequest, view: View) -> None:
    from ..cli.show import finish, show_lines
    from .forecast import forecast

    result = forecast(
        request.answers, outcomes=request.outcomes, sizes=request.sizes, seed=request.seed
    )
    finish(view, result.to_dict(), lambda: show_lines(result.lines()))


COMMAND = Command(ForecastRequest, View, run)
