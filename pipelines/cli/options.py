"""The options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..programs.seats import LMOptions

Program = Annotated[
    str,
    typer.Argument(
        help="single:cot, ensemble:simple,cot:majority, deliberation:intuitive,reasoner:judge; a YAML file."
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--lm", metavar="[SEAT=]NAME", help="LM of every seat, or of one seat. Default: local/gemma-3-270m."
    ),
]
Bases = Annotated[
    list[str] | None,
    typer.Option(
        "--api-base", metavar="[SEAT=]URL", help="Address of an OpenAI-compatible endpoint, up to /v1."
    ),
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Constructor parameter, such as max_rounds=2."),
]
Temperature = Annotated[float | None, typer.Option(min=0.0, help="Sampling temperature. Default: 0.")]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="Most tokens of a reply. Default: 1024.")]
AnswerForm = Annotated[
    str | None,
    typer.Option(metavar="label|text", help="Whether a choice is answered by its label or its text."),
]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads of the embedded LM.")]
Concurrency = Annotated[int, typer.Option(min=1, help="Most questions and LM calls in flight.")]
Engine = Annotated[
    str, typer.Option(metavar="asyncio|ray", help="Where to run: in this process, or on a Ray cluster.")
]
Workers = Annotated[int | None, typer.Option(min=1, help="Ray's worker processes. Default: one a CPU.")]
Record = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Keep every LM call there, for --lm replay/DIR.")
]
Prices = Annotated[
    list[str] | None,
    typer.Option("--price", metavar="MODEL=IN,OUT", help="USD per million prompt and completion tokens."),
]
Budget = Annotated[
    str | None,
    typer.Option(metavar="LIMITS", help='Hard ceilings, such as "2 USD, 500 calls, 1M tokens, 20 min".'),
]
Cache = Annotated[bool, typer.Option("--cache/--no-cache", help="Share answers of hosted LMs between runs.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop; no LM is asked.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before an expensive run.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No plan and no progress.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an unexpected error.")]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--columns", metavar="FIELD=COLUMN", help="Column that holds a field, such as question=text."
    ),
]
Kind = Annotated[str | None, typer.Option(metavar="choice|boolean|number|span", help="Kind of answer.")]


def lm_options(
    names: list[str] | None,
    bases: list[str] | None,
    *,
    temperature: float | None = None,
    max_tokens: int | None = None,
    answer_form: str | None = None,
    threads: int | None = None,
    concurrency: int = 64,
    price: list[str] | None = None,
) -> LMOptions:
    """What the options say of LMs."""
    from ..programs.seats import LMOptions

    sampling = (temperature, max_tokens, answer_form)
    return LMOptions(names or (), bases or (), *sampling, threads, concurrency, price or ())
