"""Writes a run as a plain table, JSONL or CSV, with a row an answer: the columns that `plain`
reads.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..base.journal import to_json
from .exported import ExportedRun


def write_jsonl(source: ExportedRun, folder: Path, name: str) -> list[Path]:
    """`NAME.jsonl`."""
    place = folder / f"{name}.jsonl"
    with place.open("wb") as file:
        file.writelines(to_json(cells) + b"\n" for cells in _table(source))
    return [place]


def write_csv(source: ExportedRun, folder: Path, name: str) -> list[Path]:
    """`NAME.csv`; options stand there as JSON, and what is not known as an empty cell."""
    place, table = folder / f"{name}.csv", _table(source)
    first = next(table)
    with place.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, first)
        writer.writeheader()
        for cells in (first, *table):
            writer.writerow({**cells, "choices": cells["choices"] and json.dumps(cells["choices"])})
    return [place]


def _table(source: ExportedRun) -> Iterator[dict[str, Any]]:
    for row in source.rows():
        usage, turns = row["usage"], row["transcript"]
        yield {
            "question_id": row["id"],
            "repeat": row["repeat"],
            "agent": source.model,
            "strategy": source.strategy,
            "question": row["question"],
            "choices": row["choices"],
            "gold": row["gold"],
            "answer": row["answer"],
            "correct": row["correct"],
            "score": None if row["error"] else source.score(row),
            "decided_by": row["decided_by"],
            "text": turns[-1].get("text") if turns else None,
            "prompt_tokens": usage.get("prompt_tokens"),
            "completion_tokens": usage.get("completion_tokens"),
            "cost": usage.get("cost_usd"),
            "seconds": row["seconds"],
            "error": row["error"],
        }
