"""What a user asks of `folkmoot distil`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from typer import Argument, Option

from ..base.request import (
    Cache,
    Concurrency,
    MaxTokens,
    Priced,
    Seats,
    Spending,
    Temperature,
    folder,
    source,
    tracked,
)


@dataclass(kw_only=True)
class DistilRequest(Seats, Spending):
    """Find the cheapest single agent that is as good as a team, and learn when the team is worth asking.

    The team is never asked: its recorded answers count. --lm is the single agents' LM, by default the run's.
    The same command goes on after any stop.
    """

    example: ClassVar[str] = "distil runs/talk --margin 2 --out runs/distil"
    own_defaults: ClassVar[tuple[str, ...]] = ("lm", "api_base")

    run: Annotated[str, Argument(metavar="RUN", help="Folder that evaluate wrote for the team.")]
    margin: Annotated[
        float, Option(metavar="POINTS", help="How much less accurate still counts as as good.")
    ] = 2.0
    data: Annotated[str | None, source("The run's questions. Default: as it notes.")] = None
    team: Annotated[str | None, Option(metavar="PROGRAM", help="The team. Default: as the run notes.")] = None
    out: Annotated[Path | None, folder("Folder to write. Default: distil in the run's.")] = None
    seed: Annotated[int, Option(help="Of the split and of cross-validation.")] = 0
    temperature: Temperature = None
    max_tokens: MaxTokens = None
    concurrency: Concurrency = 64
    price: Priced = None
    cache: Cache = True
    tracking: Annotated[bool, tracked("", "Log to MLflow.")] = True
