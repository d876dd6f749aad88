"""`folkmoot import`: the logs of other tools as runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from ..base.request import Argument, Option, Request, folder
from ..cli.command import Command
from ..cli.options import View


@dataclass(kw_only=True)
class ImportRequest(Request):
    """Import the logs of other tools as runs, one per agent, and as an outcome table.

    No LM is called. Reads logs of Inspect (.eval), samples of lm-eval, rows of Every Eval Ever,
    results of promptfoo, evaluation tables of MLflow, and plain tables with the columns
    question_id, agent, answer, correct. Repeating the same import changes nothing.
    """

    example: ClassVar[str] = "import logs/ --out runs/imported"

    logs: Annotated[list[str], Argument(metavar="LOG...", help="Files, or folders of files.")]
    out: Annotated[
        Path, folder("Where the runs go: DIR/AGENT for each agent, and DIR/outcomes.jsonl.")
    ]
    score: Annotated[
        str | None,
        Option(metavar="NAME", help="Score that says what is right, of logs with several."),
    ] = None


def run(request: ImportRequest, view: View) -> None:
    from ..cli.show import finish, show_lines
    from .card import KIND
    from .import_log import import_log

    result = import_log(list(request.logs), out=request.out, score=request.score)
    document = {
        "out": str(result.folder),
        "answers": result.answers,
        "questions": result.questions,
        "left_out": result.left_out,
        "runs": {name: str(result.folder / folder) for name, folder in result.agents.items()},
        "outcomes": str(result.outcomes),
    }
    finish(view, document, lambda: show_lines(KIND.card(result.folder).lines()))


COMMAND = Command(ImportRequest, View, run)
