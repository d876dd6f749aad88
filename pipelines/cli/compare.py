"""The command `folkmoot compare`: which of several runs is better, how sure that is, and at what price."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from .guard import INTERRUPTED, clean_stdout, say
from .options import Bases, Concurrency, Debug, Json, Names, Quiet

EXAMPLE = "Example: folkmoot compare runs/cot runs/talk --match-budget"


def compare(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Folders that evaluate wrote.")],
    names: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="What to call the runs. Default: what they ran.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            metavar="DIR|NAME|N",
            help="The run that the others are measured against, by folder, name or place. Default: the "
            "first, or what --match-budget ran.",
        ),
    ] = None,
    match_budget: Annotated[
        bool,
        typer.Option(
            "--match-budget",
            help="Also run self-consistency with as many samples as the costliest run's tokens pay for.",
        ),
    ] = False,
    data: Annotated[
        str | None,
        typer.Option(metavar="NAME|FILE", help="Questions for --match-budget. Default: as the run notes."),
    ] = None,
    lm: Names = None,
    api_base: Bases = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder of what --match-budget runs. Default: match-budget in the run's."
        ),
    ] = None,
    show: Annotated[int, typer.Option(min=0, help="Show so many questions on which a pair parts.")] = 5,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
    concurrency: Concurrency = 64,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Compare runs question by question: differences with intervals, exact tests, effect sizes, prices.

    Only questions that all runs answered are compared. With --match-budget, one run is enough: --lm and
    --api-base then say where its LM is, if not where its name leads.
    """
    from . import show as shown
    from .compared import Request, compared, report

    errors = shown.console(stderr=True)

    @contextmanager
    def live(label: str) -> Iterator[Callable[[Any], None]]:
        bar = shown.LiveProgress(label)
        with bar.shown(errors, quiet=quiet):
            yield bar

    def told(line: str) -> None:
        if not quiet:
            errors.print(line, soft_wrap=True)

    request = Request(
        runs=runs,
        names=names,
        baseline=baseline,
        match_budget=match_budget,
        data=data,
        lms=lm or (),
        bases=api_base or (),
        out=out,
        seed=seed,
        concurrency=concurrency,
    )
    with clean_stdout():
        try:
            found = compared(request, live, told)
        except KeyboardInterrupt:
            say("interrupted: what is finished is kept, and the same command takes it up again")
            raise typer.Exit(INTERRUPTED) from None
    if as_json:
        shown.print_json(found.to_dict())
    elif quiet:
        for pair in found:
            typer.echo(pair.verdict)
    else:
        report(shown.console(), found, show)
