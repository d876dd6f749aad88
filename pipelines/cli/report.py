"""The command `folkmoot report`: one HTML page about runs, which of them is best and at what price."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .guard import clean_stdout
from .options import Debug, Json, Quiet

EXAMPLE = "Example: folkmoot report runs/cot runs/talk --out report.html"


def report(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Folders that evaluate, compile or tune wrote.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The page. Default: report.html in the first folder."),
    ] = None,
    names: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="What to call the runs. Default: what they ran.")
    ] = None,
    track: Annotated[
        bool, typer.Option("--track/--no-track", help="Add the page to the runs' MLflow runs.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write one HTML page about runs: the verdict first, then figures, plots and dialogues.

    The first run is what the others over the same questions are measured against. The page loads nothing
    from anywhere: send it, print it, or open it on a phone.
    """
    from ...modules.base.fence import clean
    from ..reporting.report import report as write
    from . import show as show

    with clean_stdout():
        given = [name.strip() for name in names.split(",")] if names else ()
        found = write(runs, out=out, names=given, tracking=track, seed=seed)
    if as_json:
        show.print_json(found.figures)
    elif quiet:
        typer.echo(clean(str(found.path)))
    else:
        typer.echo(clean(found.headline))
        for note in found.figures["warnings"]:
            typer.echo(clean(f"Note: {note}"))
        typer.echo(clean(f"Report: {found.path}"))
