"""`folkmoot runs`: the runs in a folder, with scores and prices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError, did_you_mean
from ..base.wording import money, percent
from ..reporting.listed import ListedRun, list_runs
from .guard import say
from .options import SORTS, RunsRequest, View
from .show import console, finish, plain_table

COLUMNS = (
    "folder",
    "kind",
    "program",
    "LM",
    "data",
    "score",
    "n",
    "calls",
    "cost",
    "when (UTC)",
    "state",
)
LONGEST_LINE = 2000  # columns where no terminal folds them
_GREATEST: dict[str, Callable[[ListedRun], Any]] = {
    "time": lambda run: run.when,
    "score": lambda run: run.score and run.score["value"],
    "cost": lambda run: run.cost_usd,
    "calls": lambda run: run.calls,
}


def runs(options: RunsRequest, view: View) -> None:
    if options.sort not in SORTS:
        raise UserError(
            f"--sort {options.sort!r} is no order{did_you_mean(options.sort, SORTS)}: give "
            f"{', '.join(SORTS)}"
        )
    home = Path("runs")
    found = list_runs(options.folders or [home] * home.is_dir())
    by = _GREATEST.get(options.sort)
    key = by or (lambda run: getattr(run, options.sort))
    known = sorted((run for run in found if key(run) is not None), key=key, reverse=by is not None)
    listed = [*known, *(run for run in found if key(run) is None)]

    def show() -> None:
        if not listed:
            say(f"no runs in {', '.join(options.folders) or home}")
            return
        table = plain_table(*COLUMNS, last_left=True)
        for column in table.columns[:5]:
            column.justify = "left"
        out = console()
        if not out.is_terminal:
            out.width = LONGEST_LINE
        for run in listed:
            score = run.score or {}
            table.add_row(
                *(run.folder, run.kind, run.program, run.lm, run.data),
                *(percent(score) if score else "", f"{score['n']:,}" if score.get("n") else ""),
                *("" if run.calls is None else f"{run.calls:,}", money(run.cost_usd)),
                *(
                    run.when[:16].replace("T", " "),
                    f"{run.state}{f': {run.problem}' if run.problem else ''}",
                ),
            )
        out.print(table)

    finish(view, [asdict(run) for run in listed], show)
