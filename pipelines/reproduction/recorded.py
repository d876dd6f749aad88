"""Runs the tables of strategy networks on recorded answers, without any LM call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...modules.base.errors import UserError
from ...optimizers.policy.settings import configured
from ...optimizers.statistics.statistics import mean_estimate
from ..base.journal import write_json
from ..data.embeddings import Embedder
from ..programs.networks import default_embedding
from ..runs.folder import claimed
from ..runs.outcomes import Outcomes, outcomes_in
from ..training.replay import fingerprint_of, fitted, network_of, train_by_replay, with_strategies
from ..training.scores import choices_of
from .lines import Line, Reproduction
from .plan import TablePlan
from .plots import plots
from .presets import Figure, Preset, PublishedRow, select
from .request import ReproduceRequest

TABLE = "table.json"
TRAIN, TEST = 200, 300
"""Questions to learn from and to test on, as in the paper."""

Scores = Mapping[str, Any]


@dataclass
class RecordedPlan(TablePlan):
    """A table that is measured on recorded answers: checked, and not begun.

    `train` and `test` are the answers to different questions.
    """

    train: Outcomes
    test: Outcomes
    begun = False
    cost = (0.0, 0.0)

    def lines(self) -> list[str]:
        return self.notes

    def to_dict(self) -> dict[str, object]:
        rows = [row.name for row in self.selection.rows]
        return {"reproduce": self.title, "out": str(self.out), "runs": rows, "notes": self.notes}


def plan_recorded(request: ReproduceRequest) -> RecordedPlan:
    """Read the recorded answers and divide their questions. Raises UserError before any work."""
    if request.spec is None:
        raise UserError("name what to reproduce, such as marl-gat/table-4")
    selection = select(request.spec)
    presets = [row.preset for row in selection.rows if row.preset is not None]
    if not any(preset.training for preset in presets):
        raise UserError(
            f"--outcomes is for strategy networks, and {request.spec} has none: drop it, or name a "
            "table of marl-gat"
        )
    for option in ("lm", "api_base", "budget", "environment", "prompts"):
        if request.asked(option):
            raise UserError(f"--{option.replace('_', '-')} is for asking LMs: drop it or outcomes")
    table = outcomes_in(request.outcomes)
    order = np.random.default_rng(0).permutation(len(table)).tolist()
    learnt = min(TRAIN, len(table) * TRAIN // (TRAIN + TEST))
    tested = min(TEST, len(table) - learnt, request.limit or TEST)
    if not learnt or not tested:
        raise UserError(f"the outcomes have {len(table)} questions: give more of them")
    train, test = table.take(order[:learnt]), table.take(order[learnt : learnt + tested])
    digest = hashlib.sha256(
        json.dumps([fingerprint_of(table), request.embedding, request.limit]).encode()
    ).hexdigest()
    out = Path(request.out or Path("runs") / f"reproduce-{selection.paper.id}-{digest[:8]}")
    notes = [
        f"Measured on recorded answers, without an LM: learned from {learnt} and tested on "
        f"{tested} of {len(table):,} questions. They stand for all models and data sets of the "
        "table, so that rows which differ in these alone are measured alike.",
        f"Agents: {', '.join(table.agents)}; strategies: {', '.join(table.strategies) or 'none'}.",
    ]
    return RecordedPlan(request, selection, out, notes, train, test)


def reproduced_from_records(plan: RecordedPlan) -> Reproduction:
    """Train and test a network for each training preset of the table, and put the figures side by
    side.
    """
    scores: dict[str, Scores] = {}
    lines = list[Line]()
    table = plan.selection.table
    with claimed(plan.folder):
        for row in plan.selection.rows:
            preset = row.preset
            if preset is not None and preset.training and preset.training not in scores:
                scores[preset.training] = _trained(plan, preset)
            lines += [_line(plan, row, figure, scores) for figure in row.figures]
        pictures = plots(table, lines, {}, plan.folder)
        done = Reproduction(plan.title, plan.out, lines, plan.notes, pictures)
        write_json(plan.folder / TABLE, done.to_dict())
    return done


def _trained(plan: RecordedPlan, preset: Preset) -> Scores:
    """The test scores of a network that learned with the settings of a row."""
    from ...modules.network.state import NetworkState

    assert preset.training is not None
    assert preset.train is not None
    model = plan.request.embedding or default_embedding()[0]
    embed = Embedder(model)
    settings = {name: value for name, value in preset.program.items() if name != "program"}
    own = [name for name in settings.pop("strategies", ()) if name in plan.train.strategies]
    train = with_strategies(plan.train, own or None)
    test = with_strategies(plan.test.like(plan.train.agents, plan.train.strategies), own or None)
    if len(train.agents) > 1:  # each is an agent of the network
        settings.pop("agents", None)
    options = {**settings, "seed": preset.train.seed, "embedding": model}
    config, training = configured(fitted(train, options), preset.training)
    network = network_of(NetworkState.fresh(config, embed.width), embed)
    trained = train_by_replay(
        network,
        train,
        training,
        plan.out / plan.selection.paper.id / "trained" / preset.training,
        test=test,
        preset=preset.training,
        options=options,
        tracking=plan.request.tracking,
    )
    assert trained.scores is not None
    return trained.scores


def _line(
    plan: RecordedPlan, row: PublishedRow, figure: Figure, scores: Mapping[str, Scores]
) -> Line:
    line = Line(row.id, figure.name, figure.value, note=row.note, above=figure.above)
    if row.preset is None:
        return replace(line, why=row.reason or "computed from runs that ask LMs")
    if row.preset.training:
        own = scores[row.preset.training]
        score = own.get(figure.name) or own["differences"]["consensus"]["individual"]
    else:
        strategy = str(row.preset.program["program"]).partition(":")[2]
        if strategy not in plan.test.strategies:
            return replace(line, why=f"the outcomes have no strategy {strategy}")
        right = choices_of(plan.test.correct)[:, :, plan.test.strategies.index(strategy)]
        score = mean_estimate(right.mean(axis=1).tolist(), seed=0)._asdict()
    return line.measured_as(score["value"], score["low"], score["high"], len(plan.test))
