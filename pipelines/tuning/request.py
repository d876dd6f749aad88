"""What a user asks of `folkmoot tune`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from typer import Argument, Option

from ..base.request import Columned, JudgeLM, LMs, Scored, Spending, folder, source, tracked


@dataclass(kw_only=True)
class TuneRequest(Columned, LMs, Spending):
    """Search a protocol's settings, and evaluate the winner once on questions that no trial saw.

    What one setting has paid for, every other one has for free. Run the same command again to resume a study
    that was stopped; on other machines, with the same --storage and --study, to join it.
    """

    example: ClassVar[str] = (
        "tune deliberation --train train.jsonl --validation validation.jsonl --trials 30 "
        "--objective accuracy,calls --lm openai/gpt-4o-mini --out runs/tuned"
    )

    space: Annotated[
        str, Argument(help="deliberation, single, …: its declared space; a short spec; a YAML file.")
    ]
    train: Annotated[str, source("Questions that trials are scored on.")]
    validation: Annotated[str, source("Questions for the winner, which no trial sees.")]
    train_split: Annotated[str | None, Option(help="Split of the training data.")] = None
    train_limit: Annotated[int | None, Option(min=1, help="Only so many of them.")] = None
    validation_split: Annotated[str | None, Option(help="Split of the validation data.")] = None
    validation_limit: Annotated[int | None, Option(min=1, help="Only so many of them.")] = None
    trials: Annotated[int, Option(min=1, help="Settings to try.")] = 50
    objective: Annotated[
        list[str],
        Option(metavar="NAME,…", help="score (the metric's) or f1, and any of cost, latency, calls, tokens."),
    ] = field(default_factory=lambda: ["score"])
    metric: Scored = None
    judge_lm: JudgeLM = None
    sampler: Annotated[str, Option(metavar="tpe|nsga2|gp|random|grid", help="How to draw them.")] = "tpe"
    seed: Annotated[int, Option(help="Of the sampler and the order of questions.")] = 0
    storage: Annotated[
        str | None, Option(metavar="URL", help="postgresql://…, mysql://…, sqlite:///FILE, grpc://HOST:PORT.")
    ] = None
    study: Annotated[str, Option(metavar="NAME", help="Its name in the storage.")] = "folkmoot"
    workers: Annotated[int, Option(min=1, help="Processes on this machine.")] = 1
    out: Annotated[Path | None, folder("Folder of the study, which it resumes.")] = None
    register: Annotated[
        str | None, Option(metavar="NAME", help="Enter the winner into MLflow's model registry.")
    ] = None
    tracking: Annotated[bool, tracked("the study")] = True
