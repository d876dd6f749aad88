"""`folkmoot forecast`: what a vote of agents will gain, before it is paid for."""

from __future__ import annotations

from ..forecasting.forecast import forecast as forecast_vote_of
from ..forecasting.request import ForecastRequest
from .options import View
from .show import console, finish


def forecast(options: ForecastRequest, view: View) -> None:
    found = forecast_vote_of(
        options.answers, outcomes=options.outcomes, sizes=options.sizes, seed=options.seed
    )

    def show() -> None:
        for line in found.lines():
            console().print(line, soft_wrap=True)

    finish(view, found.to_dict(), show)
