"""Worked examples written for this package: short ones for each kind, and one in full for each data
set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import dspy

from .shipped import shipped_yaml


@dataclass(frozen=True)
class Worked:
    """One question solved in full, in the words of every method: what each reply would say, by
    output field.

    `parts` are the simpler questions that lead up to it with their answers; `other` is the answer
    that an evaluator supposes to be true instead, None where it has to think of one; `trace` is how
    a worker looks it up: thought, action, observation.
    """

    question: str
    kind: str
    answer: str
    fields: Mapping[str, str]
    choices: Mapping[str, str] | None = None
    context: str | Sequence[str] | None = None
    other: str | None = None
    parts: Sequence[tuple[str, str]] = ()
    trace: Sequence[tuple[str, str, str]] = ()

    @property
    def inputs(self) -> dict[str, object]:
        inputs = {"question": self.question, "choices": self.choices, "kind": self.kind}
        return inputs | ({"context": self.context} if self.context else {})


@cache
def examples() -> Mapping[str, tuple[dspy.Example, ...]]:
    """Return examples by kind."""
    return {
        kind: tuple(
            dspy.Example(
                question=row["question"],
                choices=row.get("choices"),
                kind=kind,
                answer=row["answer"],
            )
            for row in rows
        )
        for kind, rows in shipped_yaml(__package__, "examples.yaml")["examples"].items()
    }


@cache
def worked_examples() -> Mapping[str, Worked]:
    """Worked questions by name."""
    return {
        name: Worked(**row)
        for name, row in shipped_yaml(__package__, "examples.yaml")["worked"].items()
    }
