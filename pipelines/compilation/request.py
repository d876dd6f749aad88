"""What a user asks of `folkmoot compile`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from typer import Option
from typing_extensions import Doc

from ..base.request import (
    AnyLM,
    AnyQuestions,
    Columned,
    JudgeLM,
    LMs,
    ProgramSpec,
    ProgressOption,
    Scored,
    Spending,
    TrainSplit,
    folder,
    sampled,
    source,
    tracked,
)


@dataclass
class CompileRequest(Columned, LMs, Spending):
    """Improve a program's prompts, and say on held-out questions what that gained.

    Run the same command again to resume one that was stopped: nothing that was answered is asked
    again. folkmoot evaluate OUT/program uses the result.
    """

    example: ClassVar[str] = (
        "compile single:cot --train train.jsonl --validation held-out.jsonl "
        '--optimizer mipro --preset light --budget "500 calls" --out runs/compiled --lm '
        "openai/gpt-4o-mini"
    )

    program: ProgramSpec
    train: Annotated[
        AnyQuestions,
        str | None,
        source(
            "Labelled questions, all that the optimizer sees: half of them are learned from, the "
            "others "
            "choose between candidates (of an optimizer that only rewrites instructions by "
            "score: all "
            "choose)."
        ),
    ] = None
    validation: Annotated[
        AnyQuestions | None,
        str | None,
        source("Held-out questions, on which the given program and the result are compared."),
    ] = None
    _: KW_ONLY
    metric: Scored = None
    judge_lm: JudgeLM = None
    optimizer: Annotated[
        str,
        Option(
            metavar="NAME",
            help="labeled_few_shot, bootstrap, bootstrap_rs, bootstrap_optuna, knn, copro, mipro, "
            "simba, gepa, infer_rules, better_together or reanchor.",
        ),
    ] = "mipro"
    preset: Annotated[str, Option(metavar="light|medium|heavy", help="How much is tried.")] = (
        "light"
    )
    out: Annotated[
        str | Path | None,
        Path | None,
        folder(
            "Folder of the result; the same command resumes it. In Python by default a temporary "
            "one."
        ),
    ] = None
    train_split: TrainSplit = None
    train_limit: Annotated[int | None, sampled("training")] = None
    validation_split: Annotated[
        str | None, Option(help="Split of the held-out questions. Default: validation.")
    ] = None
    validation_limit: Annotated[int | None, sampled("held-out")] = None
    seed: Annotated[
        int, Option(min=0, help="Of the samples, the split and the optimizer's draws.")
    ] = 0
    prompt_lm: Annotated[
        AnyLM | None,
        str | None,
        Option(metavar="NAME", help="LM that proposes instructions. Default: that of the seats."),
    ] = None
    prompt_api_base: Annotated[
        str | None, Option(metavar="URL", help="Its address, where that is not the others'.")
    ] = None
    teacher: Annotated[
        Any,
        str | None,
        Option(
            metavar="LM|PROGRAM",
            help="Who writes the demonstrations: an LM, or a program with the same agents. "
            "Default: the program itself.",
        ),
    ] = None
    tracking: Annotated[bool, tracked()] = True
    settings: Annotated[
        Mapping[str, object] | None, Doc("what to note beside the run (data, split, …).")
    ] = None
    progress: ProgressOption = None
