"""One worker of a study: takes trials until none is left, and takes up those that a dead worker left."""

from __future__ import annotations

import fcntl
import json
import math
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState

from ...modules.base.space import Setting, key_of
from ...optimizers.statistics.statistics import bootstrap_mean
from ...optimizers.structure.pruning import behind, looks, worth_going_on
from ...optimizers.structure.search import SeededSampler, parameters_of, suggested
from .trial import Bench, Marks, Scored, taken

PULSE_SECONDS = 15.0
GRACE_SECONDS = 90.0  # without a pulse, after which a worker of another machine is taken for dead
POLL_SECONDS = 0.5
ATTEMPTS = 10  # of a trial whose workers die
OPEN = (TrialState.RUNNING, TrialState.WAITING)
DONE = (TrialState.COMPLETE, TrialState.PRUNED)


@dataclass
class Worker:
    """One process at a study.

    Args:
        study: Optuna's study.
        trials: places of the study; settings told by replay are extra.
        planned: Optuna's parameters of places that are not drawn.
        alone: whether only processes that share `bench.folder` can be at the study.
    """

    study: optuna.Study
    bench: Bench
    trials: int
    sampler: str
    seed: int
    planned: dict[int, dict[str, Any]]
    alone: bool
    token: str = field(default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}")
    _pulses: dict[int, tuple[Any, float]] = field(default_factory=dict)

    def run(self, tell: Callable[[FrozenTrial], None] = lambda trial: None) -> None:
        """Take trials until every place is done, here or elsewhere.

        Whatever stops it, the trial under way is given back: the next worker has it again, with the same
        setting and all rows that are finished.
        """
        self.study.sampler = SeededSampler(self.sampler, self.seed, place_of, self.planned)
        with self._at_work():
            self._complete_told()
            while True:
                taken_up = self._next()
                if taken_up is None:
                    return
                trial, place, setting = taken_up
                with self._pulse(trial):
                    try:
                        self._try(trial, place, setting)
                    except BaseException:
                        self._finish(trial, TrialState.FAIL, None, stopped=True)
                        raise
                tell(self.study._storage.get_trial(trial._trial_id))

    # Taking trials --------------------------------------------------------------------------------

    def _next(self) -> tuple[Trial, int, Setting] | None:
        """The next trial with its place and setting; None when all places are done. Waits for others."""
        while True:
            with taken(self._folder / "ask.lock"):
                self._bury()
                trials = self.study.get_trials(deepcopy=False)
                if self._lacking(trials):
                    trial = self.study.ask()
                    place = place_of(self.study, trial._cached_frozen_trial)
                    if place < self.trials and not self._twice(trial, place):
                        trial.set_user_attr("worker", self.token)
                        trial.set_user_attr("place", place)
                        trial.set_user_attr("home", self.bench.home)
                        setting = suggested(trial, self.bench.space.point)
                        trial.set_user_attr("setting", setting)
                        return trial, place, setting
                    self._finish(trial, TrialState.FAIL, None, stopped=True)
                    continue
                if not any(known.state in OPEN for known in trials):
                    return None
            time.sleep(POLL_SECONDS)

    def _lacking(self, trials: list[FrozenTrial]) -> bool:
        """Whether there is a trial to take; a place that its worker left is put in line again, first."""
        if any(trial.state == TrialState.WAITING for trial in trials):
            return True
        by_place: dict[int, list[FrozenTrial]] = {}
        originals = 0
        for trial in trials:
            if "told_by" in trial.user_attrs:
                continue
            if "retry_of" not in trial.system_attrs:
                by_place.setdefault(originals, []).append(trial)
                originals += 1
            else:
                by_place.setdefault(trial.system_attrs["place"], []).append(trial)
        for place in range(min(self.trials, originals)):
            tried = by_place[place]
            over = any(t.state in (*OPEN, *DONE) or "failed" in t.user_attrs for t in tried)
            lost = sum("lost" in t.user_attrs for t in tried)
            if not over and lost < ATTEMPTS:
                self._again(place, tried[-1])
                return True
        return originals < self.trials

    def _again(self, place: int, trial: FrozenTrial) -> None:
        """Put a place in line again; its setting is kept once it was drawn whole."""
        whole = "setting" in trial.user_attrs
        self.study.add_trial(
            optuna.trial.create_trial(
                state=TrialState.WAITING,
                params=trial.params if whole else {},
                distributions=trial.distributions if whole else {},
                system_attrs={"retry_of": trial.number, "place": place},
            )
        )

    def _twice(self, trial: Trial, place: int) -> bool:
        """Whether two machines put the same place in line: the earlier one has it."""
        return any(
            known.number < trial.number
            and known.state in (*OPEN, *DONE)
            and "told_by" not in known.user_attrs
            and place_of(self.study, known) == place
            for known in self.study.get_trials(deepcopy=False)
        )

    # Dead workers ---------------------------------------------------------------------------------

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Hold a lock that tells processes at this folder that this one is alive."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{self.token}.alive"
        with taken(path):
            try:
                yield
            finally:
                path.unlink(missing_ok=True)

    @property
    def _folder(self) -> Path:
        return self.bench.folder / "workers"

    def _bury(self) -> None:
        """Fail the trials of workers that are dead; called with the lock that all take trials under."""
        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            worker = trial.user_attrs.get("worker")
            if worker == self.token:
                continue
            path = self._folder / f"{worker}.alive"
            if worker is not None and path.exists():
                dead = _is_free(path)
            elif self.alone:
                dead = True
            else:
                dead = self._silent(trial)
            if dead:
                self._fail(trial)

    def _silent(self, trial: FrozenTrial) -> bool:
        """Whether a trial has shown no pulse for long, by this machine's clock."""
        pulse, now = trial.user_attrs.get("pulse"), time.monotonic()
        known, since = self._pulses.get(trial._trial_id, (object(), now))
        if known != pulse:
            self._pulses[trial._trial_id] = (pulse, now)
            return False
        return now - since > GRACE_SECONDS

    def _fail(self, trial: FrozenTrial) -> None:
        storage = self.study._storage
        try:
            storage.set_trial_user_attr(trial._trial_id, "lost", True)
            storage.set_trial_state_values(trial._trial_id, state=TrialState.FAIL)
        except UpdateFinishedTrialError:
            return  # it, or somebody else, was faster

    @contextmanager
    def _pulse(self, trial: Trial) -> Iterator[None]:
        """Show other machines that the trial's worker is alive."""
        if self.alone:
            yield
            return
        over = threading.Event()

        def beat() -> None:
            number = 0
            while not over.wait(PULSE_SECONDS if number else 0):
                number += 1
                try:
                    self.study._storage.set_trial_user_attr(trial._trial_id, "pulse", number)
                except Exception:  # finished meanwhile, or the storage is away: the next beat may reach it
                    continue

        thread = threading.Thread(target=beat, name="folkmoot-pulse", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join(5)

    # Trying ---------------------------------------------------------------------------------------

    def _try(self, trial: Trial, place: int, setting: Setting) -> None:
        """Score the setting on ever more questions, until it is done or behind."""
        finished = self._finished()
        key = key_of(setting)
        same = next((known for known in finished if key_of(known.user_attrs["setting"]) == key), None)
        if same is not None:
            for name in ("scores", "took", "questions"):
                trial.set_user_attr(name, same.user_attrs[name])
            trial.set_user_attr("same_as", same.number)
            self._finish(trial, same.state, same.values if same.state == TrialState.COMPLETE else None)
            return
        objectives = self.bench.objectives
        planned = looks(len(self.bench.questions))
        scored_already = {key_of(known.user_attrs["setting"]) for known in finished}
        kin = self.bench.kin(setting)
        told_by_kin = kin is not None and any(
            known.state == TrialState.COMPLETE and self.bench.kin(known.user_attrs["setting"]) == kin
            for known in finished
        )
        for number in planned:
            own, others = self.bench.measured(setting, number, scored_already)
            if own.marks.errors == number:
                trial.set_user_attr("failed", own.problem or "every question failed")
                self._finish(trial, TrialState.FAIL, None)
                return
            if len(objectives) == 1:
                trial.report(own.marks.mean(objectives[0]), number)
            if number == planned[-1]:
                break
            best = [self._rival(finished, scored.marks, number) for scored in (own, *others)]
            if all(
                rival is not None
                and (
                    behind(scored.marks.scores, rival, len(planned) - 1)
                    or (told_by_kin and not worth_going_on(scored.marks.scores, rival, planned[-1]))
                )
                for scored, rival in zip((own, *others), best, strict=True)
            ):
                _note(trial, own.marks, number)
                self._finish(trial, TrialState.PRUNED, None)
                return
        _note(trial, own.marks, planned[-1])
        trial.set_user_attr("tells", len(others))
        values = [own.marks.mean(name) for name in objectives]
        if self._finish(trial, TrialState.COMPLETE, values):
            with taken(self._folder / "ask.lock"):
                self._add_told(place, others)

    def _finished(self) -> list[FrozenTrial]:
        return self.study.get_trials(deepcopy=False, states=DONE)

    def _rival(self, finished: list[FrozenTrial], marks: Marks, number: int) -> list[float | None] | None:
        """The scores of the best finished trial that took no more of anything else on as many questions."""
        objectives = self.bench.objectives
        best: FrozenTrial | None = None
        for trial in finished:
            if trial.state != TrialState.COMPLETE:
                continue
            took = json.loads(trial.user_attrs["took"])
            if any(took[name][str(number)] > marks.mean(name) for name in objectives[1:]):
                continue
            if best is None or trial.values[0] > best.values[0]:
                best = trial
        return None if best is None else scores_of(best)[:number]

    def _finish(
        self, trial: Trial, state: TrialState, values: list[float] | None, *, stopped: bool = False
    ) -> bool:
        """False when somebody took this worker for dead: then the result is theirs to find again."""
        try:
            if stopped:
                trial.set_user_attr("stopped", True)
            self.study.tell(trial, values, state=state)
            return True
        except (UpdateFinishedTrialError, ValueError):
            return False

    # What a run tells of other settings -----------------------------------------------------------

    def _add_told(self, place: int, others: list[Scored]) -> None:
        """Add finished trials for settings that are known without a call."""
        known = {key_of(trial.user_attrs["setting"]) for trial in self._finished()}
        for scored in others:
            if key_of(scored.setting) in known:
                continue
            params, distributions = parameters_of(self.bench.space.point, scored.setting)
            attrs = {"told_by": place, "setting": scored.setting, **_noted(scored.marks)}
            values = [scored.marks.mean(name) for name in self.bench.objectives]
            self.study.add_trial(
                optuna.trial.create_trial(
                    values=values, params=params, distributions=distributions, user_attrs=attrs
                )
            )

    def _complete_told(self) -> None:
        """Add what a worker that died had not yet added after its last trial."""
        with taken(self._folder / "ask.lock"):
            finished = self._finished()
            for trial in finished:
                tells = trial.user_attrs.get("tells", 0)
                if not tells or not self._may_lack(trial, finished):
                    continue
                if trial.user_attrs.get("home") != self.bench.home:
                    continue  # of another machine, which completes it itself
                known = {key_of(one.user_attrs["setting"]) for one in finished}
                number = len(self.bench.questions)
                _, others = self.bench.measured(trial.user_attrs["setting"], number, known)
                self._add_told(trial.user_attrs["place"], others)

    def _may_lack(self, trial: FrozenTrial, finished: list[FrozenTrial]) -> bool:
        told = sum(known.user_attrs.get("told_by") == trial.user_attrs["place"] for known in finished)
        return bool(told < trial.user_attrs["tells"])


def place_of(study: optuna.Study, trial: FrozenTrial) -> int:
    """A trial's place in the study: the number of trials before it that are neither told nor tried again."""
    if "place" in trial.system_attrs:
        return int(trial.system_attrs["place"])
    return sum(
        known.number < trial.number
        and "retry_of" not in known.system_attrs
        and "told_by" not in known.user_attrs
        for known in study.get_trials(deepcopy=False)
    )


def scores_of(trial: FrozenTrial) -> list[float | None]:
    """A trial's score a question, None for one that failed."""
    noted = trial.user_attrs["scores"]
    if isinstance(noted, str):
        return [None if mark == "x" else float(mark) for mark in noted]
    return list(noted)


def _note(trial: Trial, marks: Marks, questions: int) -> None:
    for name, value in _noted(marks).items():
        trial.set_user_attr(name, value)


def _noted(marks: Marks) -> dict[str, Any]:
    """Marks as a trial's attributes: small, since databases hold 64 KB in one."""
    whole = all(score in (0.0, 1.0, None) for score in marks.scores)
    scores: str | list[float | None] = (
        "".join("x" if score is None else str(int(score)) for score in marks.scores)
        if whole
        else [None if score is None else round(score, 4) for score in marks.scores]
    )
    sizes = looks(len(marks.scores))
    took: dict[str, dict[str, float]] = {}
    for name, values in marks.took.items():
        took[name] = {str(size): marks.mean(name, size) for size in sizes}
        if all(map(math.isfinite, values)):
            ends = bootstrap_mean(values, seed=0, resamples=1_000)
            took[name] |= {"low": ends.low, "high": ends.high}
    return {"scores": scores, "took": json.dumps(took), "questions": len(marks.scores)}


def _is_free(path: Path) -> bool:
    """Whether nobody holds a lock file."""
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(file)
