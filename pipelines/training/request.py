"""What a user asks of `folkmoot train`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from typer import Argument, Option

from ..base.request import Columned, LMs, Record, Spending, TrainSplit, folder, sampled, source, tracked


@dataclass(kw_only=True)
class TrainRequest(Columned, LMs, Spending):
    """Train a strategy network: who asks in which way for which question, and whose vote counts how much.

    With --outcomes it learns from recorded answers; with --train it asks LMs. Run the same command again to
    resume a training that was stopped: nothing that was answered is asked again. folkmoot evaluate
    network:DIR uses the result.
    """

    example: ClassVar[str] = "train --outcomes train.jsonl --test test.jsonl --out runs/network"

    program: Annotated[
        str, Argument(metavar="[PROGRAM]", help="What to train: network, the strategy network.")
    ] = "network"
    outcomes: Annotated[
        list[str],
        Option(
            "--outcomes",
            metavar="FILE",
            help="Recorded answers to learn from, without any LM call: outcome tables, results.jsonl files "
            "or run folders (repeat it).",
        ),
    ] = field(default_factory=list)
    train: Annotated[str | None, source("Questions to learn from by asking LMs.")] = None
    train_split: TrainSplit = None
    train_limit: Annotated[int | None, sampled("training")] = None
    test: Annotated[
        list[str],
        Option(metavar="FILE|NAME", help="What to score the trained network on: outcomes, or questions."),
    ] = field(default_factory=list)
    test_split: Annotated[str | None, Option(help="Split of the test questions.")] = None
    test_limit: Annotated[int | None, sampled("test")] = None
    out: Annotated[Path | None, folder("Folder of the network; the same command resumes it.")] = None
    seed: Annotated[int, Option(min=0, help="Of graph, weights, draws and samples of questions.")] = 0
    preset: Annotated[
        str,
        Option(
            help="standing, beyond, paper, supervised, consensus_aware, gamma_0, gamma_0.7 (its ablations)."
        ),
    ] = "standing"
    embedding: Annotated[
        str | None, Option(metavar="MODEL|DIR", help="Sentence embeddings. Default: all-mpnet-base-v2.")
    ] = None
    record: Record = None
    tracking: Annotated[bool, tracked()] = True
