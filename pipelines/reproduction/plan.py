"""Plans the runs of a table's rows: each is an ordinary evaluation, or training and test of a
strategy network, checked before any LM is called.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from ...modules.base.errors import UserError
from ..base.account import Account
from ..base.life import Plan, PlanOfSteps
from ..base.request import SharedByLMs
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

_FOR_ASKING = [option.name for option in fields(SharedByLMs) if option.init] + ["api_base"]

RunPlan = EvaluationPlan | LivePlan | ReplayPlan


@dataclass
class ReproductionPlan(PlanOfSteps):
    """A reproduction that is checked. `runs` are by folder, and `folders` by the names of rows:
    rows that ask the same LMs in the same way share a run.
    """

    request: ReproduceRequest
    table: Table
    rows: list[Row]
    out: Path
    notes: list[str]
    runs: dict[Path, RunPlan] = field(default_factory=dict)
    folders: dict[str, Path] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return self.table.name

    @property
    def plans(self) -> dict[str, Plan]:  # type: ignore[override]
        return {self.rows_of(folder): run for folder, run in self.runs.items()}

    def account(self) -> Account | None:
        """Return what earlier attempts left of the budget, which holds for all runs together."""
        engines, ledgers = list[Any](), list[Path]()
        for folder, run in self.runs.items():
            engines += run.engines
            # A training pays in a folder of its own, below that of its test.
            ledgers += [folder, folder / CALLS]
        return account_of(self.request.budget, engines, *ledgers)

    def rows_of(self, folder: Path) -> str:
        """Return the names of the rows that a run is for."""
        return ", ".join(name for name, own in self.folders.items() if own == folder)


def plan_reproduction(request: ReproduceRequest, *, keyless: bool = False) -> ReproductionPlan:
    """Read and check everything. Raises UserError before any LM is called.

    With `keyless` (a plan alone), no keys are needed.
    """
    table, rows = select(request.spec)
    plan = ReproductionPlan(request, table, rows, Path(request.out).expanduser(), list(table.notes))
    wanted = [row for row in rows if row.program is not None]
    answers = None
    if request.outcomes is not None:
        # Recorded answers stand in for strategy networks alone.
        wanted = [row for row in wanted if row.training is not None]
        answers = _divided(request, wanted)
        train, test = answers
        plan.notes.append(
            f"Measured on recorded answers, without an LM: learned from {len(train)} and tested on "
            f"{len(test)} questions, which stand for all models and data sets of the table. "
            f"Agents: {', '.join(train.agents)}; "
            f"strategies: {', '.join(train.strategies) or 'none'}."
        )
    for row in wanted:
        run: RunPlan
        if row.training is None:
            run = _evaluation(row, request, plan.out, keyless)
        elif answers is None:
            run = plan_training(_training(row, request, plan.out), keyless=keyless)
        else:
            run = plan_training(_recorded_training(row, request, plan.out, *answers))
        assert run.out is not None
        plan.folders[row.name] = run.out
        # Rows that ask the same share a folder, and so a run.
        plan.runs.setdefault(run.out, run)
    plan.account()  # a budget that cannot hold is refused now rather than after a question
    return plan


def _evaluation(row: Row, request: ReproduceRequest, out: Path, keyless: bool) -> EvaluationPlan:
    asked = EvaluateRequest(
        program_of(_program(row, request)),
        **{**row.data, "limit": _least(row.data.get("limit"), request.limit)},
        retry_errors=request.retry_errors,
        settings={"command": "reproduce", "row": row.name, "label": row.id},
        **_asking(row, request),
    )
    asked.defaults = request.defaults
    plan = plan_evaluation(asked, keyless=keyless)
    # The name has a hash of all that makes it another run, so that equal rows share one.
    return plan.kept_in(out / plan.default_out().name)


def _training(row: Row, request: ReproduceRequest, out: Path) -> TrainRequest:
    # A training takes a network's settings alone, not the name of its protocol.
    settings, asking = _program(row, request), _asking(row, request)
    del settings["program"]
    # Names of LMs have slashes, and a folder is called by them.
    name = "-".join([row.data["questions"], str(row.training), *asking["lm"].values()])
    asked = TrainRequest(
        **{**row.train, "train_limit": _least(row.train["train_limit"], request.limit)},
        test=row.data["questions"],
        test_split=row.data["split"],
        test_limit=_least(row.data["limit"], request.limit),
        settings=settings,
        preset=str(row.training),
        embedding=request.embedding,
        out=out / re.sub(r"[^\w.]+", "-", name),
        **asking,
    )
    asked.defaults = request.defaults
    return asked


def _program(row: Row, request: ReproduceRequest) -> dict[str, Any]:
    """Return the settings of a row's program, with the user's environment and prompts."""
    program = dict(row.program or {})
    if request.environment and "environment" in program:
        program["environment"] = request.environment
    if request.prompts is not None:
        program["prompts"] = request.prompts
    return program


def _asking(row: Row, request: ReproduceRequest) -> dict[str, Any]:
    """Return how LMs are asked: by the user's for every seat, or on top of the paper's models."""
    lms = Seating(request).seated
    if EVERY not in lms:
        # An LM that is named for one agent replaces the paper's there alone.
        lms = {seat: models()[model]["name"] for seat, model in row.models.items()} | dict(lms)
    # Some of the papers' models are no longer offered: LiteLLM has no name for them.
    for seat, name in lms.items():
        if name is None:
            raise UserError(
                f"{row.models[seat]} is offered by nobody: name a stand-in with --lm NAME"
            )
    return {**request.named(*_FOR_ASKING, "tracking", "progress"), "lm": lms}


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)


def _divided(request: ReproduceRequest, networks: Sequence[Row]) -> tuple[Outcomes, Outcomes]:
    """Return the recorded answers to questions to learn from, and to others to test on. Raises
    UserError where the request has no networks, and for options about asking.
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


def _recorded_training(
    row: Row, request: ReproduceRequest, out: Path, train: Outcomes, test: Outcomes
) -> TrainRequest:
    """Training and test of a row's network, with the strategies of the answers, and where there are
    several, with their agents.
    """
    settings = dict(row.program or {})
    # The outcomes say which strategies there are, whatever the table has.
    for given in ("program", "strategies"):
        settings.pop(given, None)
    if len(train.agents) > 1:
        settings.pop("agents", None)
    return TrainRequest(
        outcomes=train,
        test=test,
        settings=settings,
        preset=str(row.training),
        seed=row.train["seed"],
        out=out / f"outcomes-{fingerprint_of(train)[:8]}-{row.training}",
        **request.named("embedding", "tracking", "progress"),
    )
