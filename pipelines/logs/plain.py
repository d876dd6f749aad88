"""Plain tables of answers: CSV, JSONL or Parquet with a row per answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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
    right,
)

NEEDED = ("question_id", "agent", "answer", "correct")


def plain(path: Path) -> Iterator[LogAnswer]:
    """`question_id, agent, answer, correct[, strategy, question, group, gold, choices, text,
    tokens, prompt_tokens, completion_tokens, cost, seconds, error, repeat | epoch | sample]`, in
    any order; other columns are left. The last three say which of several answers to the question a
    row is.
    """
    for row in _rows(path):
        where, cells = f"{path}, {row.where}", row.fields
        if row.fault:
            raise log_fault(where, row.fault)
        for name in NEEDED:
            if name not in cells:
                raise log_fault(
                    where, f"there is no {name!r}; a table of answers has {', '.join(NEEDED)}"
                )
        choices = cells.get("choices")
        labelled = isinstance(choices, dict) and all(isinstance(v, str) for v in choices.values())
        yield LogAnswer(
            where,
            log_name(cells["question_id"], "question_id", where),
            log_name(cells["agent"], "agent", where),
            log_text(cells["answer"]),
            right(cells["correct"], "correct", where),
            question=log_text(cells.get("question")),
            strategy=log_name_if_any(cells.get("strategy"), "strategy", where),
            gold=log_text(cells.get("gold")),
            choices=choices if labelled else lettered(choices),
            group=log_name_if_any(cells.get("group"), "group", where),
            text=log_text(cells.get("text")),
            prompt_tokens=log_count(cells.get("prompt_tokens"), "prompt_tokens", where),
            completion_tokens=log_count(cells.get("completion_tokens"), "completion_tokens", where),
            tokens=log_count(cells.get("tokens"), "tokens", where),
            cost=log_amount(cells.get("cost"), "cost", where),
            seconds=log_amount(cells.get("seconds"), "seconds", where),
            error=log_text(cells.get("error")),
            repeat=log_repeat(cells, where),
        )


def _rows(path: Path) -> Iterator[TableRow]:
    try:
        yield from read(path).rows
    except UserError as problem:
        message = str(problem)
        raise UserError(message if str(path) in message else f"{path}, {message}") from None
