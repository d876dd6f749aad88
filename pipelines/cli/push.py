"""`folkmoot push`: sends to MLflow what its store could not take while runs lasted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .guard import STOPPED, clean_stdout, say
from .options import Debug, Json

EXAMPLE = "Example: folkmoot push runs/sample-choice-single-cot-1a2b3c4d"


def push(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="DIR", help="Folders of finished runs. Default: all that wait."),
    ] = None,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Send runs to MLflow that its store could not take, or not whole, while they lasted."""
    from ...modules.base.errors import UserError
    from ..tracking.push import push as send
    from ..tracking.unsent import waiting
    from . import show as show

    for folder in folders or ():
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}: name the folder of a finished run")
    told, failed = [], False
    with clean_stdout():
        for folder in folders if folders else waiting():
            try:
                missing, problem = send(folder), None
            except UserError as error:
                missing, problem = ["everything"], str(error)
            failed = failed or bool(missing)
            told.append({"folder": str(folder), "missing": missing, "problem": problem})
            said = f"MLflow did not take {', '.join(missing)} of {folder}" if missing else f"sent {folder}"
            say(problem or said)
    if as_json:
        show.print_json({"ok": not failed, "runs": told})
    elif not told:
        say("nothing waits to be sent to MLflow")
    if failed:
        raise typer.Exit(STOPPED)
