"""The search itself: seeded draws, growing subsets, paired pruning, the front. No LM is asked."""

import random
import warnings
from typing import Any

import optuna
import pytest
from by_day import some_by_day
from hypothesis import given
from hypothesis import strategies as st

from folkmoot.optimizers.structure.pruning import ALPHA, behind, rungs
from folkmoot.optimizers.structure.search import (
    DIRECTIONS,
    PLACE,
    SAMPLERS,
    SeededSampler,
    parameters_of,
    suggested,
)
from folkmoot.pipelines.runs.study_file import TrialEntry
from folkmoot.pipelines.tuning.report import best_of
from folkmoot.pipelines.tuning.yaml_space import space_of

optuna.logging.set_verbosity(optuna.logging.ERROR)
SPACE = space_of("deliberation")


def worth(setting: dict[str, Any]) -> list[float]:
    rounds, roles = setting["max_rounds"], len(setting["roles"])
    return [rounds + roles / 7, roles * rounds]


def study(sampler: str, places: int, *, reopened: bool, goals: int = 1) -> list[str]:
    """The settings that a study tries, reopened as by a new process before each trial at will."""
    storage = optuna.storages.InMemoryStorage()
    directions = ["maximize", "minimize"][:goals]
    made = optuna.create_study(storage=storage, study_name="s", directions=directions)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made.sampler = SeededSampler(sampler, 3)
        for place in range(places):
            if reopened:
                made = optuna.load_study(storage=storage, study_name="s")
                made.sampler = SeededSampler(sampler, 3)
            made.enqueue_trial({} if place else first(), user_attrs={PLACE: place})
            trial = made.ask()
            setting = suggested(trial, SPACE.point)
            made.tell(trial, worth(setting)[:goals])
            found.append(repr(setting))
    return found


def first() -> dict[str, Any]:
    default, _ = SPACE.default()
    assert default is not None
    return parameters_of(SPACE.point, default)[0]


@pytest.mark.parametrize("goals", some_by_day([1, 2]))
@pytest.mark.parametrize("sampler", [name for name in SAMPLERS if name != "grid"])
def test_draws_depend_on_seed_place_and_history_alone(sampler: str, goals: int) -> None:
    places = 12 if sampler == "gp" else 25
    once = study(sampler, places, reopened=False, goals=goals)
    assert once == study(sampler, places, reopened=True, goals=goals)
    assert once[0] == repr(SPACE.default()[0])
    assert len(set(once)) > places / 2


@given(st.integers(1, 5000))
def test_rungs_always_end_with_all_and_never_shrink(n: int) -> None:
    assert rungs(200) == [25, 50, 100, 200]
    found = rungs(n)
    assert found[-1] == n
    assert found == sorted(set(found))
    assert len(found) <= 5


def test_behind_is_a_matter_of_evidence() -> None:
    assert not behind([0.0] * 3, [1.0] * 3, 3)
    assert behind([0.0] * 12, [1.0] * 12, 3)
    assert not behind([1.0] * 12, [0.0] * 12, 3)
    assert not behind([0.0] * 12, [0.0] * 12, 3)
    assert behind([0.1] * 20, [0.6] * 20, 3)
    assert not behind([None] * 38 + [0.0] * 2, [1.0] * 40, 1)  # failed questions say nothing


def test_an_equal_trial_is_rarely_stopped() -> None:
    dice, stopped, studies = random.Random(5), 0, 400
    planned = rungs(200)
    for _ in range(studies):
        a, b = ([float(dice.random() < 0.5) for _ in range(200)] for _ in range(2))
        stopped += any(behind(a[:n], b[:n], len(planned) - 1) for n in planned[:-1])
    assert stopped / studies <= ALPHA


def finished(
    values: list[tuple[float, ...]], goals: list[str]
) -> tuple[optuna.Study, list[TrialEntry]]:
    """A study with a finished trial for each of the values, and its table."""
    largest = optuna.study.StudyDirection.MAXIMIZE
    made = optuna.create_study(directions=[DIRECTIONS.get(name, largest) for name in goals])
    create = optuna.trial.create_trial
    for place, found in enumerate(values):
        made.add_trial(create(values=list(found), user_attrs={PLACE: place}))
    table = []
    for number, found in enumerate(values):
        named = zip([*goals, "calls"], [*found, 1], strict=True)
        scores: Any = {name: {"value": value} for name, value in named}
        about = {"trial": number, "place": number, "setting": {"number": number}}
        table.append(TrialEntry(state="finished", scores=scores, **about))
    return made, table


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=12))
def test_the_front_is_what_nothing_dominates(values: list[tuple[int, int]]) -> None:
    kept = [entry.trial for entry in best_of(*finished(values, ["accuracy", "tokens"]))]
    for place, own in enumerate(values):
        beaten = any(a >= own[0] and b <= own[1] and (a, b) != own for a, b in values)
        assert (place in kept) == (not beaten)
    assert values[kept[0]][0] == max(a for a, _ in values)


def test_with_one_objective_the_winner_is_the_best_with_the_fewest_calls() -> None:
    made, table = finished([(0.5,), (0.9,), (0.9,), (0.9,)], ["accuracy"])
    table[1].scores["calls"]["value"] = 2
    assert [entry.trial for entry in best_of(made, table)] == [2]
    assert best_of(*finished([], ["accuracy"])) == []
