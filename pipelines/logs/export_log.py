"""Writes runs as logs that other tools read; no LM is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

from ...modules.base.errors import UserError
from ..evaluation.earlier import Evaluation, earlier, imported_runs
from ..runs.folder import unwritable
from .exported import ExportedRun, exported_run
from .write_inspect import write_inspect
from .write_plain import write_csv, write_jsonl

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
        format: `inspect`: a `NAME.eval` a run, which `inspect view` opens. `jsonl`, `csv`: a table
            `NAME.jsonl` or `NAME.csv` a run, with a row an answer.

    Returns the file of each run. `fm.import_log` reads all formats back with the same answers
    and scores, without dialogues. What is not known (tokens, cost,
    seconds) is left out.

    Raises:
        UserError: an unknown format, no finished run, a folder that cannot be written.
    """
    write = EXPORTS.get(format)
    if write is None:
        raise UserError(f"format is {format!r}; the formats are {', '.join(EXPORTS)}")
    given = [run] if isinstance(run, Evaluation | str | Path) else list(run)
    if not given:
        raise UserError("no run is given: name at least one folder that evaluate wrote")
    sources = [exported_run(earlier(one)) for one in imported_runs(given)]
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
    """Those of the runs' folders, each once."""
    found: list[str] = []
    for source in sources:
        name = source.run.folder.absolute().name
        others = (f"{name}-{number}" for number in count(2))
        found.append(name if name not in found else next(one for one in others if one not in found))
    return found
