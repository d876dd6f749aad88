"""Outcome tables: who answered which question in which way, and was it right; what replays learn
from.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt
from pydantic import StringConstraints

from ...modules.base.errors import UserError
from ...modules.protocols.strategies import STRATEGIES
from ...modules.reading.answers import answer_key, score
from ...modules.reading.grading import metric_name
from ...modules.reading.row import ResultRow, TurnFields
from ..base.journal import parsed, read_object
from ..base.run_files import Manifest
from ..base.typed import as_read, misfit
from .manifest import MANIFEST
from .rows import RESULTS, read_rows
from .summary import GROUPS

UNKNOWN_LM = "lm"
"""The agent of a run whose LM nobody noted."""

_SHAPE = (
    '{"question_id": text, "question": text, "agent": text, "answer": text or null, '
    '"correct": true or false}, and as you like "group", "strategy" and "repeat"'
)

Name = Annotated[str, StringConstraints(pattern=r"\S")]


class OutcomeRow(TypedDict):
    """A line of an outcome table."""

    question_id: str
    question: str
    agent: str
    answer: str | None
    correct: bool
    group: NotRequired[str | None]
    strategy: NotRequired[str | None]
    repeat: NotRequired[int | None]


_ROW = as_read(
    OutcomeRow,
    ("question_id", "question", "agent", "answer", "correct"),
    question_id=Name,
    agent=Name,
    group=Name | None,
    strategy=Name | None,
)


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

        Raises UserError for an agent or strategy of the table that is not among them.
        """
        ways = tuple(strategies) or (None,)
        for what, have, want in (
            ("agents", self.agents, agents),
            ("strategies", self.labels, ways),
        ):
            if unknown := [name or "(none)" for name in have if name not in want]:
                raise UserError(
                    f"nothing was learned about the {what} {', '.join(unknown)} of the outcomes: "
                    f"give outcomes of {', '.join(name or '(none)' for name in want)}"
                )
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
        answers, correct, present = (change(cells) for cells in arrays)
        return replace(self, answers=answers, correct=correct, given=present, **named)


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
        before = table.rows
        if "transcript" in next((line for _, line in _lines(path)), {}):
            _add_results(path, table)
        else:
            for number, line in _lines(path):
                where = f"{path}, line {number}"
                table.add(outcome_of(line, where), where)
        if table.rows == before:
            raise UserError(f"{path} holds no outcomes: give a file with at least one answer")
    if not files:
        raise UserError("no file with outcomes is given: name at least one")
    return table.outcomes()


def outcomes_in(source: Any) -> Outcomes:
    """The outcomes that a user names or has: paths as for `read_outcomes`, or rows of a table, as a
    DataFrame or dicts. Ids, agents and answers that are whole numbers become texts.

    Raises UserError as `read_outcomes`, and for what is none of these.
    """
    if isinstance(source, Outcomes):
        return source
    if isinstance(source, str | Path):
        return read_outcomes(source)
    if hasattr(source, "to_dict") and hasattr(source, "notna"):  # a DataFrame
        source = source.astype(object).where(source.notna(), None).to_dict("records")
    rows = list(source) if isinstance(source, Iterable) else []
    if rows and all(isinstance(row, str | Path) for row in rows):
        return read_outcomes(rows)
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        raise UserError("these are not outcomes: give a path, a DataFrame, or rows as dicts")
    return outcomes_from(outcome_of(_texts(row), f"row {n}") for n, row in enumerate(rows, start=1))


def _texts(row: Mapping[str, Any]) -> dict[str, Any]:
    named = ("question_id", "agent", "answer", "group")
    return {
        name: str(value) if name in named and type(value) is int else value
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
    if wrong := misfit(row, _ROW):
        raise UserError(f"{where}: {wrong!r} is missing, or cannot be used: write {_SHAPE}")
    if row["correct"] and row["answer"] is None:
        raise UserError(
            f"{where}: the answer is null, and yet 'correct' is true; correct one of the two"
        )
    fields = {**row, "repeat": row.get("repeat") or 0}
    return RecordedOutcome._make(fields.get(name) for name in RecordedOutcome._fields)


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
        if (asked.text, asked.group) != (outcome.question, outcome.group):
            raise UserError(
                f"{where}: the question {name!r} has another text or group than at {asked.where}; "
                "give each question an id of its own, and evaluate all runs on the same data"
            )
        if self._ways and (None in self._ways) != (outcome.strategy is None):
            raise UserError(
                f"{where}: rows with and without a strategy stand together; the ones teach "
                "policies and the others weights, so train on one kind at a time"
            )
        if (
            answer is not None
            and asked.right.setdefault(answer, outcome.correct) != outcome.correct
        ):
            raise UserError(
                f"{where}: the answer {answer[:60]!r} to {name!r} is right in one row and wrong "
                "in another; correct one of them"
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
                "two rows, or give one another 'repeat'"
            )
        self._seen.add((cell, outcome.repeat))
        answered = outcome.repeat, code, outcome.correct
        self._cells[cell] = min(self._cells.get(cell, answered), answered)
        self.rows += 1

    def outcomes(self) -> Outcomes:
        shape = (len(self._questions), len(self._agents), len(self._ways) or 1)
        answers, correct = np.full(shape, -1, dtype=np.int64), np.zeros(shape, dtype=bool)
        present = np.zeros(shape, dtype=bool)
        for cell, (_, code, right) in self._cells.items():
            answers[cell], correct[cell], present[cell] = code, right, True
        texts = {answer for asked in self._questions.values() for answer in asked.codes}
        closed = texts <= _TRUTHS or all(len(text) == 1 and text.isupper() for text in texts)
        return Outcomes(
            ids=tuple(self._questions),
            questions=tuple(asked.text for asked in self._questions.values()),
            groups=tuple(asked.group for asked in self._questions.values()),
            agents=tuple(self._agents),
            strategies=tuple(way for way in self._ways if way is not None),
            answers=answers,
            correct=correct,
            given=present,
            errors=self.errors,
            repeats=len(self._seen) - len(self._cells),
            options=max(2, len(texts)) if texts and closed else None,
        )


def _file_of(source: str | Path) -> Path:
    path = Path(source).expanduser()
    path = path / RESULTS if path.is_dir() else path
    if not path.is_file() or path.suffix.casefold() in (".csv", ".tsv", ".parquet", ".xlsx"):
        raise UserError(
            f"{path} is not a JSONL file: name a file of outcomes, or the folder of a run; of a "
            f"table, `folkmoot import {path} --out DIR` makes outcomes"
        )
    return path


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    if (row := parsed(line)) is None:
                        raise UserError(
                            f"{path}, line {number}, is no JSON object: correct or delete the line"
                        )
                    yield number, row
    except OSError as problem:
        raise UserError(f"{path} cannot be read ({problem.strerror}): correct the path") from None


# Rows of runs --------------------------------------------------------------------------------


def _add_results(path: Path, table: _Table) -> None:
    """Add what the rows of a run say."""
    run: Any = read_object(path.parent / MANIFEST) or {}
    for number, row in enumerate(read_rows(path), start=1):
        where = f"{path}, line {number}"
        if row["error"]:
            table.errors += 1
            continue
        if run.get("metric"):
            raise UserError(
                f"{where} was scored by {metric_name(run)}: networks and weights learn from right "
                "and wrong answers, of runs that are scored by accuracy"
            )
        try:
            outcomes = outcomes_of_row(row, run)
        except (TypeError, ValueError, AttributeError) as problem:
            raise UserError(f"{where} is not a result row ({problem!r}): delete the line") from None
        for outcome in outcomes:
            table.add(outcome, where, row["id"])


def outcomes_of_row(row: ResultRow, run: Manifest) -> list[RecordedOutcome]:
    """The outcomes in a row of `results.jsonl`.

    Every agent's last answer counts; of an agent alone, the row's answer. Turns that prepare an
    answer do not count. In a network an agent has a strategy for each question. Elsewhere an agent
    with the name of a strategy (`cot`, `cot.1`) has that strategy and its LM is the agent, so that
    runs of several strategies with one LM make one table; a second one of the same LM is `LM #2`.
    Agents of other names have no strategy. Right is what scores as right against the row's gold
    answer; equal answers have one spelling. A question is told from others by its id, text and
    options.

    `run` is what `run.json` says of the run, as far as known.
    """
    kind, choices = row["kind"], row["choices"]
    content = json.dumps([row["question"], choices], ensure_ascii=False)
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
    last = {turn["agent"]: turn for turn in row["transcript"] if turn.get("step") is None}
    alone = len(last) == 1 and "imported" in run  # scored by who measured it
    outcomes: dict[tuple[str, str | None], RecordedOutcome] = {}
    for name, turn in last.items():
        answer = row["answer"] if len(last) == 1 else turn["answer"]
        right = bool(row["correct"])
        if not alone:
            right = score(answer, row["gold"] or "", kind, choices).correct
            answer = None if answer is None else answer_key(answer, kind)
        own, strategy = _agent(name, turn, run)
        agent, number = own, 1
        while (agent, strategy) in outcomes:
            number += 1
            agent = f"{own} #{number}"
        outcomes[agent, strategy] = RecordedOutcome(
            f"{row['id']} {digest[:8]}",
            row["question"],
            _group(row, run),
            agent,
            strategy,
            answer,
            right,
            row["repeat"],
        )
    return list(outcomes.values())


def _agent(name: str, turn: TurnFields, run: Manifest) -> tuple[str, str | None]:
    """The agent of a turn, and its strategy."""
    if turn.get("strategy") is not None or "imported" in run:
        return name, turn.get("strategy")
    strategy = re.sub(r"\.\d+$", "", name)
    if STRATEGIES.find(strategy) is None:
        return name, None
    lms: Mapping[str, Any] = run.get("lms") or {}
    lm = lms.get(name) or lms.get(strategy) or lms.get("*") or {}
    return str(lm.get("name") or UNKNOWN_LM), strategy


def _group(row: ResultRow, run: Manifest) -> str | None:
    """The first of the groups that scores are reported by, else the name of the data set."""
    meta = row.get("meta") or {}
    for name in GROUPS:
        if meta.get(name) is not None:
            return str(meta[name])
    data = (run.get("settings") or {}).get("data")
    return Path(data).stem if isinstance(data, str) and data else None
