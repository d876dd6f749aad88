"""Result rows: their shape, and the file they stream into, which survives being killed at any point."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import dspy

from ..modules.answers import read_number, score
from ..modules.errors import UserError
from ..modules.question import Question

RESULTS = "results.jsonl"


def row_of(question: Question, prediction: dspy.Prediction, seconds: float) -> dict[str, Any]:
    """The row of an answered question; `answer` None (unreadable) is wrong, whatever the gold answer."""
    judged = score(prediction.answer, question.answer or "", question.kind, question.choices)
    row = _row(question, seconds, None)
    row.update(
        answer=prediction.answer,
        correct=judged.correct and question.answer is not None,
        em=judged.em,
        f1=judged.f1,
        decided_by=prediction.decided_by,
        rounds=prediction.rounds,
        consensus_round=prediction.consensus_round,
        transcript=prediction.transcript,
        usage=prediction.usage,
    )
    if question.kind == "number":
        row["strict"] = row["correct"] and _strict(prediction)
    return row


def error_row(question: Question, error: str, usage: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """The row of a question that failed: counts as wrong, shown apart."""
    row = _row(question, seconds, error)
    row["usage"] = dict(usage)
    if question.kind == "span":
        row["em"] = row["f1"] = 0.0
    return row


def _row(question: Question, seconds: float, error: str | None) -> dict[str, Any]:
    return {
        "id": question.id,
        "kind": question.kind,
        "question": question.question,
        "choices": question.choices,
        "answer": None,
        "gold": question.answer,
        "correct": False,
        "em": None,
        "f1": None,
        "decided_by": "error" if error else None,
        "rounds": 0,
        "consensus_round": None,
        "transcript": [],
        "usage": {},
        "seconds": round(seconds, 4),
        "error": error,
        "meta": {key: value for key, value in question.meta.items() if isinstance(value, (str, int, float))},
    }


def _strict(prediction: dspy.Prediction) -> bool:
    """Whether the winning answer was stated in GSM8K's strict form (or as a bare number)."""
    for turn in reversed(prediction.transcript):
        if turn["answer"] == prediction.answer:
            return read_number(str(turn.get("raw") or turn["answer"]), strict=True) is not None
    return False


class RowFile:
    """`DIR/results.jsonl` while an evaluation runs: one write a row, read back on resuming."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / RESULTS
        self.done: set[str] = set()
        self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        self._drop_torn_line()
        for row in read_rows(self.path):
            self.done.add(row["id"])

    def append(self, row: Mapping[str, Any]) -> None:
        line = json.dumps(row, ensure_ascii=False).encode() + b"\n"
        start = os.fstat(self._file).st_size
        written = os.write(self._file, line)
        if written != len(line):
            os.ftruncate(self._file, start)
            raise OSError(f"{self.path}: only {written} of {len(line)} bytes could be written")
        self.done.add(row["id"])

    def close(self) -> None:
        os.close(self._file)

    def _drop_torn_line(self) -> None:
        with open(self.path, "rb") as file:
            end = 0
            for line in file:
                if line.endswith(b"\n"):
                    end += len(line)
        os.ftruncate(self._file, end)


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of a results file, one at a time. Raises UserError naming file and line for a damaged one."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                row = json.loads(line)
            except ValueError:
                raise UserError(
                    f"{path}, line {number}, is no result row: delete the line and run again"
                ) from None
            yield row


def rewrite(path: Path, order: Iterable[str], *, drop: frozenset[str] = frozenset()) -> None:
    """Put a file's rows in the questions' order, atomically and without holding them in memory."""
    places: dict[str, tuple[int, int]] = {}
    with open(path, "rb") as source:
        at = 0
        for line in source:
            places[json.loads(line)["id"]] = (at, len(line))
            at += len(line)
        temporary = path.with_suffix(".tmp")
        with open(temporary, "wb") as target:
            for name in order:
                if name in places and name not in drop:
                    source.seek(places[name][0])
                    target.write(source.read(places[name][1]))
    os.replace(temporary, path)
