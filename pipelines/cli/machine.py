"""The commands about this machine: `folkmoot datasets`, `folkmoot doctor` and `folkmoot ui`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .guard import STOPPED, clean_stdout, say
from .options import Bases, Debug, Json, Names, Threads, lm_options

DATASETS_EXAMPLE = "Example: folkmoot datasets --json"
DOCTOR_EXAMPLE = "Example: folkmoot doctor --lm openai/my-model --api-base http://localhost:8000/v1"
UI_EXAMPLE = "Example: folkmoot ui --port 5001"


def datasets(as_json: Json = False, debug: Debug = False) -> None:
    """List the data sets known by name: splits, rows, licence, where from, and whether it is here."""
    from dataclasses import asdict

    from rich.table import Table

    from ..data.load import listing
    from . import show as show

    with clean_stdout():
        infos = listing()
    if as_json:
        show.print_json([asdict(info) for info in infos])
        return
    table = Table(
        "name", "kind", "splits (questions)", "licence", "comes from", "here", box=None, pad_edge=False
    )
    for info in infos:
        splits = ", ".join(f"{split} {'?' if rows is None else rows}" for split, rows in info.splits.items())
        table.add_row(info.name, info.kind, splits, info.licence, info.source, ", ".join(info.here) or "no")
    show.console().print(table)


def doctor(
    lm: Names = None,
    api_base: Bases = None,
    threads: Threads = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Check this machine: packages, LM, data, folders, tracking store; each problem with its fix."""
    from dataclasses import asdict

    from . import show as show
    from .doctor import examine

    found = []
    out = show.console()
    with clean_stdout():
        for check in examine(lm_options(lm, api_base, threads=threads)):
            found.append(check)
            if not as_json:
                style = {"ok": "green", "warn": "yellow", "fail": "bold red"}[check.status]
                out.print(f"{check.status:4}", style=style, end="  ")
                fix = f"; fix: {check.fix}" if check.fix else ""
                out.print(f"{check.name}: {check.said}{fix}", soft_wrap=True)
    failed = any(check.status == "fail" for check in found)
    if as_json:
        show.print_json({"ok": not failed, "checks": [asdict(check) for check in found]})
    if failed:
        raise typer.Exit(STOPPED)


def ui(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 5000,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 shows it to the whole network.")
    ] = "127.0.0.1",
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Open MLflow's UI on the store that runs are tracked in, until Ctrl-C."""
    from . import show as show
    from .ui import masked, newest_runs, serve, store_uri

    with clean_stdout():
        uri = store_uri()

    def ready(address: str) -> None:
        if as_json:
            show.print_json({"url": address, "store": masked(uri)})
        else:
            typer.echo(f"{newest_runs(address)} shows {masked(uri)}; Ctrl-C ends it")
        sys.stdout.flush()

    if uri.startswith(("http://", "https://")):
        ready(masked(uri))  # a server runs there already
        return
    say("starting MLflow's UI, which takes some seconds")
    serve(uri, host, port, ready)
