"""`folkmoot train`: a strategy network learns, from recorded outcomes or from live answers."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table

from ...modules.base.errors import UserError
from ...modules.protocols.strategy_network import StrategyNetwork
from ...modules.reading.question import Question
from ...optimizers.policy.settings import TrainingSettings, configured
from ..base.budget import BudgetSpent
from ..base.wording import counted, percent, used
from ..data import load as data
from ..data.embeddings import Embedder
from ..evaluation.answering import seat_engines
from ..evaluation.check import check_train
from ..evaluation.earlier import Evaluation
from ..evaluation.evaluate import evaluate as evaluate_program
from ..evaluation.forecast import Forecast, account_of, forecast, forecast_lines
from ..evaluation.request import EvaluateRequest
from ..lms.ledger import totals
from ..programs.networks import OF_PROGRAM, default_embedding
from ..programs.resolve import parse_sets
from ..programs.seats import Seating
from ..runs.books import open_books
from ..runs.lines import result_lines
from ..runs.outcomes import read_outcomes
from ..training.live import CALLS, fresh_network
from ..training.live import live as train_live
from ..training.request import TrainRequest
from ..training.train import displayed_training, idle, recent, rescore, train_on_outcomes
from .guard import STOPPED, resumable, say
from .options import Confirmed, EvaluateView, Quietly
from .show import confirm, console, evaluating, finish, show_result

_ONLY_LIVE = (
    *("lm", "api_base", "budget", "record", "price", "train_split", "train_limit", "test_split"),
    *("test_limit", "columns", "kind", "dry_run"),
)

SCORES = {
    "individual": "one agent, its own choice",
    "consensus": "the group's vote",
    "majority": "the same answers, plain vote",
    "best_fixed": "best fixed choice in training",
    "best_per_group": "the same for each group",
    "best_per_group_hindsight": "the same in hindsight",
    "majority_of_all": "plain vote over all answers",
    "oracle": "any answer right",
}


def train(options: TrainRequest, view: Confirmed) -> None:
    if options.program != "network":
        raise UserError(
            f"{options.program!r} cannot be trained: write folkmoot train network, or leave it out"
        )
    if bool(options.outcomes) == bool(options.train):
        raise UserError("give what to learn from: either --outcomes FILE or --train QUESTIONS")
    if options.out is None:
        raise UserError("--out is missing: name the folder that the network is kept in")
    settings = parse_sets(options.sets)
    for name, value in (("seed", options.seed), ("embedding", options.embedding)):
        if name in settings and value:
            raise UserError(f"--{name} and --set {name}=… are both given: keep one of them")
        if value is not None:
            settings.setdefault(name, value)
    if "embedding" not in settings:
        settings["embedding"], warning = default_embedding()
        if warning:
            say(f"warning: {warning}")
    found: Mapping[str, Any] | None
    with resumable(options.out):
        if options.outcomes:
            found, stopped = _replay(options, view, options.out, settings), None
        else:
            found, stopped = _live(options, view, options.out, settings)
    if found is None:
        say(str(stopped))
        raise typer.Exit(STOPPED)
    # What a budget ended early has a trained network.
    finish(
        view,
        found,
        lambda: show_scores(view, found, str(options.out), track=options.tracking),
        stopped,
        0,
    )


def evaluate_outcomes(options: EvaluateRequest, view: EvaluateView) -> None:
    """`folkmoot evaluate network:DIR --outcomes TEST.jsonl`: the test part of a replay, without LM calls."""
    if not view.outcomes:
        raise UserError("--data is missing: name the questions to evaluate on")
    name, _, folder = str(options.program).partition(":")
    if name != "network" or not folder:
        raise UserError(f"--outcomes is for trained networks, not for {options.program}: write network:DIR")
    if options.questions is not None:
        raise UserError("--data and --outcomes are both given: keep one of them")
    if not Path(folder).expanduser().is_dir():
        raise UserError(f"there is no folder {folder}: name one that folkmoot train wrote")
    test = read_outcomes(view.outcomes)
    model = parse_sets(options.sets).get("embedding")
    scores = rescore(Path(folder).expanduser(), test, embed=Embedder(str(model)) if model else None)
    _warn(scores, test.errors)
    found = {"out": folder, **scores}
    finish(view, found, lambda: show_scores(view, found, folder, track=False))


# From recorded answers -------------------------------------------------------------------------------


def _replay(options: TrainRequest, view: Quietly, out: Path, settings: dict[str, Any]) -> dict[str, Any]:
    for name in _ONLY_LIVE:
        if options.asked(name):
            option = "--" + name.replace("_", "-")
            raise UserError(f"{option} is for training with LMs: drop it, or --outcomes")
    table = read_outcomes(options.outcomes)
    tested = read_outcomes(options.test) if options.test else None
    if table.missing:
        known = f"{table.missing:,} of {table.given.size:,} training answers"
        say(f"warning: {known} are missing and count as wrong")
    if warning := idle(table, settings):
        say(f"warning: {warning}")
    with displayed_training(view.progress) as progress, warnings.catch_warnings():
        if warning:  # was shown above
            warnings.filterwarnings("ignore", message=re.escape(warning))
        trained = train_on_outcomes(
            table,
            out,
            settings,
            test=tested,
            preset=options.preset,
            data=Path(options.outcomes[0]).stem,
            tracking=options.tracking,
            progress=progress,
        )
    scores = trained.scores or {}
    _warn(scores, table.errors + (tested.errors if tested else 0))
    training = {
        "questions": len(table),
        "agents": len(table.agents),
        "strategies": list(table.strategies),
        "missing": table.missing,
        "epochs": trained.log.epochs,
        **recent(trained.log),
    }
    return {"out": str(out), "training": training, **scores}


def _warn(scores: Mapping[str, Any], errors: int) -> None:
    if errors:
        are = "is" if errors == 1 else "are"
        say(f"warning: {counted(errors, 'row')} of failed questions {are} left out")
    if scores.get("missing"):
        say(f"warning: {scores['missing']:,.1f} answers that were chosen are not in the test outcomes: wrong")


# With LMs --------------------------------------------------------------------------------------------


@dataclass
class TrainingPlan:
    """A training that is checked; no LM has been called."""

    options: TrainRequest
    network: StrategyNetwork
    training: TrainingSettings
    questions: list[Question]
    test: list[Question]
    test_source: str | None
    lm: Any
    seed: int

    def __post_init__(self) -> None:
        epochs, ways = int(self.training.epochs), len(self.network.state.config.strategies)
        learning = self._forecast(self.questions)
        # The same way of asking a question is not repeated.
        times = min(epochs, ways)
        self.most_calls = times * (learning.calls or (0, 0))[1]
        self.testing = self._forecast(self.test) if self.test else None
        costs = ((learning, times), (self.testing, 1))
        self.most_usd = sum(one.cost_usd[1] * by for one, by in costs if one and one.cost_usd)

    def _forecast(self, questions: Sequence[Question]) -> Forecast:
        return forecast(self.network, questions, self.lm, concurrency=self.options.concurrency)

    def lines(self) -> list[str]:
        config = self.network.state.config
        lines = [
            f"{counted(len(self.questions), 'training question')} from {self.options.train}; "
            f"{counted(config.agents, 'agent')}, strategies {', '.join(config.strategies)}; "
            f"{counted(int(self.training.epochs), 'epoch')}",
            f"training: at most {self.most_calls:,} calls",
        ]
        if self.testing is not None:
            lines += [f"test: {line}" for line in forecast_lines(self.testing, self.options.budget)]
        return lines


def _live(
    options: TrainRequest, view: Confirmed, out: Path, settings: Mapping[str, Any]
) -> tuple[dict[str, Any] | None, str | None]:
    """Train by asking LMs; what to show of it, None for nothing, and why it stopped early."""
    ready = _ready(options, settings)
    account = account_of(options.budget, seat_engines(ready.network, ready.lm), out, out / CALLS)
    training = {"questions": len(ready.questions), "most_calls": ready.most_calls}
    test = ready.testing.to_dict() if ready.testing else None
    document = {"out": str(out), "training": training, "test": test}
    confirm(options, view, ready.lines(), lambda: document, (0.0, ready.most_usd))
    began = time.monotonic()
    try:
        with open_books(account=account):
            with displayed_training(view.progress) as progress:
                trained = train_live(
                    ready.network,
                    ready.questions,
                    ready.training,
                    out,
                    lm=ready.lm,
                    given=settings,
                    data=Path(str(options.train)).stem,
                    tracking=options.tracking,
                    progress=progress,
                    **options.named("preset", "record", "cache"),
                )
            paid = totals(out / CALLS).to_dict()
            found = {"out": str(out), "training": {**training, **recent(trained.log), "paid": paid}}
            if not ready.test:
                return found, None
            summary = _tested(ready, view, out).summary
    except BudgetSpent as problem:
        return None, str(problem)
    return {**found, **summary.to_dict(), "took": time.monotonic() - began}, summary.stopped


def _ready(options: TrainRequest, settings: Mapping[str, Any]) -> TrainingPlan:
    chosen = {name: value for name, value in settings.items() if name not in OF_PROGRAM}
    config, training = configured(chosen, options.preset)
    if training.full_information or not isinstance(training.epochs, int):
        raise UserError(
            "full_information and epochs=auto ask every agent for every strategy, which only a replay can "
            "afford: add --set full_information=false --set epochs=10, or train from --outcomes"
        )
    if len(options.test) > 1:
        raise UserError("--test is given twice: name one set of test questions")
    seed = int(settings.get("seed", 0))
    limit, source = options.train_limit, options.test[0] if options.test else None
    read: Any = {"columns": options.column_names(), "kind": options.kind}
    questions, _ = data.load_part(str(options.train), "train", options.train_split, limit, seed, **read)
    data.check_asked(questions)
    test: list[Question] = []
    if source is not None:
        drawn = None if options.test_limit is None else seed
        test = data.load(source, options.test_split, options.test_limit, drawn, **read)
        data.check_asked(test)
        for warning in check_train(questions, test):
            say(f"warning: {warning}")
    network = fresh_network(config, **{name: settings[name] for name in OF_PROGRAM if name in settings})
    _, lm = Seating(options).seat(network)
    return TrainingPlan(options, network, training, questions, test, source, lm, seed)


def _tested(ready: TrainingPlan, view: Quietly, out: Path) -> Evaluation:
    """The trained network on the test questions, as an ordinary evaluation in the network's folder."""
    options = ready.options
    seed = None if options.test_limit is None else ready.seed
    settings = {
        "command": "train",
        "program_spec": f"network:{out}",
        **data.recorded(ready.test, str(ready.test_source), options.test_split, options.test_limit, seed),
        "train_fingerprint": data.fingerprint(ready.questions),
        **options.named("train", "concurrency"),
    }
    with evaluating(view, "test") as progress:
        return evaluate_program(
            ready.network,
            ready.test,
            lm=ready.lm,
            out=out,
            tracking=options.tracking,
            settings=settings,
            progress=progress,
            **options.named("record", "concurrency", "cache"),
        )


# What is shown ---------------------------------------------------------------------------------------


def show_scores(view: Quietly, found: Mapping[str, Any], out: str, *, track: bool) -> None:
    """The scores as a table; of a training, how it ended, where the network is, and what next."""
    if "consensus" in found:
        if view.quiet:
            console().print(f"consensus {percent(found['consensus'])}", soft_wrap=True)
        else:
            score_table(console(), found)
    elif "scores" in found:
        lines = {"accuracy": percent(found["scores"]["accuracy"])}
        if not view.quiet:
            lines = result_lines(found, found["took"])
        show_result(console(), "network", lines)
    if "training" in found and not view.quiet:
        show_result(console(), "training", training_lines(found, out, track=track))


def training_lines(found: Mapping[str, Any], out: str, *, track: bool) -> dict[str, str]:
    """How a training ended, line by line, and what to do with the network."""
    learnt = found["training"]
    lines = {"trained": f"network:{out}"}
    if "reward" in learnt:
        lines["last reward"] = f"{learnt['reward']:+.2f}"
        lines["last right"] = f"one agent {learnt['individual']:.1%}, group {learnt['consensus']:.1%}"
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
        lines["calibration"] = f"the vote's confidence is {scores['ece']:.1%} from its accuracy (ECE)"
    if "strategy" in scores:
        each = [f"{name} {of['share']:.0%}" for name, of in scores["strategy"].items()]
        lines["chosen"] = ", ".join(each)
    show_result(out, "differences", lines)
    for sentence in scores["verdict"]:
        out.print(sentence[0].upper() + sentence[1:] + ".", soft_wrap=True)
