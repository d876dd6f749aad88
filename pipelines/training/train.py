"""The common part of all trainings of a strategy network: folder, run, log, and outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypedDict, cast

import numpy as np

from ...modules.base.errors import UserError
from ...modules.base.keyed import without_none
from ...modules.network.config import NetworkConfig
from ...modules.network.strategy_network import StrategyNetwork
from ...optimizers.policy.known_answers import Answer, TrainingQuestion
from ...optimizers.policy.settings import TrainingSettings
from ..base.cards import ShownResult
from ..base.display import displayed
from ..base.journal import read_object, write_json
from ..base.run_files import LMFields
from ..base.wording import ProgressLine, counted, why_ended
from ..evaluation.earlier import Evaluation
from ..runs.manifest import RunFolder, made_with
from ..tracking.context import Untracked
from ..tracking.live import Tracking
from .card import ABOUT
from .plots import Moment, graphs_plot, rewards_plot, strategies_plot, trust_plot

if TYPE_CHECKING:  # PyTorch is of the extra `network`, and takes a second to import
    from ...modules.network.state import NetworkState
    from ...optimizers.policy.batches import TrainingLog

LOG, CHECKPOINT = "training_log.json", "checkpoint.safetensors"
LAST = 20
"""The progress figures of a training are means over this many batches."""

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

Progress = Callable[[Mapping[str, object]], None]


class TrainingAbout(TypedDict, total=False):
    """`training.json`: settings and data of a training, and the versions it was made with.

    `given` are the settings that the user chose, `fixed` the best fixed choices on the outcomes.
    """

    kind: str
    network: dict[str, object]
    training: dict[str, object]
    preset: str
    given: dict[str, object]
    data: str | None
    data_fingerprint: str
    questions: int
    missing: int
    agents: list[str]
    strategies: list[str]
    lms: dict[str, LMFields]
    wording: dict[str, object] | None
    fixed: dict[str, object]
    versions: dict[str, str]
    git_commit: str | None
    mlflow_run_id: str | None


@dataclass(repr=False)
class Trained(ShownResult):
    """A finished training: the `network`, its `log`, and `about`, the content of `training.json`.
    `scores` are from a test on outcomes, `evaluation` from one on questions; `taught` is the
    training data and its cost.
    """

    folder: Path
    network: StrategyNetwork
    log: TrainingLog
    about: TrainingAbout
    scores: dict[str, object] | None = None
    evaluation: Evaluation | None = None
    taught: dict[str, object] = field(default_factory=dict)
    keep: object = None  # a temporary folder lives as long as its training

    @property
    def state(self) -> NetworkState:
        """What was learned."""
        return self.network.state

    @property
    def stopped(self) -> str | None:
        """Why the test ended early or is no result; None if neither is so."""
        return self.evaluation.stopped if self.evaluation else None

    @property
    def empty(self) -> bool:
        """False: a finished training always has a network."""
        return False

    def to_dict(self) -> dict[str, object]:
        tested = self.evaluation.summary.to_dict() if self.evaluation else self.scores or {}
        training = {**self.taught, **recent(self.log)}
        return {"out": str(self.folder), "training": training, **tested, "stopped": self.stopped}

    def __repr__(self) -> str:
        return f"Trained({counted(len(self.log.steps), 'step')}, {self.folder})"

    def __deepcopy__(self, memo: dict[int, object]) -> Trained:
        # Optimizers copy programs often, and its network would be copied within itself.
        return self

    @property
    def run_id(self) -> str | None:
        """The training's run in MLflow; None when it has none."""
        return self.about["mlflow_run_id"]


@contextmanager
def displayed_training(show: bool | Progress | None) -> Iterator[Progress]:
    """Show the progress of a training, and the figures of the last batches."""

    def draw(step: Mapping[str, Any]) -> ProgressLine:
        if step.get("stage") == "selection":
            parts = [f"epoch {step['epoch']}: {step['held_out']:.1%} right on held-out questions"]
        else:
            parts = [
                f"epoch {step['epoch']}",
                f"{step['questions']:,} questions",
                f"reward {step['reward']:+.2f}",
                f"one agent {step['individual']:.1%}",
                f"group {step['consensus']:.1%}",
            ]
        return ProgressLine("train", parts, step.get("step", 0), max(step.get("steps", 1), 1))

    with displayed(show, "train", draw) as shown:
        yield shown


def learn(
    folder: Path,
    state: NetworkState,
    questions: Sequence[TrainingQuestion],
    answer: Answer,
    training: TrainingSettings,
    tracked: Untracked,
    progress: Progress | None,
) -> TrainingLog:
    """Train `state` in place, from a checkpoint if there is one; save it, its log and its plots."""
    from ...optimizers.policy.training import train_policies

    def note(step: dict[str, Any]) -> None:
        if "reward" in step:  # not during the selection of the number of epochs
            tracked.show(int(step["questions"]), {"reward_so_far": float(step["reward"])})
        if progress is not None:
            progress(step)

    log = train_policies(
        state, questions, answer, training, checkpoint=folder / CHECKPOINT, progress=note
    )
    write_json(folder / LOG, log.to_dict())
    plots = folder / "plots"
    plots.mkdir(exist_ok=True)
    names = list(map("agent {}".format, range(state.config.agents)))
    moments = list[Moment]()
    for at in log.graphs:
        graph = np.asarray(at["adjacency"], dtype=bool)
        moments.append((int(at["questions"]), graph, np.asarray(at["trust"])))
    trust_plot(moments, names, plots / "trust.png")
    graphs_plot(moments, plots / "graphs.png")
    rewards_plot(log.steps, plots / "rewards.png")
    strategies_plot(log.steps, plots / "strategies.png")
    return log


@contextmanager
def training_folder(
    folder: Path,
    about: TrainingAbout,
    *,
    tracking: bool,
    parent: str | None = None,
    model: bool = True,
    lm: object = None,
) -> Iterator[tuple[Path, Untracked]]:
    """Lock the folder of a training, and open its tracked run; `about` is its description. Raises
    UserError for the folder of another training, one in use, and one that cannot be written.
    """
    with TRAINING.opened(folder, about):
        # Before anything is learned, so that the folder is known if the training is killed.
        write_json(folder / ABOUT, about)
        tracked = Untracked()
        if tracking:
            tracked = Tracking(folder, ABOUT, parent=parent, model=model, lm=lm)
        try:
            yield folder, tracked
        except BaseException as problem:
            # What a user did, or can put right, is no fault of the training.
            stopped = isinstance(problem, KeyboardInterrupt | UserError)
            tracked.stop("KILLED" if stopped else "FAILED")
            ended = read_object(folder / ABOUT) or dict(about)  # a tracked one has its run there
            write_json(folder / ABOUT, {**ended, "stopped": why_ended(problem)})
            raise


def training_about(
    kind: str,
    config: NetworkConfig,
    training: TrainingSettings,
    preset: str,
    options: Mapping[str, object],
    data: str | None,
) -> TrainingAbout:
    """Return the common part of every `training.json`: settings, their origin, and versions."""
    made = made_with()
    return {
        "kind": kind,
        "network": config.to_dict(),
        "training": training.to_dict(),
        "preset": preset,
        "given": without_none(options),
        "data": data,
        "versions": made["versions"],
        "git_commit": made["git_commit"],
    }


def read_about(folder: Path) -> TrainingAbout:
    """Read `training.json` of a trained network. Raises UserError when it is missing or damaged."""
    about = read_object(folder / ABOUT)
    if about is None:
        raise UserError(
            f"{folder} holds no training ({ABOUT} is missing or damaged): name a trained network"
        )
    return cast(TrainingAbout, about)


def recent(log: TrainingLog) -> dict[str, float]:
    """Return reward, shares of right answers (one agent's, the group's) and trust, each as the mean
    over the last batches, and the total number of graph edges added or removed.
    """
    # The batches before them were answered by a group that knew less.
    last = log.steps[-LAST:]
    if not last:
        return {}
    means = dict[str, float]()
    for figure in ("reward", "individual", "consensus", "trust"):
        means[figure] = fmean(map(itemgetter(figure), last))
    # A total so far, where the others are figures of a batch.
    return {**means, "edges_changed": last[-1]["edges_changed"]}
