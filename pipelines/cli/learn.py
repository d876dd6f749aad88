"""`folkmoot train` and `folkmoot distil`: a network that learns strategies, and a single agent that
replaces a team.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ...modules.base.errors import UserError
from ..base.run_files import ScoreFields
from ..base.wording import counted, percent, points, used
from ..data.embeddings import Embedder
from ..distillation.distil import Distilled, distil_as_planned
from ..distillation.plan import plan_distil
from ..distillation.report import DistilReport, ProgramFigures, ProgramsTested
from ..distillation.request import DistilRequest
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
from .options import Confirmed, EvaluateView, Planned, Quietly
from .show import console, finish, plain_table, show_result

SCORES = {
    "individual": "one agent, its own choice",
    "consensus": "the group's vote",
    "majority": "the same answers, plain vote",
    "best_fixed": "best fixed choice in training",
    "best_per_group": "the same for each group",
    "oracle": "any answer right",
}
# Distillation -------------------------------------------------------------------------------------


def distil(request: DistilRequest, view: Planned) -> None:
    def show(distilled: Distilled) -> None:
        report, out = distilled.report, console()
        if view.quiet:
            out.print(report["sentences"][0], soft_wrap=True)
            return
        out.print(candidate_table(report))
        if report["programs"] is not None and report["router"] is not None:
            out.print()
            out.print(program_table(report["programs"], report["router"]["share_routed"]))
        out.print()
        for sentence in report["sentences"]:
            out.print(sentence, soft_wrap=True)
        if not report["stopped"]:
            out.print(f"programs and figures: {distilled.folder}", soft_wrap=True)

    live(request, view, plan_distil(request), distil_as_planned, show=show)


def candidate_table(report: DistilReport) -> Table:
    """The candidates' scores on the questions that the choice is based on."""
    table = _table("candidate")
    for one in report["candidates"]:
        test = one["against_team"]
        verdict = test["verdict"] if test and one["cheaper"] else "not cheaper"
        chosen = " (chosen)" if one["name"] == report["chosen"] else ""
        table.add_row(one["name"], *_figures(one), verdict + chosen)
    return table


def program_table(programs: ProgramsTested, share_routed: ScoreFields | None) -> Table:
    """Show the results of the programs in the last test."""
    table = _table("last test", "routed")
    share = share_routed["value"] if share_routed else 0.0
    for name, one, routed in (
        ("team", programs["team"], 1.0),
        ("distilled single", programs["single"], 0.0),
        ("router", programs["router"], share),
        ("always cheap", programs["cheap"], 0.0),
    ):
        if one is not None:
            verdict = one["against_team"]["verdict"] if one["against_team"] else ""
            table.add_row(f"{name}: {one['name']}", *_figures(one), f"{routed:.0%}", verdict)
    return table


def _figures(one: ProgramFigures) -> list[str]:
    """A table of accuracy, difference to the team, and price per question."""
    test, tokens, cost = one["against_team"], one["tokens"], one["cost_usd"]
    return [
        percent(one["accuracy"]),
        "" if test is None else points(test["difference"], test["low"], test["high"]),
        f"{one['calls']:.2f}",
        "" if tokens is None else f"{tokens:,.0f}",
        "" if cost is None else f"{cost:.3g} USD",
    ]


def _table(first: str, *more: str) -> Table:
    columns = (first, "accuracy", "difference", "calls", "tokens", "cost", *more, "to the team")
    return plain_table(*columns, last_left=True)


# Training -----------------------------------------------------------------------------------------


def train(request: TrainRequest, view: Confirmed) -> None:
    def show(trained: Trained) -> None:
        tested = trained.evaluation.in_words() if trained.evaluation else None
        scores, folder = trained.to_dict(), str(trained.folder)
        show_scores(view, scores, folder, track=request.tracking, tested=tested)

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
    scores = {"out": folder, **scores}
    finish(view, scores, lambda: show_scores(view, scores, folder, track=False))


def show_scores(
    view: Quietly,
    scores: Mapping[str, Any],
    out: str,
    *,
    track: bool,
    tested: Mapping[str, str] | None = None,
) -> None:
    """Show the scores as a table; after a training also how it ended, where the network is, and the
    next command.
    """
    if scores.get("missing"):
        text = f"warning: {scores['missing']:,.1f} chosen answers are not in the test outcomes"
        say(f"{text}, and count as wrong")
    if "consensus" in scores and view.quiet:
        console().print(f"consensus {percent(scores['consensus'])}", soft_wrap=True)
    elif "consensus" in scores:
        score_table(console(), scores)
    elif "scores" in scores:
        lines = {"accuracy": percent(scores["scores"]["accuracy"])}
        show_result(console(), "network", lines if view.quiet else tested or lines)
    if "training" in scores and not view.quiet:
        show_result(console(), "training", training_lines(scores, out, track=track))


def training_lines(scores: Mapping[str, Any], out: str, *, track: bool) -> dict[str, str]:
    """How a training ended, line by line, and what to do with the network."""
    learnt, paid = scores["training"], scores["training"].get("paid")
    lines = {"trained": f"network:{out}"}
    if "reward" in learnt:
        lines["last reward"] = f"{learnt['reward']:+.2f}"
        lines["last right"] = (
            f"one agent {learnt['individual']:.1%}, group {learnt['consensus']:.1%}"
        )
    if paid is not None:
        lines["paid in training"] = used(paid)
    untested = not {"scores", "consensus"} & scores.keys()
    source = "--outcomes TEST.jsonl" if untested and paid is None else "--data QUESTIONS"
    lines["test it" if untested else "use it"] = f"folkmoot evaluate network:{out} {source}"
    return lines | ({"look at it": "folkmoot ui"} if track else {})


def score_table(out: Console, scores: Mapping[str, Any]) -> None:
    """Show the test scores of a network, with the difference of each to its rivals."""
    table = Table("", "right", "95%", "calls per question", "", box=None, pad_edge=False)
    for name, meaning in SCORES.items():
        score = scores[name]
        interval = f"{score['low']:.1%} to {score['high']:.1%}"
        label = name.replace("_", " ")
        table.add_row(label, f"{score['value']:.1%}", interval, f"{score['calls']:.3g}", meaning)
    out.print(table)
    lines = {}
    for team in ("consensus", "individual"):
        for rival, by in scores["differences"][team].items():
            difference = points(by["value"], by["low"], by["high"])
            lines[f"{team} over {rival.replace('_', ' ')}"] = f"{difference} points"
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
        lines["calibration"] = f"the vote's confidence is {scores['ece']:.1%} from its accuracy"
    show_result(out, "differences", lines)
    for sentence in scores["verdict"]:
        out.print(sentence[0].upper() + sentence[1:] + ".", soft_wrap=True)
