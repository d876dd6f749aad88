"""What a command has to log, as plain data, and the one protocol of those that log it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...modules.protocols.program import Program

STOPPED_TAG = "folkmoot.stopped"
"""Says of a run with a result what ended it early, such as a budget, or no."""

END = "the end of the run"
"""Stands among the uploads of a run where the run is to end; without it, the run ends after all of
them.
"""


@dataclass(frozen=True)
class TableUpload:
    """Rows that the sink shows as a table."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


Content = Path | str | TableUpload | Mapping[str, Any] | Sequence[Any] | Callable[[Path], object]
"""What a file holds: a file or folder on disk, a text, a table, JSON, or what a function writes to
a path.

Such a function is called when the file is sent, and may write nothing.
"""


@dataclass(frozen=True)
class Child:
    """A run under the run, made once: siblings differ in the tag whose name is `key`."""

    name: str
    key: str
    holds: Upload
    status: str = "FINISHED"

    @property
    def tag(self) -> tuple[str, str]:
        return self.key, self.holds.tags[self.key]


@dataclass(frozen=True)
class Upload:
    """One named part of what a run leaves.

    Args:
        metrics: figures as they stand after `step` (questions, rows).
        curve: figures by step, in order; those that an earlier upload held are not logged again.
        name: what the run is called from now on; None leaves the name that it has.
        note: the run's description, in Markdown.
        files: contents by name, which may begin with a folder's.
        children: those made by an earlier upload are not made again.
        prompts: texts by name, each a version in the prompt registry, where the sink has one.
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    step: int = 0
    curve: Sequence[tuple[int, Mapping[str, float]]] = ()
    params: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    note: str | None = None
    files: Mapping[str, Content] = field(default_factory=dict)
    children: Sequence[Child] = ()
    name: str | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)


Uploads = Mapping[str, Callable[[], Upload] | None]
"""The parts by name, in the order in which they are sent; each is made when its turn comes."""


@dataclass(frozen=True)
class ModelUpload:
    """A program to be logged as a model.

    Args:
        lm: the LM of seats that have none of their own.
        registered: the name under which a version of it enters the registry.
    """

    program: Program
    name: str = "program"
    lm: Any = None
    registered: str | None = None

    @property
    def title(self) -> str:
        return f"the {self.name}"


class Tracker:
    """One run in a sink; this one has none, and logs nothing. No method raises, and `live` does not
    wait.
    """

    @property
    def run_id(self) -> str | None:
        """The run's name in MLflow, as soon as it has one."""
        return None

    def live(self, make: Callable[[], Upload]) -> None:
        """Log how the run stands, every few seconds at most; `make` is called only when it
        is time.
        """

    def end(
        self,
        uploads: Uploads,
        status: str,
        folder: Path,
        model: ModelUpload | None = None,
        *,
        warn: bool = True,
    ) -> list[str]:
        """Log everything and end the run: FINISHED, KILLED or FAILED; the names of what could not
        be logged.

        Warns once of those; `folder` is where the user finds them, and an evaluation's notes them.
        """
        return []

    def stop(self, status: str) -> None:
        """End the run without results, if it has begun."""

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until everything is sent that goes on being sent after `end`, and say whether it
        was.
        """
        return True


def existing(folder: Path, names: Sequence[str], under: str = "") -> dict[str, Content]:
    """The files and folders of these names that there are, as uploads below the folder `under`.

    A link could name any file of this machine, and a FIFO has no end: they are left out.
    """
    places = {name: folder / name for name in names if not (folder / name).is_symlink()}
    return {f"{under}{name}": one for name, one in places.items() if one.is_file() or one.is_dir()}
