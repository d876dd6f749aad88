"""What a user asks of `folkmoot tune`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from typing_extensions import Doc

from ..base.request import (
    AnyProgram,
    AnyQuestions,
    Argument,
    Columned,
    Judged,
    LMs,
    Option,
    Running,
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
class TuneRequest(Columned, Judged, LMs, Running):
    """Search a protocol's settings, and evaluate the winner once on questions that no trial saw.

    No trial pays for a call that another has made. The same command continues a stopped study; on
    another machine, with the same --storage and --study, it joins the study.
    """

    example: ClassVar[str] = (
        "tune deliberation --train train.jsonl --validation validation.jsonl --trials 30 "
        "--objective accuracy,calls --lm openai/gpt-4o-mini --out runs/tuned"
    )

    space: Annotated[
        AnyProgram | Mapping[str, object],
        str,
        Argument(
            metavar="SPACE",
            help="A protocol, such as deliberation, for its whole search space; a spec that fixes "
            "a part of it; the folder of a saved or compiled program; a YAML file. In Python also "
            "a program, or the contents of such a file.",
        ),
    ]
    train: Annotated[
        AnyQuestions,
        str,
        source(
            "Labelled questions that trials are scored on. If networks are trained or prompts "
            "compiled, one half of them is for that."
        ),
    ]
    validation: Annotated[
        AnyQuestions,
        str,
        source("Labelled questions that no trial sees, to evaluate the winner and the default."),
    ]
    _: KW_ONLY
    train_split: Annotated[str | None, Option(help="Split of the training questions.")] = None
    train_limit: Annotated[
        int | None, Option(min=1, help="Use at most this many training questions.")
    ] = None
    validation_split: Annotated[str | None, Option(help="Split of the validation questions.")] = (
        None
    )
    validation_limit: Annotated[
        int | None, Option(min=1, help="Use at most this many validation questions.")
    ] = None
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
            help="Settings to try, not counting those that are replayed without a call.",
        ),
    ] = 50
    objectives: Annotated[
        str | Sequence[str],
        list[str],
        Option(
            "--objective",
            metavar="NAME,…",
            help="score (the metric), accuracy or f1 is maximised; cost, latency, calls and tokens "
            "are minimised. With latency, trials share no calls.",
        ),
    ] = (SCORE,)
    sampler: Annotated[
        str | BaseSampler | None,
        str,
        Option(
            metavar="tpe|nsga2|gp|random|grid",
            help="How settings are drawn. In Python also a sampler of Optuna's.",
        ),
    ] = "tpe"
    pruner: Annotated[
        BasePruner | None,
        Doc(
            "one of Optuna's, which stops trials of a single objective in place of the paired test."
        ),
    ] = None
    callbacks: Annotated[
        Sequence[Callable[..., None]],
        Doc(
            "called with study and trial after each trial, as Optuna does; they may `study.stop()`."
        ),
    ] = ()
    seed: Annotated[int, Option(help="Seed of the sampler and the order of questions.")] = 0
    storage: Annotated[
        str | None,
        Option(
            metavar="URL",
            help="Database of the study, which other machines can join: postgresql://…, mysql://…, "
            "sqlite:///FILE. Default: a file in the folder.",
        ),
    ] = None
    study: Annotated[
        Any,
        str,
        Option(
            metavar="NAME",
            help="Name of the study in the storage. In Python also a study of Optuna's, whose "
            "sampler, pruner and storage are then used, in this process, and whose earlier trials "
            "stay as they are.",
        ),
    ] = "folkmoot"
    workers: Annotated[int, Option(min=1, help="Processes on this machine.")] = 1
    out: Annotated[
        str | Path | None,
        Path | None,
        folder(
            "Folder of the study, which the same command continues (required). In Python by "
            "default a temporary one."
        ),
    ] = None
    register: Annotated[
        str | None, Option(metavar="NAME", help="Enter the winner into MLflow's model registry.")
    ] = None
    tracking: Annotated[bool, tracked("the study")] = True
    settings: Annotated[
        Mapping[str, object] | None, Doc("what to note beside the study (data, split, …).")
    ] = None
