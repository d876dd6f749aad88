"""The questions of a part ("train", "validation") of a source, and the record of how they were
loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...modules.reading.question import Question
from . import catalogue
from .aliases import ColumnNames
from .questions import listed


def load_part(
    source: Any,
    part: str,
    split: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
    *,
    columns: ColumnNames | None = None,
    kind: str | None = None,
    show: Sequence[str] = (),
) -> tuple[list[Question], str | None]:
    """The questions of a part ("train", "validation") as `load` gives them, and their split.

    A known data set is read from the split with the part's name if none is named; `columns` are
    those of a file.
    """
    if limit is None:
        seed = None
    how: Any = {"limit": limit, "seed": seed, "kind": kind, "show": show}
    if not isinstance(source, str | Path):
        return listed(source, part, columns=columns, **how), split
    if catalogue.find(str(source)) or not Path(source).expanduser().exists():
        split, columns = split or part, None
    return listed(source, part, split=split, columns=columns, **how), split


def recorded(
    questions: Sequence[Question],
    source: str | None,
    split: str | None,
    limit: int | None,
    seed: int | None,
) -> dict[str, object]:
    """Return the record of a load for a run: its arguments, its sampling, and the kinds of
    questions.
    """
    spec, sampling = catalogue.find(source or ""), "random"
    if spec is not None:
        source, split = spec.name, spec.split(split)
        if spec.balance:
            sampling = f"balanced by {spec.balance}"
    if limit is None:
        sampling = "all"
    elif seed is None:
        sampling = "first"
    types = Counter[Any]()
    for question in questions:
        if "type" in question.meta:
            types[question.meta["type"]] += 1
    return {
        "data": source,
        "split": split,
        "limit": limit,
        "seed": seed,
        "sampling": sampling,
        "kinds": dict(Counter(question.kind for question in questions)),
        "types": dict(types),
    }
