"""The request of `folkmoot reproduce`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from ..base.request import (
    AnyLM,
    Argument,
    Option,
    RetryErrors,
    Running,
    Seats,
    SharedByLMs,
    folder,
    tracked,
)


@dataclass
class ReproduceRequest(SharedByLMs, Seats, Running):
    """Run rows of a published table again, and compare the measured figures with the published
    ones.

    The same command continues what was stopped. Rows that ask the same LM in the same way share a
    run.
    """

    example: ClassVar[str] = (
        "reproduce agents-of-commonsense/table-2/EX2_gpt --limit 200 --lm openai/gpt-4o-mini"
    )
    own_defaults: ClassVar[tuple[str, ...]] = ("lm", "api_base")

    spec: Annotated[
        str | None,
        Argument(
            metavar="PAPER/TABLE[/ROW]",
            help="What to run, such as agents-of-commonsense/table-2/EX2_gpt. --list shows all.",
        ),
    ] = None
    _: KW_ONLY
    lm: Annotated[
        AnyLM | None,
        list[str],
        Option(
            "--lm",
            metavar="[AGENT=]NAME",
            help="LM of every agent in all rows, or of one agent. Default: the paper's models by "
            "their names of today.",
        ),
    ] = None
    outcomes: Annotated[
        Iterable[object] | str | Path | None,
        list[str],
        Option(
            "--outcomes",
            metavar="FILE",
            help="Recorded answers to run the tables of strategy networks on, without any LM call "
            "(repeat it).",
        ),
    ] = None
    limit: Annotated[
        int | None,
        Option(min=1, help="At most this many questions per row, drawn with the row's seed."),
    ] = None
    out: Annotated[
        str | Path,
        Path,
        folder("Folder of all runs, which the same command continues."),
    ] = "runs/reproduce"
    environment: Annotated[
        str | None,
        Option(
            metavar="corpus:PATH|replay:PATH",
            help="Where agents look things up. Default: the live Wikipedia.",
        ),
    ] = None
    embedding: Annotated[
        str | None, Option(metavar="MODEL|DIR", help="Sentence embeddings of strategy networks.")
    ] = None
    prompts: Annotated[
        str | Path | Mapping[str, str] | None,
        str | None,
        Option(metavar="FILE", help="YAML file of agents and their instructions."),
    ] = None
    retry_errors: RetryErrors = False
    tracking: Annotated[bool, tracked("the runs")] = True
