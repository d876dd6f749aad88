"""What a user asks of `folkmoot try` and `fm.contest`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from typing_extensions import Doc

from ..base.request import (
    AnyLM,
    AnyProgram,
    AnyQuestions,
    Argument,
    Columned,
    Commands,
    Judged,
    OnCluster,
    Option,
    Repeated,
    Roles,
    Running,
    Seats,
    SharedByLMs,
    folder,
    tracked,
)

IMPROVE_SHARE = 1 / 3


@dataclass
class ContestRequest(Columned, Judged, OnCluster, SharedByLMs, Seats, Commands, Repeated, Running):
    """Find out which program to take: one agent, one agent asked several times, or a team.

    All programs answer the same questions in rounds, in a random order. A program leaves when
    another is shown to be better, or a cheaper one to be worse by no more than the points that do
    not matter. The contest ends when one program is left, or the money is gone. The same command
    continues a stopped contest and pays for nothing twice.
    """

    example: ClassVar[str] = 'try questions.csv --lm openai/gpt-4o-mini --budget "5 USD"'

    questions: Annotated[
        AnyQuestions,
        str,
        Argument(
            metavar="NAME|FILE",
            help="Labelled questions: a file, or a data set's name. In Python also what fm.load "
            "takes.",
        ),
    ]
    _: KW_ONLY
    roles: Roles = None
    lm: Annotated[
        AnyLM | Sequence[object] | None,
        list[str],
        Option(
            "--lm",
            metavar="NAME",
            help="LM of all programs, such as openai/gpt-4o-mini. Default: FOLKMOOT_LM, else "
            "local/gemma-3-270m. Several LMs: each runs alone, and in a mixed panel. judge=NAME "
            "judges the two who talk, else the dearest does; MODEL=NAME is the LM of a model that "
            "your own program names.",
        ),
    ] = None
    field: Annotated[
        str | Sequence[AnyProgram] | Mapping[str, AnyProgram],
        str,
        Option(
            metavar="fair|papers",
            help="The programs: fair has six, papers adds causal consistency and a supervised "
            "team. In Python also your own programs, in a list or by name.",
        ),
    ] = "fair"
    added: Annotated[
        Sequence[AnyProgram] | Mapping[str, AnyProgram],
        list[str],
        Option(
            "--with",
            metavar="PROGRAM",
            help="Add a program: module:attr, cmd:…, a saved folder, a YAML file or a spec.",
        ),
    ] = dataclasses.field(default_factory=list)
    baseline: Annotated[
        AnyProgram | None,
        str | None,
        Option(
            metavar="NAME|PROGRAM",
            help="Reference, which the others are compared with. Default: one prompt.",
        ),
    ] = None
    only: Annotated[
        Sequence[str],
        list[str],
        Option(metavar="NAME", help="Take only this program of --field (repeat it)."),
    ] = dataclasses.field(default_factory=list)
    without: Annotated[
        Sequence[str], list[str], Option(metavar="NAME", help="Leave this program of --field out.")
    ] = dataclasses.field(default_factory=list)
    visible_check: Annotated[
        str | None,
        Option(
            metavar="COMMAND",
            help="Check of tasks that programs may see, such as 'python -m pytest -q examples': "
            "one agent asked several times takes its first answer that passes it.",
        ),
    ] = None
    split: Annotated[str | None, Option(help="Split of a data set.")] = None
    limit: Annotated[
        int | None, Option(min=4, help="Use at most this many questions, drawn by the seed.")
    ] = None
    seed: Annotated[int, Option(min=0, help="Seed of the order of the questions.")] = 0
    margin: Annotated[
        float | str | None,
        str | None,
        Option(
            metavar="POINTS",
            help="Largest difference that does not matter to you. Default: 5 below 600 questions, "
            "else 2. In Python a share, such as 0.05.",
        ),
    ] = None
    early_stop: Annotated[
        bool,
        Option(
            "--early-stop/--no-early-stop",
            help="Let programs leave before all questions are asked.",
        ),
    ] = True
    confirm: Annotated[
        bool,
        Option(
            "--confirm/--no-confirm",
            help="From 300 questions up, keep a fifth of them to measure the winner.",
        ),
    ] = True
    improve: Annotated[
        bool | float | None,
        bool,
        Option("--improve", help="Also compile the two cheapest programs that are left."),
    ] = None
    improve_share: Annotated[
        float,
        Option(
            min=0.05,
            max=0.8,
            help="Share of the budget that --improve spends. Default: a third.",
            show_default=False,
        ),
    ] = IMPROVE_SHARE
    out: Annotated[
        str | Path | None,
        Path | None,
        folder(
            "Folder of the contest, which the same command continues. Default: one under runs/. "
            "In Python a temporary one."
        ),
    ] = None
    register: Annotated[
        str | None, Option(metavar="NAME", help="Enter the winner into MLflow's model registry.")
    ] = None
    tracking: Annotated[bool, tracked()] = True
    on_question: Annotated[
        Callable[..., None] | None,
        Doc("is called with the standing of the contest after every question."),
    ] = None
