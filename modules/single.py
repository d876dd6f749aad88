"""One agent alone: a prompting strategy, or one role of the deliberation in a single pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dspy

from ..signatures.roles import ROLES
from ..signatures.strategies import STRATEGIES
from .errors import UserError
from .program import Program, prediction_of
from .retrieval import Retrieval, described
from .seat import Seat
from .transcript import Task


class SingleAgent(Program):
    """A single-agent baseline (Agents of Commonsense, sections 4.2.1 and 4.2.3).

    Args:
        strategy: name of a prompting strategy: `simple` (answer only) or `cot` (step by step first).
        role: instead of a strategy, a role of the deliberation, asked once with nobody else in the room.
        lm: LM of its own; None takes the one of the run.
        environment: where a `retriever` looks things up.
        sampling: LM settings such as `{"temperature": 0.5}`.

    Raises:
        UserError: unknown strategy or role, or both given.
    """

    def __init__(
        self,
        strategy: str | None = None,
        *,
        role: str | None = None,
        lm: Any = None,
        environment: Any = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if strategy is not None and role is not None:
            raise UserError(
                f"a single agent has a strategy or a role, not both: drop {strategy!r} or {role!r}"
            )
        known, name = (ROLES, role) if role is not None else (STRATEGIES, strategy or "simple")
        if name not in known:
            what = "role" if known is ROLES else "strategy"
            raise UserError(f"there is no {what} {name!r}: choose one of {', '.join(known)}")
        self.strategy, self.role = (None if role else name), role
        self.seat = Seat(name, known[name], lm=lm, sampling=sampling)
        self.retrieval = Retrieval(environment) if role == "retriever" else None

    def describe(self) -> dict[str, Any]:
        named = {"role": self.role} if self.role else {"strategy": self.strategy}
        return {
            "program": "single",
            **named,
            "sampling": self.seat.predict.config,
            **described(self.retrieval),
        }

    async def solve(self, task: Task) -> dspy.Prediction:
        evidence = await self.retrieval.look_up(task) if self.retrieval else None
        turn = await self.seat.ask(task, evidence=evidence)
        decided_by = "none" if turn.answer is None else "single"
        return prediction_of(task, turn.answer, decided_by, [turn])
