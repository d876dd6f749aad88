"""The content of a run in the tracking store, as plain data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...modules.base.saved_file import FILE
from ...modules.protocols.foreign import MODULE
from ..base.journal import read_object
from ..programs.saved import LM_FILE
from .context import NOWHERE, CallerPlace
from .values import experiment_name, params_of, scrubbed, tags_of

Json = dict[str, Any]


@dataclass(frozen=True)
class TableEntry:
    """Rows that the store shows as a table."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    @property
    def document(self) -> Json:
        """The rows as MLflow reads tables."""
        return {"columns": self.columns, "data": self.rows}


@dataclass(frozen=True)
class Drawn:
    """A file that is made from `sources` when it is sent. `write` gets the path, and may write
    nothing; `table` says that it writes a table.
    """

    sources: Sequence[Path]
    write: Callable[[Path], object]
    table: bool = False


Content = Path | str | Json | TableEntry | Drawn
"""The content of a file: a file or folder on disk, a text, JSON, a table, or a drawing by a
function.
"""


@dataclass(frozen=True)
class ModelEntry:
    """A saved program that is to be logged as a model.

    Args:
        folder: the folder that `program.save` wrote. name: the name of the model in the run. lm:
            the LM of seats without their own, as `saved_lm` describes it. registered: the name of
            the model in the registry, if a version is added there.
    """

    folder: Path
    name: str = "program"
    lm: Json | None = None
    registered: str | None = None


@dataclass(frozen=True)
class RunEntry:
    """One run as the store should show it.

    Args:
        key: identifies the run in the store; attempts share it, siblings have different keys.
        experiment: the name of its data set.
        dataset: `name`, `digest`, `source` and `rows` of the data, where it has any.
        metrics: the figures after `step` questions. curve: figures by step, in order.
        note: the run's description, in Markdown.
        files: contents by name.
        children: runs below this one that have no folder of their own.
        parts: folders whose runs are shown below this one.
        traced: whether the folder's traces belong to this run.
        place: the caller's place in MLflow. began, ended: milliseconds since 1970. document: the
            JSON file that gets the run's id.
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
    model: ModelEntry | None = None
    children: Sequence[RunEntry] = ()
    parts: Sequence[Path] = ()
    traced: bool = False
    place: CallerPlace = field(default_factory=NOWHERE.copy)
    began: int | None = None
    ended: int | None = None
    document: Path | None = None


def existing(folder: Path, names: Sequence[str], under: str = "") -> dict[str, Content]:
    """The existing files and folders of these names, by their names in the store, under `under`.
    Links are left out, since a link could name any file of this machine; so are FIFOs, which never
    end.
    """
    places = {name: folder / name for name in names if not (folder / name).is_symlink()}
    return {
        f"{under}{name}": path for name, path in places.items() if path.is_file() or path.is_dir()
    }


# What the entries of all kinds have in common ----------------------------------------------------

STOPPED_TAG = "folkmoot.stopped"
"""Tag of a run with a result: why it ended early, such as a budget, or `no`."""
DETAILS = ("program_hash", "prompt_hash", "data_fingerprint", "lms", "versions", "git_commit")


def described(run: Mapping[str, Any], key: str, name: str, document: Path, **more: Any) -> RunEntry:
    """An entry from a manifest: parameters, tags, data set, and the details as one file."""
    source = {field: run["settings"].get(field) for field in ("data", "split")}
    run = scrubbed(run)
    details = {name: run.get(name) for name in DETAILS}
    files = {"details.json": details, **more.pop("files", {})}
    return RunEntry(
        key=key,
        name=name,
        experiment=experiment_name(run),
        dataset={
            "digest": run["data_fingerprint"],
            "source": source,
            "rows": run["questions"],
        },
        params=params_of(run),
        tags={**tags_of(run), **more.pop("tags", {})},
        files=files,
        document=document,
        **more,
    )


def model_in(folder: Path, name: str = "program") -> ModelEntry | None:
    """The program saved in a folder, as a model; None for a user's own class, which is not imported
    here.
    """
    if not folder.is_dir() or folder.is_symlink() or (folder / MODULE).exists():
        return None
    if not (folder / FILE).exists():  # it only names a program
        return None
    return ModelEntry(folder, name, read_object(folder / LM_FILE))


def figures(tree: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """The numbers of a tree by name, for scores with the ends of their intervals."""
    numbers: dict[str, float] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping) and "value" in value:
            numbers[f"{prefix}{name}"] = value["value"]
            ends = {end: value[end] for end in ("low", "high") if end in value}
            numbers |= {f"{prefix}{name}_{end}": one for end, one in ends.items()}
        elif isinstance(value, Mapping):
            numbers |= figures(value, f"{prefix}{name}_")
        elif isinstance(value, int | float) and value == value:
            numbers[f"{prefix}{name}"] = value
    return numbers
