"""The request of `folkmoot compile`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from typing_extensions import Doc

from ..base.request import (
    AnyLM,
    AnyProgram,
    AnyQuestions,
    Columned,
    Judged,
    LMs,
    Option,
    ProgramSpec,
    Running,
    TrainSplit,
    folder,
    sampled,
    source,
    tracked,
)


@dataclass
class CompileRequest(Columned, Judged, LMs, Running):
    """Improve a program's prompts, and measure the gain on held-out questions.

    The same command continues a stopped compilation and asks nothing twice. folkmoot evaluate
    OUT/program uses the result.
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
            "Labelled questions, all that the optimizer sees. It learns from one half, and chooses "
            "between candidates by the other (copro by all)."
        ),
    ] = None
    validation: Annotated[
        AnyQuestions | None,
        str | None,
        source("Held-out questions, to compare the program before and after."),
    ] = None
    _: KW_ONLY
    optimizer: Annotated[
        str,
        Option(
            metavar="NAME",
            help="labeled_few_shot, bootstrap, bootstrap_rs, bootstrap_optuna, knn, copro, mipro, "
            "simba, gepa, infer_rules, better_together or reanchor.",
        ),
    ] = "mipro"
    preset: Annotated[
        str, Option(metavar="light|medium|heavy", help="How many candidates are tried.")
    ] = "light"
    out: Annotated[
        str | Path | None,
        Path | None,
        folder(
            "Folder of the result, which the same command continues (required). In Python by "
            "default a temporary one."
        ),
    ] = None
    train_split: TrainSplit = None
    train_limit: Annotated[int | None, sampled("training")] = None
    validation_split: Annotated[
        str | None, Option(help="Split of the held-out questions. Default: validation.")
    ] = None
    validation_limit: Annotated[int | None, sampled("held-out")] = None
    seed: Annotated[
        int, Option(min=0, help="Seed of the samples, the split and the optimizer.")
    ] = 0
    prompt_lm: Annotated[
        AnyLM | None,
        str | None,
        Option(metavar="NAME", help="LM that proposes instructions. Default: the agents' LM."),
    ] = None
    prompt_api_base: Annotated[
        str | None,
        Option(metavar="URL", help="Address of --prompt-lm, where it has one of its own."),
    ] = None
    teacher: Annotated[
        AnyProgram | AnyLM | None,
        str | None,
        Option(
            metavar="LM|PROGRAM",
            help="Writer of the demonstrations: an LM, a program with the same agents, or, for a "
            "program with a single prompt, any team. Default: the program itself.",
        ),
    ] = None
    keep: Annotated[
        str,
        Option(
            metavar="best|compiled",
            help="What is handed over: best is the compiled program unless it is shown to be worse "
            "than the given one, or too many answers cannot be read; compiled is that in any case.",
        ),
    ] = "best"
    tracking: Annotated[bool, tracked()] = True
    settings: Annotated[
        Mapping[str, object] | None, Doc("what to note beside the run (data, split, …).")
    ] = None
