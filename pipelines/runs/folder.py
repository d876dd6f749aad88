"""The folder of a run: held by one process, and gone on with only by the same run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ...modules.base.files import locked
from ..base.journal import parsed, plain


@dataclass(frozen=True)
class RunFolder:
    """How the folders of one kind of run are told apart.

    Args:
        what: the kind's name, such as `compilation`.
        file: the JSON file that says what a folder is of.
        same: of the fields of that file those that have to be equal, each with what to say when one is not.
        others: files that mean something else where that file is missing, each with what the folder holds.
    """

    what: str
    file: str
    same: Mapping[str, str]
    others: Mapping[str, str] = field(default_factory=dict)

    def earlier(self, folder: Path, about: Mapping[str, Any]) -> dict[str, Any]:
        """What the folder says of an earlier attempt at the same run; empty for a new one. Writes nothing.

        Raises UserError for a damaged file, another run and files of others, OSError for one that cannot be read.
        """
        path = folder / self.file
        try:
            known = parsed(path.read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            for name, held in self.others.items():
                if (folder / name).exists() and (folder / name).stat().st_size:
                    raise UserError(f"{folder} holds {held}: choose another --out") from None
            return {}
        if known is None:
            raise UserError(f"{path} is damaged: choose another --out, or delete the folder")
        now = plain(about)
        for key, differs in self.same.items():
            if known.get(key) != now.get(key):
                raise UserError(
                    f"{folder} holds another {self.what} ({differs}): choose another --out, or delete it"
                )
        return known

    @contextmanager
    def opened(self, folder: Path, about: dict[str, Any]) -> Iterator[None]:
        """The folder for this process alone; `about` gets the MLflow run of an earlier attempt, or None.

        Raises UserError as `earlier` and `claimed`.
        """
        with claimed(folder):
            try:
                found = self.earlier(folder, about).get("mlflow_run_id")
            except OSError as problem:
                raise unwritable(problem, folder) from None
            about["mlflow_run_id"] = found if isinstance(found, str) else None
            yield


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """A folder, made if it is not there, for this process alone.

    Raises UserError for one that cannot be written, and one that another process writes to.
    """
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(locked(folder, wait=False))
        except BlockingIOError:
            raise UserError(
                f"another process is writing to {folder}: wait for it, or choose another --out"
            ) from None
        except OSError as problem:
            raise unwritable(problem, folder) from None
        yield


@contextmanager
def out_folder(out: str | Path | None) -> Iterator[tuple[Path, tempfile.TemporaryDirectory[str] | None]]:
    """The folder to write to; for None a temporary one, which comes second and is deleted if the block fails."""
    if out is not None:
        yield Path(out), None
        return
    keep = tempfile.TemporaryDirectory(prefix="folkmoot-")
    try:
        yield Path(keep.name), keep
    except BaseException:
        keep.cleanup()
        raise


def unwritable(problem: OSError, folder: Path, advice: str = "choose another --out") -> UserError:
    return UserError(
        f"{problem.filename or folder} cannot be written ({problem.strerror or problem}): {advice}"
    )
