"""Trains a strategy network: on recorded answers, which also score it, without any LM call; or by
asking LMs, whose calls are all recorded, so that none is made twice.
"""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy
import numpy as np
import numpy.typing as npt

from ...modules.base.calls import CallError, FatalCallError
from ...modules.base.errors import UserError
from ...modules.network.config import NetworkConfig
from ...modules.network.report import FEWEST_CLUSTERED, clusters
from ...modules.network.selector import Embed
from ...modules.network.strategy_network import StrategyNetwork, embedding_of
from ...modules.network.weights import Numbers
from ...modules.protocols.strategies import STRATEGIES
from ...modules.reading.question import Question
from ...optimizers.policy.known_answers import TrainingQuestion
from ...optimizers.policy.settings import STANDING, TrainingSettings
from ..base.budget import Unanswered
from ..base.journal import write_json
from ..base.run_files import books_of
from ..base.wording import counted
from ..data.embeddings import Embedder
from ..data.questions import fingerprint
from ..evaluation.answering import lms_in
from ..lms.foreign import metering
from ..runs.books import open_books
from ..runs.describe import lms_of
from ..runs.outcomes import Outcomes
from ..runs.summary import GROUPS
from .card import CALLS
from .plots import network_plot
from .scores import (
    Cell,
    Fixed,
    NetworkDraws,
    network_scores,
    network_use,
    rival_values,
    verdict_of,
)
from .train import (
    Progress,
    Trained,
    TrainingAbout,
    learn,
    read_about,
    training_about,
    training_folder,
)

if TYPE_CHECKING:  # PyTorch is of the extra `network`, and takes a second to import
    from ...modules.network.state import NetworkState

SCORES, RIVALS = "scores.json", "rivals"
"""The scores on test outcomes, and the sub-folder of the networks without a graph."""

DRAWS = 32
"""How often sampled choices are drawn for each test question."""


Asked = Callable[[int, int, int], Awaitable[tuple[str | None, bool]]]


def network_of(
    state: NetworkState,
    embed: Embed,
    strategies: Mapping[str, object] | None = None,
    **options: Any,
) -> StrategyNetwork:
    """Return the network with this state; a `RecordedNetwork` where its strategies cannot be
    asked.
    """
    stands_for = dict(strategies or {})
    if all(name in stands_for or STRATEGIES.find(name) for name in state.config.strategies):
        return StrategyNetwork(state, embed, strategies=stands_for, **options)
    # One strategy that cannot be asked is enough: the network may choose it on any question.
    nobody = {name: Nobody(state.config.strategies) for name in state.config.strategies}
    return RecordedNetwork(state, embed, strategies=nobody, **options)


class RecordedNetwork(StrategyNetwork):
    """A network that learned from recorded answers with strategies that cannot be asked. It cannot
    answer questions: `training.scores` has its test scores, and `state` what it learned.
    """


class Nobody(dspy.Module):  # type: ignore[misc]
    """A strategy whose answers were recorded, and that cannot be asked."""

    def __init__(self, strategies: tuple[str, ...]) -> None:
        super().__init__()
        self.strategies = strategies

    def forward(self, question: str) -> dspy.Prediction:
        ways = ", ".join(filter(None, self.strategies)) or "agents without strategies"
        raise UserError(
            f"this network learned from answers of {ways}, which are not in fm.STRATEGIES: it can "
            "be scored on outcomes, but not asked"
        )


def train_by_replay(
    network: StrategyNetwork,
    outcomes: Outcomes,
    training: TrainingSettings,
    out: Path,
    *,
    test: Outcomes | None = None,
    preset: str = STANDING,
    options: Mapping[str, object] | None = None,
    data: str | None = None,
    tracking: bool = True,
    progress: Progress | None = None,
) -> Trained:
    """Train a network in place on recorded answers, and save it in `out`.

    Each agent of the table is an agent of the network; if there is only one, all agents are its
    copies. Answers without a strategy train trust and weights only. A network that was trained
    before continues to learn. The same call with the same folder resumes a stopped training.

    Args:
        network: the network, with the agents and strategies of the outcomes. outcomes: the training
            data. training: the training settings.
        out: folder of the network, the training's log, plots and checkpoint.
        test: outcomes to score the trained network on.
        preset, options: the origin of the settings.
        data: the name of the training data in the tracking store.
        tracking: whether to log a run.
        progress: called after every batch with its figures.

    Raises UserError for the folder of another training.
    """
    from ...optimizers.policy.training import without_graph

    config, vectors = network.state.config, network.embed(outcomes.questions)
    if config.policy != "gat":  # what learns from all answers at once gets all that are recorded
        training = replace(training, full_information=True)
    answers = for_all_copies(outcomes.answers, config)
    correct = for_all_copies(outcomes.correct, config)

    def answer(question: int, agent: int, strategy: int) -> tuple[str | None, bool]:
        code = int(answers[question, agent, strategy])
        return (str(code) if code >= 0 else None), bool(correct[question, agent, strategy])

    # The best fixed choices are kept, since a later test has this folder and no training outcomes.
    about: TrainingAbout = {
        **training_about("replay", config, training, preset, options or {}, data),
        "data_fingerprint": fingerprint_of(outcomes),
        "questions": len(outcomes),
        "missing": outcomes.missing,
        "agents": list(outcomes.agents),
        "strategies": list(outcomes.strategies),
        "lms": {},
        "fixed": Fixed.of(outcomes.correct, outcomes.present, outcomes.groups).to_dict(),
    }
    about_each = zip(outcomes.ids, vectors, outcomes.groups, strict=True)
    questions = list(map(TrainingQuestion._make, about_each))
    scores = None
    # A network with the user's own embeddings, or one that cannot be asked, is not logged as a
    # model.
    named = isinstance(getattr(network.embed, "source", None), Embedder)
    asked = named and not isinstance(network, RecordedNetwork)
    with training_folder(out, about, tracking=tracking, model=asked, lm=dspy.settings.lm) as (
        folder,
        tracked,
    ):
        log = learn(folder, network.state, questions, answer, training, tracked, progress)
        rivals = {}
        # With one strategy there is nothing to choose, with or without a graph.
        if len(config.strategies) > 1:
            rivals = without_graph(network.state, questions, answer)
            # Kept beside the network, since a later test holds it against these.
            for name, rival in rivals.items():
                other = network.deepcopy()
                other.state = rival
                other.save(folder / RIVALS / name)
        if test is not None:
            scores = score_state(network.state, about, test, network.embed, rivals)
            write_json(folder / SCORES, scores)
            network_plot(scores, folder / "plots" / "test.png")
        network.save(folder)
        tracked.end()
        about["mlflow_run_id"] = tracked.run_id
    taught = {
        "questions": len(outcomes),
        "agents": len(outcomes.agents),
        "strategies": list(outcomes.strategies),
        "missing": outcomes.missing,
        "epochs": log.epochs,
    }
    return Trained(folder, network, log, about, scores, taught=taught)


def rescore(folder: str | Path, test: Outcomes, *, embed: Embed | None = None) -> dict[str, object]:
    """Return the test scores of a network in a folder that was trained by replay; see
    `network_scores`. Raises UserError for a folder without such a network, and for outcomes that do
    not fit it.
    """
    from ...modules.network.state import NetworkState

    about = read_about(Path(folder))
    if "fixed" not in about:
        raise UserError(
            f"the network in {folder} was not trained on outcomes: evaluate it on questions, "
            "with --data"
        )
    state = NetworkState.load(folder)
    test = test.like(about["agents"], about["strategies"])
    rivals = {path.name: NetworkState.load(path) for path in Path(folder, RIVALS).glob("*")}
    embed = embed or Embedder(embedding_of(state, Path(folder)))
    return score_state(state, about, test, embed, rivals)


def score_state(
    state: NetworkState,
    about: TrainingAbout,
    test: Outcomes,
    embed: Embed,
    rivals: Mapping[str, NetworkState],
) -> dict[str, object]:
    """Return `network_scores` of a network on outcomes with the agents and strategies that it was
    trained on.
    """
    vectors, groups = embed(test.questions), test.groups
    drawn = draws(state, test.ids, vectors)
    fixed = Fixed.from_dict(about["fixed"])
    table = (test.answers, test.correct, test.present, test.groups)
    beside = rival_values(rivals, vectors, test.answers, test.correct)
    scores = network_scores(*table, drawn, fixed, rivals=beside, seed=state.config.seed)
    names = (test.agents, test.strategies, state.config.policy)
    scores["verdict"] = verdict_of(scores, fixed, *names)
    # Without topics in the data, questions that are alike stand for them.
    if len({*groups} - {None}) < 2 and len(test) >= FEWEST_CLUSTERED:
        groups = tuple(clusters(vectors, test.questions))
    return scores | network_use(test.answers, test.correct, groups, drawn, test.strategies)


def draws(
    state: NetworkState, ids: Sequence[str], vectors: npt.NDArray[np.floating]
) -> NetworkDraws:
    """Return the choices of a network for Q questions with embeddings (Q, D), drawn DRAWS times if
    sampled.
    """
    config = state.config
    sampled = config.sampled and len(config.strategies) > 1
    scores = state.scores(vectors)
    shape = (DRAWS if sampled else 1, len(ids), config.agents)
    picks, weights = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    # Draws repeat themselves, and the weights of a choice take a pass through the graph.
    votes: dict[tuple[int, tuple[int | None, ...]], Numbers] = {}
    for d, q in np.ndindex(*shape[:2]):
        chosen = tuple(state.pick(scores[q], vectors[q], f"{ids[q]}/{d}"))
        if (q, chosen) not in votes:
            votes[q, chosen] = state.weights(vectors[q], chosen)
        picks[d, q] = [-1 if way is None else way for way in chosen]
        weights[d, q] = votes[q, chosen]
    return NetworkDraws(picks, weights)


def check_apart(train: Outcomes, test: Outcomes) -> None:
    """Raise UserError when a test question is a training question; the same text with other options
    is allowed.
    """
    learnt = set(zip(train.ids, train.questions, strict=True))
    # Questions are compared by text, since folkmoot itself makes the ids of runs.
    same = list(filter(learnt.__contains__, zip(test.ids, test.questions, strict=True)))
    if same:
        first = textwrap.shorten(same[0][1], 80, placeholder=" …")
        raise UserError(
            f"{len(same)} of {counted(len(test), 'test question')} are training questions (the "
            f"first is {first!r}): test on others"
        )


def for_all_copies(values: npt.NDArray[Cell], config: NetworkConfig) -> npt.NDArray[Cell]:
    """Return a table (Q, A, S) expanded to the agents of a network (Q, N, S): all copies share one
    agent's answers.
    """
    if values.shape[1] == config.agents:
        return values
    return np.broadcast_to(values, (len(values), config.agents, values.shape[2]))


def fingerprint_of(outcomes: Outcomes) -> str:
    """Return a digest of all training data."""
    names = attrgetter("ids", "questions", "groups", "agents", "strategies")(outcomes)
    digest = hashlib.sha256(json.dumps(names).encode())
    for values in (outcomes.answers, outcomes.correct, outcomes.present):
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def with_strategies(outcomes: Outcomes, wanted: object) -> Outcomes:
    """Return the outcomes of the strategies named in the settings, or of all strategies."""
    if wanted is None or not outcomes.strategies:
        return outcomes
    if isinstance(wanted, str) or not isinstance(wanted, Sequence | Mapping):
        raise UserError(f"strategies is {wanted!r}: give a list such as [cot, self_ask]")
    return outcomes.only(list(map(str, wanted)))


def fitted(outcomes: Outcomes, settings: Mapping[str, object]) -> dict[str, Any]:
    """Return the settings with the table's agents and strategies. Raises UserError for settings
    that contradict them.
    """
    count = len(outcomes.agents)
    wanted = settings.get("agents", count)
    if count > 1 and wanted != count:
        raise UserError(
            f"the outcomes have {count} agents, not {wanted}: leave agents out of the settings"
        )
    names = outcomes.strategies or ("",)
    # The table's only agent stands for all: then they are copies.
    fields = {"alike": count == 1, **settings, "strategies": names}
    if count > 1:
        fields["agents"] = count
    return fields


def live(
    network: StrategyNetwork,
    questions: Sequence[Question],
    training: TrainingSettings,
    out: str | Path,
    *,
    lm: object = None,
    preset: str = STANDING,
    options: Mapping[str, object] | None = None,
    data: str | None = None,
    record: str | Path | None = None,
    cache: bool = True,
    tracking: bool = True,
    parent: str | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Train a network by asking LMs, and save it in `out`; `network` is trained in place.

    Every answered call is kept in `out/training`. The same call with the same folder resumes from
    the last checkpoint, and calls answered since then are not made again. `lm` is the LM of every
    seat without its own; the other arguments are those of `evaluate` and of `train_by_replay`.

    Raises UserError for settings that only a replay can meet and a folder of another training, and
    Unanswered for a call that failed for good; BudgetSpent and KeyboardInterrupt are passed on, and
    finished work is kept.
    """
    check_live(training)
    state = network.state
    about: TrainingAbout = {
        **training_about("live", state.config, training, preset, options or {}, data),
        "data_fingerprint": fingerprint(questions),
        "questions": len(questions),
        "agents": list(map("agent.{}".format, range(state.config.agents))),
        "strategies": list(state.config.strategies),
        "lms": lms_of(network, lm),
        "wording": network.wording() or None,
    }
    asked = list[TrainingQuestion]()
    vectors = network.embed([question.question for question in questions])
    for question, vector in zip(questions, vectors, strict=True):
        asked.append(TrainingQuestion(question.id, vector, _group(question)))
    with training_folder(
        Path(out), about, tracking=tracking, parent=parent, lm=lm or dspy.settings.lm
    ) as (folder, tracked):
        kept = folder / CALLS
        # The first is the training's own, from which a resumed one has its answers.
        records = [books_of(kept), *([Path(record)] if record is not None else [])]
        # DSPy would keep the last 10,000 calls in its history and again in its trace.
        quiet = dspy.context(lm=lm or dspy.settings.lm, disable_history=True, trace=None)
        books = open_books(kept, records=records, lms=about["lms"], cache=cache)
        with books, quiet, metering(lms_in(network, lm)):
            log = learn(
                folder, state, asked, _answering(network, questions), training, tracked, progress
            )
        network.save(folder)
        tracked.end()
        about["mlflow_run_id"] = tracked.run_id
    return Trained(folder, network, log, about)


def check_live(training: TrainingSettings) -> None:
    """Raise UserError for settings that only a training on recorded answers supports."""
    if training.full_information or not isinstance(training.epochs, int):
        raise UserError(
            "full_information and epochs auto ask every agent for every strategy, which is only "
            "possible when training on recorded answers: add --set full_information=false --set "
            "epochs=10, or train from --outcomes"
        )


def _answering(network: StrategyNetwork, questions: Sequence[Question]) -> Asked:
    """Ask the network's agents; a call that fails for good ends the training, since its answer is
    neither right nor wrong.
    """
    ask = network.answering(questions)

    async def answer(question: int, agent: int, strategy: int) -> tuple[str | None, bool]:
        try:
            reply: tuple[str | None, bool] = await ask(question, agent, strategy)
        # Such as a wrong key: it would fail every question, and says so itself.
        except FatalCallError:
            raise
        except CallError as problem:
            why = " ".join(str(problem).split())
            raise Unanswered(
                f"question {questions[question].id!r} could not be answered ({why})"
            ) from None
        return reply

    return answer


def _group(question: Question) -> str | None:
    for name in GROUPS:
        if question.meta.get(name) is not None:
            return str(question.meta[name])
    return None
