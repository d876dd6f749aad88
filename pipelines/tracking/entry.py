"""What a run shows in the tracking store, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.journal import write_json
from .context import NOWHERE, CallerPlace

Json = dict[str, Any]


@dataclass(frozen=True)
class TableEntry:
    """Rows that the store shows as a table."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


def write_table(path: Path, table: TableEntry) -> None:
    """Write rows as MLflow reads tables."""
    write_json(path, {"columns": table.columns, "data": table.rows})


@dataclass(frozen=True)
class Drawn:
    """A file that is made when it is sent: `sources` are what it is made of.

    `write` gets the path, and may write nothing; `table` tells that it writes a table.
    """

    sources: Sequence[Path]
    write: Callable[[Path], object]
    table: bool = False


Content = Path | str | Json | TableEntry | Drawn
"""What a file holds: a file or folder on disk, a text, JSON, a table, or what a function draws."""


@dataclass(frozen=True)
class ModelEntry:
    """A saved program that is to be logged as a model.

    Args:
        folder: what `program.save` wrote.
        name: what the model is called in the run.
        lm: the LM of seats without one of their own, as `saved_lm` describes it.
        registered: the name under which a version of it enters the model registry.
    """

    folder: Path
    name: str = "program"
    lm: Json | None = None
    registered: str | None = None


@dataclass(frozen=True)
class RunEntry:
    """One run as the store is to show it.

    Args:
        key: identifies the run in the store; siblings and attempts differ in it or share it.
        experiment: the name of its data set.
        dataset: `name`, `digest`, `source` and `rows` of the data, where it has any.
        metrics: figures as they stand after `step` questions.
        curve: figures by step, in order.
        note: the run's description, in Markdown.
        files: contents by name; `late` are those that are sent after the run has ended.
        prompts: texts by name, each a version in the prompt registry.
        children: runs below this one that have no folder of their own.
        parts: folders whose runs are shown below this one.
        traced: whether the folder's traces belong to this run.
        place: where the caller was in MLflow.
        began, ended: milliseconds since 1970.
        document: the JSON file in which the run's id is noted.
    """

    key: str
    name: str
    experiment: str = ""
    status: str = "FINISHED"
    dataset: Json | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    step: int = 0
    curve: Sequence[tuple[int, Mapping[str, float]]] = ()
    note: str | None = None
    files: Mapping[str, Content] = field(default_factory=dict)
    late: Mapping[str, Content] = field(default_factory=dict)
    prompts: Mapping[str, str] = field(default_factory=dict)
    model: ModelEntry | None = None
    children: Sequence[RunEntry] = ()
    parts: Sequence[Path] = ()
    traced: bool = False
    place: CallerPlace = field(default_factory=NOWHERE.copy)
    began: int | None = None
    ended: int | None = None
    document: Path | None = None


def existing(folder: Path, names: Sequence[str], under: str = "") -> dict[str, Content]:
    """The files and folders of these names that exist, by their names below the folder `under`.

    Links are left out, since one could name any file of this machine; so are FIFOs, which never
    end.
    """
    places = {name: folder / name for name in names if not (folder / name).is_symlink()}
    return {
        f"{under}{name}": path for name, path in places.items() if path.is_file() or path.is_dir()
    }
