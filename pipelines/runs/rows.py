"""Result rows: their shape, and the file they stream into, which survives being killed at any point."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict, cast

import dspy
from pydantic import Field

from ...modules.base.calls import UsageFields
from ...modules.base.errors import UserError
from ...modules.base.files import cut_torn_line, open_regular
from ...modules.reading.answers import read_number, score
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow
from ..base.journal import Journal
from ..base.typed import as_read, misfit

RESULTS = "results.jsonl"
NEEDED = frozenset(
    ("id", "kind", "question", "choices", "answer", "gold", "correct", "em", "f1", "decided_by", "rounds")
) | {"consensus_round", "transcript", "usage", "seconds", "error"}


Share = Annotated[float, Field(ge=0, le=1)]


class _Turn(TypedDict):
    """What every reader takes for granted of a turn; see `Turn.to_dict`."""

    agent: str
    round: int
    answer: str | None
    text: str
    raw: str
    step: str
    evidence: list[dict[str, Any]]
    examined: dict[str, Any]
    usage: UsageFields


_USAGE = as_read(UsageFields, more=False)
_TURN = as_read(_Turn, ("agent", "round", "answer", "text"), usage=_USAGE)
_ROW = as_read(ResultRow, NEEDED, usage=_USAGE, transcript=list[_TURN], em=Share | None, f1=Share | None)  # type: ignore[valid-type]


def row_of(question: Question, prediction: dspy.Prediction, seconds: float) -> ResultRow:
    """The row of an answered question; `answer` None (unreadable) is wrong, whatever the gold answer."""
    judged = score(prediction.answer, question.answer or "", question.kind, question.choices)
    row = _row(question, seconds, None, prediction.usage)
    row["answer"] = prediction.answer
    row["correct"] = judged.correct and question.answer is not None
    row["em"], row["f1"] = judged.em, judged.f1
    row["decided_by"], row["rounds"] = prediction.decided_by, prediction.rounds
    row["consensus_round"] = prediction.consensus_round
    row["transcript"] = prediction.transcript
    if question.kind == "number":
        row["strict"] = row["correct"] and _strict(prediction)
    return row


def error_row(question: Question, error: str, usage: UsageFields, seconds: float) -> ResultRow:
    """The row of a question that failed: counts as wrong, shown apart."""
    row = _row(question, seconds, error, usage)
    if question.kind == "span":
        row["em"] = row["f1"] = 0.0
    return row


def _row(question: Question, seconds: float, error: str | None, usage: UsageFields) -> ResultRow:
    return {
        "id": question.id,
        "kind": question.kind,
        "question": question.question,
        "choices": question.choices,
        "answer": None,
        "gold": cast(str, question.answer),
        "correct": False,
        "em": None,
        "f1": None,
        "decided_by": "error" if error else None,
        "rounds": 0,
        "consensus_round": None,
        "transcript": [],
        "usage": usage,
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
    """`DIR/results.jsonl` while an evaluation runs: one write a row, read back on resuming.

    The folder is claimed: of two processes that append, the first to finish would drop the rows of the other.
    With `retry_errors`, rows that are errors are removed first. Raises UserError for a damaged file, OSError
    when it cannot be opened.
    """

    def __init__(self, folder: Path, *, retry_errors: bool = False) -> None:
        self.path = folder / RESULTS
        if retry_errors and self.path.exists():
            cut_torn_line(self.path)
            rewrite(self.path, [row["id"] for row in read_rows(self.path) if not row["error"]])
        self._journal = Journal(self.path, alone=True)
        self.done = {row["id"] for row in read_rows(self.path)}
        self.close = self._journal.close

    def append(self, row: ResultRow) -> None:
        """Add a row, whole or not at all. Raises UserError when the disk takes no more."""
        try:
            self._journal.write(row)
        except OSError as problem:
            raise UserError(
                f"{self.path} could not be written ({problem.strerror}): {len(self.done)} rows are kept; "
                "make room and run the same command again"
            ) from None
        self.done.add(row["id"])


def read_rows(path: Path) -> Iterator[ResultRow]:
    """Rows of a results file, one at a time. Raises UserError naming file and line for a damaged one."""
    try:
        file = open(open_regular(path), "rb")  # noqa: SIM115
    except FileNotFoundError:
        raise
    except OSError as problem:
        raise UserError(f"{path} cannot be read ({problem.strerror}): name another run") from None
    with file:
        for number, line in enumerate(file, start=1):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if wrong := misfit(row, _ROW):
                raise UserError(
                    f"{path}, line {number}, is no result row ({wrong} is not as it must be): delete the "
                    "line and run again"
                )
            yield row


def rewrite(path: Path, order: Iterable[str], *, drop: frozenset[str] = frozenset()) -> None:
    """Put a file's rows in the questions' order, atomically and without holding them in memory."""
    places: dict[str, tuple[int, int]] = {}
    with open(open_regular(path), "rb") as source:
        at = 0
        for line in source:
            places[json.loads(line)["id"]] = (at, len(line))
            at += len(line)
        temporary = path.with_suffix(".tmp")
        fresh = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with open(open_regular(temporary, fresh, links=False), "wb") as target:
            for name in order:
                if name in places and name not in drop:
                    source.seek(places[name][0])
                    target.write(source.read(places[name][1]))
    os.replace(temporary, path)
