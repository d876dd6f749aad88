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
from .self_consistency import SAMPLED, SAMPLES, most_consistent
from .transcript import Task

SELF_CONSISTENCY = "self_consistency"
ALONE = {**STRATEGIES, SELF_CONSISTENCY: STRATEGIES["cot"]}  # the same words, several times over


class SingleAgent(Program):
    """A single-agent baseline (Agents of Commonsense, sections 4.2.1 and 4.2.3; CaCo-CoT).

    Args:
        strategy: name of a prompting strategy: `simple` (answer only), `cot` (step by step first) or
            `self_consistency` (`cot` several times over at temperature 0.8 and top_p 0.5, then the majority).
        role: instead of a strategy, a role of the deliberation, asked once with nobody else in the room.
        samples: how many answers `self_consistency` counts; None is 10.
        lm: LM of its own; None takes the one of the run.
        environment: where a `retriever` looks things up.
        sampling: LM settings such as `{"temperature": 0.5}`.

    Raises:
        UserError: unknown strategy or role, or both given; samples below 1, or for another strategy.
    """

    def __init__(
        self,
        strategy: str | None = None,
        *,
        role: str | None = None,
        samples: int | None = None,
        lm: Any = None,
        environment: Any = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if strategy is not None and role is not None:
            raise UserError(
                f"a single agent has a strategy or a role, not both: drop {strategy!r} or {role!r}"
            )
        known, name = (ROLES, role) if role is not None else (ALONE, strategy or "simple")
        if name not in known:
            what = "role" if known is ROLES else "strategy"
            raise UserError(f"there is no {what} {name!r}: choose one of {', '.join(known)}")
        self.strategy, self.role = (None if role else name), role
        self.samples = _checked_samples(name, samples)
        settings = dict(sampling or {}) if self.samples is None else {**SAMPLED, **(sampling or {})}
        self.seat = Seat(name, known[name], lm=lm, sampling=settings)
        self.retrieval = Retrieval(environment) if role == "retriever" else None

    def describe(self) -> dict[str, Any]:
        named: dict[str, Any] = {"role": self.role} if self.role else {"strategy": self.strategy}
        if self.samples is not None:
            named["samples"] = self.samples
        return {
            "program": "single",
            **named,
            "sampling": self.seat.predict.config,
            **described(self.retrieval),
        }

    async def solve(self, task: Task) -> dspy.Prediction:
        if self.samples is not None:
            return await most_consistent(self.seat, task, self.samples)
        evidence = await self.retrieval.look_up(task) if self.retrieval else None
        turn = await self.seat.ask(task, evidence=evidence)
        decided_by = "none" if turn.answer is None else "single"
        return prediction_of(task, turn.answer, decided_by, [turn])


def _checked_samples(name: str, samples: int | None) -> int | None:
    """How many samples a question gets; None for every strategy but self-consistency."""
    if name != SELF_CONSISTENCY:
        if samples is not None:
            raise UserError(f"{name!r} takes no samples: drop them, or choose {SELF_CONSISTENCY}")
        return None
    if samples is not None and (isinstance(samples, bool) or not isinstance(samples, int) or samples < 1):
        raise UserError(f"samples is {samples!r}: give a whole number from 1 up")
    return SAMPLES if samples is None else samples
