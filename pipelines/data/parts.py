"""The questions of a part ("train", "validation") of a source, and the record of how they were
loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ...modules.reading.question import Question
from . import catalogue
from .aliases import ColumnNames
from .questions import listed


def load_part(
    source: object,
    part: str,
    split: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
    *,
    columns: ColumnNames | None = None,
    kind: str | None = None,
    show: Sequence[str] = (),
) -> tuple[list[Question], str | None]:
    """Return the questions of a part ("train", "validation") as `load` gives them, and their split.

    A known data set is read from the split with the part's name if none is named; `columns` are
    those of a file.
    """
    if limit is None:
        seed = None
    read = partial(listed, source, part, limit=limit, seed=seed, kind=kind, show=show)
    if not isinstance(source, str | Path):
        return read(columns=columns), split
    if catalogue.find(str(source)) or not Path(source).expanduser().exists():
        split, columns = split or part, None
    return read(split=split, columns=columns), split


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
    types = Counter[object]()
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
