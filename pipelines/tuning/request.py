"""What a user asks of `folkmoot tune`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from typer import Argument, Option
from typing_extensions import Doc

from ..base.request import (
    AnyQuestions,
    Columned,
    JudgeLM,
    LMs,
    ProgressOption,
    Scored,
    Spending,
    folder,
    source,
    tracked,
)

if TYPE_CHECKING:
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler
else:  # which --help does without
    BasePruner = BaseSampler = Any

SCORE = "score"
"""As an objective: what the study's metric gives, whatever its name."""


@dataclass
class TuneRequest(Columned, LMs, Spending):
    """Search a protocol's settings, and evaluate the winner once on questions that no trial saw.

    What one setting has paid for, every other one has for free. Run the same command again to
    resume a study that was stopped; on other machines, with the same --storage and --study, to join
    it.
    """

    example: ClassVar[str] = (
        "tune deliberation --train train.jsonl --validation validation.jsonl --trials 30 "
        "--objective accuracy,calls --lm openai/gpt-4o-mini --out runs/tuned"
    )

    space: Annotated[
        Any,
        str,
        Argument(
            help="deliberation, single, …: its declared space; a short spec that fixes a part of "
            "it; the folder of a saved or compiled program; a YAML file. In Python also a program, "
            "or what such a file holds."
        ),
    ]
    train: Annotated[
        AnyQuestions,
        str,
        source(
            "Labelled questions that trials are scored on; the hopeless are stopped early. Where "
            "networks are trained or prompts compiled, one half of them, drawn by the seed, is for "
            "that."
        ),
    ]
    validation: Annotated[
        AnyQuestions,
        str,
        source("Labelled questions for the winner and the default, which no trial sees."),
    ]
    _: KW_ONLY
    train_split: Annotated[str | None, Option(help="Split of the training data.")] = None
    train_limit: Annotated[int | None, Option(min=1, help="Only so many of them.")] = None
    validation_split: Annotated[str | None, Option(help="Split of the validation data.")] = None
    validation_limit: Annotated[int | None, Option(min=1, help="Only so many of them.")] = None
    compile: Annotated[
        str | Sequence[str] | None,
        str | None,
        Option(
            metavar="NAME,…",
            help="Also try each setting with prompts compiled by these optimizers, such as "
            "bootstrap_rs, on one half of the training questions; trials are scored on the other.",
        ),
    ] = None
    trials: Annotated[
        int,
        Option(
            min=1,
            help="Settings to try; those that a finished run answers without a call are extra.",
        ),
    ] = 50
    objectives: Annotated[
        str | Sequence[str],
        list[str],
        Option(
            "--objective",
            metavar="NAME,…",
            help="score (the metric's) or f1, and any of cost, latency, calls, tokens to be made "
            "small. With "
            "latency, trials share no calls.",
        ),
    ] = (SCORE,)
    metric: Scored = None
    judge_lm: JudgeLM = None
    sampler: Annotated[
        str | BaseSampler | None,
        str,
        Option(
            metavar="tpe|nsga2|gp|random|grid",
            help="How to draw them; in Python also one of Optuna's.",
        ),
    ] = "tpe"
    pruner: Annotated[
        BasePruner | None,
        Doc(
            "one of Optuna's, which stops trials of a single objective in place of the paired test."
        ),
    ] = None
    callbacks: Annotated[
        Sequence[Callable[[Any, Any], None]],
        Doc(
            "called with study and trial after each trial, as Optuna does; they may `study.stop()`."
        ),
    ] = ()
    seed: Annotated[int, Option(help="Of the sampler and the order of questions.")] = 0
    storage: Annotated[
        str | None,
        Option(
            metavar="URL",
            help="Where other machines join with the same study: postgresql://…, mysql://…, "
            "sqlite:///FILE, "
            "grpc://HOST:PORT. Default: a file in the folder.",
        ),
    ] = None
    study: Annotated[
        Any,
        str,
        Option(
            metavar="NAME",
            help="Its name in the storage; in Python also a study of yours, whose sampler, "
            "pruner and "
            "storage are then used, in this process, and whose earlier trials stay as they are.",
        ),
    ] = "folkmoot"
    workers: Annotated[int, Option(min=1, help="Processes on this machine.")] = 1
    out: Annotated[
        str | Path | None,
        Path | None,
        folder(
            "Folder of the study, which the same command resumes; in Python by default a "
            "temporary one."
        ),
    ] = None
    register: Annotated[
        str | None, Option(metavar="NAME", help="Enter the winner into MLflow's model registry.")
    ] = None
    tracking: Annotated[bool, tracked("the study")] = True
    settings: Annotated[
        Mapping[str, object] | None, Doc("what to note beside the study (data, split, …).")
    ] = None
    progress: ProgressOption = None
