"""Plans a training: reads and checks all data that a strategy network learns from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import dspy
import numpy as np
import numpy.typing as npt

from ...modules.base.errors import UserError
from ...modules.base.keyed import only, without
from ...modules.network.selector import Embed, StrategySelector, model_name
from ...modules.network.strategy_network import StrategyNetwork
from ...modules.reading.question import Question
from ...optimizers.policy.settings import TrainingSettings, configured
from ..base.account import Account
from ..base.request import folder_at
from ..base.wording import counted
from ..data import questions as data
from ..data.embeddings import Embedder
from ..data.parts import load_part
from ..evaluation.answering import seat_engines
from ..evaluation.check import check_train
from ..evaluation.estimate import CostEstimate, estimate, estimate_lines
from ..lms.named import Billed
from ..programs.resolve import program_of
from ..programs.seats import (
    Seating,
    parse_sets,
)
from ..runs.books import account_of
from ..runs.outcomes import Outcomes, outcomes_in
from .card import CALLS
from .request import TrainRequest
from .teach import check_apart, check_live, fitted, network_of, with_strategies
from .untrained import OF_PROGRAM, default_embedding

_ONLY_LIVE = (
    *("lm", "api_base", "budget", "record", "price", "train_split", "train_limit", "test_split"),
    *("test_limit", "columns", "kind", "temperature"),
)


@dataclass
class TrainingPlan:
    """The common part of the plans of a training from outcomes and one by asking, checked.
    `options` are the user's settings; `network` is the network to train, a copy of the user's.
    """

    request: TrainRequest
    options: dict[str, Any]
    network: StrategyNetwork
    training: TrainingSettings
    warnings: list[str] = field(kw_only=True)

    @property
    def title(self) -> str:
        return "network"

    @property
    def out(self) -> Path | None:
        return folder_at(self.request.out)

    @property
    def cost(self) -> tuple[float, float] | None:
        return 0.0, 0.0

    @property
    def engines(self) -> list[Billed]:
        """The engine names under which the LMs are billed; none where answers are recorded."""
        return []

    @property
    def source(self) -> str | None:
        """The name of the training data in the tracking store."""
        place: object = self.request.outcomes
        if place is None:
            place = self.request.train
        if isinstance(place, list) and place:
            place = place[0]
        if not isinstance(place, str | Path):
            return None
        return Path(place).stem


@dataclass
class ReplayPlan(TrainingPlan):
    """A plan of a training on recorded answers, which asks no LM."""

    outcomes: Outcomes
    tested: Outcomes | None

    def lines(self) -> list[str]:
        return []  # no LM is asked

    def to_dict(self) -> dict[str, object]:
        training = {"questions": len(self.outcomes), "most_calls": 0}
        return {"out": str(self.out), "training": training}


@dataclass
class LivePlan(TrainingPlan):
    """A plan of a training that asks LMs, and of the test questions for the trained network."""

    questions: list[Question]
    test: list[Question]
    lm: dspy.BaseLM | None

    @cached_property
    def _learning(self) -> CostEstimate:
        return self._forecast(self.questions)

    @cached_property
    def testing(self) -> CostEstimate | None:
        if not self.test:
            return None
        return self._forecast(self.test)

    def _forecast(self, questions: Sequence[Question]) -> CostEstimate:
        return estimate(self.network, questions, self.lm, concurrency=self.request.concurrency)

    @property
    def _times(self) -> int:
        # A question is asked at most once per agent and strategy.
        return min(int(self.training.epochs), len(self.network.state.config.strategies))

    @property
    def most_calls(self) -> int:
        return self._times * (self._learning.calls or (0, 0))[1]

    @property
    def cost(self) -> tuple[float, float] | None:
        most = 0.0
        for part, times in ((self._learning, self._times), (self.testing, 1)):
            if part is None:
                continue
            if part.cost_usd is None:
                return None
            most += part.cost_usd[1] * times
        # The least is nothing at all: every call may be in the cache.
        return 0.0, most

    @property
    def engines(self) -> list[Billed]:
        return seat_engines(self.network, self.lm)

    def account(self, folder: Path) -> Account | None:
        """Return the budget that earlier attempts left."""
        return account_of(self.request.budget, self.engines, folder, folder / CALLS)

    def lines(self) -> list[str]:
        config, source = self.network.state.config, ""
        if self.source:
            source = f" from {self.source}"
        lines = [
            f"{counted(len(self.questions), 'training question')}{source}; "
            f"{counted(config.agents, 'agent')}, strategies {', '.join(config.strategies)}; "
            f"{counted(int(self.training.epochs), 'epoch')}",
            f"training: at most {self.most_calls:,} calls",
        ]
        if self.testing is not None:
            lines += [f"test: {line}" for line in estimate_lines(self.testing, self.request.budget)]
        return lines

    def to_dict(self) -> dict[str, object]:
        training = {"questions": len(self.questions), "most_calls": self.most_calls}
        test = self.testing.to_dict() if self.testing else None
        return {"out": str(self.out), "training": training, "test": test}


def plan_training(
    request: TrainRequest, *, stored: bool = False, keyless: bool = False
) -> ReplayPlan | LivePlan:
    """Read and check all input. Raises UserError before any LM is called.

    `stored` asks for a folder. With `keyless` (a plan alone), no keys are needed.
    """
    if (request.outcomes is None) == (request.train is None):
        raise UserError(
            "give data to learn from: either outcomes, or questions (--outcomes FILE or --train "
            "QUESTIONS)"
        )
    # The seed may be given in two ways, which may not contradict each other.
    options, seed = parse_sets(request.settings), request.seed
    if seed and options.get("seed", seed) != seed:
        raise UserError(f"seed is {seed} and in the settings {options['seed']}: keep one of them")
    # A network that was trained before goes on with its own seed, unless another is asked for.
    if seed or request.program in (None, "network"):
        options.setdefault("seed", seed)
    network = _network_in(request, options)
    if stored and request.out is None:
        raise UserError("--out is missing: name the folder for the network")
    if request.outcomes is None:
        return _live(request, options, network, keyless)
    return _replay(request, options, network)


def _replay(
    request: TrainRequest, options: dict[str, object], network: StrategyNetwork | None
) -> ReplayPlan:
    for name in _ONLY_LIVE:
        if request.asked(name):
            option = "--" + name.replace("_", "-")
            raise UserError(f"{option} is for training by asking: leave it out, or the outcomes")
    table = outcomes_in(request.outcomes)
    tested = outcomes_in(request.test) if request.test is not None else None
    warnings = list[str]()
    if network is None:
        table = with_strategies(table, options.get("strategies"))
        network, training, warnings = _new_network(request, options, table)
    else:
        config = network.state.config
        # It goes on learning what it knows: answers with other strategies are left out.
        table = with_strategies(table, config.strategies)
        like = fitted(table, {"agents": config.agents, "strategies": config.strategies})
        # Whether agents are copies of one depends on the table that they learn from.
        network.state.config = replace(config, alike=like["alike"])
        _, training = configured(_of_training(options), request.preset)
    if tested is not None:
        check_apart(table, tested)
        tested = tested.like(table.agents, table.strategies)
    if table.missing:
        answers = f"{table.missing:,} of {table.present.size:,} training answers"
        warnings.append(f"{answers} are missing and count as wrong")
    errors = table.errors
    if tested:
        errors += tested.errors
    if errors:
        are = "is" if errors == 1 else "are"
        warnings.append(f"{counted(errors, 'row')} of failed questions {are} left out")
    return ReplayPlan(request, options, network, training, table, tested, warnings=warnings)


def _live(
    request: TrainRequest,
    options: dict[str, Any],
    network: StrategyNetwork | None,
    keyless: bool,
) -> LivePlan:
    how = request.reading()
    seed = int(options.get("seed", 0))
    limits = (request.train_split, request.train_limit, seed)
    questions, _ = load_part(request.train, "train", *limits, **how)
    data.check_asked(questions)
    test, warnings = _test_questions(request, seed, how), list[str]()
    if test:
        warnings += check_train(questions, test)
    if network is None:
        network, training, more = _new_network(request, options)
        warnings += more
    else:
        _, training = configured(_of_training(options), request.preset)
        check_live(training)
    _, lm = Seating(request, keyless=keyless).seat(network)
    return LivePlan(request, options, network, training, questions, test, lm, warnings=warnings)


def _test_questions(request: TrainRequest, seed: int, how: dict[str, Any]) -> list[Question]:
    place = request.test
    if place is None:
        return []
    if isinstance(place, list) and place and isinstance(place[0], str | Path):
        if len(place) > 1:
            raise UserError("--test is given twice: name one set of test questions")
        place = place[0]
    # A whole list is not drawn, and keeps its order.
    drawn = None if request.test_limit is None else seed
    test = data.listed(
        place, "test", split=request.test_split, limit=request.test_limit, seed=drawn, **how
    )
    data.check_asked(test)
    return test


def _network_in(request: TrainRequest, options: Mapping[str, object]) -> StrategyNetwork | None:
    """Return a copy of the user's network; None where a new one is made from the settings. Raises
    UserError for settings that contradict the network's own.
    """
    program = request.program
    if program in (None, "network"):
        return None
    if isinstance(program, str):
        program = program_of(program)
    if isinstance(program, StrategySelector):
        stands_for = {**program.names, **program.modules}
        program = network_of(program.state, program.embed, stands_for)
    if not isinstance(program, StrategyNetwork):
        raise UserError(f"a {type(program).__name__} cannot be trained: give a strategy network")
    if request.embedding is not None:
        raise UserError("the program has an embedding of its own: leave embedding out")
    for name in options.keys() - _of_training(options).keys():
        # A setting that is given again as it is does no harm.
        if options[name] != getattr(program.state.config, name, None):
            raise UserError(f"{name} is a setting of the program that you passed: leave it out")
    return program.deepcopy()  # type: ignore[no-any-return]


def _new_network(
    request: TrainRequest, options: dict[str, Any], outcomes: Outcomes | None = None
) -> tuple[StrategyNetwork, TrainingSettings, list[str]]:
    """Return an untrained network with these settings, its training settings, and warnings. The
    names of the embedding model and the strategies are added to `options`.
    """
    from ...modules.network.state import NetworkState

    strategies = options.get("strategies")
    stands_for = dict(strategies) if isinstance(strategies, Mapping) else dict[str, object]()
    if stands_for:
        options["strategies"] = list(stands_for)
    embed, model, warnings = _embedder(request.embedding, options)
    options["embedding"] = model
    named, of_program = without(options, OF_PROGRAM), only(options, OF_PROGRAM)
    if outcomes is not None:
        named = fitted(outcomes, named)
    config, training = configured(named, request.preset)
    # Before the embedding model is loaded below, which takes a while.
    if outcomes is None:
        check_live(training)
    warnings += config.idle()
    # A function of the user's says how wide its vectors are only by making one.
    state = NetworkState.fresh(config, embed(["width"]).shape[1])
    if outcomes is not None:
        return network_of(state, embed, stands_for, **of_program), training, warnings
    network = StrategyNetwork(state, embed, strategies=stands_for, **of_program)
    return network, training, warnings


def _of_training(options: Mapping[str, object]) -> dict[str, object]:
    return only(options, TrainingSettings.__dataclass_fields__)


def _embedder(
    embedding: str | Embed | None, options: Mapping[str, Any]
) -> tuple[Embed, str, list[str]]:
    """Return the embedder of questions, its name, and warnings."""
    if embedding is not None and "embedding" in options:
        raise UserError("embedding is given, and in the settings, too: keep one of them")
    if isinstance(embedding, Embedder):
        return embedding, model_name(embedding), []
    if callable(embedding):
        return partial(_vectors, embedding), model_name(embedding), []
    model, warnings = embedding or options.get("embedding"), list[str]()
    if model is None:
        model, warning = default_embedding()
        if warning is not None:
            warnings.append(warning)
    return Embedder(model), model, warnings


def _vectors(embedding: Embed, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """Return the embeddings (n, D) of texts by the user's function. Raises UserError for another
    number of rows.
    """
    vectors = np.asarray(embedding(texts), dtype=np.float32)
    if vectors.ndim != 2 or len(vectors) != len(texts):
        raise UserError(
            f"the embedding function returned no vectors of {counted(len(texts), 'text')}: return "
            "an array of numbers with a row for each"
        )
    return vectors
