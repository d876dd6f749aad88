"""Majority, weighted votes and trust-weighted consensus: hand-worked cases and properties."""

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from folkmoot.modules.network.trust import trust_consensus
from folkmoot.modules.protocols.votes import log_odds
from folkmoot.modules.reading.voting import Vote, majority, weighted

ANSWERS = st.lists(st.sampled_from(["A", "B", "C", None]), max_size=9)


def test_answers_with_one_key_are_one_answer_spelled_as_the_first() -> None:
    assert majority(["b", "A", "B"], key=str.lower) == Vote("b", {"b": 2, "A": 1}, False)
    found = weighted(["A", "B", "b"], [1.5, 1, 1], key=str.lower)
    assert found == Vote("B", {"A": 1.5, "B": 2}, False)


def test_log_odds_are_smoothed_by_half_an_answer_each_way() -> None:
    assert log_odds(0.5, 10) == pytest.approx(0)
    assert log_odds(1.0, 10) == pytest.approx(math.log(10.5 / 0.5))
    assert log_odds(0.0, 10) == pytest.approx(-log_odds(1.0, 10))
    assert log_odds(0.3, 0) == 0
    assert log_odds(0.75, 10**9) == pytest.approx(math.log(3))
    # Five options: chance weighs nothing, better than chance weighs something.
    assert log_odds(0.2, 10**9, options=5) == pytest.approx(0, abs=1e-6)
    assert log_odds(0.3, 1000, options=5) > 0 > log_odds(0.3, 1000)


def matrix(n: int, value: float = 0.5) -> npt.NDArray[np.float64]:
    return np.full((n, n), value) - np.diag([value] * n)


def test_trust_consensus_of_a_hand_worked_group() -> None:
    # 0 - 1 - 2, and 3 alone: W = (0.9, (0.9 + 0.4) / 2, 0.4, 0.1).
    trust = matrix(4)
    trust[0, 1] = trust[1, 0] = 0.9
    trust[1, 2] = trust[2, 1] = 0.4
    edges = np.zeros((4, 4), dtype=int)
    for i, j in ((0, 1), (1, 2)):
        edges[i, j] = edges[j, i] = 1
    result = trust_consensus(["A", "B", "B", "A"], trust, edges)
    assert result.weights == pytest.approx([0.9, 0.65, 0.4, 0.1])
    assert result.answer == "B"
    share = math.exp(1.05) / (math.exp(1.05) + math.exp(1.0))
    assert result.probability == pytest.approx(share)
    assert result.probabilities == pytest.approx({"A": 1 - share, "B": share})


def test_trust_consensus_tie_goes_to_the_lower_index() -> None:
    assert trust_consensus(["B", "A", "A", "B"], matrix(4), np.ones((4, 4))).answer == "B"
    # Sums that differ by rounding only are equal: 0.1 + 0.2 against 0.3.
    trust = np.zeros((4, 4))
    for i, value in enumerate((0.3, 0.1, 0.2)):
        trust[i, 3] = value
    result = trust_consensus(["A", "B", "B", None], trust, np.ones((4, 4)))
    assert result.answer == "A"
    assert result.probability == pytest.approx(0.5)


@given(st.data())
def test_trust_consensus_properties(data: st.DataObject) -> None:
    answers = data.draw(ANSWERS)
    n = len(answers)
    trust = data.draw(npst.arrays(np.float64, (n, n), elements=st.floats(0, 0.95)))
    edges = data.draw(npst.arrays(np.bool_, (n, n)))
    result = trust_consensus(answers, trust, edges)
    assert set(result.probabilities) == {a for a in answers if a is not None}
    if result.answer is None:
        assert not result.probabilities
    else:
        assert sum(result.probabilities.values()) == pytest.approx(1)
        assert result.probability == pytest.approx(max(result.probabilities.values()))
    for i in range(n):
        mine = [trust[i, j] for j in range(n) if j != i and edges[i, j] and trust[i, j] > 0]
        assert result.weights[i] == pytest.approx(np.mean(mine) if mine else 0.1)
    # Renumbering the agents renumbers the weights and keeps the probabilities.
    order = data.draw(st.permutations(range(n)))
    moves = np.ix_(order, order)
    moved = trust_consensus([answers[i] for i in order], trust[moves], edges[moves])
    assert moved.probabilities == pytest.approx(result.probabilities)
    assert moved.weights == pytest.approx(result.weights[list(order)])
