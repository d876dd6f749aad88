"""What a user asks of `folkmoot distil`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from typer import Argument, Option

from ..base.request import (
    AnyQuestions,
    Cache,
    Concurrency,
    MaxTokens,
    Priced,
    ProgressOption,
    Seats,
    Spending,
    Temperature,
    folder,
    share_of_points,
    tracked,
)


@dataclass
class DistilRequest(Seats, Spending):
    """Find the cheapest single agent that is as good as a team, and learn when to ask the team.

    The team is never asked: its recorded answers count. --lm is the single agents' LM, by default
    the run's. The same command continues a stopped one.
    """

    example: ClassVar[str] = "distil runs/talk --margin 2 --out runs/distil"
    own_defaults: ClassVar[tuple[str, ...]] = ("lm", "api_base")

    run: Annotated[
        Any,
        str,
        Argument(metavar="RUN", help="Folder of the team's run."),
    ]
    questions: Annotated[
        AnyQuestions | None,
        str | None,
        Option(
            "--data",
            metavar="NAME|FILE",
            help="The questions of the run. Default: the questions named in the run.",
        ),
    ] = None
    _: KW_ONLY
    margin: Annotated[
        float,
        Option(
            metavar="POINTS",
            parser=share_of_points,
            show_default="2",
            help="Largest loss of accuracy that you accept. In Python a share, such as 0.02.",
        ),
    ] = 0.02
    team: Annotated[
        Any,
        str | None,
        Option(
            metavar="PROGRAM",
            help="The team. Default: the program in the run's folder.",
        ),
    ] = None
    out: Annotated[
        str | Path | None,
        Path | None,
        folder("Folder to write. Default: distil in the run's folder."),
    ] = None
    seed: Annotated[int, Option(help="Seed of the split and of cross-validation.")] = 0
    temperature: Temperature = None
    max_tokens: MaxTokens = None
    concurrency: Concurrency = 64
    price: Priced = None
    cache: Cache = True
    tracking: Annotated[bool, tracked("", "Log to MLflow.")] = True
    progress: ProgressOption = None
