"""What a user asks of `folkmoot reproduce`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

from typer import Argument, Option

from ..base.request import ProgressOption, RetryErrors, SharedByLMs, Spending, folder, tracked


@dataclass
class ReproduceRequest(SharedByLMs, Spending):
    """Run rows of a published table again, and show published | measured with its interval |
    difference.

    Run the same command again to resume one that was stopped. Rows that differ in nothing share a
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
            help="What to run, such as agents-of-commonsense/table-2/EX2_gpt; --list shows what "
            "there is.",
        ),
    ] = None
    _: KW_ONLY
    lm: Annotated[
        str | Sequence[str] | Mapping[str, str] | None,
        list[str],
        Option(
            "--lm",
            metavar="[MODEL=]NAME",
            help="LM for all models, or for one model of the paper. Default: the name that each "
            "has today.",
        ),
    ] = None
    api_base: Annotated[
        str | Sequence[str] | None,
        list[str],
        Option(
            "--api-base", metavar="[MODEL=]URL", help="Address of an OpenAI-compatible endpoint."
        ),
    ] = None
    outcomes: Annotated[
        Any,
        list[str],
        Option(
            "--outcomes",
            metavar="FILE",
            help="Recorded answers to run the tables of strategy networks on, without any LM call "
            "(repeat it).",
        ),
    ] = None
    limit: Annotated[
        int | None, Option(help="At most this many questions per row, drawn with the row's seed.")
    ] = None
    out: Annotated[
        str | Path | None,
        Path | None,
        folder("Folder of all runs. Default: one under runs/ that it resumes."),
    ] = None
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
        Option(
            metavar="FILE", help="YAML of seats and instructions, instead of folkmoot's wording."
        ),
    ] = None
    retry_errors: RetryErrors = False
    tracking: Annotated[bool, tracked("the runs")] = True
    progress: ProgressOption = None
