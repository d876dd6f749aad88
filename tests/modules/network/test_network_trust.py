"""Trust between agents: the paper's rule by hand, its variants, and properties."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from folkmoot.modules.network.trust import (
    TrustRates,
    averaged_trust,
    initial_trust,
    update_directional,
    update_trust,
)

RATES = TrustRates(delta_t=0.09, delta_d=0.02, delta_p=0.05)
ROUNDS = st.integers(1, 6).flatmap(
    lambda n: st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=1, max_size=40)
)


def run(rounds: list[list[bool]], rates: TrustRates = RATES) -> npt.NDArray[np.float64]:
    trust = initial_trust(len(rounds[0]))
    for correct in rounds:
        trust = update_trust(trust, np.array(correct), rates)
    return trust


def test_one_question_by_hand() -> None:
    # Agents 0 and 1 right, 2 and 3 wrong, all from 0.5: both right 0.5 + 0.09 (1 - 0.5) / (1 - 0.1)
    # = 0.55; one 0.5 - 0.02 = 0.48; neither 0.5 - 0.05 = 0.45.
    trust = update_trust(initial_trust(4), np.array([True, True, False, False]), RATES)
    first = [[0, 0.55, 0.48, 0.48], [0.55, 0, 0.48, 0.48]]
    rows = [*first, [0.48, 0.48, 0, 0.45], [0.48, 0.48, 0.45, 0]]
    assert trust == pytest.approx(np.array(rows))
    # The gain shrinks as trust grows: 0.55 + 0.09 (0.45 / 0.9) = 0.595.
    assert update_trust(trust, np.array([True] * 4), RATES)[0, 1] == pytest.approx(0.595)


def test_trust_stays_between_its_bounds() -> None:
    assert run([[True, True]] * 500)[0, 1] == 0.95
    assert run([[False, False]] * 500)[0, 1] == 0.1
    assert initial_trust(3).tolist() == [[0, 0.5, 0.5], [0.5, 0, 0.5], [0.5, 0.5, 0]]


@settings(deadline=None)
@given(ROUNDS)
def test_trust_is_symmetric_bounded_and_zero_on_the_diagonal(rounds: list[list[bool]]) -> None:
    trust = run(rounds)
    n = len(trust)
    assert (trust == trust.T).all()
    assert (np.diag(trust) == 0).all()
    others = trust[~np.eye(n, dtype=bool)]
    assert ((others >= 0.1) & (others <= 0.95)).all()


def test_directional_trust_ignores_the_partners_errors() -> None:
    trust = update_directional(initial_trust(3), np.array([True, False, False]), RATES)
    # Row i is about agent i: 0 gained with both, 1 and 2 lost delta_d with everybody.
    assert trust == pytest.approx(np.array([[0, 0.55, 0.55], [0.48, 0, 0.48], [0.48, 0.48, 0]]))


@settings(deadline=None)
@given(ROUNDS)
def test_averaged_trust_is_the_mean_over_time(rounds: list[list[bool]]) -> None:
    trust = average = initial_trust(len(rounds[0]))
    seen = []
    for number, correct in enumerate(rounds):
        trust = update_trust(trust, np.array(correct), RATES)
        average = averaged_trust(average, trust, number)
        seen.append(trust)
    assert average == pytest.approx(np.mean(seen, axis=0))
