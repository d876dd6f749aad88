"""How much answers to one question vary, and how often it is worth asking again."""

import math

import numpy as np
import pytest

from folkmoot.modules.statistics.repeats import Spread, best_repeats, spread_of


def test_the_spread_of_planted_scores_is_found() -> None:
    random = np.random.default_rng(0)
    chances = random.normal(0.5, 0.3, 4000)
    scores = [random.normal(chance, 0.4, 3) for chance in chances]
    found = spread_of(scores)
    assert found.within == pytest.approx(0.16, abs=0.01)
    assert found.between == pytest.approx(0.09, abs=0.01)
    assert spread_of([[1.0, 0.0], [0.0, 1.0]]).between == 0  # never below
    with pytest.raises(ValueError, match="two questions"):
        spread_of([[1.0, 0.0], [1.0]])


def test_the_best_number_of_repeats_is_that_of_the_least_error() -> None:
    """As a search over whole numbers of repeats at the same bill finds."""
    spread, question, repeat, bill = Spread(0.2, 0.05), 6.0, 2.0, 10_000.0

    def error(times: int) -> float:
        n = bill / (question + times * repeat)
        return (spread.between + spread.within / times) / n

    found = best_repeats(spread, question, repeat)
    assert abs(min(range(1, 20), key=error) - found) < 1
    assert best_repeats(spread) == 0  # new questions come first
    assert math.isinf(best_repeats(Spread(0.1, 0.0)))
    with pytest.raises(ValueError, match="more than 0"):
        best_repeats(spread, 1.0, 0.0)
