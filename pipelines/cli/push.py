"""`folkmoot push`: sends to MLflow what its store could not take while runs lasted."""

from __future__ import annotations

from ...modules.base.errors import UserError
from ..evaluation.push import push as send
from ..tracking.unsent import waiting
from .guard import STOPPED, say
from .options import PushRequest, View
from .show import finish


def push(options: PushRequest, view: View) -> None:
    for folder in options.folders:
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}: name the folder of a finished run")
    runs = []
    for folder in options.folders or waiting():
        try:
            missing, problem = send(folder), None
        except UserError as error:
            missing, problem = ["everything"], str(error)
        runs.append({"folder": str(folder), "missing": missing, "problem": problem})
        said = (
            f"MLflow did not take {', '.join(missing)} of {folder}" if missing else f"sent {folder}"
        )
        say(problem or said)
    ok = not any(run["missing"] for run in runs)

    def show() -> None:
        if not runs:
            say("nothing waits to be sent to MLflow")

    finish(view, {"ok": ok, "runs": runs}, show, code=0 if ok else STOPPED)
