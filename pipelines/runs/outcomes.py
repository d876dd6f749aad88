"""Outcome tables: the answer of each agent to each question with each strategy, and whether it is
right. Replays learn from them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import StringConstraints

from ...modules.base.errors import UserError
from ...modules.base.keyed import Keyed
from ...modules.protocols.strategies import STRATEGIES
from ...modules.reading.answers import answer_key, score
from ...modules.reading.grading import metric_name
from ...modules.reading.row import ResultRow, TurnFields
from ..base.journal import parsed, read_object
from ..base.run_files import Manifest
from ..base.typed import as_read, misfit
from .manifest import MANIFEST
from .rows import RESULTS, read_rows, row_lines
from .summary import GROUPS

UNKNOWN_LM = "lm"
"""The agent's name where a run does not name its LM."""

_SHAPE = (
    '{"question_id": text, "question": text, "agent": text, "answer": text or null, '
    '"correct": true or false}, and as you like "group", "strategy" and "repeat"'
)

Name = Annotated[str, StringConstraints(pattern=r"\S")]


class OutcomeRow(Keyed):
    """A line of an outcome table.

    `answer` None is an abstention, and never correct; `repeat` is the number of the answer where
    the same agent answered the same question several times. One with a `trial` is what became of a
    task, for which an agent acted: it has no answer. Its score, cost and tokens, and the cluster of
    its task are as far as known.
    """

    __slots__ = ()
    question_id: str
    question: str
    agent: str
    correct: bool
    answer: str | None = None
    group: str | None = None
    strategy: str | None = None
    repeat: int = 0
    trial: int | None = None
    score: float | None = None
    cost_usd: float | None = None
    tokens: int | None = None
    cluster: str | None = None


_ROW = as_read(
    OutcomeRow,
    ("question_id", "question", "agent", "correct"),
    question_id=Name,
    repeat=int | None,
    agent=Name,
    group=Name | None,
    strategy=Name | None,
)


@dataclass(frozen=True)
class Outcomes:
    """Answers of A agents to Q questions in S ways, as arrays.

    `ids`, `questions` and `groups` have Q entries, `agents` A, `strategies` S; `strategies` is
    empty when the rows name none, and S is then 1. `answers` (Q, A, S) holds integers, equal for
    equal answers to a question, -1 for an abstention or an answer that is not in the table;
    `correct` (Q, A, S) says which are right; `present` (Q, A, S) which are in the table. Each
    question appears once, with its first repeat; `repeats` is the number of further answers that
    are left out. `errors` is the number of rows of failed questions, which are left out, too.
    """

    ids: tuple[str, ...]
    questions: tuple[str, ...]
    groups: tuple[str | None, ...]
    agents: tuple[str, ...]
    strategies: tuple[str, ...]
    answers: npt.NDArray[np.int64]
    correct: npt.NDArray[np.bool_]
    present: npt.NDArray[np.bool_]
    errors: int = 0
    repeats: int = 0
    options: int | None = None
    """How many answers a question can have, where all are labels such as `B`, or yes and no."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def missing(self) -> int:
        """How many answers are not in the table."""
        return int((~self.present).sum())

    @property
    def labels(self) -> tuple[str | None, ...]:
        """The labels of the last axis: the strategies, or a single None."""
        return self.strategies or (None,)

    def take(self, places: Sequence[int]) -> Outcomes:
        """Return the table with only the questions at these places, in this order."""
        rows = np.asarray(places, dtype=np.intp)
        return self._with(
            lambda cells: cells[rows],
            ids=tuple(self.ids[i] for i in rows),
            questions=tuple(self.questions[i] for i in rows),
            groups=tuple(self.groups[i] for i in rows),
        )

    def only(self, strategies: Sequence[str]) -> Outcomes:
        """Return the table with only these strategies, in this order. Raises UserError for one
        without outcomes.
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
        """Return the same answers with agents and strategies in this order; answers of those not in
        the table are missing. Raises UserError for an agent or strategy of the table that is not
        among them.
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
            list(map(list(agents).index, self.agents)),
            list(map(ways.index, self.labels)),
        )

        def spread(cells: npt.NDArray[Any]) -> npt.NDArray[Any]:
            shape = (len(self), len(agents), len(ways))
            # What the table lacks is no answer (-1), and neither right nor present.
            wide = np.full(shape, False if cells.dtype == bool else -1, dtype=cells.dtype)
            wide[columns] = cells
            return wide

        return self._with(spread, agents=tuple(agents), strategies=tuple(strategies))

    def _with(
        self, change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]], **named: Any
    ) -> Outcomes:
        """Return the same table with the same change to all arrays, and new names for the axes."""
        answers, correct, present = map(change, (self.answers, self.correct, self.present))
        return replace(self, answers=answers, correct=correct, present=present, **named)


def read_outcomes(paths: str | Path | Sequence[str | Path]) -> Outcomes:
    """Return the outcomes in one or several JSONL files: outcome tables, `results.jsonl` files, or
    run folders.

    A row of a table is `{"question_id", "question", "group", "agent", "strategy", "answer",
    "correct"}`, with a `repeat` from 0 on where a question was answered several times; group,
    strategy and answer may be null. In a `results.jsonl`, every agent's last answer counts (see
    `outcomes_of_row`). Failed questions and all repeats but the first are left out and counted.
    Questions, agents and strategies keep the order in which they first appear. Missing combinations
    are allowed.

    Raises UserError, naming file and line, for an invalid row, the same answer twice, equal answers
    to a question of which one is right and one is wrong, a question id with two texts or groups,
    rows with and without a strategy together, and files without a row.
    """
    files = [paths] if isinstance(paths, str | Path) else list(paths)
    table = _Table()
    for file in files:
        path = _file_of(file)
        before = table.rows
        # A results file and an outcome table are both lines of JSON: the first one tells.
        if "transcript" in next((line for _, line in _objects(path)), {}):
            _add_results(path, table)
        else:
            for number, line in _objects(path):
                where = f"{path}, line {number}"
                table.add(outcome_of(line, where), where)
        if table.rows == before:
            raise UserError(f"{path} holds no outcomes: give a file with at least one answer")
    if not files:
        raise UserError("no file with outcomes is given: name at least one")
    return table.outcomes()


def outcomes_in(source: Any) -> Outcomes:
    """Read a user's outcomes: paths as for `read_outcomes`, or rows of a table, as a DataFrame or
    dicts. Ids, agents and answers that are integers become strings. Raises UserError as
    `read_outcomes` does, and for anything else.
    """
    if isinstance(source, Outcomes):
        return source
    if isinstance(source, str | Path):
        return read_outcomes(source)
    if hasattr(source, "to_dict") and hasattr(source, "notna"):  # a DataFrame
        source = source.astype(object).where(source.notna(), None).to_dict("records")
    rows: list[Any] = []
    if isinstance(source, Iterable):
        rows = list(source)
    if rows and all(isinstance(row, str | Path) for row in rows):
        return read_outcomes(rows)
    if not rows or not all(isinstance(row, Mapping) for row in rows):
        raise UserError("these are not outcomes: give a path, a DataFrame, or rows as dicts")
    return outcomes_from(outcome_of(_texts(row), f"row {n}") for n, row in enumerate(rows, start=1))


def _texts(row: Mapping[str, object]) -> dict[str, object]:
    texts = dict(row)
    for name in ("question_id", "agent", "answer", "group"):
        # Not isinstance: True is an int to Python, and no id to anybody.
        if type(row.get(name)) is int:
            texts[name] = str(row[name])
    return texts


def outcomes_from(rows: Iterable[OutcomeRow]) -> Outcomes:
    """Build the table from rows in memory; errors name the row by its number."""
    table = _Table()
    for number, outcome in enumerate(rows, start=1):
        table.add(outcome, f"row {number}")
    return table.outcomes()


def outcome_of(row: Mapping[str, object], where: str) -> OutcomeRow:
    """Return a checked row of an outcome table. Raises UserError beginning with `where`."""
    if wrong := misfit(row, _ROW):
        raise UserError(f"{where}: {wrong!r} is missing or not valid: write {_SHAPE}")
    if "trial" not in row:
        if "answer" not in row:
            raise UserError(f"{where}: 'answer' is missing or not valid: write {_SHAPE}")
        if row["correct"] and row["answer"] is None:
            raise UserError(
                f"{where}: the answer is null, but 'correct' is true: correct one of the two"
            )
    return OutcomeRow.of(row).but(repeat=row.get("repeat") or row.get("trial") or 0)


_TRUTHS = frozenset(("yes", "no", "True", "False", "true", "false"))
_Cell = tuple[int, int, int]
"""The indices of a question, an agent and a strategy."""


@dataclass
class _Question:
    place: int
    text: str
    group: str | None
    where: str
    codes: dict[str, int] = field(default_factory=dict)
    right: dict[str, bool] = field(default_factory=dict)


class _Table:
    """Collects rows one by one, and checks each against the earlier ones."""

    def __init__(self) -> None:
        self.rows = 0
        self.errors = 0
        self._questions: dict[str, _Question] = {}
        self._agents: dict[str, int] = {}
        self._ways: dict[str | None, int] = {}
        self._seen: set[tuple[_Cell, int]] = set()
        self._cells: dict[_Cell, tuple[int, int, bool]] = {}

    def add(self, outcome: OutcomeRow, where: str, own: str | None = None) -> None:
        """Add a row; `own` is the user's id of the question, where it differs."""
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
                f"{where}: some rows have a strategy and some have none: the first kind trains "
                "policies and the other weights, so train on one kind at a time"
            )
        code = -1
        if answer is not None:
            if asked.right.setdefault(answer, outcome.correct) != outcome.correct:
                raise UserError(
                    f"{where}: the answer {answer[:60]!r} to {name!r} is right in one row and "
                    "wrong in another; correct one of them"
                )
            code = asked.codes.setdefault(answer, len(asked.codes))
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
        # The first repeat counts, in whatever order the rows come.
        self._cells[cell] = min(self._cells.get(cell, answered), answered)
        self.rows += 1

    def outcomes(self) -> Outcomes:
        shape = (len(self._questions), len(self._agents), len(self._ways) or 1)
        answers, correct = np.full(shape, -1, dtype=np.int64), np.zeros(shape, dtype=bool)
        present = np.zeros(shape, dtype=bool)
        for cell, (_, code, right) in self._cells.items():
            answers[cell], correct[cell], present[cell] = code, right, True
        texts = {answer for asked in self._questions.values() for answer in asked.codes}
        # Only a closed list of answers says how often two that guess agree.
        closed = texts <= _TRUTHS or all(len(text) == 1 and text.isupper() for text in texts)
        options = None
        if texts and closed:
            options = max(2, len(texts))
        return Outcomes(
            ids=tuple(self._questions),
            questions=tuple(asked.text for asked in self._questions.values()),
            groups=tuple(asked.group for asked in self._questions.values()),
            agents=tuple(self._agents),
            strategies=tuple(way for way in self._ways if way is not None),
            answers=answers,
            correct=correct,
            present=present,
            errors=self.errors,
            repeats=len(self._seen) - len(self._cells),
            options=options,
        )


def _file_of(source: str | Path) -> Path:
    path = Path(source).expanduser()
    if path.is_dir():
        path /= RESULTS
    if not path.is_file() or path.suffix.casefold() in (".csv", ".tsv", ".parquet", ".xlsx"):
        wrong = "is not a JSONL file" if path.exists() else "does not exist"
        raise UserError(
            f"{path} {wrong}: name a file of outcomes, or the folder of a run; of a "
            f"table, `folkmoot import {path} --out DIR` makes outcomes"
        )
    return path


def _objects(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the object on each line that is not blank, with its number."""
    for number, line in enumerate(row_lines(path), start=1):
        if not line.strip():
            continue
        row = parsed(line)
        if row is None:
            raise UserError(
                f"{path}, line {number}, is not a JSON object: correct or delete the line"
            )
        yield number, row


# Rows of runs --------------------------------------------------------------------------------


def _add_results(path: Path, table: _Table) -> None:
    """Add the outcomes in the rows of a run."""
    run = Manifest.of(read_object(path.parent / MANIFEST) or {})
    for number, row in enumerate(read_rows(path), start=1):
        where = f"{path}, line {number}"
        if row.error:
            table.errors += 1
            continue
        if run.get("metric"):
            raise UserError(
                f"{where} was scored by {metric_name(run)}: networks and weights need runs that "
                "are scored by accuracy"
            )
        try:
            outcomes = outcomes_of_row(row, run)
        except (TypeError, ValueError, AttributeError) as problem:
            raise UserError(f"{where} is not a result row ({problem!r}): delete the line") from None
        for outcome in outcomes:
            table.add(outcome, where, row.id)


def outcomes_of_row(row: ResultRow, run: Manifest) -> list[OutcomeRow]:
    """Return the outcomes in a row of `results.jsonl`.

    Every agent's last answer counts; for a single agent, the row's answer. Turns that prepare an
    answer do not count. In a network, an agent has a strategy for each question. In other programs,
    an agent with the name of a strategy (`cot`, `cot.1`) has that strategy, and its LM is the
    agent, so that runs of several strategies with one LM make one table; a second such agent of the
    same LM is `LM #2`. Agents with other names have no strategy. An answer is right if it scores as
    right against the row's gold answer; equal answers get one spelling. Questions are identified by
    id, text and options. `run` is the content of `run.json`, as far as known.
    """
    kind, choices = row.kind, row.choices
    # Data sets count from 1 each: an id alone does not say which question it is.
    content = json.dumps([row.question, choices], ensure_ascii=False)
    digest = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()
    last = {turn["agent"]: turn for turn in row.transcript if turn.step is None}
    alone = len(last) == 1 and "imported" in run  # scored by the tool that wrote the log
    outcomes: dict[tuple[str, str | None], OutcomeRow] = {}
    for name, turn in last.items():
        answer = row.answer if len(last) == 1 else turn.answer
        right = bool(row.correct)
        if not alone:
            right = score(answer, row.gold or "", kind, choices).correct
            if answer is not None:
                answer = answer_key(answer, kind)
        own, strategy = _agent(name, turn, run)
        agent, number = own, 1
        while (agent, strategy) in outcomes:
            number += 1
            agent = f"{own} #{number}"
        outcomes[agent, strategy] = OutcomeRow(
            question_id=f"{row.id} {digest[:8]}",
            question=row.question,
            group=_group(row, run),
            agent=agent,
            strategy=strategy,
            answer=answer,
            correct=right,
            repeat=row.repeat,
        )
    return list(outcomes.values())


def _agent(name: str, turn: TurnFields, run: Manifest) -> tuple[str, str | None]:
    """Return the agent of a turn, and its strategy."""
    if turn.strategy is not None or "imported" in run:
        return name, turn.strategy
    # Several agents with one strategy are told apart by a number, such as `cot.1`.
    strategy = re.sub(r"\.\d+$", "", name)
    if STRATEGIES.find(strategy) is None:
        return name, None
    lms = run.get("lms") or {}
    lm = lms.get(name) or lms.get(strategy) or lms.get("*") or {}
    return str(lm.get("name") or UNKNOWN_LM), strategy


def _group(row: ResultRow, run: Manifest) -> str | None:
    """Return the first of the groups that scores are reported by, else the name of the data set."""
    meta = row.get("meta") or {}
    for name in GROUPS:
        if meta.get(name) is not None:
            return str(meta[name])
    data = (run.get("settings") or {}).get("data")
    return Path(data).stem if isinstance(data, str) and data else None
