"""Structure search with Optuna: points of a space become trials; a resumed study draws the same
ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler, GPSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, Trial, TrialState

from ...modules.base.errors import UserError
from ...modules.base.space import Distribution, coded
from .points import Draw, Setting, grid_settings, parameter_name

DIRECTIONS: dict[str, Literal["maximize", "minimize"]] = dict.fromkeys(
    ("cost", "latency", "calls", "tokens"), "minimize"
)
"""Objective → Optuna's name of its direction; any other objective is a score, and is maximized."""

SAMPLERS = ("tpe", "nsga2", "gp", "random", "grid")
STARTUP = 10  # trials drawn at random before the sampler's model is used
GRID_LIMIT = 100_000

PLACE = "place"
"""The attribute with a trial's place in the study, which a retry keeps."""

Point = Callable[[Draw], Setting]
"""A function that draws a point of a space with the given suggest function."""


class SeededSampler(BaseSampler):
    """A sampler whose draws depend only on the seed, the trial's place and the finished trials. So
    a killed study resumes with the same draws: each trial has its own sampler, seeded by its place,
    and a retried trial keeps its place. Args: sampler: one of SAMPLERS, where `grid` draws nothing,
    since all its trials are queued with their parameters; or one of Optuna's, which uses its own
    seed and state. seed: the seed of the study.
    """

    def __init__(self, sampler: str | BaseSampler, seed: int) -> None:
        self._sampler, self._seed = sampler, seed
        self._inner: BaseSampler = RandomSampler(seed=seed)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        digest = hashlib.sha256(f"{self._seed}/{trial.user_attrs.get(PLACE)}".encode()).digest()
        if isinstance(self._sampler, str):
            self._inner = _sampler(self._sampler, int.from_bytes(digest[:4], "big"))
        else:
            self._inner = self._sampler
        self._inner.before_trial(study, trial)

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self._inner.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, object]:
        return self._inner.sample_relative(study, trial, search_space)

    def sample_independent(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> object:
        return self._inner.sample_independent(study, trial, param_name, param_distribution)

    def after_trial(
        self,
        study: optuna.Study,
        trial: FrozenTrial,
        state: TrialState,
        values: Sequence[float] | None,
    ) -> None:
        self._inner.after_trial(study, trial, state, values)


def _sampler(name: str, seed: int) -> BaseSampler:
    if name == "tpe":
        # In groups: parameters with conditions make trials with different parameters.
        return TPESampler(seed=seed, n_startup_trials=STARTUP, multivariate=True, group=True)
    if name == "nsga2":
        return NSGAIISampler(seed=seed, population_size=STARTUP)
    if name == "gp":
        return GPSampler(seed=seed, n_startup_trials=STARTUP, warn_independent_sampling=False)
    return RandomSampler(seed=seed)


def suggested(trial: Trial, point: Point) -> Setting:
    """Return the point of the space for a trial. Raises ValueError for a queued one that is
    outside.
    """

    def suggest(name: str, values: Distribution) -> object:
        if isinstance(values, CategoricalDistribution):
            return trial.suggest_categorical(name, values.choices)
        drawn: float
        if isinstance(values, IntDistribution):
            drawn = trial.suggest_int(name, values.low, values.high, step=values.step)
        else:
            drawn = trial.suggest_float(name, values.low, values.high, step=values.step)
        if not values.low <= drawn <= values.high:  # of which Optuna only warns
            raise ValueError(f"{name} {drawn} is not from {values.low} to {values.high}")
        return drawn

    return point(suggest)


def parameters_of(
    point: Point, setting: Mapping[str, object]
) -> tuple[dict[str, object], dict[str, BaseDistribution]]:
    """Return a point of the space as Optuna stores it: its parameters and their distributions.
    Raises ValueError for a point that is not in the space.
    """
    parameters: dict[str, object] = {}
    distributions: dict[str, BaseDistribution] = {}

    def draw(key: str, values: Distribution) -> object:
        value = coded(setting[parameter_name(key)])
        if isinstance(values, CategoricalDistribution) and value not in values.choices:
            raise ValueError(f"{parameter_name(key)} cannot be {value!r}")
        parameters[key], distributions[key] = value, values
        return value

    point(draw)
    return parameters, distributions


def grid(point: Point) -> list[Setting]:
    """Return every point of a space. Raises UserError for an endless space, or one with more than
    GRID_LIMIT points.
    """
    cells: list[Setting] = []
    try:
        for setting in grid_settings(point):
            cells.append(setting)
            if len(cells) > GRID_LIMIT:
                raise UserError(
                    f"the space has more than {GRID_LIMIT:,} settings: "
                    "narrow it, or choose another sampler"
                )
    except ValueError as problem:
        raise UserError(
            f"a grid cannot try all values of {problem}: give it a step, or choose another sampler"
        ) from None
    return cells
