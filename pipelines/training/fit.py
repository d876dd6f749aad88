"""Trains a strategy network from recorded answers, or by asking LMs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...modules.network.selector import StrategySelector as StrategySelector
from ...modules.network.strategy_network import StrategyNetwork as StrategyNetwork
from ..base.request import entry, warned
from ..data import questions as data
from ..data.embeddings import Embedder
from ..data.parts import recorded
from ..evaluation.earlier import Evaluation
from ..evaluation.evaluate import evaluate
from ..lms.ledger import totals
from ..runs.books import open_books
from ..runs.folder import out_folder
from .card import CALLS
from .plan import LivePlan, ReplayPlan, plan_training
from .request import TrainRequest
from .teach import live, train_by_replay
from .train import Trained, displayed_training
from .untrained import default_embedding


@entry(TrainRequest)
def train(request: TrainRequest) -> StrategyNetwork:
    """Teach a strategy network which agent should use which strategy on which question, and whom to
    trust.

    Returns a network with `training`, or a selector if `program` is an `fm.StrategySelector`.
    Outcomes with strategies that are not in `fm.STRATEGIES` make a network that can only be scored,
    not asked.

    Raises UserError for neither or both of `outcomes` and `train`; settings that do not fit;
    unusable outcomes or questions; a folder of another training; a budget that cannot be enforced,
    or is spent; a call that failed for good. Finished work is kept in the folder.
    """
    trained = train_as_planned(warned(plan_training(request)))
    network = trained.network
    if isinstance(request.program, StrategySelector):
        # The selector that was passed stays untrained.
        network = request.program.deepcopy()
        network.state = trained.state
    network.training = trained
    return network


def train_as_planned(plan: ReplayPlan | LivePlan) -> Trained:
    """Carry out the plan."""
    request = plan.request
    with out_folder(plan.out) as (folder, keep), displayed_training(request.progress) as tell:
        how: Any = {
            "options": plan.options,
            "data": plan.source,
            "progress": tell,
            **request.named("preset", "tracking"),
        }
        if isinstance(plan, ReplayPlan):
            what = (plan.network, plan.outcomes, plan.training, folder)
            trained = train_by_replay(*what, test=plan.tested, **how)
        else:
            trained = _asked(plan, folder, how)
    trained.keep = keep
    return trained


def _asked(plan: LivePlan, folder: Path, how: dict[str, Any]) -> Trained:
    """Train by asking LMs, and evaluate the network on the test questions, as a run in its
    folder.
    """
    request = plan.request
    how |= {"lm": plan.lm, **request.named("record", "cache")}
    # One account for the training and its test: a budget that the training has spent asks no test
    # question.
    with open_books(account=plan.account(folder)):
        trained = live(plan.network, plan.questions, plan.training, folder, **how)
        trained.taught = {
            "questions": len(plan.questions),
            "most_calls": plan.most_calls,
            "paid": totals(folder / CALLS).to_dict(),
        }
        if plan.test:
            trained.evaluation = _evaluated(plan, folder)
    return trained


def _evaluated(plan: LivePlan, folder: Path) -> Evaluation:
    request, source = plan.request, dict[str, object]()
    if isinstance(request.test, str | list):
        named = request.test if isinstance(request.test, str) else str(request.test[0])
        # A whole list is not drawn, and keeps its order.
        seed = None if request.test_limit is None else int(plan.options.get("seed", 0))
        source = recorded(plan.test, named, request.test_split, request.test_limit, seed)
    return evaluate(
        plan.network,
        plan.test,
        lm=plan.lm,
        out=folder,
        **request.named("record", "concurrency", "cache", "tracking", "progress"),
        settings={
            "command": "train",
            "program_spec": f"network:{folder}",
            **source,
            "train": plan.source,
            "train_fingerprint": data.fingerprint(plan.questions),
        },
    )


StrategySelector.embedder = staticmethod(
    lambda model: Embedder(model if model is not None else default_embedding()[0])
)
"""Give `fm.StrategySelector`, which is on a lower floor, the embedding models."""
