"""`folkmoot push`: makes the tracking store match the folders of finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ..tracking.push import push as send
from ..tracking.waiting import waiting
from .guard import STOPPED, say
from .options import PushRequest, View
from .show import finish


def push(options: PushRequest, view: View) -> None:
    for folder in options.folders:
        if not folder.is_dir():
            raise UserError(f"there is no folder {folder}: name the folder of a finished run")
    runs = [_pushed(folder) for folder in options.folders or waiting()]
    ok = not any(run["missing"] for run in runs)

    def show() -> None:
        if not runs:
            say("nothing waits to be sent to the tracking store")

    finish(view, {"ok": ok, "runs": runs}, show, code=0 if ok else STOPPED)


def _pushed(folder: Path) -> dict[str, Any]:
    """Push a folder, and say how that went; what was not taken, and why."""
    try:
        missing = send(folder).missing
        problem = "; ".join(dict.fromkeys(missing.values())) or None
        text = f"sent {folder}"
        if missing:
            text = f"the tracking store did not take {', '.join(missing)} of {folder}: {problem}"
    except UserError as error:
        missing, problem, text = {"everything": ""}, str(error), str(error)
    say(text)
    return {"folder": str(folder), "missing": list(missing), "problem": problem}
