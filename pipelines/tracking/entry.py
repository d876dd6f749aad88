"""The content of a run in the tracking store, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..base.cards import Content
from .context import NOWHERE, CallerPlace

Json = dict[str, Any]


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
