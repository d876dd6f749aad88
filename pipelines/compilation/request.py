"""What a user asks of `folkmoot compile`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from typer import Option

from ..base.completion import OPTIMIZERS, completed_optimizers
from ..base.request import (
    Columned,
    JudgeLM,
    LMs,
    ProgramSpec,
    Scored,
    Spending,
    TrainSplit,
    folder,
    sampled,
    source,
    tracked,
)


@dataclass(kw_only=True)
class CompileRequest(Columned, LMs, Spending):
    """Improve a program's prompts, and say on held-out questions what that gained.

    Run the same command again to resume one that was stopped: nothing that was answered is asked again.
    folkmoot evaluate OUT/program uses the result.
    """

    example: ClassVar[str] = (
        "compile single:cot --train train.jsonl --validation held-out.jsonl "
        '--optimizer mipro --preset light --budget "500 calls" --out runs/compiled --lm openai/gpt-4o-mini'
    )

    program: ProgramSpec
    train: Annotated[str | None, source("Questions that the optimizer learns from.")] = None
    validation: Annotated[str | None, source("Held-out questions, to compare before and after on.")] = None
    metric: Scored = None
    judge_lm: JudgeLM = None
    optimizer: Annotated[
        str,
        Option(metavar="NAME", help=f"{', '.join(OPTIMIZERS)}.", autocompletion=completed_optimizers),
    ] = "mipro"
    preset: Annotated[str, Option(metavar="light|medium|heavy", help="How much is tried.")] = "light"
    out: Annotated[Path | None, folder("Folder of the result; the same command resumes it.")] = None
    train_split: TrainSplit = None
    train_limit: Annotated[int | None, sampled("training")] = None
    validation_split: Annotated[
        str | None, Option(help="Split of the held-out questions. Default: validation.")
    ] = None
    validation_limit: Annotated[int | None, sampled("held-out")] = None
    seed: Annotated[int, Option(min=0, help="Of the samples, the split and the optimizer's draws.")] = 0
    prompt_lm: Annotated[
        str | None, Option(metavar="NAME", help="LM that proposes instructions. Default: that of --lm.")
    ] = None
    prompt_api_base: Annotated[
        str | None, Option(metavar="URL", help="Its address, where that is not --api-base.")
    ] = None
    tracking: Annotated[bool, tracked()] = True
