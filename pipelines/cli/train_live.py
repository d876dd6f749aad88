"""`folkmoot train --train …`: checks everything, says what is going to happen, trains with LMs, and tests."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...modules.base.calls import bound
from ...modules.base.errors import UserError
from ...modules.protocols.strategy_network import StrategyNetwork
from ...modules.reading.question import Question
from ...optimizers.policy.training import TrainingSettings, configured
from ..base.budget import ACCOUNTS, Account, BudgetSpent, open_account
from ..base.wording import counted
from ..data import catalogue
from ..data import load as data
from ..evaluation.check import check_train
from ..evaluation.evaluate import Evaluation, evaluate
from ..evaluation.plan import Plan, plan
from ..lms.ledger import totals
from ..lms.named import engine_of
from ..programs.seats import LMOptions
from ..training.live import CALLS, fresh_network, live
from ..training.train import recent
from . import show as cli_show
from .evaluate import EXPENSIVE_USD
from .guard import STOPPED, say
from .train_show import TrainingProgress

_OF_PROGRAM = ("samples", "sampling")  # settings of the program, which nothing is learned about


@dataclass
class Request:
    """A live training as the command line asks for it."""

    lms: LMOptions
    train: str
    out: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    preset: str = "paper"
    train_split: str | None = None
    train_limit: int | None = None
    test: str | None = None
    test_split: str | None = None
    test_limit: int | None = None
    kind: str | None = None
    concurrency: int = 64
    record: Path | None = None
    budget: str | None = None
    cache: bool = True
    tracking: bool = True

    @property
    def seed(self) -> int:
        return int(self.settings.get("seed", 0))


@dataclass
class _Ready:
    """A training that is checked: no LM has been called."""

    network: StrategyNetwork
    training: TrainingSettings
    questions: list[Question]
    test: list[Question]
    lm: Any


def run(request: Request, *, dry_run: bool, yes: bool, quiet: bool) -> tuple[dict[str, Any] | None, int]:
    """Carry the request out; what to show of it, None for nothing, and the exit code.

    Raises UserError before any LM is called, and for a training that cannot go on.
    """
    ready = _ready(request)
    account = _account(request, ready)
    learning = plan(ready.network, ready.questions, ready.lm, concurrency=request.concurrency)
    testing = (
        plan(ready.network, ready.test, ready.lm, concurrency=request.concurrency) if ready.test else None
    )
    times = min(int(ready.training.epochs), len(ready.network.state.config.strategies))
    told: dict[str, Any] = {
        "out": str(request.out),
        "training": {"questions": len(ready.questions), "most_calls": times * learning.calls[1]},
        "test": testing.to_dict() if testing else None,
    }
    if not quiet:
        for line in _lines(request, ready, learning, testing, times):
            cli_show.console(stderr=True).print(line, soft_wrap=True)
    if dry_run:
        return told, 0
    cost = sum(one.cost_usd[1] * by for one, by in ((learning, times), (testing, 1)) if one and one.cost_usd)
    if not yes and cost > EXPENSIVE_USD and not cli_show.agreed():
        return None, STOPPED
    began = time.monotonic()
    try:
        with bound(ACCOUNTS, (account,) if account is not None else ()):
            bar = TrainingProgress()
            with bar.shown(quiet=quiet):
                trained = live(
                    ready.network,
                    ready.questions,
                    ready.training,
                    request.out,
                    lm=ready.lm,
                    preset=request.preset,
                    given=request.settings,
                    data=Path(request.train).stem,
                    record=request.record,
                    cache=request.cache,
                    tracking=request.tracking,
                    progress=bar,
                )
            learnt = told["training"] | recent(trained.log)
            learnt["paid"] = totals(request.out / CALLS).to_dict()
            if not ready.test:
                return {"out": str(request.out), "training": learnt}, 0
            result = _tested(request, ready, quiet)
    except BudgetSpent as problem:
        say(str(problem))
        return None, STOPPED
    found = {"out": str(request.out), "training": learnt, **result.summary.to_dict()}
    if result.summary.stopped:
        say(result.summary.stopped)
    return {**found, "took": time.monotonic() - began}, STOPPED if result.summary.stopped else 0


def _ready(request: Request) -> _Ready:
    chosen = {name: value for name, value in request.settings.items() if name not in _OF_PROGRAM}
    config, training = configured(chosen, request.preset)
    if training.full_information or not isinstance(training.epochs, int):
        raise UserError(
            "full_information and epochs=auto ask every agent for every strategy, which only a replay can "
            "afford: add --set full_information=false --set epochs=10, or train from --outcomes"
        )
    questions = _load(
        request, request.train, request.train_split or _split(request.train), request.train_limit
    )
    test: list[Question] = []
    if request.test is not None:
        test = _load(request, request.test, request.test_split, request.test_limit)
        for warning in check_train(questions, test):
            say(f"warning: {warning}")
    program = {name: request.settings[name] for name in _OF_PROGRAM if name in request.settings}
    network = fresh_network(config, **program)
    return _Ready(network, training, questions, test, request.lms.seat(network))


def _load(request: Request, source: str, split: str | None, limit: int | None) -> list[Question]:
    seed = None if limit is None else request.seed
    found = data.load(source, split, limit, seed, kind=request.kind)
    data.check_labelled(found)
    data.check_contexts(found)
    return found


def _split(source: str) -> str | None:
    """`train`, but for a file, which has no splits."""
    is_file = catalogue.find(source) is None and Path(source).expanduser().exists()
    return None if is_file else "train"


def _account(request: Request, ready: _Ready) -> Account | None:
    """What earlier attempts left of the budget. Raises UserError for a budget that could not be held."""
    if request.budget is None:
        return None
    spent = totals(request.out)
    spent.add(totals(request.out / CALLS))
    engines = [engine_of(seat.predict.lm or ready.lm) for seat in ready.network.seats().values()]
    return open_account(request.budget, engines, spent)


def _lines(
    request: Request, ready: _Ready, learning: Plan, testing: Plan | None, times: int
) -> Sequence[str]:
    config = ready.network.state.config
    head = (
        f"{counted(len(ready.questions), 'training question')} from {request.train}; "
        f"{counted(config.agents, 'agent')}, strategies {', '.join(config.strategies)}; "
        f"{counted(int(ready.training.epochs), 'epoch')}"
    )
    lines = [head, f"training: at most {times * learning.calls[1]:,} calls"]
    if testing is not None:
        lines += [f"test: {line}" for line in cli_show.plan_lines(testing, request.budget)]
    return lines


def _tested(request: Request, ready: _Ready, quiet: bool) -> Evaluation:
    """The trained network on the test questions, as an ordinary evaluation in the network's folder."""
    source = str(request.test)
    seed = None if request.test_limit is None else request.seed
    known = data.describe(ready.test, source, request.test_split, request.test_limit, seed)
    settings = {
        "command": "train",
        "program_spec": f"network:{request.out}",
        "data": known.pop("source"),
        **{key: value for key, value in known.items() if key not in ("fingerprint", "rows", "unlabelled")},
        "train": request.train,
        "train_fingerprint": data.fingerprint(ready.questions),
        "concurrency": request.concurrency,
    }
    bar = cli_show.LiveProgress("test")
    with bar.shown(cli_show.console(stderr=True), quiet=quiet):
        return evaluate(
            ready.network,
            ready.test,
            lm=ready.lm,
            out=request.out,
            record=request.record,
            concurrency=request.concurrency,
            cache=request.cache,
            tracking=request.tracking,
            settings=settings,
            progress=bar,
        )
