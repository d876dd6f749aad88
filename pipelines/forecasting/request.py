"""What a user asks of a forecast."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from ..base.request import Argument, Option, Request


@dataclass
class ForecastRequest(Request):
    """Forecast what a vote of more agents gains, from a few agents on a few questions.

    Give runs of several agents or samples on the same questions (5 agents and 100 questions or
    more), or an outcome table. No LM is asked. The forecast does not cover talk between agents, or
    LMs unlike those given.
    """

    example: ClassVar[str] = "forecast runs/a runs/b runs/c runs/d runs/e"

    answers: Annotated[
        Iterable[object] | str | Path,
        list[str],
        Argument(
            metavar="[RUN]...",
            help="Folders of runs, one for each agent. In Python also evaluations, or an outcome "
            "table.",
        ),
    ] = ()
    _: KW_ONLY
    outcomes: Annotated[
        str | Path | None,
        str | None,
        Option(metavar="FILE", help="Instead of runs: a table with a row for each answer."),
    ] = None
    sizes: Annotated[
        Sequence[int],
        list[int],
        Option(
            metavar="N",
            help="Numbers of agents to forecast. Default: 2 to 30.",
            show_default=False,
        ),
    ] = tuple(range(2, 31))
    seed: Annotated[int, Option(min=0, help="Seed of the resampling over questions.")] = 0
