"""Plans a training: reads and checks all that a strategy network is to learn from."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, simplefilter

import numpy as np
import numpy.typing as npt

from ...modules.base.errors import UserError
from ...modules.protocols.program import Program
from ...modules.protocols.strategy_network import StrategyNetwork
from ...modules.reading.question import Question
from ...optimizers.policy.settings import TrainingSettings, configured
from ..base.wording import counted
from ..data import load as data
from ..data.embeddings import Embedder
from ..evaluation.answering import seat_engines
from ..evaluation.check import check_train
from ..evaluation.forecast import Forecast, account_of, forecast, forecast_lines
from ..programs.networks import OF_PROGRAM, default_embedding
from ..programs.resolve import parse_sets, program_of
from ..programs.seats import Seating
from ..runs.outcomes import Outcomes, outcomes_in
from .live import CALLS
from .recorded import network_of
from .request import TrainRequest
from .train import Embed, idle

if TYPE_CHECKING:  # PyTorch is of the extra `network`, and takes a second to import
    from ...modules.network.state import NetworkState

_ONLY_LIVE = (
    *("lm", "api_base", "budget", "record", "price", "train_split", "train_limit", "test_split"),
    *("test_limit", "columns", "kind", "temperature"),
)


@dataclass
class TrainingPlan:
    """What is the same of a training from outcomes and one that asks LMs: checked, and not begun.

    `given` has the settings as they were asked for.
    """

    request: TrainRequest
    given: dict[str, Any]
    warnings: list[str] = field(default_factory=list, kw_only=True)

    @property
    def title(self) -> str:
        return "network"

    @property
    def out(self) -> Path | None:
        return None if self.request.out is None else Path(self.request.out).expanduser()

    @property
    def cost(self) -> tuple[float, float] | None:
        return 0.0, 0.0

    @property
    def source(self) -> str | None:
        """What to call the training data in the tracking store."""
        given = self.request.train if self.request.outcomes is None else self.request.outcomes
        given = given[0] if isinstance(given, list) and given else given
        return Path(given).stem if isinstance(given, str | Path) else None


@dataclass
class ReplayPlan(TrainingPlan):
    """A training on recorded answers, which asks no LM. `named` are the settings of network and
    training.
    """

    outcomes: Outcomes
    tested: Outcomes | None
    program: StrategyNetwork | None
    embed: Embed
    named: dict[str, Any]

    def made(self, state: NetworkState) -> StrategyNetwork:
        """The program of what was learned."""
        if self.program is not None:
            network: StrategyNetwork = self.program.deepcopy()
            network.state = state
            return network
        return network_of(state, self.embed, **_of_program(self.given))

    def lines(self) -> list[str]:
        return []  # nobody is asked

    def to_dict(self) -> dict[str, Any]:
        return {
            "out": str(self.out),
            "training": {"questions": len(self.outcomes), "most_calls": 0},
        }


@dataclass
class LivePlan(TrainingPlan):
    """A training that asks LMs, and the questions that the trained network is then evaluated on."""

    network: StrategyNetwork
    training: TrainingSettings
    questions: list[Question]
    test: list[Question]
    lm: Any

    @cached_property
    def _learning(self) -> Forecast:
        return self._forecast(self.questions)

    @cached_property
    def testing(self) -> Forecast | None:
        return self._forecast(self.test) if self.test else None

    def _forecast(self, questions: Sequence[Question]) -> Forecast:
        return forecast(self.network, questions, self.lm, concurrency=self.request.concurrency)

    @property
    def _times(self) -> int:
        # The same way of asking a question is not repeated.
        return min(int(self.training.epochs), len(self.network.state.config.strategies))

    @property
    def most_calls(self) -> int:
        return self._times * (self._learning.calls or (0, 0))[1]

    @property
    def cost(self) -> tuple[float, float] | None:
        parts = ((self._learning, self._times), (self.testing, 1))
        return 0.0, sum(one.cost_usd[1] * times for one, times in parts if one and one.cost_usd)

    def account(self, folder: Path) -> Any:
        """What earlier attempts left of the budget."""
        engines = seat_engines(self.network, self.lm)
        return account_of(self.request.budget, engines, folder, folder / CALLS)

    def lines(self) -> list[str]:
        config, source = self.network.state.config, f" from {self.source}" if self.source else ""
        lines = [
            f"{counted(len(self.questions), 'training question')}{source}; "
            f"{counted(config.agents, 'agent')}, strategies {', '.join(config.strategies)}; "
            f"{counted(int(self.training.epochs), 'epoch')}",
            f"training: at most {self.most_calls:,} calls",
        ]
        if self.testing is not None:
            lines += [f"test: {line}" for line in forecast_lines(self.testing, self.request.budget)]
        return lines

    def to_dict(self) -> dict[str, Any]:
        training = {"questions": len(self.questions), "most_calls": self.most_calls}
        test = self.testing.to_dict() if self.testing else None
        return {"out": str(self.out), "training": training, "test": test}


def plan_training(request: TrainRequest, *, stored: bool = False) -> ReplayPlan | LivePlan:
    """Read and check all input. Raises UserError before any LM is called.

    `stored` asks for a folder.
    """
    if bool(request.outcomes is not None) == bool(request.train is not None):
        raise UserError(
            "give what to learn from: either outcomes, or questions (--outcomes FILE or --train "
            "QUESTIONS)"
        )
    chosen, seed = parse_sets(request.settings), request.seed
    if seed and chosen.get("seed", seed) != seed:
        raise UserError(f"seed is {seed} and in the settings {chosen['seed']}: keep one of them")
    if seed or request.program in (None, "network"):
        chosen.setdefault("seed", seed)
    program = _given(request.program, chosen, request.embedding)
    if stored and request.out is None:
        raise UserError("--out is missing: name the folder that the network is kept in")
    if request.train is None:
        return _replay(request, chosen, program)
    return _live(request, chosen, program)


def _replay(
    request: TrainRequest, chosen: dict[str, Any], program: StrategyNetwork | None
) -> ReplayPlan:
    for name in _ONLY_LIVE:
        if request.asked(name):
            option = "--" + name.replace("_", "-")
            raise UserError(f"{option} is for training by asking: leave it out, or the outcomes")
    table = outcomes_in(request.outcomes)
    tested = None if request.test is None else outcomes_in(request.test)
    warnings: list[str] = []
    if program is not None:
        config = vars(program.state.config)
        named = {name: value for name, value in config.items() if name != "alike"} | _of_training(
            chosen
        )
        embed: Embed = program.embed
    else:
        embed, chosen, warnings = _embedder(request.embedding, chosen)
        named = {name: value for name, value in chosen.items() if name not in OF_PROGRAM}
    if table.missing:
        answers = f"{table.missing:,} of {table.given.size:,} training answers"
        warnings.append(f"{answers} are missing and count as wrong")
    if warning := idle(table, chosen):
        warnings.append(warning)
    if errors := table.errors + (tested.errors if tested else 0):
        warnings.append(
            f"{counted(errors, 'row')} of failed questions {'is' if errors == 1 else 'are'} left "
            f"out"
        )
    return ReplayPlan(request, chosen, table, tested, program, embed, named, warnings=warnings)


def _live(
    request: TrainRequest, chosen: dict[str, Any], program: StrategyNetwork | None
) -> LivePlan:
    how: Any = {"columns": request.column_names(), "kind": request.kind}
    seed = int(chosen.get("seed", 0))
    limits = (request.train_split, request.train_limit, seed)
    questions, _ = data.load_part(request.train, "train", *limits, **how)
    data.check_asked(questions)
    test, warnings = _test_questions(request, seed, how), list[str]()
    if test:
        warnings += check_train(questions, test)
    if program is not None:
        network: StrategyNetwork = program.deepcopy()
        network.state = copy.deepcopy(program.state)
        training = configured(_of_training(chosen), request.preset)[1]
        _check_live(training)
    else:
        embed, chosen, more = _embedder(request.embedding, chosen)
        warnings += more
        named = {name: value for name, value in chosen.items() if name not in OF_PROGRAM}
        config, training = configured(named, request.preset)
        _check_live(training)
        with catch_warnings(record=True) as caught:  # said with the plan, once all input is checked
            simplefilter("always")
            network = StrategyNetwork.untrained(config, embed, **_of_program(chosen))
        warnings += [str(one.message) for one in caught]
    _, lm = Seating(request).seat(network)
    return LivePlan(request, chosen, network, training, questions, test, lm, warnings=warnings)


def _check_live(training: TrainingSettings) -> None:
    """Raises UserError for settings that only a replay can meet."""
    if training.full_information or not isinstance(training.epochs, int):
        raise UserError(
            "full_information and epochs=auto ask every agent for every strategy, which only a "
            "replay can "
            "afford: add --set full_information=false --set epochs=10, or train from --outcomes"
        )


def _test_questions(request: TrainRequest, seed: int, how: dict[str, Any]) -> list[Question]:
    given = request.test
    if given is None:
        return []
    if isinstance(given, list) and given and isinstance(given[0], str | Path):
        if len(given) > 1:
            raise UserError("--test is given twice: name one set of test questions")
        given = given[0]
    drawn = None if request.test_limit is None else seed
    test = data.listed(
        given, "test", split=request.test_split, limit=request.test_limit, seed=drawn, **how
    )
    data.check_asked(test)
    return test


def _of_program(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the settings that are of the program, and not of what it learned."""
    return {name: settings[name] for name in OF_PROGRAM if name in settings}


def _given(
    program: Program | str | None, settings: Mapping[str, Any], embedding: str | Embed | None
) -> StrategyNetwork | None:
    """The network to teach; None for one that the settings make. Raises UserError where both say
    the same.
    """
    if program is None or program == "network":
        return None
    if isinstance(program, str):
        program = program_of(program)
    if not isinstance(program, StrategyNetwork):
        raise UserError(f"a {type(program).__name__} cannot be trained: give a strategy network")
    if embedding is not None:
        raise UserError("the program has an embedding of its own: leave embedding out")
    config = program.state.config
    own = {**vars(config), **config.to_dict()} | {
        "samples": program.samples,
        "sampling": program.sampling,
    }
    for name in settings.keys() - _of_training(settings).keys():
        if name not in own or settings[name] != own[name]:
            known = f", and {own[name]!r} in the program" if name in own else ""
            raise UserError(f"{name} is {settings[name]!r}{known}: leave it out")
    return program


def _of_training(settings: Mapping[str, Any]) -> dict[str, Any]:
    known = {field.name for field in fields(TrainingSettings)}
    return {name: value for name, value in settings.items() if name in known}


def _embedder(
    embedding: str | Embed | None, settings: Mapping[str, Any]
) -> tuple[Embed, dict[str, Any], list[str]]:
    """What embeds questions, the settings with its name, and what to warn of."""
    if embedding is not None and "embedding" in settings:
        raise UserError("embedding is given, and in the settings, too: keep one of them")
    if callable(embedding):
        name = getattr(embedding, "__name__", type(embedding).__name__)
        named = {**settings, "embedding": getattr(embedding, "model", name)}
        return (
            embedding if isinstance(embedding, Embedder) else partial(_vectors, embedding),
            named,
            [],
        )
    warning = None
    if embedding is None and "embedding" not in settings:
        embedding, warning = default_embedding()
    named = {**settings, **({"embedding": embedding} if embedding is not None else {})}
    return Embedder(named["embedding"]), named, [warning] if warning else []


def _vectors(embedding: Embed, texts: Sequence[str]) -> npt.NDArray[np.float32]:
    """What a function of the user's own makes of texts. Raises UserError for what are no vectors of
    them.
    """
    made = embedding(texts)
    try:
        found = np.asarray(made, dtype=np.float32)
    except (TypeError, ValueError):
        found = np.zeros(0, dtype=np.float32)
    if found.ndim != 2 or len(found) != len(texts) or not np.isfinite(found).all():
        raise UserError(
            f"the embedding function gave no vectors of {counted(len(texts), 'text')}: return an "
            f"array of "
            "finite numbers with a row for each"
        )
    return found
