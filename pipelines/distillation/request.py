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
    """Find the cheapest single agent that is as good as a team, and learn when the team is worth
    asking.

    The team is never asked: its recorded answers count. --lm is the single agents' LM, by default
    the run's. The same command goes on after any stop.
    """

    example: ClassVar[str] = "distil runs/talk --margin 2 --out runs/distil"
    own_defaults: ClassVar[tuple[str, ...]] = ("lm", "api_base")

    run: Annotated[
        Any,
        str,
        Argument(metavar="RUN", help="Folder that evaluate wrote for the team, or its result."),
    ]
    questions: Annotated[
        AnyQuestions | None,
        str | None,
        Option("--data", metavar="NAME|FILE", help="The run's questions. Default: as it notes."),
    ] = None
    _: KW_ONLY
    margin: Annotated[
        float,
        Option(
            metavar="POINTS",
            parser=share_of_points,
            show_default="2",
            help="How much less accurate still counts as as good: in points, in Python as a "
            "share (0.02).",
        ),
    ] = 0.02
    team: Annotated[
        Any,
        str | None,
        Option(
            metavar="PROGRAM",
            help="The team, where the run's folder has no program. Default: what the folder has.",
        ),
    ] = None
    out: Annotated[
        str | Path | None, Path | None, folder("Folder to write. Default: distil in the run's.")
    ] = None
    seed: Annotated[int, Option(help="Of the split and of cross-validation.")] = 0
    temperature: Temperature = None
    max_tokens: MaxTokens = None
    concurrency: Concurrency = 64
    price: Priced = None
    cache: Cache = True
    tracking: Annotated[bool, tracked("", "Log to MLflow.")] = True
    progress: ProgressOption = None
