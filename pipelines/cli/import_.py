"""`folkmoot import`: logs of others as run folders and an outcome table."""

from __future__ import annotations

from ..logs.import_log import import_log, imported_lines
from .options import ImportRequest, View
from .show import console, finish, show_result


def import_(options: ImportRequest, view: View) -> None:
    found = import_log(list(options.logs), out=options.out)
    runs = {name: str(found.folder / folder) for name, folder in found.agents.items()}
    told = {
        "out": str(found.folder),
        "answers": found.answers,
        "questions": found.questions,
        "runs": runs,
        "gains": found.gains,
        "outcomes": str(found.outcomes),
    }
    finish(view, told, lambda: show_result(console(), "import", imported_lines(found)))
