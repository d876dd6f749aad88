"""`folkmoot train`: a network that learns strategies."""

from __future__ import annotations

from ..cli.command import Command
from ..cli.options import Confirmed
from .request import TrainRequest


def run(request: TrainRequest, view: Confirmed) -> None:
    from ..cli.life import live
    from ..cli.show import console, show_lines, show_result
    from .fit import train_as_planned
    from .plan import plan_training
    from .scores import Rescored
    from .train import Trained

    def show(trained: Trained) -> None:
        if trained.evaluation is not None:
            show_lines(trained.evaluation.lines()[: 1 if view.quiet else None])
        elif trained.scores is not None:
            show_result(console(), "network", Rescored(trained.scores).in_words(quiet=view.quiet))
        if not view.quiet:
            show_result(console(), "training", trained.in_words())

    plan = plan_training(request, stored=True)
    live(request, view, plan, lambda plan, _: train_as_planned(plan), show=show)


COMMAND = Command(TrainRequest, Confirmed, run)
