"""Trains a strategy network: from recorded answers, or by asking."""

from __future__ import annotations

import warnings
from typing import Any

from ...modules.network.selector import StrategySelector as StrategySelector
from ...modules.protocols.strategy_network import StrategyNetwork as StrategyNetwork
from ..base.request import entry
from ..data import load as data
from ..data.embeddings import Embedder
from ..evaluation.evaluate import evaluate
from ..lms.ledger import totals
from ..programs.networks import default_embedding
from ..runs.books import open_books
from ..runs.folder import out_folder
from .live import CALLS, live
from .plan import LivePlan, ReplayPlan, plan_training
from .request import TrainRequest
from .train import Trained, displayed_training, train_on_outcomes


@entry(TrainRequest)
def train(request: TrainRequest) -> StrategyNetwork:
    """Teach a strategy network which agent should use which strategy on which question, and whom to
    trust.

    Either from `outcomes`, without a call, or from `train`, by asking; nobody is asked the same
    twice, and the same call with the same folder goes on where it was stopped. Outcomes teach a
    given network anew, questions in addition.

    Returns a network with the course of its training as `training`: `folder`, `log`, `scores`.
    Outcomes of agents whose strategies are not in `fm.STRATEGIES` make a network that can only be
    scored: nobody can be asked in those ways.

    Raises: UserError: nothing, or both, to learn from; settings that do not fit; unusable outcomes
        or questions; a folder of another training; a budget that cannot be held, or is spent; a
        call that failed for good. What was finished is in the folder.
    """
    plan = plan_training(request)
    for warning in plan.warnings:
        warnings.warn(warning, stacklevel=3)
    trained = train_as_planned(plan)
    network = trained.network
    assert network is not None
    network.training = trained
    return network


def train_as_planned(plan: ReplayPlan | LivePlan) -> Trained:
    """Do what was planned."""
    with (
        out_folder(plan.out) as (folder, keep),
        displayed_training(plan.request.progress) as tell,
    ):
        how: Any = {
            "preset": plan.request.preset,
            "data": plan.source,
            "tracking": plan.request.tracking,
            "progress": tell,
        }
        if isinstance(plan, ReplayPlan):
            trained = train_on_outcomes(
                plan.outcomes,
                folder,
                plan.named,
                test=plan.tested,
                embed=plan.embed,
                program=plan.made,
                **how,
            )
            trained.taught = {
                "questions": len(plan.outcomes),
                "agents": len(plan.outcomes.agents),
                "strategies": list(plan.outcomes.strategies),
                "missing": plan.outcomes.missing,
                "epochs": trained.log.epochs,
            }
        else:
            trained = _asked(plan, folder, how)
    trained.keep = keep
    return trained


def _asked(plan: LivePlan, folder: Any, how: dict[str, Any]) -> Trained:
    """Train by asking LMs, and evaluate the network on the test questions, as a run in its
    folder.
    """
    request = plan.request
    with open_books(account=plan.account(folder)):
        trained = live(
            plan.network,
            plan.questions,
            plan.training,
            folder,
            lm=plan.lm,
            given=plan.given,
            record=request.record,
            cache=request.cache,
            **how,
        )
        trained.network = plan.network
        trained.taught = {
            "questions": len(plan.questions),
            "most_calls": plan.most_calls,
            "paid": totals(folder / CALLS).to_dict(),
        }
        if plan.test:
            source = {}
            if isinstance(request.test, str | list):
                named = request.test if isinstance(request.test, str) else str(request.test[0])
                seed = None if request.test_limit is None else int(plan.given.get("seed", 0))
                source = data.recorded(
                    plan.test, named, request.test_split, request.test_limit, seed
                )
            trained.evaluation = evaluate(
                plan.network,
                plan.test,
                lm=plan.lm,
                out=folder,
                record=request.record,
                concurrency=request.concurrency,
                cache=request.cache,
                tracking=request.tracking,
                settings={
                    "command": "train",
                    "program_spec": f"network:{folder}",
                    **source,
                    "train": plan.source,
                    "train_fingerprint": data.fingerprint(plan.questions),
                },
                progress=request.progress,
            )
    return trained


StrategySelector.embedder = staticmethod(
    lambda model: Embedder(model if model is not None else default_embedding()[0])
)
"""For `fm.StrategySelector`: the class, on a floor below, is handed the embedding models."""
