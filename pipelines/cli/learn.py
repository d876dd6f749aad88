"""`folkmoot train`: a network that learns strategies."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ..base.wording import counted, percent, signed_interval
from ..data.embeddings import Embedder
from ..evaluation.request import EvaluateRequest
from ..programs.resolve import parse_sets
from ..runs.outcomes import read_outcomes
from ..training.fit import train_as_planned
from ..training.plan import plan_training
from ..training.replay import rescore
from ..training.request import TrainRequest
from ..training.train import Trained
from .guard import say
from .life import live
from .options import Confirmed, EvaluateView, Quietly
from .show import console, finish, show_lines, show_result

SCORES = ("individual", "consensus", "majority", "best_fixed", "best_per_group", "oracle")


def train(request: TrainRequest, view: Confirmed) -> None:
    def show(trained: Trained) -> None:
        if trained.evaluation is not None:
            show_lines(trained.evaluation.lines()[: 1 if view.quiet else None])
        elif trained.scores is not None:
            show_scores(view, trained.scores)
        if not view.quiet:
            show_result(console(), "training", trained.in_words())

    plan = plan_training(request, stored=True)
    live(request, view, plan, lambda plan, _: train_as_planned(plan), show=show)


def evaluate_outcomes(request: EvaluateRequest, view: EvaluateView) -> None:
    """`folkmoot evaluate network:DIR --outcomes TEST.jsonl`: a network's test on recorded answers,
    without LM calls.
    """
    if not view.outcomes:
        raise UserError("--data is missing: name the questions to evaluate on")
    if request.questions is not None:
        raise UserError("--data and --outcomes are both given: keep one of them")
    name, _, folder = str(request.program).partition(":")
    if name != "network" or not Path(folder).expanduser().is_dir():
        raise UserError(
            f"--outcomes is for the folders of trained networks, and {request.program} is not one: "
            "write network:DIR"
        )
    test = read_outcomes(view.outcomes)
    model = parse_sets(request.sets).get("embedding")
    scores = rescore(Path(folder).expanduser(), test, embed=Embedder(str(model)) if model else None)
    if test.errors:
        say(f"warning: {counted(test.errors, 'row')} of failed questions left out")
    finish(view, {"out": folder, **scores}, lambda: show_scores(view, scores))


def show_scores(view: Quietly, scores: Mapping[str, Any]) -> None:
    """Show a network's scores on recorded answers, and the difference of each to its rivals."""
    if scores.get("missing"):
        text = f"warning: {scores['missing']:,.1f} chosen answers are not in the test outcomes"
        say(f"{text}, and count as wrong")
    lines = {name.replace("_", " "): percent(scores[name]) for name in SCORES}
    for team in ("consensus", "individual"):
        for rival, by in scores["differences"][team].items():
            difference = signed_interval(by["value"], by["low"], by["high"])
            lines[f"{team} over {rival.replace('_', ' ')}"] = f"{difference} points"
    if view.quiet:
        show_lines([f"consensus {lines['consensus']}"])
    else:
        show_result(console(), "network", lines)
        show_lines(f"{sentence[0].upper()}{sentence[1:]}." for sentence in scores["verdict"])
