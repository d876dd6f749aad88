"""Who leaves a field: the rule itself, and a field of recorded right and wrong answers."""

from typing import Any

import numpy as np
import pytest

from folkmoot.modules.statistics.field import Exit, FieldWatch, leaving
from folkmoot.modules.statistics.statistics import FEWEST

NONE: dict[int, frozenset[int]] = {}
STEPS = {(0, 1): "no_worse", (1, 2): "no_worse"}
CHAIN: Any = {1: frozenset({2})}  # 1 covers 2


@pytest.mark.parametrize(
    ("states", "covered", "protected", "left"),
    [
        pytest.param({(0, 1): "open"}, NONE, (), [], id="open"),
        pytest.param({(0, 1): "a"}, NONE, (), [Exit(1, 0, "beaten")], id="the cheaper is better"),
        pytest.param({(0, 1): "b"}, NONE, (), [Exit(0, 1, "beaten")], id="the dearer is better"),
        pytest.param({(0, 1): "no_worse"}, NONE, (), [Exit(1, 0, "no_better")], id="no worse"),
        pytest.param({(0, 1): "no_worse"}, NONE, (1,), [], id="protected, not beaten"),
        pytest.param({(0, 1): "a"}, NONE, (1,), [Exit(1, 0, "beaten")], id="protected, beaten"),
        pytest.param({(0, 1): "futile"}, NONE, (), [], id="futile"),
        # 0 is no worse than 1, but nobody knows about 0 and 2.
        pytest.param({**STEPS, (0, 2): "open"}, CHAIN, (), [], id="a chain of small steps down"),
        pytest.param(
            *({**STEPS, (0, 2): "no_worse"}, CHAIN, (), [Exit(1, 0, "no_better")]),
            id="shown against all that are covered",
        ),
    ],
)
def test_leaving(states: Any, covered: Any, protected: Any, left: list[Exit]) -> None:
    racing = {one for pair in states for one in pair} - {o for c in covered.values() for o in c}
    assert leaving(states, racing, covered, protected) == left


def race(accuracies: list[float], prices: list[float], n: int, seed: int, **how: Any) -> FieldWatch:
    """A field whose programs are right independently of each other."""
    random = np.random.default_rng(seed)
    watch = FieldWatch(prices, planned=n, **how)
    for _ in range(n):
        right = random.random(len(accuracies)) < accuracies
        watch.update({place: float(right[place]) for place in watch.asked})
        watch.decide()
    watch.last_look()
    return watch


def test_a_much_better_program_wins() -> None:
    watch = race([0.3, 0.35, 0.9], [1, 2, 5], 200, 0)
    assert watch.recommended == 2
    assert watch.decided
    assert {one.why for one in watch.exits.values()} == {"beaten"}


def test_nothing_is_decided_before_twenty_questions() -> None:
    watch = FieldWatch([1, 2])
    for _ in range(FEWEST - 1):
        watch.update({0: 0.0, 1: 1.0})
        assert watch.decide() == []
        assert not watch.decided
    watch.update({0: 0.0, 1: 1.0})
    assert watch.decide() == [Exit(0, 1, "beaten")]


@pytest.mark.parametrize(
    ("fields", "most"), [(8, 1), pytest.param(100, 8, marks=pytest.mark.nightly)]
)
def test_equal_programs_are_rarely_told_apart(fields: int, most: int) -> None:
    """At most 5% of fields of four equal programs may end with somebody better."""
    wrong = 0
    for seed in range(fields):
        watch = race([0.6] * 4, [1, 2, 3, 4], 120, seed)
        wrong += any(one.why == "beaten" for one in watch.exits.values())
    assert wrong <= most  # more than that has a chance below 7% where the true rate is 5%


def test_without_early_stops_nobody_leaves() -> None:
    watch = race([0.1, 0.9], [1, 2], 100, 0, stops=False)
    assert watch.racing == {0, 1}
    assert watch.better(1, 0)
    assert watch.recommended == 1
