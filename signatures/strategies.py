"""What a single agent is told: one signature per prompting strategy."""

from __future__ import annotations

from typing import Any

import dspy


class Answering(dspy.Signature):  # type: ignore[misc]
    """Answer the question."""

    question: str = dspy.InputField()
    choices: dict[str, str] | None = dspy.InputField(default=None)
    context: str | None = dspy.InputField(default=None)
    kind: str = dspy.InputField(default="choice")
    correction: str | None = dspy.InputField(default=None)


class Simple(Answering):
    """Answer the question. Exactly one answer is right; give it and nothing else."""

    answer: str = dspy.OutputField()


class ChainOfThought(Answering):
    """Answer the question. Work towards it step by step before you commit. Exactly one answer is right."""

    reasoning: str = dspy.OutputField(desc="your thinking, step by step")
    answer: str = dspy.OutputField()


STRATEGIES: dict[str, type[Any]] = {"simple": Simple, "cot": ChainOfThought}
