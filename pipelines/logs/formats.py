"""The formats of logs: detects a file's format, and names its reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from ...modules.base.errors import UserError
from ...modules.base.files import opened
from .answers import LogAnswer, json_document, json_lines
from .dialogues import dialogues
from .every_eval_ever import every_eval_ever
from .inspect_logs import inspect_log, task_of
from .lm_eval import lm_eval, task_at
from .plain import plain
from .promptfoo import promptfoo
from .split_tables import split_table
from .wide import wide


class Format(NamedTuple):
    """A kind of log: its files' endings, keys that its first object has, and its reader."""

    name: str
    endings: tuple[str, ...]
    keys: frozenset[str]
    read: Callable[..., Iterator[LogAnswer]]
    scored: bool = False
    """Whether its reader takes the name of a score."""
    task: Callable[[Path], tuple[tuple[str, ...], str] | None] = lambda path: None
    """What tells the task of a log from others, and when the log was made."""


_LINES = (".jsonl", ".ndjson")
FORMATS = (
    Format("inspect", (".eval",), frozenset(), inspect_log, True, task_of),
    Format("inspect", (".json",), frozenset({"eval", "status"}), inspect_log, True, task_of),
    Format("lm-eval", _LINES, frozenset({"doc_id", "filtered_resps"}), lm_eval, task=task_at),
    Format(
        "every-eval-ever",
        _LINES,
        frozenset({"sample_id", "model_id", "evaluation"}),
        every_eval_ever,
    ),
    Format("dialogues", _LINES, frozenset({"question_id", "run", "turns"}), dialogues),
    Format("wide", _LINES, frozenset({"header", "agents"}), wide),
    Format("dialogues", _LINES, frozenset({"header"}), dialogues),
    Format("promptfoo", _LINES, frozenset({"testIdx", "provider", "success"}), promptfoo),
    Format("promptfoo", (".json",), frozenset({"results"}), promptfoo),
    Format("evaluation-table", (".json",), frozenset({"columns", "data"}), split_table, True),
    Format("table", (*_LINES, ".json", ".csv", ".tsv", ".parquet"), frozenset(), plain),
)
"""In the order in which they are tried."""


def format_of(path: Path) -> Format:
    """The format of a file, by its ending and first object. Raises UserError for a file of none."""
    suffix = path.suffix.casefold()
    ours = [one for one in FORMATS if suffix in one.endings]
    if not path.is_file():
        raise UserError(f"there is no file {path}: name a log, or a folder of logs")
    if not ours:
        endings = ", ".join(dict.fromkeys(ending for one in FORMATS for ending in one.endings))
        raise UserError(f"{path} is of no known type: give {endings}")
    first: dict[str, object] = {}
    if suffix in _LINES:
        first = next((row for _, row in json_lines(path)), {})
    elif suffix == ".json":
        with opened(path) as file:
            start = file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
        first = json_document(path) if start.startswith(b"{") else {}
    return next(one for one in ours if one.keys <= first.keys())


def logs_in(place: Path) -> list[Path]:
    """The file itself, or the logs in a folder, not through links; of samples and other files the
    samples.
    """
    if not place.is_dir():
        return [place]
    files = sorted(one for one in place.rglob("*") if one.is_file() and not one.is_symlink())
    endings = {ending for one in FORMATS for ending in one.endings} - {".json"}
    logs = [one for one in files if one.suffix.casefold() in endings]
    logs = [one for one in logs if one.name.startswith("samples_")] or logs
    logs = logs or [one for one in files if one.suffix.casefold() == ".json"]
    if not logs:
        raise UserError(f"{place} holds no log: name a file, or a folder with logs in it")
    return logs
