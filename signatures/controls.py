"""What one agent is told that plays a whole team within one reply."""

from __future__ import annotations

from typing import Any

import dspy

from .strategies import Answering


class OneContext(Answering):
    """Write down the discussion that the speakers named above would have about the question, each
    of them in turn, round after round, until they agree or the rounds are over. Then weigh what was
    said and give the answer that it supports.
    """

    notes: list[dict[str, Any]] | None = dspy.InputField(default=None)
    discussion: str = dspy.OutputField(desc="what each speaker says, by name")
    answer: str = dspy.OutputField()


ROUNDS = "rounds"
