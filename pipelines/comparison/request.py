"""What a user asks of `folkmoot compare`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar

from typer import Argument, Option

from ..base.request import Concurrency, Priced, Request, Seats, Spending, folder, source

Runs = Annotated[list[str], Argument(metavar="RUN...", help="Folders that evaluate wrote.")]
RunNames = Annotated[
    list[str],
    Option("--names", metavar="A,B,…", help="What to call the runs. Default: what they ran."),
]


@dataclass(kw_only=True)
class Tested(Request):
    """How runs are tested against each other."""

    cluster: Annotated[
        str | None,
        Option(
            metavar="FIELD",
            help="Field of meta that says which questions belong together; none for no field. "
            "Default: what "
            "the data set declares.",
        ),
    ] = None
    exact: Annotated[bool, Option("--exact", help="McNemar's exact test instead of his mid-p.")] = (
        False
    )
    panel: Annotated[
        int,
        Option(
            min=0,
            metavar="K",
            help="Of three runs or more, judge a vote of up to so many; 0: none.",
        ),
    ] = 5
    seed: Annotated[int, Option(help="Of the bootstrap.")] = 0

    def tested(self) -> dict[str, Any]:
        """The arguments of `compare` and `report`."""
        return {
            "seed": self.seed,
            "exact": self.exact,
            "cluster": self.cluster,
            "panel": self.panel,
        }


@dataclass(kw_only=True)
class CompareRequest(Seats, Tested, Spending):
    """Compare runs question by question: differences with intervals, exact tests, effect sizes,
    prices.

    Only questions that all runs answered are compared. With --match-budget, one run is enough: --lm
    and --api-base then say where its LM is, if not where its name leads. What it runs takes no more
    than that run took and a fifth, or than --budget; the plan comes first.
    """

    example: ClassVar[str] = "compare runs/cot runs/talk --match-budget"
    own_defaults: ClassVar[tuple[str, ...]] = ("lm", "api_base", "metric")

    runs: Runs
    names: RunNames = field(default_factory=list)
    baseline: Annotated[
        str | None,
        Option(
            metavar="DIR|NAME|N",
            help="The run that the others are measured against, by folder, name or place. "
            "Default: the "
            "first, or what --match-budget ran.",
        ),
    ] = None
    match_budget: Annotated[
        bool,
        Option(
            "--match-budget",
            help="Also run self-consistency with as many samples as the costliest run's bill "
            "pays for.",
        ),
    ] = False
    data: Annotated[
        str | None, source("Questions for --match-budget. Default: as the run notes.")
    ] = None
    metric: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="For --match-budget of runs scored by your own module:function: that.",
        ),
    ] = None
    out: Annotated[
        Path | None,
        folder("Folder of what --match-budget runs. Default: match-budget in the run's."),
    ] = None
    show: Annotated[int, Option(min=0, help="Show so many questions on which a pair parts.")] = 5
    pairs: Annotated[
        bool, Option("--pairs", help="Also show the verdict on every pair of runs.")
    ] = False
    concurrency: Concurrency = 64
    price: Priced = None
