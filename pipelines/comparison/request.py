"""What a user asks of `folkmoot compare`, `fm.compare` and `fm.match_budget`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

from typing_extensions import Doc

from ...modules.base.errors import UserError
from ..base.request import (
    AnyMetric,
    Argument,
    Checked,
    Concurrency,
    Option,
    Priced,
    Request,
    Running,
    Seats,
    folder,
    source,
)

if TYPE_CHECKING:
    from ...modules.reading.question import Question
    from ..evaluation.earlier import Evaluation

    AnyRun: TypeAlias = Evaluation | str | Path
else:  # --help does not import the modules that read runs
    AnyRun = Question = Any

RunNames = Annotated[
    Sequence[str],
    list[str],
    Option(
        "--names", metavar="A,B,…", help="Names for the runs. Default: the names of their programs."
    ),
]


@dataclass(kw_only=True)
class Tested(Request):
    """How runs are tested against each other."""

    cluster: Annotated[
        str | None,
        Option(
            metavar="FIELD",
            help="Field of meta that says which questions belong together, or none. Default: the "
            "data set's own.",
        ),
    ] = None
    exact: Annotated[
        bool, Option("--exact", help="Use McNemar's exact test instead of the mid-p test.")
    ] = False
    panel: Annotated[
        int,
        Option(
            min=0,
            metavar="K",
            help="With three runs or more, also judge a majority vote of at most this many. 0: no "
            "vote.",
        ),
    ] = 5
    margin: Annotated[
        float | str | None,
        str | None,
        Option(
            metavar="POINTS",
            help="Also say whether a run is shown to be at most this much worse than the "
            "reference. In Python a share, such as 0.02.",
        ),
    ] = None
    seed: Annotated[int, Option(help="Seed of the bootstrap.")] = 0

    def tested(self) -> dict[str, Any]:
        """Return the arguments of `compare` and `report`."""
        return self.named("seed", "exact", "cluster", "panel", "margin")


@dataclass(kw_only=True)
class Matching(Checked, Seats, Running):
    """How a budget-matched baseline is run."""

    metric: Annotated[
        AnyMetric | None,
        str | None,
        Option(metavar="NAME", help="Metric of runs that were scored by your own module:function."),
    ] = None
    out: Annotated[
        str | Path | None,
        Path | None,
        folder("Folder of the budget-matched baseline. Default: match-budget in the run's folder."),
    ] = None
    concurrency: Concurrency = 64
    price: Priced = None


@dataclass
class CompareRequest(Tested, Matching):
    """Compare runs question by question: which is better, how sure that is, and at what price.

    Only questions that all runs answered are compared. With --match-budget one run is enough, and
    --lm and --api-base name the baseline's LM. The baseline costs at most --budget, by default 120%
    of that run; its plan is shown first.
    """

    example: ClassVar[str] = "compare runs/cot runs/talk --match-budget"
    own_defaults: ClassVar[tuple[str, ...]] = ("lm", "api_base", "metric")

    runs: Annotated[
        Sequence[AnyRun],
        list[str],
        Argument(
            metavar="RUN...",
            help="Folders of runs; that of compile, tune or import stands for its runs.",
        ),
    ]
    _: KW_ONLY
    names: RunNames = field(default_factory=list)
    baseline: Annotated[
        str | None,
        Option(
            metavar="DIR|NAME|N",
            help="The run that the others are compared with, by folder, name or number. Default: "
            "the first, or what --match-budget ran.",
        ),
    ] = None
    match_budget: Annotated[
        bool,
        Option(
            "--match-budget",
            help="Also run one agent as often as the dearest run's bill pays for: a vote of its "
            "answers, or a pick. On tasks the agent is that of the first run.",
        ),
    ] = False
    data: Annotated[
        str | None, source("Questions for --match-budget. Default: the questions named in the run.")
    ] = None


@dataclass
class MatchRequest(Matching):
    """Run one agent on a run's questions, as often as its bill pays for: self-consistency, or a
    pick where answers cannot be voted on.
    """

    run: Annotated[AnyRun, Doc("the run to match, or its folder.")]
    questions: Annotated[
        Sequence[Question], Doc("the questions that it ran on, in the same order.")
    ]
    _: KW_ONLY
    single: Annotated[
        AnyRun | None,
        Doc("a run of the agent that is asked several times; None asks one prompt. For tasks."),
    ] = None
    tracking: Annotated[
        bool | None, Doc("log the baseline to MLflow; None does where the run was tracked.")
    ] = None
    settings: Annotated[
        Mapping[str, object] | None, Doc("notes to keep in the baseline's settings.")
    ] = None


def share_of_points(margin: str | float) -> float:
    """Read a number of points from the command line, such as `2`, as a share, 0.02.

    Raises UserError for what is no share between 0 and 1.
    """
    try:
        share = float(margin)
        if isinstance(margin, str):
            share /= 100
    except (TypeError, ValueError):
        share = 0.0
    if isinstance(margin, bool) or not 0 < share < 1:
        raise UserError(
            f"the points that do not matter are {margin!r}: give points such as 5, in Python a "
            "share, 0.05"
        )
    return share


def split_items(values: str | Iterable[object] | None) -> list[Any]:
    """Return the items of an option that may be repeated, and may hold several items separated by
    commas.
    """
    items: list[Any] = []
    for value in [values] if isinstance(values, str) else values or ():
        if isinstance(value, str):
            items += map(str.strip, value.split(","))
        else:
            items.append(value)
    return items
