"""The request of `folkmoot controls` and `fm.controls`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from ..base.request import (
    AnyMetric,
    AnyQuestions,
    Argument,
    Asking,
    Checked,
    Option,
    RetryErrors,
    Running,
    Seats,
    folder,
    tracked,
)
from ..comparison.request import AnyRun


@dataclass
class ControlsRequest(Checked, Seats, Asking, Running):
    """Find out where a team's gain over one of its agents comes from.

    The gain is split into parts: the vote of the first answers, thinking again alone, the presence
    of peers, the content of what they say, and the decider. New calls start from the recorded first
    answers. The gain of an imported dialogue is split without a call, into the vote, the talk as a
    whole and the decider.
    """

    example: ClassVar[str] = 'controls runs/talk --budget "1 USD"'
    own_defaults: ClassVar[tuple[str, ...]] = ("lm", "api_base", "metric")

    run: Annotated[
        AnyRun, str, Argument(metavar="RUN", help="Folder of a team's run. In Python also the run.")
    ]
    _: KW_ONLY
    arms: Annotated[
        Sequence[str],
        list[str],
        Option(
            "--arms",
            metavar="NAME,…",
            help="Optional arms: stance, one_context, self_consistency, thinking, or none. "
            "Default: all that the team's LM supports.",
        ),
    ] = ()
    without: Annotated[
        Sequence[str], list[str], Option("--without", metavar="NAME,…", help="Leave out an arm.")
    ] = ()
    questions: Annotated[
        AnyQuestions | None,
        str | None,
        Option(
            "--data",
            metavar="NAME|FILE",
            help="The questions of the run. Default: the questions named in the run.",
        ),
    ] = None
    metric: Annotated[
        AnyMetric | None,
        str | None,
        Option(metavar="NAME", help="Metric of a run that was scored by your own module:function."),
    ] = None
    baseline: Annotated[
        AnyRun | None,
        str | None,
        Option(
            metavar="DIR",
            help="On tasks: the run of the agent that is asked as often as the team's bill pays "
            "for. Default: one prompt.",
        ),
    ] = None
    out: Annotated[
        str | Path | None,
        Path | None,
        folder("Folder of the result and the arms. Default: controls in the run's folder."),
    ] = None
    seed: Annotated[
        int, Option(help="Seed that draws the questions whose arguments the placebo shows.")
    ] = 0
    retry_errors: RetryErrors = False
    tracking: Annotated[bool, tracked()] = True
