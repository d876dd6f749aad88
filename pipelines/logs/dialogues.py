"""Dialogues of several agents: a line per question, with every turn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .answers import LogAnswer, Record, log_name, log_rows, log_text


def dialogues(path: Path) -> Iterator[LogAnswer]:
    """`{"question_id", "run", "gold", "final", "final_correct", "turns": [[round, agent, answer,
    text?], …], "question"?, "repeat"?}`; `run` names the team. A question's text may stand on its
    first line only; a first line with a `header` is left.
    """
    asked: dict[str, str | None] = {}
    for row in log_rows(path):
        if "header" in row.fields:
            continue
        name = row.name("question_id")
        asked[name] = asked.get(name) or row.text("question")
        turns = row.members("turns")
        if not turns:
            raise row.fault("there are no 'turns'; give [round, agent, answer] for each")
        yield LogAnswer(
            row.where,
            name,
            row.name("run"),
            row.text("final"),
            row.right("final_correct"),
            question=asked[name],
            gold=row.text("gold"),
            turns=tuple(_turn(row, turn) for turn in turns),
            repeat=row.repeat(),
        )


def _turn(row: Record, turn: object) -> tuple[int, str, str | None, str]:
    if not isinstance(turn, list) or len(turn) not in (3, 4) or type(turn[0]) is not int:
        raise row.fault(
            "a turn is not [round, agent, answer] or [round, agent, answer, text]; correct it"
        )
    number, agent, answer, *texts = turn
    text = "".join(filter(None, map(log_text, texts)))
    return number, log_name(agent, "agent", row.where), log_text(answer), text
