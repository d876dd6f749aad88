"""What a user asks of `folkmoot train`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from typer import Argument, Option

from ..base.request import (
    AnyQuestions,
    Columned,
    Pairs,
    ProgressOption,
    Record,
    Seats,
    SharedByLMs,
    Spending,
    Temperature,
    TrainSplit,
    folder,
    sampled,
    source,
    tracked,
)


@dataclass
class TrainRequest(Columned, SharedByLMs, Seats, Spending):
    """Train a strategy network: who asks in which way for which question, and whose vote counts how
    much.

    With --outcomes it learns from recorded answers; with --train it asks LMs. Run the same command
    again to resume a training that was stopped: nothing that was answered is asked again. folkmoot
    evaluate network:DIR uses the result.
    """

    example: ClassVar[str] = "train --outcomes train.jsonl --test test.jsonl --out runs/network"

    outcomes: Annotated[
        Any,
        list[str],
        Option(
            "--outcomes",
            metavar="FILE",
            help="Recorded answers to learn from, without any LM call: outcome tables, "
            "results.jsonl files "
            "or run folders (repeat it); in Python also the rows of a table, as a DataFrame or "
            "dicts.",
        ),
    ] = None
    program: Annotated[
        Any,
        str | None,
        Argument(
            metavar="[PROGRAM]",
            help="What to train: network, the strategy network; in Python also one with "
            "settings, LMs and "
            "prompts of its own, trained before or not, which stays as it is.",
        ),
    ] = None
    _: KW_ONLY
    train: Annotated[
        AnyQuestions | None, str | None, source("Labelled questions to learn from by asking LMs.")
    ] = None
    train_split: TrainSplit = None
    train_limit: Annotated[int | None, sampled("training")] = None
    test: Annotated[
        Any,
        list[str],
        Option(
            metavar="FILE|NAME",
            help="What to score the trained network on: outcomes, or questions.",
        ),
    ] = None
    test_split: Annotated[str | None, Option(help="Split of the test questions.")] = None
    test_limit: Annotated[int | None, sampled("test")] = None
    settings: Annotated[
        Pairs,
        list[str],
        Option(
            "--set",
            metavar="KEY=VALUE",
            help="Setting of network or training, before the preset's.",
        ),
    ] = None
    temperature: Temperature = None
    out: Annotated[
        str | Path | None,
        Path | None,
        folder(
            "Folder of the network; the same command resumes it. In Python by default a "
            "temporary one."
        ),
    ] = None
    seed: Annotated[
        int, Option(min=0, help="Of graph, weights, draws and samples of questions.")
    ] = 0
    preset: Annotated[
        str,
        Option(
            help="standing, beyond, paper, supervised, consensus_aware, gamma_0, gamma_0.7 (its "
            "ablations)."
        ),
    ] = "standing"
    embedding: Annotated[
        Any,
        str | None,
        Option(
            metavar="MODEL|DIR",
            help="Sentence embeddings; in Python also an Embedder, or a function of texts (n) "
            "that gives "
            "their vectors (n, D). Default: all-mpnet-base-v2, or all-MiniLM-L6-v2 where only "
            "that is here.",
        ),
    ] = None
    record: Record = None
    tracking: Annotated[bool, tracked()] = True
    progress: ProgressOption = None
