"""Trials of dead workers are queued again.

Every trial is queued with its place in the study before a worker takes it, so that nothing is lost
whenever the worker dies. A database keeps Optuna's heartbeat, which shows that a worker on another
machine is dead; a lock in the study's folder shows it of a worker there at once.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage, RDBStorage, fail_stale_trials
from optuna.trial import FrozenTrial, Trial, TrialState

from ...modules.base.files import locked
from ...optimizers.structure.search import PLACE

BEAT_SECONDS = 15
GRACE_SECONDS = 90  # without a beat, after which a worker of another machine counts as dead


def trials_tuned(study: optuna.Study) -> list[FrozenTrial]:
    """Return the trials of a study, without those that the user has made in a study of her own."""
    trials = study.get_trials(deepcopy=False)
    return [trial for trial in trials if PLACE in trial.user_attrs or "told_by" in trial.user_attrs]


def places_of(study: optuna.Study) -> dict[int, list[FrozenTrial]]:
    """Return the trials of each place of the study: the first one, and those that were tried
    again.
    """
    places: dict[int, list[FrozenTrial]] = {}
    for trial in trials_tuned(study):
        if "told_by" not in trial.user_attrs:
            places.setdefault(trial.user_attrs[PLACE], []).append(trial)
    return places


@dataclass
class Crew:
    """The workers of a study, as one of them sees the others.

    Args:
        storage: the one that the study is kept in; None for a study of the user's, who has it.
        folder: where workers that share a results folder hold their locks.
        home: the id of that folder, which workers elsewhere do not have.
    """

    study: optuna.Study
    storage: BaseStorage | None
    folder: Path
    home: str
    name: str = field(default_factory=lambda: f"{os.getpid()}-{uuid.uuid4().hex[:8]}")

    @contextmanager
    def present(self) -> Iterator[None]:
        """Hold a lock that shows the processes at this folder that this one is alive."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self._lock(self.name)
        with locked(path):
            try:
                yield
            finally:
                path.unlink(missing_ok=True)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Hold the lock under which the workers at this folder queue, take and close trials."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder / "ask.lock"):
            yield

    def claim(self, trial: Trial) -> None:
        """Show whose trial this is; its first heartbeat comes before the name."""
        if isinstance(self.storage, RDBStorage):
            study = self.storage.get_study_id_from_name(self.study.study_name)
            self.storage.record_heartbeat(
                self.storage.get_trial_id_from_study_id_trial_number(study, trial.number)
            )
        trial.set_user_attr("worker", self.name)
        trial.set_user_attr("home", self.home)

    def queue(self, place: int, parameters: Mapping[str, object]) -> None:
        """Queue a trial; what `parameters` leave out is drawn.

        Who queues it is about to take it: until another worker claims it, it is the queuer's.
        """
        mine = {PLACE: place, "worker": self.name, "home": self.home}
        self.study.enqueue_trial(dict(parameters), user_attrs=mine)

    def sweep(self) -> None:
        """Close the running trials of dead workers. Called with the lock of `asking`."""
        fail_stale_trials(self.study)
        for trial in trials_tuned(self.study):
            if trial.state == TrialState.RUNNING and self._is_dead(trial):
                with suppress(UpdateFinishedTrialError):  # another worker was quicker
                    self.study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)

    def requeue(
        self, places: Mapping[int, list[FrozenTrial]], trials: int, forgiven: Container[int]
    ) -> bool:
        """Queue again the first place, among so many, whose trials were all stopped or lost, and
        say whether there was one.

        The setting stays as it was, if it was drawn whole. Nothing is queued for a trial that
        failed by itself, unless its number is `forgiven`. Called with the lock of `asking`.
        """
        for place, tried in sorted(places.items()):
            last = tried[-1]
            # A call with fewer trials than an earlier one leaves the places beyond alone.
            over = any(trial.state != TrialState.FAIL for trial in tried) or place >= trials
            if over or ("failed" in last.user_attrs and last.number not in forgiven):
                continue
            self.queue(place, last.params if "setting" in last.user_attrs else {})
            return True
        return False

    def waits(self) -> bool:
        """Return whether trials are under way whose end can be waited for."""
        return any(trial.state == TrialState.RUNNING for trial in trials_tuned(self.study))

    def _is_dead(self, trial: FrozenTrial) -> bool:
        """Return whether a running trial is that of a worker at this folder that has died."""
        worker, home = trial.user_attrs.get("worker"), trial.user_attrs.get("home")
        if home != self.home or worker == self.name:
            return False
        # A worker that ended well has deleted its file, one that was killed no longer holds it.
        path = self._lock(str(worker))
        return not path.exists() or _is_free(path)

    def _lock(self, worker: str) -> Path:
        return self.folder / f"{worker}.alive"


def _is_free(path: Path) -> bool:
    """Return whether nobody holds a lock file."""
    try:
        with locked(path, wait=False):
            return True
    except BlockingIOError:
        return False
