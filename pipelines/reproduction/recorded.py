"""Tables of strategy networks on recorded answers, without any LM call."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...modules.base.errors import UserError
from ..runs.outcomes import Outcomes, outcomes_in
from ..training.replay import fingerprint_of
from ..training.request import TrainRequest
from .presets import Row
from .request import ReproduceRequest

TRAIN, TEST = 200, 300
"""Questions to learn from and to test on, as in the paper."""


def divided(request: ReproduceRequest, networks: Sequence[Row]) -> tuple[Outcomes, Outcomes]:
    """The recorded answers to questions to learn from, and to others to test on. Raises UserError
    where the request has no networks, and for options about asking.
    """
    if not networks:
        raise UserError(
            f"--outcomes is for strategy networks, and {request.spec} has none: drop it, or name a "
            "table of marl-gat"
        )
    for option in ("lm", "api_base", "budget", "environment", "prompts"):
        if request.asked(option):
            raise UserError(f"--{option.replace('_', '-')} is for asking LMs: drop it or outcomes")
    outcomes = outcomes_in(request.outcomes)
    # Fewer questions than the paper's are divided as the paper divides its own.
    learnt = min(TRAIN, len(outcomes) * TRAIN // (TRAIN + TEST))
    tested = min(TEST, len(outcomes) - learnt, request.limit or TEST)
    if not learnt or not tested:
        raise UserError(f"the outcomes have {len(outcomes)} questions: give more of them")
    # One order whatever the row's seed, so that all rows are tested on the same questions.
    order = np.random.default_rng(0).permutation(len(outcomes)).tolist()
    return outcomes.take(order[:learnt]), outcomes.take(order[learnt : learnt + tested])


def note_on(train: Outcomes, test: Outcomes) -> str:
    return (
        f"Measured on recorded answers, without an LM: learned from {len(train)} and tested on "
        f"{len(test)} questions, which stand for all models and data sets of the table. Agents: "
        f"{', '.join(train.agents)}; strategies: {', '.join(train.strategies) or 'none'}."
    )


def recorded_training(
    row: Row, request: ReproduceRequest, out: Path, train: Outcomes, test: Outcomes
) -> TrainRequest:
    """Training and test of a row's network, with the strategies of the answers, and where there are
    several, with their agents.
    """
    given = ("program", "strategies", *(["agents"] if len(train.agents) > 1 else []))
    return TrainRequest(
        outcomes=train,
        test=test,
        settings={key: value for key, value in (row.program or {}).items() if key not in given},
        preset=str(row.training),
        seed=row.train["seed"],
        out=out / f"outcomes-{fingerprint_of(train)[:8]}-{row.training}",
        **request.named("embedding", "tracking", "progress"),
    )
