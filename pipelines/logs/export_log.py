"""Writes runs as logs that other tools read; no LM is called."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count
from pathlib import Path

from ...modules.base.errors import UserError
from ...modules.base.fence import clean
from ..base.journal import to_json
from ..evaluation.earlier import Evaluation, earlier, imported_runs
from ..runs.folder import unwritable
from .exported import ExportedRun, exported_run
from .write_inspect import write_inspect


def write_jsonl(source: ExportedRun, folder: Path, name: str) -> list[Path]:
    """Write `NAME.jsonl`, a row for each answer, in the columns that `plain` reads."""
    place = folder / f"{name}.jsonl"
    with place.open("wb") as file:
        file.writelines(to_json(cells) + b"\n" for cells in _table(source))
    return [place]


def write_csv(source: ExportedRun, folder: Path, name: str) -> list[Path]:
    """Write the same as `NAME.csv`: options stand there as JSON, unknown figures as empty cells."""
    place, table = folder / f"{name}.csv", _table(source)
    first = next(table)
    with place.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, first)
        writer.writeheader()
        for cells in (first, *table):
            options = cells["choices"] and json.dumps(cells["choices"])
            safe = {name: _harmless(cell) for name, cell in {**cells, "choices": options}.items()}
            writer.writerow(safe)
    return [place]


_FORMULA = re.compile(r"\s*(?:[=@]|[-+](?![\d.]))")


def _harmless(cell: object) -> object:
    """A cell that no spreadsheet takes for a formula, and no terminal for a command."""
    if not isinstance(cell, str):
        return cell
    text = clean(cell)
    return f"'{text}" if _FORMULA.match(text) else text


def _table(source: ExportedRun) -> Iterator[dict[str, object]]:
    for row in source.rows():
        usage, turns = row["usage"], row["transcript"]
        yield {
            "question_id": row["id"],
            "repeat": row["repeat"],
            "agent": source.model,
            "strategy": source.strategy,
            "question": row["question"],
            "choices": row["choices"],
            "gold": row["gold"],
            "answer": row["answer"],
            "correct": row["correct"],
            "score": None if row["error"] else source.score(row),
            "decided_by": row["decided_by"],
            "text": turns[-1].get("text") if turns else None,
            "prompt_tokens": usage.get("prompt_tokens"),
            "completion_tokens": usage.get("completion_tokens"),
            "cost": usage.get("cost_usd"),
            "seconds": row["seconds"],
            "error": row["error"],
        }


EXPORTS: dict[str, Callable[[ExportedRun, Path, str], list[Path]]] = {
    "inspect": write_inspect,
    "jsonl": write_jsonl,
    "csv": write_csv,
}


def export_log(
    run: Evaluation | str | Path | Sequence[Evaluation | str | Path],
    out: str | Path,
    format: str = "inspect",
) -> list[Path]:
    """Write runs as logs of other tools into a folder, without a call.

    Args: run: an evaluation, the folder of one, or a list of them; imported runs, too, or the
        folder of an import for all its runs.
        out: the folder to write to, or the `.eval` file of one run. The same export again replaces
            what it wrote.
        format: `inspect`: a `NAME.eval` per run, which `inspect view` opens. `jsonl`, `csv`: a
            table `NAME.jsonl` or `NAME.csv` per run, with a row per answer.

    Returns the file of each run. `fm.import_log` reads all formats back with the same answers
    and scores, without dialogues. What is not known (tokens, cost,
    seconds) is left out.

    Raises:
        UserError: an unknown format, no finished run, a folder that cannot be written.
    """
    write = EXPORTS.get(format)
    if write is None:
        raise UserError(f"format is {format!r}; the formats are {', '.join(EXPORTS)}")
    runs = [run] if isinstance(run, Evaluation | str | Path) else list(run)
    if not runs:
        raise UserError("no run is given: name at least one folder that evaluate wrote")
    sources = [exported_run(earlier(one)) for one in imported_runs(runs)]
    folder, names, written = Path(out).expanduser(), _names(sources), []
    if write is write_inspect and folder.suffix == ".eval":
        if len(sources) > 1:
            raise UserError(
                f"{folder} names one log, and {len(sources)} runs are given: name a folder"
            )
        folder, names = folder.parent, [folder.stem]
    try:
        for source, name in zip(sources, names, strict=True):
            folder.mkdir(parents=True, exist_ok=True)
            written += write(source, folder, name)
    except OSError as problem:
        raise unwritable(problem, folder) from None
    return written


def _names(sources: Sequence[ExportedRun]) -> list[str]:
    """The names of the runs' folders; of equal ones all but the first have a number."""
    names: dict[str, None] = {}
    for source in sources:
        name = source.run.folder.absolute().name
        tries = chain([name], (f"{name}-{number}" for number in count(2)))
        names[next(one for one in tries if one not in names)] = None
    return list(names)
