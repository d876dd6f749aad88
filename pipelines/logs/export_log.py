"""Writes runs as logs that other tools read; no LM is called."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

from ...modules.base.errors import UserError
from ..evaluation.earlier import Evaluation, earlier, imported_runs
from ..runs.folder import unwritable
from .exported import RunSaid, run_said
from .write_dataset import write_dataset
from .write_every_eval_ever import write_every_eval_ever
from .write_inspect import write_inspect

EXPORTS: dict[str, Callable[[RunSaid, Path, str], list[Path]]] = {
    "inspect": write_inspect,
    "every-eval-ever": write_every_eval_ever,
    "huggingface": write_dataset,
}


def export_log(
    run: Evaluation | str | Path | Sequence[Evaluation | str | Path],
    out: str | Path,
    format: str = "inspect",
) -> list[Path]:
    """Write runs as logs of other tools into a folder, without a call.

    Args:
        run: an evaluation, the folder of one, or a list of them; imported runs, too, or the folder of an
            import for all its runs.
        out: the folder to write to, or the `.eval` file of one run. The same export again replaces what it
            wrote, but for a data set.
        format: `inspect`: a `NAME.eval` a run, which `inspect view` opens. `every-eval-ever`: instance rows
            and their summary under `data/`, as `every_eval_ever validate` takes them. `huggingface`: a
            folder that `datasets.load_from_disk` and `load_dataset` open, of several runs `NAME` for each.

    Returns the log of each run: a file, or the folder of a data set. `fm.import_log` reads the first two
    back as the rows and scores that they were. What is not known (tokens, cost, seconds) is left out.

    Raises:
        UserError: an unknown format, no finished run, a folder that cannot be written.
    """
    write = EXPORTS.get(format)
    if write is None:
        raise UserError(f"format is {format!r}; the formats are {', '.join(EXPORTS)}")
    given = [run] if isinstance(run, Evaluation | str | Path) else list(run)
    if not given:
        raise UserError("no run is given: name at least one folder that evaluate wrote")
    saids = [run_said(earlier(one)) for one in imported_runs(given)]
    folder, names, written = Path(out).expanduser(), _names(saids), []
    if write is write_inspect and folder.suffix == ".eval":
        if len(saids) > 1:
            raise UserError(f"{folder} names one log, and {len(saids)} runs are given: name a folder")
        folder, names = folder.parent, [folder.stem]
    try:
        for said, name in zip(saids, names, strict=True):
            place = folder / name if write is write_dataset and len(saids) > 1 else folder
            place.mkdir(parents=True, exist_ok=True)
            written += write(said, place, name)
    except OSError as problem:
        raise unwritable(problem, folder) from None
    return written


def _names(saids: Sequence[RunSaid]) -> list[str]:
    """Those of the runs' folders, each once."""
    found: list[str] = []
    for said in saids:
        name = said.run.folder.absolute().name
        others = (f"{name}-{number}" for number in count(2))
        found.append(name if name not in found else next(one for one in others if one not in found))
    return found
