"""`folkmoot train`: a strategy network learns, from recorded outcomes or from live answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ...modules.base.errors import UserError
from ..base.wording import counted, percent, used
from ..data.embeddings import Embedder
from ..evaluation.request import EvaluateRequest
from ..programs.resolve import parse_sets
from ..runs.outcomes import read_outcomes
from ..training.fit import train_as_planned
from ..training.plan import LivePlan, ReplayPlan, plan_training
from ..training.replay import rescore
from ..training.request import TrainRequest
from ..training.train import Trained
from .guard import say
from .life import live
from .options import Confirmed, EvaluateView, Quietly
from .show import console, finish, show_result

SCORES = {
    "individual": "one agent, its own choice",
    "consensus": "the group's vote",
    "majority": "the same answers, plain vote",
    "best_fixed": "best fixed choice in training",
    "best_per_group": "the same for each group",
    "oracle": "any answer right",
}


def train(request: TrainRequest, view: Confirmed) -> None:
    request.progress = view.progress

    def show(trained: Trained) -> None:
        found = trained.to_dict()
        _warn(found)
        show_scores(
            view,
            found,
            str(trained.folder),
            track=request.tracking,
            tested=trained.evaluation.in_words() if trained.evaluation else None,
        )

    live(request, view, plan_training(request, stored=True), _trained, _nothing_left, show)


def _trained(plan: ReplayPlan | LivePlan, show: Callable[[Trained], None]) -> Trained:
    return train_as_planned(plan)


def _nothing_left(plan: ReplayPlan | LivePlan) -> None:
    """A training that was stopped has no network yet."""


def _warn(scores: Mapping[str, Any]) -> None:
    if scores.get("missing"):
        say(
            f"warning: {scores['missing']:,.1f} answers that were chosen are not in the test "
            f"outcomes: wrong"
        )


def evaluate_outcomes(options: EvaluateRequest, view: EvaluateView) -> None:
    """`folkmoot evaluate network:DIR --outcomes TEST.jsonl`: the test part of a replay, without LM
    calls.
    """
    if not view.outcomes:
        raise UserError("--data is missing: name the questions to evaluate on")
    name, _, folder = str(options.program).partition(":")
    if name != "network" or not folder:
        raise UserError(
            f"--outcomes is for trained networks, not for {options.program}: write network:DIR"
        )
    if options.questions is not None:
        raise UserError("--data and --outcomes are both given: keep one of them")
    if not Path(folder).expanduser().is_dir():
        raise UserError(f"there is no folder {folder}: name one that folkmoot train wrote")
    test = read_outcomes(view.outcomes)
    model = parse_sets(options.sets).get("embedding")
    scores = rescore(Path(folder).expanduser(), test, embed=Embedder(str(model)) if model else None)
    if test.errors:
        are = "is" if test.errors == 1 else "are"
        say(f"warning: {counted(test.errors, 'row')} of failed questions {are} left out")
    _warn(scores)
    found = {"out": folder, **scores}
    finish(view, found, lambda: show_scores(view, found, folder, track=False))


# What is shown
# ---------------------------------------------------------------------------------------


def show_scores(
    view: Quietly,
    found: Mapping[str, Any],
    out: str,
    *,
    track: bool,
    tested: Mapping[str, str] | None = None,
) -> None:
    """The scores as a table; of a training, how it ended, where the network is, and what next."""
    if "consensus" in found:
        if view.quiet:
            console().print(f"consensus {percent(found['consensus'])}", soft_wrap=True)
        else:
            score_table(console(), found)
    elif "scores" in found:
        lines = {"accuracy": percent(found["scores"]["accuracy"])}
        show_result(console(), "network", lines if view.quiet else tested or lines)
    if "training" in found and not view.quiet:
        show_result(console(), "training", training_lines(found, out, track=track))


def training_lines(found: Mapping[str, Any], out: str, *, track: bool) -> dict[str, str]:
    """How a training ended, line by line, and what to do with the network."""
    learnt = found["training"]
    lines = {"trained": f"network:{out}"}
    if "reward" in learnt:
        lines["last reward"] = f"{learnt['reward']:+.2f}"
        lines["last right"] = (
            f"one agent {learnt['individual']:.1%}, group {learnt['consensus']:.1%}"
        )
        changed = f"{counted(learnt['edges_changed'], 'edge')} came or went"
        lines["graph"] = f"{changed}, last mean trust {learnt['trust']:.2f}"
    if learnt.get("paid") is not None:
        lines["paid in training"] = used(learnt["paid"])
    if not {"scores", "consensus"} & found.keys():
        kind = "--outcomes TEST.jsonl" if learnt.get("paid") is None else "--data QUESTIONS"
        lines["test it"] = f"folkmoot evaluate network:{out} {kind}"
    else:
        lines["use it"] = f"folkmoot evaluate network:{out} --data QUESTIONS"
    return lines | ({"look at it": "folkmoot ui"} if track else {})


def score_table(out: Console, scores: Mapping[str, Any]) -> None:
    """The test scores of a network, with what each is less than or more than its rivals."""
    table = Table("", "right", "95%", "calls a question", "", box=None, pad_edge=False)
    for name, meaning in SCORES.items():
        score = scores[name]
        interval = f"{score['low']:.1%} to {score['high']:.1%}"
        shown = name.replace("_", " ")
        table.add_row(shown, f"{score['value']:.1%}", interval, f"{score['calls']:.3g}", meaning)
    out.print(table)
    lines = {}
    for team in ("consensus", "individual"):
        for rival, found in scores["differences"][team].items():
            points = "{value:+.1f} [{low:+.1f}, {high:+.1f}] points"
            in_points = {end: round(100 * found[end], 1) + 0.0 for end in ("value", "low", "high")}
            lines[f"{team} over {rival.replace('_', ' ')}"] = points.format(**in_points)
    ties = scores["ties"]
    gains = [
        f"{100 * ties[f'gain_{kind}']:+.1f} points on {kind} questions"
        for kind in ("tied", "untied")
        if ties[f"gain_{kind}"] is not None
    ]
    lines["plain vote tied"] = (
        f"{ties['share']:.1%} of {scores['questions']:,}; weights gain {', '.join(gains)}"
    )
    if "ece" in scores:
        lines["calibration"] = (
            f"the vote's confidence is {scores['ece']:.1%} from its accuracy (ECE)"
        )
    if "strategy" in scores:
        each = [f"{name} {of['share']:.0%}" for name, of in scores["strategy"].items()]
        lines["chosen"] = ", ".join(each)
    show_result(out, "differences", lines)
    for sentence in scores["verdict"]:
        out.print(sentence[0].upper() + sentence[1:] + ".", soft_wrap=True)
