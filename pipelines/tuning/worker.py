"""One worker of a study: runs trials by Optuna until every place of the study is done, here or
elsewhere.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain

import optuna
from optuna.exceptions import TrialPruned, UpdateFinishedTrialError
from optuna.samplers import GridSampler
from optuna.trial import FrozenTrial, Trial, TrialState

from ...modules.base.errors import UserError
from ...modules.statistics.statistics import bootstrap_mean
from ...optimizers.structure.points import Setting, key_of
from ...optimizers.structure.pruning import behind, rungs, worth_going_on
from ...optimizers.structure.search import PLACE, SeededSampler, parameters_of, suggested
from ..base.budget import BudgetSpent
from ..runs.books import open_books
from ..runs.caveats import too_many_failed
from .job import Job
from .recovery import places_of, trials_tuned
from .trial import Scored, Scorer

POLL_SECONDS = 0.5
QUEUED = "fixed_params"
"""Optuna's own attribute of a trial that was queued, checked with Optuna 5.0."""
DONE = (TrialState.COMPLETE, TrialState.PRUNED)


class StudyStopped(BudgetSpent):
    """A callback of the user's has stopped the study."""


class _FailedTrialError(Exception):
    """A trial ends without a result, and the study goes on."""


def work(job: Job, ended: Callable[[FrozenTrial], None] = lambda trial: None) -> None:
    """Take trials of a study until none is left, in this process. Raises BudgetSpent."""
    # An answer from the cache takes no time, and would make its setting look fast.
    cache = job.cache and "latency" not in job.objectives
    with open_books(job.folder, cache=cache, account=job.account()):
        StudyWorker(job).run(ended)


class StudyWorker:
    """One process at a study. Settings that a recorded run answers are extra to the study's
    places.
    """

    def __init__(self, job: Job) -> None:
        self.study, self._crew = job.opened()
        self.trials, self._planned = job.planned()
        self.scorer = Scorer(job)
        # Optuna's GridSampler gives trials their points itself, and takes none that are queued.
        self._grids = isinstance(job.sampler, GridSampler)
        self.home, self._callbacks = job.home, job.callbacks
        # Optuna prunes trials of one objective alone.
        self._prunes = job.pruner is not None and len(job.objectives) == 1
        self._stops = self._called_off = False
        self._sampler = SeededSampler(job.sampler, job.seed)
        # Where nothing has come of a study, the cause may be gone by the next attempt.
        earlier = trials_tuned(self.study)[: job.earlier]
        self._forgiven = list[int]()
        if not any(trial.state in DONE for trial in earlier):
            self._forgiven = [trial.number for trial in earlier]
        self.scorer.asks_again = bool(self._forgiven)
        if job.own is None and job.pruner is not None:
            self.study.pruner = job.pruner

    def run(self, ended: Callable[[FrozenTrial], None] = lambda trial: None) -> None:
        """Take trials until every place is done, here or elsewhere; `ended` is called after each.

        Whatever stops it, the trial under way is given back: the next worker has it again, with the
        same setting and all rows that are finished.
        """
        with self._crew.present(), self._set_up():
            with self._crew.asking():
                self._complete_replays()
            while True:
                with ExitStack() as asking:
                    asking.enter_context(self._crew.asking())
                    self._crew.sweep()
                    if self._queue_trial():
                        self._run_trial(asking, ended)
                        if self._called_off:
                            raise StudyStopped("a callback stopped the study")
                        if self._stops:
                            return  # the sampler has tried every point
                        continue
                    if not self._crew.waits():
                        return
                time.sleep(POLL_SECONDS)

    def _queue_trial(self) -> bool:
        """Return whether a trial is queued: one that was, one that is given back, or the next
        place.
        """
        places = places_of(self.study)
        if any(trial.state == TrialState.WAITING for trial in chain(*places.values())):
            return True
        if self._crew.requeue(places, self.trials, self._forgiven):
            return True
        place = next((place for place in range(self.trials) if place not in places), None)
        if place is None:
            return False
        if self._grids:
            return True
        self._crew.queue(place, self._planned.get(place, {}))
        return True

    @contextmanager
    def _set_up(self) -> Iterator[None]:
        """Our sampler in the study, and a `stop` that is also seen here; then what the study had
        before.
        """
        had, stop = self.study.sampler, self.study.stop

        def stopping() -> None:
            stop()
            self._stops = True

        self.study.sampler = self._sampler
        setattr(self.study, "stop", stopping)  # noqa: B010  # which mypy takes for a method that is replaced
        try:
            yield
        finally:
            self.study.sampler = had
            del self.study.stop

    # Taking trials --------------------------------------------------------------------------------

    def _run_trial(self, asking: ExitStack, ended: Callable[[FrozenTrial], None]) -> None:
        """Have Optuna run one trial; the lock in `asking` is let go once its setting is drawn."""
        others: list[Scored] = []
        problems: list[BaseException | None] = []

        def objective(trial: Trial) -> list[float]:
            problems.append(None)
            try:
                setting = self._draw(trial)
                asking.close()
                values, others[:] = self._score(trial, setting)
                return values
            except (TrialPruned, _FailedTrialError):
                raise
            except BaseException as problem:
                problems.append(problem)
                with suppress(UpdateFinishedTrialError):
                    trial.set_user_attr("stopped", True)
                raise

        def add(_: optuna.Study, trial: FrozenTrial) -> None:
            if others and trial.state == TrialState.COMPLETE:
                with self._crew.asking():
                    self._add_replayed(trial.user_attrs[PLACE], others)
            ended(trial)

        def call_users(study: optuna.Study, trial: FrozenTrial) -> None:
            all_tried = self._stops  # as the sampler has just said
            try:
                for callback in self._callbacks:
                    callback(study, trial)
                self._called_off = self._stops and not all_tried
            except Exception as problem:
                problems.append(problem)
                raise

        try:
            self.study.optimize(
                objective, n_trials=1, catch=(_FailedTrialError,), callbacks=[add, call_users]
            )
        except (UpdateFinishedTrialError, ValueError, AssertionError):
            # Optuna 5.0 raises these when another worker held this one for dead and queued the
            # trial again: the retry finds the rows. Any other problem is raised.
            if not problems:
                raise
            if problems[-1] is not None and not isinstance(problems[-1], UpdateFinishedTrialError):
                raise problems[-1] from None

    def _draw(self, trial: Trial) -> Setting:
        """Return the setting that a trial is to try."""
        places = places_of(self.study)
        if PLACE not in trial.user_attrs:
            known = self.study.get_trials(deepcopy=False)[trial.number].system_attrs
            if not (self._grids or QUEUED in known):  # another machine has taken the queued trial
                raise _FailedTrialError
            trial.set_user_attr(PLACE, max(places, default=-1) + 1)  # one that the user has queued
        self._crew.claim(trial)
        # Two machines may have queued the same place: the earlier trial has it.
        for rival in places.get(trial.user_attrs[PLACE], ()):
            if rival.number < trial.number and rival.state != TrialState.FAIL:
                trial.set_user_attr("stopped", True)
                raise _FailedTrialError
        try:
            setting = suggested(trial, self.scorer.space.point)
        except ValueError as problem:
            raise UserError(
                f"a queued trial is outside the space ({str(problem).rstrip('.')}): queue another"
            ) from None
        trial.set_user_attr("setting", setting)
        return setting

    # Trying ---------------------------------------------------------------------------------------

    def _score(self, trial: Trial, setting: Setting) -> tuple[list[float], list[Scored]]:
        """Score a setting on ever more questions, until it is done or behind.

        Returns its values by objective, and other settings that the same run answers. Raises
        TrialPruned.
        """
        finished, objectives = self._finished(), self.scorer.objectives
        tried = _by_key(finished)
        # A setting may be drawn twice: its first trial has every answer.
        same = tried.get(key_of(setting))
        if same is not None:
            return _take_scores(trial, same), []
        planned = rungs(len(self.scorer.questions))
        family = self.scorer.family(setting)
        family_finished = family is not None and any(
            each.state == TrialState.COMPLETE
            and self.scorer.family(each.user_attrs["setting"]) == family
            for each in finished
        )
        for number in planned:
            own, others = self.scorer.measured(setting, number, tried)
            if number == planned[0]:
                network = self.scorer.network_of(setting)
                if network:
                    trial.set_user_attr("training", network)
            for name in objectives[1:]:
                if all(map(math.isnan, own.took.get(name, (0.0,)))):
                    price = "give the LM's --price, or " if name == "cost" else ""
                    raise UserError(
                        f"the objective {name} is not known here: {price}take another one, such "
                        "as calls"
                    )
            # Nothing is concluded from a setting of which too many questions failed.
            last = number == planned[-1]
            if own.errors == number or (last and too_many_failed(own.errors, number)):
                trial.set_user_attr("failed", str(own.problem))
                raise _FailedTrialError
            if len(objectives) == 1:
                trial.report(own.mean(objectives[0]), number)
            if number == planned[-1]:
                break
            if self._prunes:
                if trial.should_prune():
                    _note(trial, own)
                    raise TrialPruned
                continue
            # One run answers them all: it goes on as long as one of them may still win.
            if all(
                _is_lost(each, self._rival(finished, each, number), planned, family_finished)
                for each in (own, *others)
            ):
                _note(trial, own)
                raise TrialPruned
        values = {name: own.mean(name) for name in objectives}
        for name, value in values.items():
            if not math.isfinite(value):
                trial.set_user_attr("failed", f"the objective {name} is not known of some calls")
                raise _FailedTrialError
        _note(trial, own)
        trial.set_user_attr("tells", len(others))
        return list(values.values()), others

    def _finished(self) -> list[FrozenTrial]:
        return [trial for trial in trials_tuned(self.study) if trial.state in DONE]

    def _rival(
        self, finished: list[FrozenTrial], scored: Scored, number: int
    ) -> list[float | None] | None:
        """Return the scores of the best finished trial that took no more of anything else on as
        many questions.
        """
        best: FrozenTrial | None = None
        for trial in finished:
            if trial.state != TrialState.COMPLETE:
                continue
            took = json.loads(trial.user_attrs["took"])
            others = self.scorer.objectives[1:]
            if any(took[name][str(number)] > scored.mean(name) for name in others):
                continue
            if best is None or trial.values[0] > best.values[0]:
                best = trial
        if best is None:
            return None
        return scores_of(best)[:number]

    # Other settings that a run answers --------------------------------------------------------

    def _add_replayed(self, place: int, others: list[Scored]) -> None:
        """Add finished trials for settings that are known without a call."""
        # Another worker may have tried the same setting meanwhile.
        finished = _by_key(self._finished())
        for scored in others:
            if key_of(scored.setting) in finished:
                continue
            params, distributions = parameters_of(self.scorer.space.point, scored.setting)
            attrs = {"told_by": place, "setting": scored.setting, **_noted(scored)}
            values = [scored.mean(name) for name in self.scorer.objectives]
            self.study.add_trial(
                optuna.trial.create_trial(
                    values=values, params=params, distributions=distributions, user_attrs=attrs
                )
            )

    def _complete_replays(self) -> None:
        """Add what a worker that died had not yet added after its last trial.

        A folder on another machine completes its own trials.
        """
        finished = self._finished()
        replayed = Counter(trial.user_attrs.get("told_by") for trial in finished)
        for trial in finished:
            attrs = trial.user_attrs
            added = replayed[attrs.get(PLACE, -1)]
            if added < attrs.get("tells", 0) and attrs.get("home") == self.home:
                _, others = self.scorer.measured(
                    attrs["setting"], len(self.scorer.questions), _by_key(finished)
                )
                self._add_replayed(attrs[PLACE], others)


def _by_key(trials: Sequence[FrozenTrial]) -> dict[str, FrozenTrial]:
    """Return trials by the keys of their settings, of one that was tried twice the first."""
    return {key_of(trial.user_attrs["setting"]): trial for trial in reversed(trials)}


def _is_lost(
    scored: Scored,
    rival: Sequence[float | None] | None,
    planned: Sequence[int],
    family_finished: bool,
) -> bool:
    """Return whether a setting is not worth more questions: it is behind, or a finished run of its
    family has shown most of its result, and it is not ahead.
    """
    if rival is None:
        return False
    if behind(scored.scores, rival, len(planned) - 1):
        return True
    return family_finished and not worth_going_on(scored.scores, rival, planned[-1])


def scores_of(trial: FrozenTrial) -> list[float | None]:
    """Return the score of a trial on each question, None where that failed."""
    noted = trial.user_attrs["scores"]
    if isinstance(noted, str):
        return list(map({"x": None, "0": 0.0, "1": 1.0}.__getitem__, noted))
    return list(noted)


def _take_scores(trial: Trial, same: FrozenTrial) -> list[float]:
    """Return the values of a finished trial of the same setting. Raises TrialPruned if it was
    pruned.
    """
    for name in ("scores", "took", "questions"):
        trial.set_user_attr(name, same.user_attrs[name])
    trial.set_user_attr("same_as", same.number)
    if same.state == TrialState.PRUNED:
        raise TrialPruned
    return list(same.values or ())


def _note(trial: Trial, scored: Scored) -> None:
    for name, value in _noted(scored).items():
        trial.set_user_attr(name, value)


def _noted(scored: Scored) -> dict[str, object]:
    """Return a result as a trial's attributes: small, since databases hold 64 KB in one."""
    scores: object = [score and round(score, 4) for score in scored.scores]
    if set(scored.scores) <= {0.0, 1.0, None}:
        scores = "".join(map({None: "x", 0.0: "0", 1.0: "1"}.__getitem__, scored.scores))
    sizes = rungs(len(scored.scores))
    took: dict[str, dict[str, float]] = {}
    for name, values in scored.took.items():
        took[name] = {str(size): scored.mean(name, size) for size in sizes}
        if all(map(math.isfinite, values)):
            ends = bootstrap_mean(values, seed=0, resamples=1_000)
            took[name] |= {"low": ends.low, "high": ends.high}
    return {"scores": scores, "took": json.dumps(took), "questions": len(scored.scores)}
