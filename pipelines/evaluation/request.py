"""What a user asks of `folkmoot evaluate` and `fm.evaluate`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from typing_extensions import Doc

from ..base.request import (
    AnyQuestions,
    Columned,
    Judged,
    LMs,
    OnCluster,
    Option,
    ProgramSpec,
    Record,
    Repeated,
    RetryErrors,
    Running,
    TrainSplit,
    folder,
    source,
    tracked,
)


@dataclass
class EvaluateRequest(Columned, Judged, OnCluster, LMs, Repeated, Running):
    """Answer labelled questions, score the answers, and keep a row for each.

    Run the same command again to resume a stopped run: finished questions are not asked twice.
    """

    example: ClassVar[str] = (
        "evaluate deliberation:intuitive,reasoner:judge --data commonsenseqa "
        "--limit 200 --seed 1 --lm openai/gpt-4o-mini --lm judge=openai/gpt-4o"
    )

    program: ProgramSpec
    questions: Annotated[
        AnyQuestions,
        str | None,
        Option(
            "--data",
            metavar="NAME|FILE",
            help="Labelled questions: a data set's name, a file, or - for standard input. In "
            "Python also what fm.load takes.",
        ),
    ] = None
    _: KW_ONLY
    judge_sample: Annotated[
        AnyQuestions | None,
        str | None,
        source(
            "Answers that people graded: columns question, answer (the reference), given, verdict."
        ),
    ] = None
    split: Annotated[str | None, Option(help="Split of the data set.")] = None
    limit: Annotated[int | None, Option(min=1, help="Use at most this many questions.")] = None
    seed: Annotated[
        int | None,
        Option(
            help="Seed that draws the --limit questions (without it, the first ones are taken), "
            "and of the program's own draws."
        ),
    ] = None
    out: Annotated[
        str | Path | None,
        Path | None,
        folder(
            "Folder of the run, which the same command continues. Default: one under runs/. In "
            "Python a temporary one."
        ),
    ] = None
    train: Annotated[
        AnyQuestions | None,
        str | None,
        source("Training questions, for --demos or the weights of a vote."),
    ] = None
    train_split: TrainSplit = None
    demos: Annotated[int, Option(min=0, help="Show every agent this many training questions.")] = 0
    demo_seed: Annotated[int | None, Option(help="Seed that draws the demonstrations.")] = None
    max_failures: Annotated[
        int | None, Option(min=1, help="Stop after this many failed questions.")
    ] = None
    retry_errors: RetryErrors = False
    recheck: Annotated[
        bool,
        Option(
            "--recheck",
            help="Check the answers of the run PROGRAM once more by --check, without a call.",
        ),
    ] = False
    record: Record = None
    tracking: Annotated[bool, tracked()] = True
    traces: Annotated[
        float | None,
        Option(
            min=0,
            max=1,
            help="Share of the questions that are traced in MLflow. Default: 200 questions.",
        ),
    ] = None
    register: Annotated[
        str | None,
        Option(metavar="NAME", help="Enter the program into MLflow's model registry."),
    ] = None
    parent: Annotated[
        str | None, Doc("id of the MLflow run that becomes the parent of this one.")
    ] = None
    settings: Annotated[
        Mapping[str, object] | None,
        Doc("notes to keep in the run's settings (data set, split, seed, …)."),
    ] = None
