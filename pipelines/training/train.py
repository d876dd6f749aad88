"""Trains a strategy network from recorded outcomes, and keeps all of a training in one folder."""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dspy
import numpy as np
import numpy.typing as npt

from ...modules.base.errors import UserError
from ...modules.network.config import NetworkConfig
from ...modules.protocols.strategy_network import StrategyNetwork, embedding_of
from ...optimizers.policy.known_answers import Answer, TrainingQuestion
from ...optimizers.policy.settings import STANDING, TrainingSettings, configured
from ..base.display import ProgressLine, displayed
from ..base.journal import read_object, write_json
from ..base.wording import counted
from ..data.embeddings import Embedder
from ..evaluation.earlier import Evaluation
from ..plots.network import graphs_plot, network_plot, rewards_plot, trust_plot
from ..runs.manifest import RunFolder, made_with
from ..runs.outcomes import Outcomes
from ..tracking.live import Tracking
from .recorded import RecordedNetwork, network_of
from .scores import Fixed, NetworkDraws, Numbers, network_scores, verdict_of
from .use import network_use

if TYPE_CHECKING:  # PyTorch is of the extra `network`, and takes a second to import
    from ...modules.network.state import NetworkState
    from ...optimizers.policy.batches import TrainingLog

ABOUT, LOG, SCORES, CHECKPOINT = "training.json", "training_log.json", "scores.json", "checkpoint"
LAST = 20
"""Batches that the figures of how far a training has come are the mean of."""
DRAWS = 32
"""How often choices that are sampled are drawn for each test question."""

TRAINING = RunFolder(
    "training",
    ABOUT,
    {
        "kind": "other kind",
        "network": "other network",
        "training": "other settings",
        "data_fingerprint": "other questions",
        "lms": "other LMs",
        "wording": "other prompts",
    },
)

Embed = Callable[[Sequence[str]], npt.NDArray[np.float32]]
Progress = Callable[[Mapping[str, Any]], None]


@dataclass(repr=False)
class Trained:
    """A finished training: what was learned, how it went, what `training.json` says of it, and the
    program.

    `scores` are those of a test on outcomes, `evaluation` that on questions; `taught` says how much
    there was to learn from, and what asking took.
    """

    folder: Path
    state: NetworkState
    log: TrainingLog
    about: dict[str, Any]
    scores: dict[str, Any] | None = None
    network: StrategyNetwork | None = None
    evaluation: Evaluation | None = None
    taught: dict[str, Any] = field(default_factory=dict)
    keep: Any = None  # a temporary folder lives as long as its training

    @property
    def stopped(self) -> str | None:
        """Why the test ended early; None if it did not."""
        return self.evaluation.summary.stopped if self.evaluation else None

    @property
    def empty(self) -> bool:
        """A training that was finished has a network."""
        return False

    def in_words(self, *, quiet: bool = False) -> dict[str, str]:
        """How the training ended, line by line."""
        figures = {name: f"{value:.3g}" for name, value in recent(self.log).items()}
        return {"trained": f"network:{self.folder}"} | ({} if quiet else figures)

    def to_dict(self) -> dict[str, Any]:
        tested = self.evaluation.summary.to_dict() if self.evaluation else self.scores or {}
        return {"out": str(self.folder), "training": {**self.taught, **recent(self.log)}, **tested}

    def __repr__(self) -> str:
        return f"Trained({counted(len(self.log.steps), 'step')}, {self.folder})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Trained:
        return self

    @property
    def run_id(self) -> str | None:
        """The training's run in MLflow; None when it has none."""
        found: str | None = self.about["mlflow_run_id"]
        return found


def train_on_outcomes(
    outcomes: Outcomes,
    out: str | Path,
    settings: Mapping[str, Any] | None = None,
    *,
    test: Outcomes | None = None,
    preset: str = STANDING,
    embed: Embed | None = None,
    data: str | None = None,
    tracking: bool = True,
    progress: Progress | None = None,
    program: Callable[[NetworkState], StrategyNetwork] | None = None,
) -> Trained:
    """Train a network on recorded answers, without any LM call, and score it on others.

    Args: outcomes: what to learn from. Each of several agents of the table becomes an agent of the
        network; of one agent there are as many copies as the settings say. Answers without a
        strategy teach trust and weights only.
        out: folder of the network, the training's log, plots and checkpoint. The same call with the
            same folder goes on where it was stopped.
        settings: of network and training, by their flat names, before those of the preset.
        test: outcomes to score the trained network on.
        preset: one of `optimizers.policy.settings.PRESETS`.
        embed: makes the questions' embeddings; None takes the model that the settings name.
        data: what to call the training data in the tracking store.
        tracking: log to the tracking store as one run.
        progress: called after every batch with its figures.
        program: makes the program of what was learned; None makes one with prompts as they begin.

    Raises UserError for settings that do not fit, test questions that are in training, and a folder
    of another training.
    """
    from ...modules.network.state import NetworkState

    given = dict(settings or {})
    outcomes = _chosen(outcomes, given)
    config, training = configured(_fitted(outcomes, given), preset)
    config.warn()
    if test is not None:
        check_apart(outcomes, test)
        test = test.like(outcomes.agents, outcomes.strategies)
    embed = embed or Embedder(config.embedding)
    vectors = embed(outcomes.questions)
    answers, correct = (
        for_all_copies(outcomes.answers, config),
        for_all_copies(outcomes.correct, config),
    )

    def answer(question: int, agent: int, strategy: int) -> tuple[str | None, bool]:
        code = int(answers[question, agent, strategy])
        return (str(code) if code >= 0 else None), bool(correct[question, agent, strategy])

    about = {
        **training_about("replay", config, training, preset, given, data),
        "data_fingerprint": fingerprint_of(outcomes),
        "questions": len(outcomes),
        "missing": outcomes.missing,
        "agents": list(outcomes.agents),
        "strategies": list(outcomes.strategies),
        "lms": {},
        "fixed": Fixed.of(outcomes.correct, outcomes.given, outcomes.groups).to_dict(),
    }
    questions = [
        TrainingQuestion(*each) for each in zip(outcomes.ids, vectors, outcomes.groups, strict=True)
    ]
    state = NetworkState.fresh(config, vectors.shape[1])
    # A network of a user's own embeddings, or that nobody can ask, is not logged as a model.
    asked = program is None and isinstance(embed, Embedder)
    asked = asked and not isinstance(network_of(state, embed), RecordedNetwork)
    with training_folder(Path(out), about, tracking=tracking, model=asked, lm=dspy.settings.lm) as (
        folder,
        tracked,
    ):
        log = learn(folder, state, questions, answer, training, tracked, progress)
        scores = None
        if test is not None:
            scores = score_state(state, about, test, embed)
            write_json(folder / SCORES, scores)
            network_plot(scores, folder / "plots" / "test.png")
        network = network_of(state, embed) if program is None else program(state)
        network.save(folder)
        tracked.end()
        about["mlflow_run_id"] = tracked.run_id
    return Trained(folder, state, log, about, scores, network)


@contextmanager
def displayed_training(show: bool | Progress | None) -> Iterator[Progress]:
    """Live progress of a training: how far it is, and the mean figures of the last batches."""
    last: deque[Mapping[str, Any]] = deque(maxlen=LAST)

    def mean(name: str) -> float:
        return float(sum(step[name] for step in last) / len(last))

    def draw(step: Mapping[str, Any]) -> ProgressLine:
        if step.get("stage") == "selection":
            parts = [f"epoch {step['epoch']}: {step['held_out']:.1%} right on held-out questions"]
        else:
            parts = [
                f"epoch {step['epoch']}",
                f"{step['questions']:,} questions",
                f"reward {mean('reward'):+.2f}",
                f"one agent {mean('individual'):.1%}",
                f"group {mean('consensus'):.1%}",
            ]
        return ProgressLine("train", parts, step.get("step", 0), max(step.get("steps", 1), 1))

    with displayed(show, "train", draw) as shown:

        def progress(step: Mapping[str, Any]) -> None:
            if "reward" in step:
                last.append(step)
            shown(step)

        yield progress


def rescore(folder: str | Path, test: Outcomes, *, embed: Embed | None = None) -> dict[str, Any]:
    """The test scores of a network that `train_on_outcomes` trained, from its folder; see
    `network_scores`.

    Raises UserError for a folder without such a network and outcomes that do not fit it.
    """
    from ...modules.network.state import NetworkState

    about = read_about(Path(folder))
    if "fixed" not in about:
        raise UserError(
            f"the network in {folder} was not trained on outcomes: evaluate it on questions, "
            f"with --data"
        )
    state = NetworkState.load(folder)
    test = test.like(about["agents"], about["strategies"])
    return score_state(state, about, test, embed or Embedder(embedding_of(state, Path(folder))))


def score_state(
    state: NetworkState, about: Mapping[str, Any], test: Outcomes, embed: Embed
) -> dict[str, Any]:
    """`network_scores` of a network on outcomes with the agents and strategies that it was trained
    on.
    """
    config = state.config
    drawn = draws(state, test.ids, embed(test.questions))
    fixed = Fixed.from_dict(about["fixed"])
    found = network_scores(
        test.answers, test.correct, test.given, test.groups, drawn, fixed, seed=config.seed
    )
    found["verdict"] = verdict_of(found, fixed, test.agents, test.strategies)
    return found | network_use(test.answers, test.correct, test.groups, drawn, test.strategies)


def draws(
    state: NetworkState, ids: Sequence[str], vectors: npt.NDArray[np.float32]
) -> NetworkDraws:
    """What a network chooses for Q questions with embeddings (Q, D), drawn DRAWS times if it is
    sampled.
    """
    config = state.config
    sampled = config.choice == "sample" and len(config.strategies) > 1
    scores = state.logits(vectors) + state.bias(vectors)
    shape = (DRAWS if sampled else 1, len(ids), config.agents)
    picks, weights = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    votes: dict[tuple[int, tuple[int | None, ...]], Numbers] = {}
    for d, q in np.ndindex(*shape[:2]):
        chosen = tuple(state.pick(scores[q], vectors[q], f"{ids[q]}/{d}"))
        if (q, chosen) not in votes:
            votes[q, chosen] = state.weights(vectors[q], chosen)
        picks[d, q] = [-1 if way is None else way for way in chosen]
        weights[d, q] = votes[q, chosen]
    return NetworkDraws(picks, weights)


def learn(
    folder: Path,
    state: NetworkState,
    questions: Sequence[TrainingQuestion],
    answer: Answer,
    training: TrainingSettings,
    tracked: Tracking,
    progress: Progress | None,
) -> TrainingLog:
    """Train `state` in place, from a checkpoint if there is one; save it, its log and its plots."""
    from ...optimizers.policy.training import train_policies

    steps: list[dict[str, Any]] = []

    def note(step: dict[str, Any]) -> None:
        if "reward" in step:  # not while it is being found out how many epochs there are to be
            steps.append(step)
            tracked.show(int(step["questions"]), {"reward_so_far": float(step["reward"])})
        if progress is not None:
            progress(step)

    log = train_policies(
        state, questions, answer, training, checkpoint=folder / CHECKPOINT, progress=note
    )
    write_json(folder / LOG, log.to_dict())
    plots = folder / "plots"
    plots.mkdir(exist_ok=True)
    names = [f"agent {i}" for i in range(state.config.agents)]
    trust_plot(state.voting_trust, names, plots / "trust.png")
    moments = [
        (int(at["questions"]), np.asarray(at["adjacency"], dtype=bool), np.asarray(at["trust"]))
        for at in log.graphs
    ]
    graphs_plot(moments, plots / "graphs.png")
    rewards_plot(log.steps, plots / "rewards.png")
    return log


@contextmanager
def training_folder(
    folder: Path,
    about: dict[str, Any],
    *,
    tracking: bool,
    parent: str | None = None,
    model: bool = True,
    lm: Any = None,
) -> Iterator[tuple[Path, Tracking]]:
    """The folder of a training with its tracked run, for one process at a time; `about` is what it
    is of.

    Raises UserError for the folder of another training, one in use, and one that cannot be written.
    """
    with TRAINING.opened(folder, about):
        write_json(folder / ABOUT, about)
        tracked = Tracking()
        if tracking:
            tracked = Tracking(folder, ABOUT, parent=parent, model=model, lm=lm)
        try:
            yield folder, tracked
        except BaseException as problem:
            stopped = isinstance(problem, KeyboardInterrupt | UserError)
            tracked.stop("KILLED" if stopped else "FAILED")
            raise


def training_about(
    kind: str,
    config: NetworkConfig,
    training: TrainingSettings,
    preset: str,
    given: Mapping[str, Any],
    data: str | None,
) -> dict[str, Any]:
    """What every `training.json` says: settings, where they came from, and versions."""
    return {
        "kind": kind,
        "network": config.to_dict(),
        "training": training.to_dict(),
        "preset": preset,
        "given": {name: value for name, value in given.items() if value is not None},
        "data": data,
        **made_with(),
    }


def read_about(folder: Path) -> dict[str, Any]:
    """What `training.json` says of a trained network. Raises UserError when it is not there or
    damaged.
    """
    found = read_object(folder / ABOUT)
    if found is None:
        raise UserError(
            f"{folder} holds no training ({ABOUT} is missing or damaged): name a trained network"
        )
    return found


def check_apart(train: Outcomes, test: Outcomes) -> None:
    """Raises UserError when a test question was learned from; a text alone may stand in both."""
    learnt = set(zip(train.ids, train.questions, strict=True))
    # By their texts, since the ids of runs are of our own making.
    same = [
        text for name, text in zip(test.ids, test.questions, strict=True) if (name, text) in learnt
    ]
    if same:
        raise UserError(
            f"{len(same)} of {counted(len(test), 'test question')} are training questions (the "
            f"first is "
            f"{textwrap.shorten(same[0], 80, placeholder=' …')!r}): test on others"
        )


def for_all_copies(values: npt.NDArray[Any], config: NetworkConfig) -> npt.NDArray[Any]:
    """A table (Q, A, S) by the agents of a network (Q, N, S): one agent's answers are those of all
    copies.
    """
    if values.shape[1] == config.agents:
        return values
    return np.broadcast_to(values, (len(values), config.agents, values.shape[2]))


def fingerprint_of(outcomes: Outcomes) -> str:
    """A digest of all that a training learns from."""
    names = [
        outcomes.ids,
        outcomes.questions,
        outcomes.groups,
        outcomes.agents,
        outcomes.strategies,
    ]
    digest = hashlib.sha256(json.dumps(names).encode())
    for values in (outcomes.answers, outcomes.correct, outcomes.given):
        digest.update(np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()


def idle(outcomes: Outcomes, given: Mapping[str, Any]) -> str | None:
    """A warning where the outcomes leave nothing to choose: one agent, with one strategy or
    none.
    """
    chosen = _chosen(outcomes, given)
    if len(chosen.agents) > 1 or len(chosen.strategies) > 1:
        return None
    way = f" with the strategy {chosen.strategies[0]!r}" if chosen.strategies else ""
    return (
        f"the outcomes are of one agent ({chosen.agents[0]}){way}, so there is nothing to choose "
        f"between and "
        "nothing to learn: give outcomes of several strategies or agents"
    )


def recent(log: TrainingLog) -> dict[str, float]:
    """Reward, shares right (one agent's, the group's) and trust, each the mean over the last
    batches, and how many edges of the graph came or went in all.
    """
    last = log.steps[-LAST:]
    if not last:
        return {}
    names = ("reward", "individual", "consensus", "trust")
    found = {name: float(np.mean([step[name] for step in last])) for name in names}
    return found | {"edges_changed": last[-1].get("edges_changed", 0)}


def _chosen(outcomes: Outcomes, given: Mapping[str, Any]) -> Outcomes:
    """The outcomes with the strategies that the settings name, all of them unless they name
    some.
    """
    wanted = given.get("strategies")
    if wanted is None or not outcomes.strategies:
        return outcomes
    if isinstance(wanted, str) or not isinstance(wanted, Sequence):
        raise UserError(f"strategies is {wanted!r}: give a list such as [cot, self_ask]")
    return outcomes.only([str(name) for name in wanted])


def _fitted(outcomes: Outcomes, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the table's agents and strategies in them."""
    count = len(outcomes.agents)
    wanted = given.get("agents", count)
    if count > 1 and wanted != count:
        raise UserError(
            f"the outcomes have {count} agents, not {wanted}: leave agents out of the settings"
        )
    found = {"alike": count == 1, **given, "strategies": outcomes.strategies or ("",)}
    return found | ({"agents": count} if count > 1 else {})
