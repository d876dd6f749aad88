"""The plots of a report as SVG files, and its tables as CSV files."""

from __future__ import annotations

import base64
import csv
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from ...modules.base.errors import UserError, system_errors
from ...modules.base.fence import clean
from .page import RunGroup, ShownRun
from .plots import Picture

ANSWER = ("id", "repeat", "question", "gold", "answer", "correct", "score", "decided_by", "error")
PAID = ("calls", "prompt_tokens", "completion_tokens", "cost_usd")
# A negative number is none, but "-cmd" and "-2+3" are: spreadsheets run what such a cell says.
_FORMULA = re.compile(r"\s*(?:[=@]|[-+](?![\d.,]+%?\s*$))")


def export_report(
    groups: Sequence[RunGroup], shown: Sequence[Sequence[ShownRun]], folder: Path
) -> list[Path]:
    """Write plots and tables into a folder, and return the files.

    Runs and pairs of a comparison are tables as in `Comparison.to_pandas`; `answers.csv` has every
    answer. Where runs are over several data sets, the names of files begin with the number of
    theirs. Raises UserError where nothing can be written.
    """
    files: list[Path] = []
    with system_errors(folder, "choose another --export"):
        folder.mkdir(parents=True, exist_ok=True)
        for number, (group, runs) in enumerate(zip(groups, shown, strict=True), 1):
            start = f"{number}-" if len(groups) > 1 else ""
            files += _tables(group, folder, start)
            files.append(_answers(group, folder / f"{start}answers.csv"))
            files += _intervals(group, folder / f"{start}intervals.svg")
            drawn = [*group.plots.items(), *((run.name, run.plots) for run in runs)]
            pictures = [(name, picture) for name, plots in drawn for picture in plots]
            for place, (name, picture) in enumerate(pictures, 1):
                slug = re.sub(r"[^\w.-]+", "-", name).strip("-.")[:60]
                files.append(_picture(picture, f"{folder}/{start}plot-{place}-{slug}"))
    return files


def _tables(group: RunGroup, folder: Path, start: str) -> list[Path]:
    import pandas as pd

    if group.comparison is not None:
        tables = {name: group.comparison.to_pandas(name) for name in ("runs", "pairs")}
    elif group.contest is not None:
        standings = pd.DataFrame(map(asdict, group.contest.places))
        tables = {"standings": standings, "course": pd.DataFrame(group.contest.course)}
    else:
        scores = [{"name": name, **score} for name, score in group.runs[0].summary.scores.items()]
        tables = {"scores": pd.DataFrame(scores)}
    files = {folder / f"{start}{name}.csv": table for name, table in tables.items()}
    for file, table in files.items():
        table.to_csv(file, index=False)
    return list(files)


def _answers(group: RunGroup, file: Path) -> Path:
    """Write a line for each answer of each run."""
    with file.open("w", encoding="utf-8", newline="") as opened:
        table = csv.writer(opened)
        table.writerow(("run", *ANSWER, *PAID))
        for name, run in zip(group.names, group.runs, strict=True):
            for row in run.rows:
                cells = [name, *map(row.get, ANSWER), *map(row.usage.get, PAID)]
                table.writerow(map(_harmless, cells))
    return file


def _harmless(cell: object) -> object:
    """Return a cell that no spreadsheet reads as a formula, and no terminal as a command."""
    if not isinstance(cell, str):
        return cell
    text = clean(cell)
    return f"'{text}" if _FORMULA.match(text) else text


def _intervals(group: RunGroup, file: Path) -> list[Path]:
    """Draw how far each program is from the reference."""
    try:
        if group.contest is not None:
            return [group.contest.plot(file, rate=group.is_rate)]
        if group.comparison is not None:
            return [group.comparison.plot(file)]
    except UserError:  # there is nothing to draw
        pass
    return []


def _picture(picture: Picture, stem: str) -> Path:
    """Write a picture of the page into a file of its own."""
    kind, _, data = picture.uri.removeprefix("data:image/").partition(";base64,")
    file = Path(f"{stem}.{kind.partition('+')[0]}")
    file.write_bytes(base64.b64decode(data))
    return file
