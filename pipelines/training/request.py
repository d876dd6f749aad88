"""What a user asks of `folkmoot train`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from ..base.request import (
    AnyProgram,
    AnyQuestions,
    Argument,
    Columned,
    Option,
    Pairs,
    Record,
    Running,
    Seats,
    SharedByLMs,
    Temperature,
    TrainSplit,
    folder,
    sampled,
    source,
    tracked,
)


@dataclass
class TrainRequest(Columned, SharedByLMs, Seats, Running):
    """Train a strategy network: which agent uses which strategy on which question, and how much its
    vote counts.

    With --outcomes it learns from recorded answers, with --train by asking LMs. The same command
    continues a stopped training and makes no call twice. folkmoot evaluate network:DIR uses the
    result.
    """

    example: ClassVar[str] = "train --outcomes train.jsonl --test test.jsonl --out runs/network"

    outcomes: Annotated[
        Any,
        list[str],
        Option(
            "--outcomes",
            metavar="FILE",
            help="Recorded answers to learn from, without any LM call: outcome tables, "
            "results.jsonl files or run folders (repeat it). In Python also the rows of a table, "
            "as a DataFrame or dicts.",
        ),
    ] = None
    program: Annotated[
        AnyProgram | None,
        str | None,
        Argument(
            metavar="[PROGRAM]",
            help="The network to train further, network:DIR. Default: a new one. In Python also a "
            "network with its own settings, LMs and prompts, which is not changed.",
        ),
    ] = None
    _: KW_ONLY
    train: Annotated[
        AnyQuestions | None, str | None, source("Labelled questions to learn from by asking LMs.")
    ] = None
    train_split: TrainSplit = None
    train_limit: Annotated[int | None, sampled("training")] = None
    test: Annotated[
        AnyQuestions | None,
        list[str],
        Option(
            metavar="FILE|NAME",
            help="Test data for the trained network: outcomes, or questions.",
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
            help="Setting of the network or the training, in place of the preset's.",
        ),
    ] = None
    temperature: Temperature = None
    out: Annotated[
        str | Path | None,
        Path | None,
        folder(
            "Folder of the network, which the same command continues (required). In Python by "
            "default a temporary one."
        ),
    ] = None
    seed: Annotated[
        int, Option(min=0, help="Seed of graph, weights, draws and samples of questions.")
    ] = 0
    preset: Annotated[
        str,
        Option(
            help="standing, beyond, paper, or an ablation of paper: supervised, consensus_aware, "
            "gamma_0, gamma_0.7."
        ),
    ] = "standing"
    embedding: Annotated[
        Any,
        str | None,
        Option(
            metavar="MODEL|DIR",
            help="Sentence embeddings. Default: all-mpnet-base-v2, or all-MiniLM-L6-v2 where only "
            "that is on this machine. In Python also an Embedder, or a function of texts (n) that "
            "gives their vectors (n, D).",
        ),
    ] = None
    record: Record = None
    tracking: Annotated[bool, tracked()] = True
