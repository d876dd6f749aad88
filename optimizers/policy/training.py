"""Training a strategy network: from live calls or recorded answers, with checkpoints (MARL-GAT,
4.8).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from ...modules.base.errors import UserError
from ...modules.network.rivals import RIVALS
from ...modules.network.state import NetworkState
from .batches import PolicyTraining, TrainingLog
from .checkpoint import restore_checkpoint, save_checkpoint, training_fingerprint
from .known_answers import Answer, KnownAnswers, TrainingQuestion
from .rivals import fit_rival
from .settings import AUTO, TrainingSettings
from .vote_weights import fit_vote

Progress = Callable[[dict[str, object]], None]

_WORTH = 0.005
"""The least gain in held-out accuracy that counts; smaller later gains mostly come from choices
that become surer.
"""

_FOLDS = 4  # stream of random numbers; the others are in `batches`


def train_policies(
    state: NetworkState,
    questions: Sequence[TrainingQuestion],
    answer: Answer,
    settings: TrainingSettings,
    *,
    checkpoint: str | Path | None = None,
    progress: Progress | None = None,
) -> TrainingLog:
    """Train a network in place: policies, tracker, trust and graph, and then the weights of votes.

    Args: state: new or trained before. questions: at least one, with different keys. answer: gives
    an agent's answer with a strategy; live calls of a batch are concurrent, and no answer is
    requested twice. settings: the training settings. checkpoint: file to resume from if it exists,
    and to write to. A training that was stopped and resumed gives the same network.
        progress: called after each step with its line of the log and `stage`, `step` and `steps`;
            while epochs are chosen, after each epoch, with `held_out` accuracy.

    Raises UserError for questions that do not fit the network or a checkpoint of another training.
    Errors of `answer` are passed on, and leave the state partly trained.
    """
    vectors = state.checked(np.stack([question.vector for question in questions]))
    config = state.config
    answers = KnownAnswers(len(questions), config.agents, len(config.strategies), answer)
    place = None if checkpoint is None else Path(checkpoint)
    identity = training_fingerprint(state, questions, settings)
    with _one_thread():
        # Before PolicyTraining, which sets the centre by all questions, the held-out ones included.
        untouched = copy.deepcopy(state) if settings.epochs == AUTO else state
        training = PolicyTraining(state, vectors, answers, np.arange(len(questions)), settings)
        resumed = place is not None and restore_checkpoint(place, identity, training)
        if settings.full_information:
            answers.ask_all()
        if not resumed:
            if settings.epochs == AUTO:
                training.log.selection = _held_out(untouched, vectors, answers, settings, progress)
                training.log.epochs = _enough(training.log.selection)
            else:
                training.log.epochs = int(settings.epochs)
        steps = training.log.epochs * training.batches
        while training.done < steps:
            entry = training.step()
            due = training.done % settings.checkpoint_every == 0 or training.done == steps
            if place is not None and due:
                save_checkpoint(place, identity, training)
            if progress is not None:
                progress({"stage": "training", "step": training.done, "steps": steps, **entry})
        training.close()
        if config.policy != "gat":
            state.policies = fit_rival(state, vectors, answers)
        state.vote = fit_vote(config, vectors, answers)
    return training.log


def without_graph(
    state: NetworkState, questions: Sequence[TrainingQuestion], answer: Answer
) -> dict[str, NetworkState]:
    """Return the network with each policy that has no graph in place of its own, and conditional
    weights of votes, learned from every answer to the training questions.
    """
    vectors, config = np.stack([question.vector for question in questions]), state.config
    known = KnownAnswers(len(questions), config.agents, len(config.strategies), answer)
    known.ask_all()
    rivals = dict[str, NetworkState]()
    with _one_thread():
        vote = fit_vote(replace(config, weight="conditional"), vectors, known)
        for policy in RIVALS:
            settings = replace(config, policy=policy, weight="conditional")  # type: ignore[arg-type]
            rivals[policy] = replace(state, config=settings, vote=vote)
            rivals[policy].policies = fit_rival(rivals[policy], vectors, known)
    return rivals


def _held_out(
    state: NetworkState,
    vectors: npt.NDArray[np.float32],
    answers: KnownAnswers,
    settings: TrainingSettings,
    progress: Progress | None,
) -> list[float]:
    """Return the expected accuracy of one agent on held-out questions after each epoch, the mean
    over folds. It uses the probabilities of all strategies, which change more smoothly than the
    likeliest strategy.
    """
    if len(state.config.strategies) == 1 or state.config.policy != "gat":
        return [float(answers.correct.mean())]  # the policy is the same after any number of epochs
    count = min(settings.folds, len(vectors))
    if count < 2:
        raise UserError(
            "epochs 'auto' needs at least 2 training questions: give a number of epochs."
        )
    # Drawn apart from all else, so that choosing the epochs changes no other draw.
    order = np.random.default_rng([state.config.seed, _FOLDS]).permutation(len(vectors))
    folds = [np.sort(order[place::count]) for place in range(count)]
    rests = [np.setdiff1d(order, fold) for fold in folds]
    trainings = [
        PolicyTraining(copy.deepcopy(state), vectors, answers, rest, settings) for rest in rests
    ]
    scores: list[float] = []
    while len(scores) < settings.max_epochs and len(scores) - _enough(scores) < settings.patience:
        total = 0.0
        for fold, training in zip(folds, trainings, strict=True):
            for _ in range(training.batches):
                training.step()
            chances = training.state.probabilities(vectors[fold])
            total += float((chances * answers.correct[fold]).sum(axis=-1).mean(axis=-1).sum())
        scores.append(total / len(vectors))
        if progress is not None:
            progress({"stage": "selection", "epoch": len(scores), "held_out": scores[-1]})
    return scores


def _enough(held_out: Sequence[float]) -> int:
    """Return the fewest epochs that come within half a point of the best."""
    best = max(held_out, default=0.0)
    return next((epoch for epoch, share in enumerate(held_out, 1) if share >= best - _WORTH), 0)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit PyTorch to one thread: small products are faster on one, and sums always have the same
    order.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
