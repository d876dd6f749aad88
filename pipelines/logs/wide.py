"""Wide tables: a line per question with the answers of all agents, under a header that names the
agents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .answers import (
    LogAnswer,
    json_lines,
    log_fault,
    log_list,
    log_name,
    log_name_if_any,
    log_text,
    right,
)


def wide(path: Path) -> Iterator[LogAnswer]:
    """First `{"header", "agents": [name, …] | {dataset: [name, …]}}`, then a line per question
    `{"question_id", "gold", "answers": [answer, …], "dataset"?, "question"?, "correct"?: "01-…"}`.

    Where a line has no `correct`, an answer is right that is the same text as `gold`. What is `-`
    there and has no answer was not asked. `dataset` is the group.
    """
    agents: Any = None
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
            yield LogAnswer(
                where,
                log_name(row.get("question_id"), "question_id", where),
                log_name(name, "agent", where),
                answer,
                answer is not None and answer == gold
                if marks is None
                else right(marks[place], "correct", where),
                question=log_text(row.get("question")),
                gold=gold,
                group=log_name_if_any(dataset, "dataset", where),
                task=dataset,
            )
