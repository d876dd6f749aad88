"""Reads files of recorded answers: the answers of many agents to the same questions.

A file's first line is a header with its `agents` (a list, or one for each data set); every other
line is a question: `dataset`, `question_id`, `gold`, and `answers` (or `correct`, a digit each) in
the order of the agents.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass
class RecordedAnswers:
    """The answers of agents to a data set: `right` is (questions, agents), of 0 and 1."""

    agents: list[str]
    ids: list[str] = field(default_factory=list)
    golds: list[Any] = field(default_factory=list)
    answers: list[list[Any]] = field(default_factory=list)
    flags: list[list[bool]] = field(default_factory=list)

    @property
    def right(self) -> npt.NDArray[np.int8]:
        return np.array(self.flags, dtype=np.int8)


def read(file: Path) -> dict[str, RecordedAnswers]:
    """The data sets of a file. Lines with scores in place of answers are left out."""
    with open(file, encoding="utf-8") as lines:
        agents = json.loads(next(lines))["agents"]
        sets: dict[str, RecordedAnswers] = {}
        for line in lines:
            row = json.loads(line)
            if "answers" not in row:
                continue
            name = row["dataset"]
            names = agents if isinstance(agents, list) else agents[name]
            one = sets.setdefault(name, RecordedAnswers(names))
            flags = row.get("correct")
            one.ids.append(str(row["question_id"]))
            one.golds.append(row["gold"])
            one.answers.append(row["answers"])
            one.flags.append(
                [flag == "1" for flag in flags]
                if flags
                else [answer is not None and answer == row["gold"] for answer in row["answers"]]
            )
    return sets
