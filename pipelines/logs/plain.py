"""Plain tables of answers: CSV, JSONL or Parquet with a row per answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ..data.tables import TableRow, read
from .answers import (
    LogAnswer,
    lettered,
    log_amount,
    log_count,
    log_fault,
    log_name,
    log_name_if_any,
    log_repeat,
    log_text,
    number_in,
    right,
)
from .swe_bench import repository_of
from .terminal_bench import entrant_of
from .wide import GRADED

NEEDED = ("question_id", "agent", "answer", "correct")
_OTHERS = {
    "question_id": ("task", "task_id", "instance_id"),
    "agent": ("model", "model_name", "model_name_or_path", "model_id"),
    "correct": ("resolved", "is_resolved", "solved", "passed", "success", "is_correct"),
    "score": ("reward",),
    "prompt_tokens": ("input_tokens",),
    "completion_tokens": ("output_tokens",),
    "cost": ("cost_usd", "instance_cost"),
    "text": ("failure", "failure_mode", "exit_status"),
}
"""What other tables call the columns, those of agents that act above all."""


_NAMES = ("question_id", *_OTHERS["question_id"])
_VERDICTS = ("correct", "score", *_OTHERS["correct"], *_OTHERS["score"])


def has_row_an_answer(first: Mapping[str, object]) -> bool:
    """Return whether the rows of a table say to which question they belong, and what became
    of it.
    """
    columns = first.keys()
    return not columns.isdisjoint(_NAMES) and not columns.isdisjoint(_VERDICTS)


def plain(path: Path) -> Iterator[LogAnswer]:
    """`question_id, agent, answer, correct[, strategy, question, group, gold, choices, text,
    tokens, prompt_tokens, completion_tokens, cost, seconds, error, repeat | epoch | sample]`, in
    any order; other columns are left. The last three say which of several answers to the question a
    row is.

    A table of agents that act has `task` and `resolved` in place of `question_id` and `correct`, no
    answer, and as you like `trial`, `score`, `cost_usd`, `cluster`, `api_calls` and `failure`. One
    that does not say who answered is of one agent, which is called after the file.
    """
    alone = dict[str, object]()
    for number, row in enumerate(_rows(path)):
        where, cells = f"{path}, {row.where}", row.fields
        if row.fault:
            raise log_fault(where, row.fault)
        acts = _is_of_tasks(cells)
        cells = _by_our_names(cells, acts)
        if number == 0 and "agent" not in cells:
            alone = {"agent": entrant_of(path)}
            said = f"no column says who answered, so all rows are of {alone['agent']!r}"
            yield LogAnswer(str(path), "", "", None, None, read_as=said)
        cells |= alone
        for name in NEEDED:
            if name not in cells:
                raise log_fault(
                    where, f"there is no {name!r}; a table of answers has {', '.join(NEEDED)}"
                )
        choices = cells.get("choices")
        labelled = isinstance(choices, dict) and all(isinstance(v, str) for v in choices.values())
        if not labelled:
            choices = lettered(choices)
        verdict = right(cells["correct"], "correct", where)
        repository = repository_of(str(cells["question_id"])) if acts else None
        yield LogAnswer(
            where,
            log_name(cells["question_id"], "question_id", where),
            log_name(cells["agent"], "agent", where),
            log_text(cells["answer"]),
            verdict,
            question=log_text(cells.get("question")),
            strategy=log_name_if_any(cells.get("strategy"), "strategy", where),
            gold=log_text(cells.get("gold")),
            choices=choices,
            group=log_name_if_any(cells.get("group"), "group", where),
            text=log_text(cells.get("text")),
            prompt_tokens=log_count(cells, "prompt_tokens", where),
            completion_tokens=log_count(cells, "completion_tokens", where),
            tokens=log_count(cells, "tokens", where),
            cost=log_amount(cells, "cost", where),
            seconds=log_amount(cells, "seconds", where),
            error=log_text(cells.get("error")),
            repeat=log_repeat(cells, where),
            # A task may have a score in place of a verdict, an answer may not.
            score=log_amount(cells, "score", where) if acts else None,
            metric=GRADED if verdict is None else None,
            outcome=acts,
            cluster=log_name_if_any(cells.get("cluster"), "cluster", where) or repository,
            calls=log_count(cells, "api_calls", where),
        )


def _is_of_tasks(cells: Mapping[str, object]) -> bool:
    """Return whether a row is what became of a task, not an answer."""
    names = ("trial", *_NAMES[1:], *_VERDICTS[2:])
    return "answer" not in cells and any(name in cells for name in names)


def _by_our_names(cells: Mapping[str, object], acts: bool) -> dict[str, Any]:
    """Return the row under the names of a table of answers; what became of a task has none."""
    named = dict(cells)
    if acts:
        named.setdefault("answer", None)
    for name, others in _OTHERS.items():
        for other in others:
            if name not in named and other in named:
                named[name] = named[other]
    if acts and "correct" not in named and "score" in named:
        named["correct"] = number_in(named["score"])
        if named["correct"] not in (0, 1):
            named["correct"] = None
    return named


def _rows(path: Path) -> Iterator[TableRow]:
    try:
        yield from read(path).rows
    except UserError as problem:
        message = str(problem)
        raise UserError(message if str(path) in message else f"{path}, {message}") from None
