"""Outcome tables: who answered which question in which way, and was it right; what replays learn
from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...modules.base.errors import UserError
from ...modules.reading.grading import metric_name
from ...modules.reading.row import ResultRow
from ..base.journal import read_object
from .manifest import MANIFEST
from .outcome_rows import outcomes_of_row
from .rows import RESULTS, read_rows

_TEXTS = ("question_id", "question", "agent")
_TEXTS_OR_NULL = ("group", "strategy", "answer")


class RecordedOutcome(NamedTuple):
    """One answer: a row of an outcome table. `answer` None is an abstention, and never correct;
    `repeat` is the number of the answer where the same agent answered the same question several
    times.
    """

    question_id: str
    question: str
    group: str | None
    agent: str
    strategy: str | None
    answer: str | None
    correct: bool
    repeat: int = 0


@dataclass(frozen=True)
class Outcomes:
    """Answers of A agents to Q questions in S ways, as arrays.

    `ids`, `questions` and `groups` have Q entries, `agents` A, `strategies` S; `strategies` is
    empty when the rows name none, and S is then 1. `answers` (Q, A, S) holds whole numbers, equal
    for equal answers to a question, -1 for an abstention and for an answer that is not in the
    table; `correct` (Q, A, S) says which are right; `given` (Q, A, S) which are in the table. A
    question is there once: of its repeats the first counts, and `repeats` says how many answers are
    left out for that. `errors` counts rows of failed questions, left out.
    """

    ids: tuple[str, ...]
    questions: tuple[str, ...]
    groups: tuple[str | None, ...]
    agents: tuple[str, ...]
    strategies: tuple[str, ...]
    answers: npt.NDArray[np.int64]
    correct: npt.NDArray[np.bool_]
    given: npt.NDArray[np.bool_]
    errors: int = 0
    repeats: int = 0
    options: int | None = None
    """How many answers a question can have, where all are labels such as `B`, or yes and no."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def missing(self) -> int:
        """How many answers are not in the table."""
        return int((~self.given).sum())

    @property
    def labels(self) -> tuple[str | None, ...]:
        """The ways by their place in the arrays: the strategies, or None for the only one."""
        return self.strategies or (None,)

    def take(self, places: Sequence[int]) -> Outcomes:
        """The questions at these places, in this order."""
        rows = np.asarray(places, dtype=np.intp)
        return self._with(
            lambda cells: cells[rows],
            ids=tuple(self.ids[i] for i in rows),
            questions=tuple(self.questions[i] for i in rows),
            groups=tuple(self.groups[i] for i in rows),
        )

    def only(self, strategies: Sequence[str]) -> Outcomes:
        """The answers with these strategies, in this order. Raises UserError for one without
        outcomes.
        """
        for name in strategies:
            if name not in self.strategies:
                raise UserError(
                    f"the outcomes have no strategy {name!r}: they have "
                    f"{', '.join(self.strategies)}"
                )
        ways = [self.strategies.index(name) for name in strategies]
        return self._with(lambda cells: cells[:, :, ways], strategies=tuple(strategies))

    def like(self, agents: Sequence[str], strategies: Sequence[str]) -> Outcomes:
        """The same answers with agents and strategies in this order, those that are not here all
        missing.

        Raises UserError for an agent or strategy of the table that is not among them, and when none
        of the table's answers is theirs.
        """
        for what, have, want in (
            ("agent", self.agents, agents),
            ("strategy", self.labels, tuple(strategies) or (None,)),
        ):
            for name in have:
                if name not in want:
                    shown = ", ".join(str(one) for one in want)
                    raise UserError(
                        f"the outcomes have {_named(what, name)}, which nothing was learned about: "
                        f"give outcomes of "
                        f"{shown if want != (None,) else 'agents without a strategy'}"
                    )
        ways = tuple(strategies) or (None,)
        columns = np.ix_(
            range(len(self)),
            [list(agents).index(a) for a in self.agents],
            [ways.index(s) for s in self.labels],
        )

        def spread(cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
            shape = (len(self), len(agents), len(ways))
            wide = np.full(shape, False if cells.dtype == bool else -1, dtype=cells.dtype)
            wide[columns] = cells
            return wide

        return self._with(spread, agents=tuple(agents), strategies=tuple(strategies))

    def _with(
        self, change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]], **named: Any
    ) -> Outcomes:
        """The same table with all its arrays changed in one way, and new names for what they are
        of.
        """
        arrays = (self.answers, self.correct, self.given)
        answers, correct, given = (change(cells) for cells in arrays)
        return replace(self, answers=answers, correct=correct, given=given, **named)


def read_outcomes(paths: str | Path | Sequence[str | Path]) -> Outcomes:
    """The outcomes in one or several JSONL files: outcome tables, `results.jsonl` files, or run
    folders.

    A row of a table is `{"question_id", "question", "group", "agent", "strategy", "answer",
    "correct"}`, with a `repeat` from 0 on where a question was answered several times; group,
    strategy and answer may be null. Of a `results.jsonl` every agent's last answer counts (see
    `outcomes_of_row`); failed questions are left out and counted, as are all repeats but the first.
    Questions, agents and strategies keep the order in which they first appear. Missing combinations
    are allowed.

    Raises UserError, naming file and line, for a row that is none, the same answer twice, equal
    answers to a question of which one is right and one is wrong, a question id with two texts or
    groups, rows with and without a strategy together, and files without a row.
    """
    files = [paths] if isinstance(paths, str | Path) else list(paths)
    table = _Table()
    for file in files:
        path = _file_of(file)
        before, run = table.rows, read_object(path.parent / MANIFEST) or {}
        if "transcript" in next((line for _, line in _lines(path)), {}):
            for number, row in enumerate(read_rows(path), start=1):
                where = f"{path}, line {number}"
                for outcome in _of_result(row, run, where, table):
                    table.add(outcome, where, row["id"])
        else:
            for number, line in _lines(path):
                where = f"{path}, line {number}"
                table.add(outcome_of(line, where), where)
        if table.rows == before:
            raise UserError(f"{path} holds no outcomes: give a file with at least one answer")
    if not files:
        raise UserError("no file with outcomes is given: name at least one")
    return table.outcomes()


def outcomes_in(given: Any) -> Outcomes:
    """The outcomes that a user names or has: paths as for `read_outcomes`, or rows of a table, as a
    DataFrame or dicts. Ids, agents and answers that are whole numbers become texts.

    Raises UserError as `read_outcomes`, and for what is none of these.
    """
    if isinstance(given, Outcomes):
        return given
    if isinstance(given, str | Path):
        return read_outcomes(given)
    if hasattr(given, "to_dict") and hasattr(given, "notna"):  # a DataFrame
        given = given.astype(object).where(given.notna(), None).to_dict("records")
    if not isinstance(given, Iterable):
        raise UserError(
            f"outcomes are a {type(given).__name__}: give a path, a DataFrame, or rows as dicts"
        )
    rows = list(given)
    if rows and all(isinstance(row, str | Path) for row in rows):
        return read_outcomes(rows)
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise UserError(f"outcome {number} is a {type(row).__name__}: give rows as dicts")
    if not rows:
        raise UserError("there are no outcomes: give at least one row")
    return outcomes_from(outcome_of(_texts(row), f"row {n}") for n, row in enumerate(rows, start=1))


def _texts(row: Mapping[str, Any]) -> dict[str, Any]:
    named = ("question_id", "agent", "answer", "group")
    return {
        name: str(value)
        if name in named and isinstance(value, int) and not isinstance(value, bool)
        else value
        for name, value in row.items()
    }


def outcomes_from(rows: Iterable[RecordedOutcome]) -> Outcomes:
    """The same from rows in memory; errors name the row by its number."""
    table = _Table()
    for number, outcome in enumerate(rows, start=1):
        table.add(outcome, f"row {number}")
    return table.outcomes()


def outcome_of(row: Mapping[str, Any], where: str) -> RecordedOutcome:
    """A checked row of an outcome table. Raises UserError beginning with `where`."""
    for name in (*_TEXTS, "answer", "correct"):
        if name not in row:
            raise UserError(f"{where}: the row has no {name!r}; add it")
    for name in _TEXTS:
        if not isinstance(row[name], str) or not row[name].strip():
            raise UserError(
                f"{where}: {name!r} is {_short(row[name])}; give a text that is not blank"
            )
    for name in _TEXTS_OR_NULL:
        value = row.get(name)
        if value is not None and (
            not isinstance(value, str) or (name != "answer" and not value.strip())
        ):
            raise UserError(f"{where}: {name!r} is {_short(value)}; give a text, or null for none")
    if not isinstance(row["correct"], bool):
        raise UserError(f"{where}: 'correct' is {_short(row['correct'])}; give true or false")
    if row["correct"] and row["answer"] is None:
        raise UserError(
            f"{where}: the answer is null, and yet 'correct' is true; correct one of the two"
        )
    repeat = row.get("repeat") or 0
    if type(repeat) is not int or repeat < 0:
        raise UserError(f"{where}: 'repeat' is {_short(repeat)}; give a whole number from 0 on")
    return RecordedOutcome._make(
        {**row, "repeat": repeat}.get(name) for name in RecordedOutcome._fields
    )


_TRUTHS = frozenset(("yes", "no", "True", "False", "true", "false"))
_Cell = tuple[int, int, int]
"""The places of a question, an agent and a way."""


@dataclass
class _Question:
    place: int
    text: str
    group: str | None
    where: str
    codes: dict[str, int] = field(default_factory=dict)
    right: dict[str, bool] = field(default_factory=dict)


class _Table:
    """Rows as they come in, checked against those before."""

    def __init__(self) -> None:
        self.rows = 0
        self.errors = 0
        self._questions: dict[str, _Question] = {}
        self._agents: dict[str, int] = {}
        self._ways: dict[str | None, int] = {}
        self._seen: set[tuple[_Cell, int]] = set()
        self._cells: dict[_Cell, tuple[int, int, bool]] = {}

    def add(self, outcome: RecordedOutcome, where: str, own: str | None = None) -> None:
        """Take a row in; `own` is the id that users know the question by, where it is another."""
        name, answer = own or outcome.question_id, outcome.answer
        asked = self._questions.setdefault(
            outcome.question_id,
            _Question(len(self._questions), outcome.question, outcome.group, where),
        )
        if asked.text != outcome.question:
            raise UserError(
                f"{where}: the question {name!r} has another text than at {asked.where}; give "
                f"each question "
                "its own id"
            )
        if asked.group != outcome.group:
            here, there = [
                f"the group {one!r}" if one else "no group" for one in (outcome.group, asked.group)
            ]
            mend = (
                "give it one group" if own is None else "evaluate both runs on the same data file"
            )
            raise UserError(
                f"{where}: the question {name!r} has {here} here, but {there} at {asked.where}; "
                f"{mend}"
            )
        if self._ways and (None in self._ways) != (outcome.strategy is None):
            raise UserError(
                f"{where}: rows with and without a strategy stand together; the ones teach "
                f"policies and the "
                "others weights, so train on one kind at a time"
            )
        if (
            answer is not None
            and asked.right.setdefault(answer, outcome.correct) != outcome.correct
        ):
            raise UserError(
                f"{where}: the answer {_short(answer)} to {name!r} is right in one row and wrong "
                f"in another; "
                "correct one of them"
            )
        code = -1 if answer is None else asked.codes.setdefault(answer, len(asked.codes))
        cell = (
            asked.place,
            self._agents.setdefault(outcome.agent, len(self._agents)),
            self._ways.setdefault(outcome.strategy, len(self._ways)),
        )
        if (cell, outcome.repeat) in self._seen:
            way = "" if outcome.strategy is None else f" with {outcome.strategy!r}"
            raise UserError(
                f"{where}: {outcome.agent!r} has answered {name!r}{way} before; keep one of the "
                f"two rows, or "
                "give one another 'repeat'"
            )
        self._seen.add((cell, outcome.repeat))
        answered = outcome.repeat, code, outcome.correct
        self._cells[cell] = min(self._cells.get(cell, answered), answered)
        self.rows += 1

    def outcomes(self) -> Outcomes:
        shape = (len(self._questions), len(self._agents), len(self._ways) or 1)
        answers, correct = np.full(shape, -1, dtype=np.int64), np.zeros(shape, dtype=bool)
        given = np.zeros(shape, dtype=bool)
        for cell, (_, code, right) in self._cells.items():
            answers[cell], correct[cell], given[cell] = code, right, True
        return Outcomes(
            ids=tuple(self._questions),
            questions=tuple(asked.text for asked in self._questions.values()),
            groups=tuple(asked.group for asked in self._questions.values()),
            agents=tuple(self._agents),
            strategies=tuple(way for way in self._ways if way is not None),
            answers=answers,
            correct=correct,
            given=given,
            errors=self.errors,
            repeats=len(self._seen) - len(self._cells),
            options=self._options(),
        )

    def _options(self) -> int | None:
        texts = {answer for asked in self._questions.values() for answer in asked.codes}
        closed = texts <= _TRUTHS or all(len(text) == 1 and text.isupper() for text in texts)
        return max(2, len(texts)) if texts and closed else None


def _of_result(
    row: ResultRow, run: Mapping[str, Any], where: str, table: _Table
) -> Iterator[RecordedOutcome]:
    if row.get("error"):
        table.errors += 1
        return
    if run.get("metric"):
        raise UserError(
            f"{where} was scored by {metric_name(run)}: networks and weights learn from right "
            f"and wrong "
            "answers, of runs that are scored by accuracy"
        )
    try:
        found = outcomes_of_row(row, run)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise UserError(f"{where} is no whole result row ({problem!r}): delete the line") from None
    for fields in found:
        yield outcome_of(fields, where)


def _file_of(given: str | Path) -> Path:
    path = Path(given).expanduser()
    path = path / RESULTS if path.is_dir() else path
    if not path.is_file():
        raise UserError(
            f"there is no file {path}: name a JSONL file of outcomes, or the folder of a run"
        )
    if path.suffix.casefold() in (".csv", ".tsv", ".parquet", ".xlsx"):
        raise UserError(
            f"{path} is a table and no JSONL: `folkmoot import {path} --out DIR` makes outcomes "
            f"of it, and "
            "in Python a DataFrame of its rows will do"
        )
    return path


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    row = None
                if not isinstance(row, dict):
                    raise UserError(
                        f"{path}, line {number}, is no JSON object: correct or delete the line"
                    )
                yield number, row
    except OSError as problem:
        raise UserError(f"{path} cannot be read ({problem.strerror}): correct the path") from None


def _named(what: str, name: str | None) -> str:
    return f"the {what} {name!r}" if name is not None else f"answers without a {what}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "…"
