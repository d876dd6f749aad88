"""Writes a run as a data set of Hugging Face: a folder that `datasets` opens, and `fm.load` as questions."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...modules.base.calls import UsageFields
from ...modules.base.errors import UserError
from ...modules.reading.row import ResultRow
from .exported import RunSaid

_CARD = """---
configs:
- config_name: default
  data_files:
  - split: {split}
    path: {split}/*.arrow
---

Answers to {task} by {who}, a row a question: `answer` is the right one, `prediction` what was answered.
"""
_TEXT, _WHOLE, _NUMBER, _YES = "string", "int64", "float64", "bool"
_PLAIN = {
    **dict.fromkeys(("id", "question", "answer", "kind", "prediction"), _TEXT),
    **dict.fromkeys(("decided_by", "error", "finish_reason", "feedback"), _TEXT),
    **dict.fromkeys(("score", "em", "f1", "seconds"), _NUMBER),
    **dict.fromkeys(("repeat", "rounds", "consensus_round"), _WHOLE),
    **dict.fromkeys(("correct", "truncated"), _YES),
}
_TURN = {"agent": _TEXT, "round": _WHOLE, "answer": _TEXT, "text": _TEXT}
_USAGE = dict.fromkeys(UsageFields.__annotations__, _WHOLE) | {"cost_usd": _NUMBER}


def write_dataset(said: RunSaid, folder: Path, name: str) -> list[Path]:
    """The folder itself, with one split: that of the questions, or `test`.

    Raises UserError for a folder with other files.
    """
    import datasets

    if held := next(folder.iterdir(), None):
        raise UserError(f"{folder} holds {held.name}: choose another --out for a data set")
    split = re.sub(r"\W+", "_", str(said.about["settings"].get("split") or "")).strip("_") or "test"
    metas = _meta_types(said)

    def struct(fields: dict[str, str]) -> dict[str, Any]:
        return {field: datasets.Value(kind) for field, kind in fields.items()}

    features = struct(_PLAIN) | {"usage": struct(_USAGE), "transcript": datasets.List(struct(_TURN))}
    features["choices"] = {part: datasets.List(datasets.Value(_TEXT)) for part in ("label", "text")}
    if metas:
        features["meta"] = struct(metas)

    def rows() -> Iterator[dict[str, Any]]:
        for row in said.rows():
            yield _columns(said, row, metas)

    shown = not datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()
    try:
        with tempfile.TemporaryDirectory(prefix="folkmoot-") as scratch:
            made = datasets.Dataset.from_generator(rows, datasets.Features(features), cache_dir=scratch)
            datasets.DatasetDict({split: made}).save_to_disk(str(folder))
    finally:
        if shown:
            datasets.enable_progress_bars()
    who = " with ".join(filter(None, (said.strategy, said.model)))
    card = _CARD.format(split=split, task=said.task, who=who)
    (folder / "README.md").write_text(card, encoding="utf-8", errors="backslashreplace")
    return [folder]


def _columns(said: RunSaid, row: ResultRow, metas: dict[str, str]) -> dict[str, Any]:
    fields: dict[str, Any] = {**row, "answer": row["gold"], "prediction": row["answer"]}
    fields["score"] = None if row["error"] else said.score(row)
    choices = row["choices"]
    usage: dict[str, Any] = {**row["usage"]}
    return {
        **{name: fields.get(name) for name in _PLAIN},
        "usage": {name: usage.get(name) for name in _USAGE},
        **(
            {"meta": {name: _as(kind, row["meta"].get(name)) for name, kind in metas.items()}}
            if metas
            else {}
        ),
        "choices": {"label": list(choices), "text": list(choices.values())} if choices else None,
        "transcript": [{name: turn.get(name) for name in _TURN} for turn in row["transcript"]],
    }


def _meta_types(said: RunSaid) -> dict[str, str]:
    """The narrowest type that holds all values of each field of `meta`."""
    seen: dict[str, set[type]] = {}
    for row in said.rows():
        for name, value in row["meta"].items():
            seen.setdefault(name, set()).add(type(value))
    narrow = {frozenset((bool,)): _YES, frozenset((int,)): _WHOLE, frozenset((float,)): _NUMBER}
    narrow[frozenset((int, float))] = _NUMBER
    return {name: narrow.get(frozenset(kinds - {type(None)}), _TEXT) for name, kinds in seen.items()}


def _as(kind: str, value: Any) -> Any:
    return str(value) if kind == _TEXT and value is not None else value
