"""Wide tables: a line per question with the answers of all agents, under a header that names the
agents.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from ...modules.base.errors import UserError
from ..base.wording import counted
from ..data.tables import read
from .answers import (
    LogAnswer,
    json_lines,
    log_count,
    log_fault,
    log_left_out,
    log_list,
    log_name,
    log_name_if_any,
    log_text,
    number_in,
    right,
)
from .swe_bench import task_outcome

GRADED = {"name": "score", "rate": False}
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
    for where, row in json_lines(path):
        if "header" in row:
            agents = row.get("agents")
            continue
        dataset = log_text(row.get("dataset"))
        names = agents.get(dataset) if isinstance(agents, Mapping) else agents
        answers = log_list(row.get("answers"), "answers", where)
        if not isinstance(names, list) or len(names) != len(answers):
            raise log_fault(
                where, "'answers' has not one entry for each agent of the header; correct it"
            )
        gold, marks = log_text(row.get("gold")), row.get("correct")
        if marks is not None and (not isinstance(marks, str) or len(marks) != len(names)):
            raise log_fault(
                where, "'correct' is not a text with 0, 1 or - for each agent; correct it"
            )
        if marks is None and gold is None:
            raise log_fault(where, "there is neither 'gold' nor 'correct'; give one")
        for place, (name, cell) in enumerate(zip(names, answers, strict=True)):
            answer = log_text(cell)
            if marks is not None and marks[place] == "-":
                if answer is None:
                    continue
                raise log_fault(where, "an answer is marked neither right nor wrong; give 0 or 1")
            same = answer is not None and answer == gold
            yield LogAnswer(
                where,
                log_name(row.get("question_id"), "question_id", where),
                log_name(name, "agent", where),
                answer,
                same if marks is None else right(marks[place], "correct", where),
                question=log_text(row.get("question")),
                gold=gold,
                group=log_name_if_any(dataset, "dataset", where),
                task=dataset,
            )


def outcomes_by_task(path: Path) -> Iterator[LogAnswer]:
    """First `{"tasks": [name, …]}`, then a line per agent: `{"agent", "solved": "01-…"}` with a
    digit a task, or `{"agent", "successes": [2, …], "trials": [5, …]}`. What was not tried is `-`
    or null.
    """
    tasks: list[object] = []
    for where, row in json_lines(path):
        if "tasks" in row:
            tasks = log_list(row["tasks"], "tasks", where)
            continue
        agent = log_name(row.get("agent"), "agent", where)
        marks = row.get("solved")
        if isinstance(marks, str):
            cells: list[object] = [None if mark == "-" else mark for mark in marks]
            trials: list[object] = [1] * len(cells)
        else:
            cells = log_list(row.get("successes"), "successes", where)
            trials = log_list(row.get("trials"), "trials", where)
        if not len(cells) == len(trials) == len(tasks):
            raise log_fault(where, "there is not one entry for each of the tasks; correct it")
        for task, cell, tried in zip(tasks, cells, trials, strict=True):
            if cell is not None and tried:
                yield from _trials(where, agent, task, cell, tried)


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
    rows = [(f"{path}, {row.where}", row.fields) for row in read(path).rows]
    # All cells are read before the first answer: the largest says what the figures mean.
    name = _agents_column(rows[0][1])
    for column in rows[0][1]:
        if column.strip().casefold() in _SUMS:
            raise UserError(
                f"{path}: the column {column!r} seems to be about all tasks: take it out, or give "
                "the task another name"
            )
    cells = 0
    figures = []
    for _, fields in rows:
        for task, value in fields.items():
            text = _tried(value)
            if task == name or text is None:
                continue
            cells += 1
            number = _figure(text)
            if number is not None:
                figures.append(number)
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
    elif len(figures) < cells:
        read_as = "3/5 is three successes of five trials"
    elif whole:
        read_as = "0 is failed and 1 is solved"
    else:
        read_as = "scores between 0 and 1"
    agents, tasks = counted(len(rows), "agent"), counted(len(rows[0][1]) - 1, "task")
    yield LogAnswer(
        str(path), "", "", None, None, read_as=f"{agents} in rows, {tasks} in columns; {read_as}"
    )
    for where, fields in rows:
        agent = log_name(fields.get(str(name)), name or "agent", where)
        for task, value in fields.items():
            text = _tried(value)
            if task == name:
                continue
            if text is None:
                yield log_left_out(where, "that were not tried")
                continue
            if of_trials := _OF_TRIALS.fullmatch(text):
                yield from _trials(where, agent, task, int(of_trials[1]), int(of_trials[2]))
                continue
            number = _figure(text)
            if number is None:
                raise log_fault(
                    where, f"{task!r} is {text[:60]!r}; give a figure, or - for not tried"
                )
            if most > 1 or number.is_integer():
                yield from _trials(where, agent, task, int(number), max(1, int(most)))
            else:
                yield task_outcome(where, task, agent, None, score=number, metric=GRADED)


def _figure(text: str) -> float | None:
    return {"true": 1.0, "false": 0.0}.get(text.casefold(), number_in(text))


def _trials(
    where: str, agent: str, task: object, successes: object, trials: object
) -> Iterator[LogAnswer]:
    """A task's trials, the successes first: their order is not known."""
    told = {"successes": successes, "trials": trials}
    solved, tried = log_count(told, "successes", where), log_count(told, "trials", where)
    if solved is None or tried is None or solved > tried:
        raise log_fault(where, f"{successes} successes of {trials} trials of {task!r}; correct it")
    for trial in range(tried):
        right = trial < solved
        yield task_outcome(where, task, agent, right, repeat=trial, score=float(right))
