"""`folkmoot train`: a network that learns strategies."""

from __future__ import annotations

from ..cli.command import Command
from ..cli.options import Confirmed
from .request import TrainRequest


def run(request: TrainRequest, view: Confirmed) -> None:
    from ..cli.life import live
    from ..cli.show import show_lines
    from .fit import train_as_planned
    from .plan import plan_training
    from .train import Trained

    def show(trained: Trained) -> None:
        show_lines(trained.lines()[: 1 if view.quiet else None])

    plan = plan_training(request, stored=True)
    live(request, view, plan, lambda plan, _: train_as_planned(plan), show=show)


COMMAND = Command(TrainRequest, Confirmed, run)
