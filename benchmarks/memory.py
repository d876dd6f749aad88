"""Peak resident memory, in MB, of evaluating N questions with a program that answers at once."""

from __future__ import annotations

import resource
import sys
from typing import Any

import dspy

import folkmoot as fm
from folkmoot.modules.agents.transcript import Task, Turn
from folkmoot.modules.protocols.program import prediction_of


class Instant(fm.Program):
    """Answers without an LM, with a transcript of the usual size."""

    def describe(self) -> dict[str, Any]:
        return {"program": "instant"}

    async def solve(self, task: Task) -> dspy.Prediction:
        turns = [
            Turn(agent, 1, "A", "because it fits " * 20) for agent in ("intuitive", "reasoner")
        ]
        return prediction_of(task, "A", "consensus", turns, consensus_round=1)


def main() -> None:
    data = (
        fm.Question(
            id=str(i),
            question=f"Where is number {i}?",
            choices={"A": "here", "B": "there"},
            answer="A",
        )
        for i in range(int(sys.argv[1]))
    )
    fm.evaluate(Instant(), list(data), lm=dspy.LM("openai/none"), tracking=False)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


if __name__ == "__main__":
    main()
