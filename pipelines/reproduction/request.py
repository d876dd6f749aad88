"""What a user asks of `folkmoot reproduce`."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from typer import Argument, Option

from ..base.request import RetryErrors, SharedByLMs, Spending, folder, tracked


@dataclass(kw_only=True)
class ReproduceRequest(SharedByLMs, Spending):
    """Run rows of a published table again, and show published | measured with its interval | difference.

    Run the same command again to resume one that was stopped. Rows that differ in nothing share a run.
    """

    example: ClassVar[str] = (
        "reproduce agents-of-commonsense/table-2/EX2_gpt --limit 200 --lm openai/gpt-4o-mini"
    )
    own_defaults: ClassVar[tuple[str, ...]] = ("lm", "api_base")

    spec: Annotated[
        str | None, Argument(metavar="PAPER/TABLE[/ROW]", help="What to run; --list shows what there is.")
    ] = None
    show_list: Annotated[
        bool, Option("--list", help="Show papers and tables, or the rows of PAPER or PAPER/TABLE.")
    ] = False
    lm: Annotated[
        list[str],
        Option(
            "--lm",
            metavar="[MODEL=]NAME",
            help="LM for all models, or for one model of the paper. Default: what each is called today.",
        ),
    ] = field(default_factory=list)
    api_base: Annotated[
        list[str],
        Option("--api-base", metavar="[MODEL=]URL", help="Address of an OpenAI-compatible endpoint."),
    ] = field(default_factory=list)
    limit: Annotated[
        int | None, Option(help="At most so many questions a row, drawn with the row's seed.")
    ] = None
    out: Annotated[Path | None, folder("Folder of all runs. Default: one under runs/ that it resumes.")] = (
        None
    )
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
        str | None,
        Option(metavar="FILE", help="YAML of seats and instructions, instead of folkmoot's wording."),
    ] = None
    retry_errors: RetryErrors = False
    tracking: Annotated[bool, tracked("the runs")] = True
