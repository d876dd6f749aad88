"""A worker that dies gives its trial back: who is at work on a study, and which trials are queued
again.

For databases, Optuna's heartbeat and its retry callback do this. Our own part is what they lack:
the journal file and the gRPC proxy, which have no heartbeat; a worker killed before its first beat,
or after it closed a dead worker's trial and before it queued that again; and a worker in the same
folder, whose lock shows at once that it is dead.
"""

from __future__ import annotations

import copy
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import (
    BaseStorage,
    GrpcStorageProxy,
    RDBStorage,
    RetryHeartbeatStaleTrialCallback,
    fail_stale_trials,
)
from optuna.trial import FrozenTrial, Trial, TrialState

from ...modules.base.files import locked

BEAT_SECONDS = 15
GRACE_SECONDS = 90  # without a beat, after which a worker of another machine counts as dead
ATTEMPTS = 10  # of a trial whose workers die one after the other
HEARTBEAT = "heartbeat"  # in place of a pulse: Optuna keeps the trial's heartbeat


def place_of(study: optuna.Study, trial: FrozenTrial) -> int:
    """A trial's place in the study: the number of trials before it that are neither replays nor
    retries.
    """
    if "place" in trial.system_attrs:
        return int(trial.system_attrs["place"])
    return sum(known.number < trial.number and is_original(known) for known in trials_tuned(study))


def is_original(trial: FrozenTrial) -> bool:
    """Whether a trial opened a place of its own: it is no replay of another and no retry."""
    return "told_by" not in trial.user_attrs and "place" not in trial.system_attrs


def trials_tuned(study: optuna.Study) -> list[FrozenTrial]:
    """The trials of a study, without those that the user has made in a study of her own."""
    trials = study.get_trials(deepcopy=False)
    ours = [one for one in trials if "worker" in one.user_attrs or not is_original(one)]
    return ours if len(ours) < len(trials) and study.user_attrs.get("own") else trials


def retry(study: optuna.Study, trial: FrozenTrial) -> None:
    """Queue a closed trial again at its place, with the same setting if it was drawn whole.

    Optuna calls this for a trial whose heartbeat has ended, we for those that Optuna does not see.
    Nothing is queued for a trial that failed by itself, nor after ATTEMPTS deaths in a row.
    """
    history = (
        []
        if "stopped" in trial.user_attrs
        else RetryHeartbeatStaleTrialCallback.retry_history(trial)
    )
    if "failed" in trial.user_attrs or len(history) + 1 >= ATTEMPTS:
        return
    again = copy.copy(trial)
    again.system_attrs = {"place": place_of(study, trial), "retry_history": list(history)}
    again.user_attrs = {}
    if "setting" not in trial.user_attrs:
        again.params, again.distributions = {}, {}
    RetryHeartbeatStaleTrialCallback()(study, again)


@dataclass
class Crew:
    """The workers of a study, as one of them sees the others.

    Args:
        storage: the one that the study is kept in; None for a study of the user's, who has it.
        folder: where workers that share a results folder hold their locks.
        alone: whether only they can be at the study.
    """

    study: optuna.Study
    storage: BaseStorage | None
    folder: Path
    alone: bool
    token: str = field(
        default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    )
    _pulses: dict[int, tuple[Any, float]] = field(default_factory=dict)

    @contextmanager
    def present(self) -> Iterator[None]:
        """Hold a lock that shows the processes at this folder that this one is alive."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._lock(self.token)
        with locked(path):
            try:
                yield
            finally:
                path.unlink(missing_ok=True)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Hold the lock under which the workers at this folder take, close and add trials."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder / "ask.lock"):
            yield

    def take(self) -> None:
        """Show that a worker is about to draw a trial, until `claim` names its worker."""
        self._taking.touch()

    def claim(self, trial: Trial) -> None:
        """Show whose trial this is; the first beat is there before the name."""
        if isinstance(self.storage, RDBStorage):
            self.storage.record_heartbeat(self._id(trial.number))
            trial.set_user_attr("pulse", HEARTBEAT)
        trial.set_user_attr("worker", self.token)
        self._taking.unlink(missing_ok=True)

    @contextmanager
    def beating(self, trial: Trial) -> Iterator[None]:
        """Count up a trial's pulse through the gRPC proxy, which does not pass heartbeats on."""
        if not isinstance(self.storage, GrpcStorageProxy):
            yield
            return
        over, storage, id = threading.Event(), self.storage, self._id(trial.number)

        def beat() -> None:
            number = 0
            while not over.wait(BEAT_SECONDS if number else 0):
                number += 1
                try:
                    storage.set_trial_user_attr(id, "pulse", number)
                except (
                    Exception
                ):  # finished meanwhile, or the proxy is away: the next beat may reach it
                    continue

        thread = threading.Thread(target=beat, name="folkmoot-pulse", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(5)

    def sweep(self) -> None:
        """Close the running trials of dead workers and queue them again. Called with the lock of
        `asking`.
        """
        fail_stale_trials(self.study)
        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if self._is_dead(trial):
                self.close(trial.number)
        self._taking.unlink(missing_ok=True)

    def requeue(self, trials: int) -> None:
        """Queue again what was stopped, and what a worker closed that died before it queued it.

        Those are the places, among so many, whose trials have all failed. Called with the lock of
        `asking`.
        """
        places: list[list[FrozenTrial]] = []
        for trial in trials_tuned(self.study):
            if "place" in trial.system_attrs:
                places[trial.system_attrs["place"]].append(trial)
            elif is_original(trial):
                places.append([trial])
        for tried in places[:trials]:
            if all(trial.state == TrialState.FAIL for trial in tried):
                retry(self.study, tried[-1])

    def close(self, number: int) -> None:
        """Fail a running trial and queue it again, unless it has finished or another worker has
        closed it.
        """
        if self.storage is None:
            failed = self.study.tell(number, state=TrialState.FAIL, skip_if_finished=True)
            if failed.state == TrialState.FAIL:
                retry(self.study, failed)
            return
        id = self._id(number)
        try:
            if self.storage.set_trial_state_values(id, state=TrialState.FAIL):
                retry(self.study, self.storage.get_trial(id))
        except UpdateFinishedTrialError:
            return

    def _is_dead(self, trial: FrozenTrial) -> bool:
        worker = trial.user_attrs.get("worker")
        if worker == self.token:
            return False
        if self.storage is None and worker is None:  # one that the user has asked for
            return False
        # the last worker here that took a trial was killed
        if worker is None and self._taking.exists():
            return True
        if worker is not None and (path := self._lock(worker)).exists():
            return _is_free(path)
        return self.storage is not None and (self.alone or self._is_silent(trial))

    def _is_silent(self, trial: FrozenTrial) -> bool:
        """Whether a trial without a heartbeat has shown no new pulse for long, by this machine's
        clock.
        """
        pulse, now = trial.user_attrs.get("pulse"), time.monotonic()
        if pulse == HEARTBEAT:
            return False
        known, since = self._pulses.setdefault(trial.number, (pulse, now))
        if known != pulse:
            self._pulses[trial.number] = pulse, now
        return known == pulse and now - since > GRACE_SECONDS

    @property
    def _taking(self) -> Path:
        return self.folder / "taking"

    def _lock(self, worker: str) -> Path:
        return self.folder / f"{worker}.alive"

    def _id(self, number: int) -> int:
        """Optuna's own number of a trial in its storage."""
        assert self.storage is not None
        study = self.storage.get_study_id_from_name(self.study.study_name)
        return self.storage.get_trial_id_from_study_id_trial_number(study, number)


def _is_free(path: Path) -> bool:
    """Whether nobody holds a lock file."""
    try:
        with locked(path, wait=False):
            return True
    except BlockingIOError:
        return False
