"""The folder that a run writes to: created, locked for one process, and named in errors."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ...modules.base.errors import UserError, system_errors
from ...modules.base.files import locked

MANIFEST = "run.json"
"""The manifest file of a run's folder; see `runs.manifest`."""


@contextmanager
def claimed(folder: Path, advice: str = "choose another --out") -> Iterator[None]:
    """Create a folder if missing, and lock it for this process. Raises UserError for a folder that
    cannot be written, or that another process writes to.
    """
    with ExitStack() as held:
        with system_errors(folder, advice):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                held.enter_context(locked(folder, wait=False))
            except BlockingIOError:
                raise UserError(
                    f"another process is writing to {folder}: wait for it, or {advice}"
                ) from None
        yield


TEMPORARY = "folkmoot-"


class TemporaryFolder:
    """A folder that is deleted with this object, which results refer to, or at the end of the
    process.
    """

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=TEMPORARY))
        # Not `__del__`, which Python may leave out at the end of the process.
        self.delete = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def is_temporary(folder: Path) -> bool:
    """Return whether a folder is one that the user has not named, so that its name tells
    nothing.
    """
    return folder.parent == Path(tempfile.gettempdir()) and folder.name.startswith(TEMPORARY)


@contextmanager
def out_folder(out: str | Path | None) -> Iterator[tuple[Path, TemporaryFolder | None]]:
    """The folder to write to; for None a temporary one, second, which is deleted if the block
    fails.
    """
    if out is not None:
        yield Path(out), None
        return
    keep = TemporaryFolder()
    try:
        yield keep.path, keep
    except BaseException:
        keep.delete()
        raise
