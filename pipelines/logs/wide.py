"""Wide tables: a line per question with the answers of all agents, under a header that names the
agents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ...modules.base.errors import UserError
from ..base.wording import counted
from .answers import LogAnswer, Record, log_rows, log_text, number_in, table_rows
from .swe_bench import task_outcome

_NAMES = (
    *("agent", "agent_id", "model", "model_id", "model_name", "system", "entry", "entrant"),
    *("name", "submission", "subject", "subject_id", "column 1", "unnamed: 0"),
)
"""What the column of the agents is called, in any capitals; the last two stand for a blank name."""

_SUMS = (
    *("total", "sum", "mean", "average", "avg", "accuracy", "score", "rank", "cost", "cost_usd"),
    *("tokens", "seconds", "resolved", "solved", "pass_rate", "resolve_rate", "n", "date"),
)
"""Columns that tell of all tasks of an agent."""

_NOT_TRIED = ("-", "nan", "na", "n/a", "null", "none")
_OF_TRIALS = re.compile(r"(\d+)\s*/\s*(\d+)")
_MOST_TRIALS = 20


def wide(path: Path) -> Iterator[LogAnswer]:
    """First `{"header", "agents": [name, …] | {dataset: [name, …]}}`, then a line per question
    `{"question_id", "gold", "answers": [answer, …], "dataset"?, "question"?, "correct"?: "01-…"}`.

    Where a line has no `correct`, an answer is right that is the same text as `gold`. What is `-`
    there and has no answer was not asked. `dataset` is the group.
    """
    agents: object = None
    for row in log_rows(path):
        if "header" in row.fields:
            agents = row.value("agents")
            continue
        dataset, gold, marks = row.text("dataset"), row.text("gold"), row.value("correct")
        names = agents.get(dataset) if isinstance(agents, Mapping) else agents
        answers = [log_text(cell) for cell in row.members("answers")]
        if not isinstance(names, list) or len(names) != len(answers):
            raise row.fault("'answers' has not one entry for each agent of the header; correct it")
        if marks is None and gold is None:
            raise row.fault("there is neither 'gold' nor 'correct'; give one")
        if marks is None:
            marks = "".join("1" if answer == gold else "0" for answer in answers)
        if not isinstance(marks, str) or len(marks) != len(names):
            raise row.fault("'correct' is not a text with 0, 1 or - for each agent; correct it")
        for name, answer, mark in zip(names, answers, marks, strict=True):
            if mark == "-" and answer is None:
                continue
            told = Record(row.where, {"agent": name, "correct": mark})
            yield LogAnswer(
                row.where,
                row.name("question_id"),
                told.name("agent"),
                answer,
                told.right("correct"),
                question=row.text("question"),
                gold=gold,
                group=row.name_if_any("dataset"),
                task=dataset,
            )


def outcomes_by_task(path: Path) -> Iterator[LogAnswer]:
    """First `{"tasks": [name, …]}`, then a line per agent: `{"agent", "solved": "01-…"}` with a
    digit a task, or `{"agent", "successes": [2, …], "trials": [5, …]}`. What was not tried is `-`
    or null.
    """
    tasks: list[object] = []
    for row in log_rows(path):
        if "tasks" in row.fields:
            tasks = row.members("tasks")
            continue
        agent, marks = row.name("agent"), row.value("solved")
        columns = [row.members("successes"), row.members("trials")]
        if isinstance(marks, str):
            columns = [[*marks]]
        if any(len(column) != len(tasks) for column in columns):
            raise row.fault("there is not one entry for each of the tasks; correct it")
        for task, *cells in zip(tasks, *columns, strict=True):
            if cells[0] not in (None, "-") and cells[-1]:
                yield from _outcomes(row, agent, task, "/".join(map(str, cells)), 1)


def is_agents_row(first: Mapping[str, object]) -> bool:
    """Return whether a table has a row an agent and a column a task: a name, then figures alone."""
    name = _agents_column(first)
    figures = [value for column, value in first.items() if column != name]
    return name is not None and len(figures) > 1 and all(map(_is_figure, figures))


def _agents_column(first: Mapping[str, object]) -> str | None:
    return next((column for column in first if column.strip().casefold() in _NAMES), None)


def _tried(value: object) -> str | None:
    """Return the text of a cell; None where the agent has not tried the task."""
    text = (log_text(value) or "-").strip()
    return None if text.casefold() in _NOT_TRIED else text


def _is_figure(value: object) -> bool:
    text = _tried(value)
    return text is None or bool(_OF_TRIALS.fullmatch(text)) or _figure(text) is not None


def agents_by_task(path: Path) -> Iterator[LogAnswer]:
    """A row an agent and a column a task, of 0 and 1, of successes such as `3/5`, or of scores
    between 0 and 1. Whole numbers above 1 are successes of as many trials as the largest.
    """
    rows = [*table_rows(path)]
    # All cells are read before the first answer: the largest says what the figures mean.
    name = _agents_column(rows[0].fields)
    for column in rows[0].fields:
        if column.strip().casefold() in _SUMS:
            raise UserError(
                f"{path}: the column {column!r} seems to be about all tasks: take it out, or give "
                "the task another name"
            )
    cells = [value for row in rows for task, value in row.fields.items() if task != name]
    texts = [text for text in map(_tried, cells) if text is not None]
    figures = [figure for figure in map(_figure, texts) if figure is not None]
    most = max(figures, default=0.0)
    whole = all(map(float.is_integer, figures))
    # Broken or larger numbers are no counts of trials, and scores end at 1.
    if most > 1 and not (whole and most <= _MOST_TRIALS):
        raise UserError(
            f"{path} has the value {most:g}: write 0 or 1, scores between 0 and 1, or successes "
            "of trials such as 3/5"
        )
    if most > 1:
        read_as = f"successes of {most:.0f} trials, the largest value"
    elif len(figures) < len(texts):
        read_as = "3/5 is three successes of five trials"
    elif whole:
        read_as = "0 is failed and 1 is solved"
    else:
        read_as = "scores between 0 and 1"
    agents, tasks = counted(len(rows), "agent"), counted(len(rows[0].fields) - 1, "task")
    yield LogAnswer(str(path), read_as=f"{agents} in rows, {tasks} in columns; {read_as}")
    for row in rows:
        agent = row.name(name or "agent")
        for task, value in row.fields.items():
            if task != name:
                yield from _outcomes(row, agent, task, value, max(1, int(most)))


def _figure(text: str) -> float | None:
    number = {"true": 1.0, "false": 0.0}.get(text.casefold(), number_in(text))
    return None if number is None or number < 0 else number


def _outcomes(
    row: Record, agent: str, task: object, value: object, trials: int
) -> Iterator[LogAnswer]:
    """Yield what became of a task, by a cell such as 1, 3/5 or 0.25. A whole number is the
    successes of so many trials, which come first: their order is not known.
    """
    text = _tried(value)
    if text is None:
        yield row.left_out("that were not tried")
        return
    figure, of_trials = _figure(text), _OF_TRIALS.fullmatch(text)
    if of_trials:
        figure, trials = float(of_trials[1]), int(of_trials[2])
    if figure is None:
        raise row.fault(f"{task!r} is {text[:60]!r}; give a figure, or - for not tried")
    if figure > trials:
        raise row.fault(f"{figure:g} successes of {trials} trials of {task!r}; correct it")
    if not figure.is_integer():
        yield task_outcome(row, task, agent, None, score=figure)
        return
    for trial in range(trials):
        solved = trial < figure
        yield task_outcome(row, task, agent, solved, repeat=trial, score=float(solved))
