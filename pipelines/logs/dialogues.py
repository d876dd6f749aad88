"""Dialogues of several agents: a line per question, with every turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .answers import (
    LogAnswer,
    json_lines,
    log_fault,
    log_name,
    log_repeat,
    log_text,
    right,
)


def dialogues(path: Path) -> Iterator[LogAnswer]:
    """`{"question_id", "run", "gold", "final", "final_correct", "turns": [[round, agent, answer,
    text?], …], "question"?, "repeat"?}`; `run` names the team. A question's text may stand on its
    first line only; a first line with a `header` is left.
    """
    asked: dict[str, str] = {}
    for where, row in json_lines(path):
        if "header" in row:
            continue
        name = log_name(row.get("question_id"), "question_id", where)
        if (question := log_text(row.get("question"))) is not None:
            asked.setdefault(name, question)
        turns = row.get("turns")
        if not isinstance(turns, list) or not turns:
            raise log_fault(
                where, "'turns' is not a list of turns; give [round, agent, answer] for each"
            )
        yield LogAnswer(
            where,
            name,
            log_name(row.get("run"), "run", where),
            log_text(row.get("final")),
            right(row.get("final_correct"), "final_correct", where),
            question=asked.get(name),
            gold=log_text(row.get("gold")),
            turns=tuple(_turn(turn, where) for turn in turns),
            repeat=log_repeat(row, where),
        )


def _turn(turn: object, where: str) -> tuple[int, str, str | None, str]:
    if not isinstance(turn, list) or len(turn) not in (3, 4) or type(turn[0]) is not int:
        raise log_fault(
            where,
            "a turn is not [round, agent, answer] or [round, agent, answer, text]; correct it",
        )
    text = log_text(turn[3]) if len(turn) == 4 else None
    return turn[0], log_name(turn[1], "agent", where), log_text(turn[2]), text or ""
