"""Plans the runs of a table's rows: each is an ordinary evaluation, or training and test of a
strategy network, checked before any LM is called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from ...modules.base.errors import UserError
from ...modules.base.keyed import only, without, without_none
from ..base.account import Account
from ..base.life import PlanOfSteps
from ..evaluation.plan import EvaluationPlan, plan_evaluation
from ..evaluation.request import EvaluateRequest
from ..programs.resolve import program_of
from ..programs.seats import EVERY, Seating
from ..runs.books import account_of
from ..runs.outcomes import Outcomes, outcomes_in
from ..training.card import CALLS
from ..training.plan import LivePlan, ReplayPlan, plan_training
from ..training.request import TrainRequest
from ..training.teach import fingerprint_of
from .presets import Row, Table, models, select
from .request import ReproduceRequest

TRAIN, TEST = 200, 300
"""Recorded answers to learn from and to test on, as many as in the paper."""

RunPlan = EvaluationPlan | LivePlan | ReplayPlan


@dataclass
class ReproductionPlan(PlanOfSteps):
    """A reproduction that is checked. `folders` are those of runs by the names of rows: rows that
    ask the same LMs in the same way share a run.
    """

    title: str
    request: ReproduceRequest
    out: Path
    plans: Mapping[str, Any]
    notes: list[str]
    table: Table
    folders: Mapping[str, Path]

    def account(self) -> Account | None:
        """Return what earlier attempts left of the budget, which holds for all runs together."""
        engines = chain.from_iterable(run.engines for run in self.plans.values())
        # A training pays in a folder of its own, below that of its test.
        ledgers = chain.from_iterable((run.out, run.out / CALLS) for run in self.plans.values())
        return account_of(self.request.budget, list(engines), *ledgers)


def plan_reproduction(request: ReproduceRequest, *, keyless: bool = False) -> ReproductionPlan:
    """Read and check everything. Raises UserError before any LM is called.

    With `keyless` (a plan alone), no keys are needed.
    """
    table, out = select(request.spec), Path(request.out).expanduser()
    notes = [*table.notes]
    wanted = [row for row in table.rows if row.program is not None]
    answers = None
    if request.outcomes is not None:
        # Recorded answers stand in for strategy networks alone.
        wanted = [row for row in wanted if "preset" in row.data]
        train, test = answers = _divided(request, wanted)
        notes.append(
            f"Measured on recorded answers, without an LM: learned from {len(train)} and tested on "
            f"{len(test)} questions, which stand for all models and data sets of the table. "
            f"Agents: {', '.join(train.agents)}; "
            f"strategies: {', '.join(train.strategies) or 'none'}."
        )
    folders, sharing, runs = dict[str, Path](), dict[Path, list[str]](), dict[Path, RunPlan]()
    for row in wanted:
        run = _planned(row, request, out, answers, keyless)
        assert run.out is not None
        folders[row.name] = run.out
        # Rows that ask the same share a folder, and so a run.
        sharing.setdefault(run.out, []).append(row.name)
        runs.setdefault(run.out, run)
    plans = {", ".join(sharing[folder]): run for folder, run in runs.items()}
    plan = ReproductionPlan(table.name, request, out, plans, notes, table, folders)
    plan.account()  # a budget that cannot hold is refused now rather than after a question
    return plan


def _planned(
    row: Row,
    request: ReproduceRequest,
    out: Path,
    answers: tuple[Outcomes, Outcomes] | None,
    keyless: bool,
) -> RunPlan:
    """Plan a row as what it is: an evaluation, or the training and test of a network, by asking LMs
    or on recorded answers.
    """
    program, data = {**(row.program or {}), **without_none(request.named("prompts"))}, {**row.data}
    if request.environment and "environment" in program:
        program["environment"] = request.environment
    for name in data:
        if name.endswith("limit"):
            data[name] = min(filter(None, (data[name], request.limit)), default=None)
    given: dict[str, Any] = {"budget": None, "out": None}
    if answers is None:
        lms: Any = Seating(request).seated
        if EVERY not in lms:
            # An LM that is named for one agent replaces the paper's there alone.
            lms = {seat: models()[model]["name"] for seat, model in row.models.items()} | dict(lms)
        given["lm"] = lms
    if "preset" not in data:
        settings = {"command": "reproduce", "row": row.name, "label": row.id}
        given |= {"program": program_of(program), "settings": settings}
        plan = plan_evaluation(request.handed_to(EvaluateRequest, **data, **given), keyless=keyless)
        # The name has a hash of all that makes it another run, so that equal rows share one.
        return plan.kept_in(out / plan.default_out().name)
    # A training takes a network's settings alone, not the name of its protocol.
    unfit = ["program"]
    if answers is None:
        name = "-".join([data["test"], data["preset"], *lms.values()])
    else:
        train, test = answers
        # The outcomes say which strategies there are, and where they have several agents, which.
        unfit.append("strategies")
        if len(train.agents) > 1:
            unfit.append("agents")
        name = f"outcomes-{fingerprint_of(train)[:8]}-{data['preset']}"
        data = {"outcomes": train, "test": test, **only(data, ["preset", "seed"])}
    # Names of LMs have slashes, and a folder is called by them.
    given |= {"settings": without(program, unfit), "out": out / re.sub(r"[^\w.]+", "-", name)}
    return plan_training(request.handed_to(TrainRequest, **data, **given), keyless=keyless)


def _divided(request: ReproduceRequest, networks: list[Row]) -> tuple[Outcomes, Outcomes]:
    """Return the recorded answers to questions to learn from, and to others to test on. Raises
    UserError where the request has no networks, and for options about asking.
    """
    if not networks:
        raise UserError(
            f"--outcomes is for strategy networks, and {request.spec} has none: drop it, or name a "
            "table of marl-gat"
        )
    for option in ("budget", "environment", "prompts"):
        if request.asked(option):
            raise UserError(f"--{option} is for asking LMs: leave it out, or the outcomes")
    outcomes = outcomes_in(request.outcomes)
    # Fewer questions than the paper's are divided as the paper divides its own.
    learnt = min(TRAIN, len(outcomes) * TRAIN // (TRAIN + TEST))
    tested = min(TEST, len(outcomes) - learnt, request.limit or TEST)
    if not learnt or not tested:
        raise UserError(f"the outcomes have {len(outcomes)} questions: give more of them")
    # One order whatever the row's seed, so that all rows are tested on the same questions.
    order = np.random.default_rng(0).permutation(len(outcomes)).tolist()
    return outcomes.take(order[:learnt]), outcomes.take(order[learnt : learnt + tested])
