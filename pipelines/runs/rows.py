"""Result rows: their shape, and the file that they are appended to, which survives a kill at any
point.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO, overload

from pydantic import Field

from ...modules.base.errors import UserError, system_errors
from ...modules.base.files import (
    MOST_LINE,
    cut_torn_line,
    lines_in,
    open_regular,
    opened,
    whole_lines,
)
from ...modules.base.usage import UsageFields
from ...modules.reading.answers import em_f1, gold_text, golds_of, read_number
from ...modules.reading.grading import (
    Graded,
    MetricError,
    MetricFields,
    Scale,
    grader_of,
    row_fault,
)
from ...modules.reading.row import (
    CheckFields,
    Examined,
    Passage,
    ResultRow,
    RowKey,
    TurnFields,
    row_key,
)
from ..base.html import SHOWN_ROWS, html_result, html_table
from ..base.journal import Journal, parsed, read_object
from ..base.typed import Signed, as_read, misfit
from ..base.wording import counted
from .folder import MANIFEST

if TYPE_CHECKING:
    import dspy
    import pandas as pd

    from ...modules.reading.question import Question

Place = tuple[int, int]
"""The offset of a line in its file, and its length."""

RESULTS = "results.jsonl"
MOST_RAW = 2_000
MOST_FEEDBACK = 2_000  # characters of a metric's feedback
NEEDED = frozenset(
    (
        "id",
        "kind",
        "question",
        "choices",
        "answer",
        "gold",
        "correct",
        "em",
        "f1",
        "decided_by",
        "rounds",
    )
) | {"consensus_round", "transcript", "usage", "seconds", "error"}


Share = Annotated[float, Field(ge=0, le=1)]


@cache
def _row_as_read() -> object:
    usage = as_read(UsageFields, more=False)
    turn = as_read(
        TurnFields,
        ("agent", "round", "answer", "text"),
        usage=usage,
        evidence=list[as_read(Passage)],  # type: ignore[misc]
        examined=as_read(Examined),
    )
    return as_read(
        ResultRow,
        NEEDED,
        usage=usage,
        metric_usage=usage,
        takes=usage,
        check=as_read(CheckFields),
        transcript=list[turn],  # type: ignore[valid-type]
        em=Share | None,
        f1=Share | None,
        score=Signed | None,
    )


def row_of(
    question: Question,
    prediction: dspy.Prediction,
    graded: Graded | str,
    seconds: float,
    repeat: int = 0,
) -> ResultRow:
    """Return the row of an answered question with the metric's result, or its error as text."""
    error = graded if isinstance(graded, str) else None
    row = _row(question, seconds, error, prediction.usage, repeat)
    row["answer"] = prediction.answer
    if not isinstance(graded, str):
        row["correct"], row["score"] = graded.correct, graded.score
        if graded.feedback is not None:
            row["feedback"] = graded.feedback[:MOST_FEEDBACK]
        if graded.check is not None:
            row["check"] = graded.check
    if question.kind == "span":
        row["em"], row["f1"] = em_f1(prediction.answer, question.gold or "")
    row["decided_by"], row["rounds"] = prediction.decided_by, prediction.rounds
    row["consensus_round"] = prediction.consensus_round
    row["transcript"] = prediction.transcript
    if (raw := prediction.get("raw")) is not None:
        row["raw"] = str(raw)[:MOST_RAW]
    if question.kind == "number":
        row["strict"] = bool(row.correct) and _strict(prediction)
    return row


def error_row(
    question: Question, error: str, usage: UsageFields, seconds: float, repeat: int = 0
) -> ResultRow:
    """Return the row of a failed question; it counts as wrong and is shown separately."""
    row = _row(question, seconds, error, usage, repeat)
    if question.kind == "span":
        row["em"] = row["f1"] = 0.0
    return row


def _row(
    question: Question, seconds: float, error: str | None, usage: UsageFields, repeat: int
) -> ResultRow:
    plain = str | int | float
    return ResultRow(
        id=question.id,
        repeat=repeat,
        kind=question.kind,
        question=question.question,
        choices=question.choices,
        answer=None,
        gold=question.gold,
        correct=False,
        score=None,
        em=None,
        f1=None,
        decided_by="error" if error else None,
        rounds=0,
        consensus_round=None,
        transcript=[],
        usage=usage,
        seconds=round(seconds, 4),
        error=error,
        meta={key: value for key, value in question.meta.items() if isinstance(value, plain)},
    )


def _strict(prediction: dspy.Prediction) -> bool:
    """Return whether the winning answer was stated in GSM8K's strict form (or as a bare number)."""
    # The last turn with the winning answer is the one that decided.
    for turn in reversed(prediction.transcript):
        if turn.answer == prediction.answer:
            return read_number(str(turn.raw or prediction.answer), strict=True) is not None
    return False


class RowFile:
    """`DIR/results.jsonl` while an evaluation runs: one write per row, read back on resuming. The
    folder must be locked: of two processes that append, the first to finish would drop the rows of
    the other. With `retry_errors`, rows that are errors are removed first; `earlier` gets the rest.
    Raises UserError for a damaged file, OSError when it cannot be opened.
    """

    def __init__(
        self, folder: Path, earlier: Callable[[ResultRow], None], *, retry_errors: bool = False
    ) -> None:
        self.path = folder / RESULTS
        if retry_errors and self.path.exists():
            # A kill may have left half a line, which is no row to be read.
            cut_torn_line(self.path)
            kept = [place for row, place in _placed_rows(self.path) if not row.error]
            _rewrite(self.path, kept)
        self._journal = Journal(self.path, alone=True)
        self.done: dict[RowKey, Place] = {}
        """The rows of the file, by where each stands in it."""
        for row, place in _placed_rows(self.path):
            self.done[row_key(row)] = place
            earlier(row)
        self.close = self._journal.close

    def append(self, row: ResultRow) -> None:
        """Append a row, whole or not at all. Raises UserError when the disk is full."""
        try:
            place = self._journal.write(row)
        except OSError as problem:
            raise UserError(
                f"{self.path} could not be written ({problem.strerror}): {len(self.done)} rows "
                "are kept; make room and run the same command again"
            ) from None
        self.done[row_key(row)] = place

    def __iter__(self) -> Iterator[ResultRow]:
        """Yield the rows, which need no check as in `read_rows`: this process wrote them, or
        checked them when it opened the file. Raises UserError for a line that was damaged since.
        """
        for number, (_, line) in enumerate(whole_lines(self.path), start=1):
            row = parsed(line, ("id",))
            if row is None:
                raise _no_row(self.path, number, "the whole")
            yield ResultRow.of(row)

    def sort(self, order: Iterable[RowKey]) -> None:
        """Put the rows into this order, once there are no more to append."""
        _rewrite(self.path, [self.done[key] for key in order if key in self.done])


def read_rows(path: Path) -> Iterator[ResultRow]:
    """Read the rows of a results file, one at a time. Each is checked: its shape, its score against
    the run's metric (see `row_fault`), and that no other row has the same repeat of its question,
    or another question with its id. Raises UserError naming file and line for the first that fails.
    """
    for row, _ in _placed_rows(path):
        yield row


def _placed_rows(path: Path) -> Iterator[tuple[ResultRow, Place]]:
    """Yield the rows of `read_rows`, and where each stands."""
    check, at = _RowCheck(path), 0
    lines: dict[RowKey, int] = {}
    questions: dict[str, int] = {}
    with system_errors(path, "name another run", "cannot be read"):
        file = opened(path)
    with file:
        for number, line in enumerate(_lines_of(path, file), start=1):
            row = check.row(number, line)
            first = lines.setdefault(row_key(row), number)
            if first != number:
                raise UserError(
                    f"{path}, line {number}: the question {row.id!r} has its repeat "
                    f"{row.repeat} on line {first}, too: keep one of the two"
                )
            asked = question_hash(row)
            if questions.setdefault(row.id, asked) != asked:
                raise UserError(
                    f"{path}, line {number}: the question {row.id!r} has another text, other "
                    "options or another gold answer than before: keep the rows of one of the two"
                )
            yield row, (at, len(line))
            at += len(line)


def _lines_of(path: Path, file: BinaryIO) -> Iterator[bytes]:
    with system_errors(path, "name another run", "cannot be read"):
        yield from lines_in(file)


def _no_row(path: Path, number: int, wrong: str | None) -> UserError:
    return UserError(
        f"{path}, line {number}, is not a result row ({wrong} is not valid): delete the line and "
        "run again"
    )


def question_hash(row: ResultRow) -> int:
    """Return a hash of the question's text, options and gold answer, stable only within this
    process. A question without a text, as in some logs, is that of its id.
    """
    choices = frozenset((row.choices or {}).items())
    return hash((row.kind, row.question or row.id, choices, *golds_of(row.gold)))


def row_program(run: Mapping[str, object]) -> str:
    """Return what the rows of a run call its program: the beginning of its hash."""
    return str(run.get("program_hash") or "")[:12]


class _RowCheck:
    """Checks the rows of a file against the run that its folder describes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._run = read_object(path.parent / MANIFEST)
        described = (self._run or {}).get("metric")
        metric = MetricFields.of(described) if described else None
        self._scale, self._grader = Scale.of(metric), grader_of(metric)
        self._program = row_program(self._run or {})

    def row(self, number: int, line: bytes) -> ResultRow:
        """Read the row of a line. Raises UserError for a line that is not a valid row."""
        row = parsed(line)
        wrong = misfit(row, _row_as_read())
        if row is None or wrong:
            raise _no_row(self.path, number, wrong)
        row = ResultRow.of(row)
        row.setdefault("repeat", 0)
        if self._run is not None:  # without a manifest, the metric is unknown
            measured = "imported" not in self._run
            named = row.get("program", self._program)
            if self._program and named != self._program:
                raise UserError(
                    f"{self.path}, line {number}: the question {row.id!r} was answered by "
                    "another program: restore the row, or delete the line and run again"
                )
            grader = self._grader if measured else None
            try:
                wrong = row_fault(row, self._scale, grader, measured=measured)
            except MetricError as problem:
                wrong = f"the question {row.id!r} cannot be graded again ({problem})"
            if wrong:
                raise UserError(
                    f"{self.path}, line {number}: {wrong}: restore the row, or delete the line "
                    f"and run again"
                )
        return row


class Rows(Sequence[ResultRow]):
    """The rows of an evaluation, a dict per question as in `results.jsonl`, read from disk on
    access: a sequence.
    """

    def __init__(self, path: Path, keep: object = None) -> None:
        self.path = path
        self._keep = keep  # a temporary folder lives as long as its rows
        self._check = _RowCheck(path)
        self._starts = array("q")
        self._seen: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self._places())

    @overload
    def __getitem__(self, index: int) -> ResultRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[ResultRow]: ...
    def __getitem__(self, index: int | slice) -> ResultRow | list[ResultRow]:
        numbers = range(len(self._places()))[index]
        with opened(self.path) as file:
            if isinstance(numbers, int):
                return self._row(file, numbers)
            return [self._row(file, number) for number in numbers]

    def __iter__(self) -> Iterator[ResultRow]:
        yield from read_rows(self.path)  # keeps self alive, and so its temporary folder

    def __repr__(self) -> str:
        return f"Rows({counted(len(self), 'row')} of {self.path})"

    def _repr_html_(self) -> str:
        shown = self[:SHOWN_ROWS]
        cells = [
            [row.question, row.answer, gold_text(row.gold), row.correct, row.error] for row in shown
        ]
        title = f"{counted(len(self), 'row')}, the first {len(shown)}:"
        return html_result(
            title, {}, html_table(["question", "answer", "gold", "correct", "error"], cells)
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return all rows as a DataFrame, with columns such as `usage.calls`."""
        import pandas as pd

        return pd.DataFrame([_flat(row) for row in self])

    def _row(self, file: BinaryIO, number: int) -> ResultRow:
        file.seek(self._starts[number])
        return self._check.row(number + 1, file.readline(MOST_LINE))

    def _places(self) -> array[int]:
        """Return the byte offset of each row, computed again when the file has changed."""
        stat = self.path.stat()
        # `rewrite` puts another file in its place, perhaps of the same size within one tick.
        seen = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if seen != self._seen:
            starts, at = array("q"), 0
            with opened(self.path) as file:
                for line in _lines_of(self.path, file):
                    starts.append(at)
                    at += len(line)
            self._starts, self._seen, self._check = starts, seen, _RowCheck(self.path)
        return self._starts


def _flat(row: ResultRow) -> dict[str, object]:
    flat = dict(row)
    for name in ("usage", "meta"):
        fields: Mapping[str, object] = flat.pop(name, None) or {}
        flat |= {f"{name}.{key}": value for key, value in fields.items()}
    return flat


def _rewrite(path: Path, places: Iterable[Place]) -> None:
    """Keep only the lines at these places of a file, in this order, atomically and without loading
    them into memory.
    """
    with opened(path) as source:
        temporary = path.with_suffix(".tmp")
        fresh = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        try:
            # A link that somebody left under this name would be written through, to wherever it
            # leads.
            with open(open_regular(temporary, fresh, links=False), "wb") as target:
                for start, length in places:
                    source.seek(start)
                    target.write(source.read(length))
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
    os.replace(temporary, path)
