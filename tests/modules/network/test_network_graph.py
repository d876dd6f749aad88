"""The agents' graph: a small world within its limits, and the four stages of its evolution."""

import numpy as np
import numpy.typing as npt
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from folkmoot.modules.network.graph import Limits, evolve, small_world

PAIRS = st.tuples(st.integers(1, 6), st.integers(0, 4))
LIMITS = PAIRS.map(lambda two: Limits(two[0], two[0] + two[1]))


def graph(n: int, *edges: tuple[int, int]) -> npt.NDArray[np.bool_]:
    matrix = np.zeros((n, n), dtype=bool)
    for i, j in edges:
        matrix[i, j] = matrix[j, i] = True
    return matrix


def trusting(n: int, default: float, **pairs: float) -> npt.NDArray[np.float64]:
    """Trust with a default and values for pairs such as t01."""
    matrix = np.full((n, n), default)
    for name, value in pairs.items():
        i, j = int(name[1]), int(name[2])
        matrix[i, j] = matrix[j, i] = value
    np.fill_diagonal(matrix, 0)
    return matrix


def check(edges: npt.NDArray[np.bool_], limits: Limits) -> None:
    n = len(edges)
    degree = edges.sum(axis=1)
    assert edges.dtype == np.bool_
    assert (edges == edges.T).all()
    assert not np.diag(edges).any()
    assert n == 1 or (degree > 0).all()
    low, high = min(limits.min_degree, n - 1), min(limits.max_degree, n - 1)
    possible = low < high or n * low % 2 == 0
    assert (degree >= low).all()
    assert (degree <= high + (not possible)).all()


@settings(deadline=None)
@given(st.integers(1, 14), st.integers(0, 17), st.floats(0, 1), LIMITS, st.integers(0, 99))
def test_a_small_world_has_its_limits(n: int, k: int, p: float, limits: Limits, seed: int) -> None:
    edges = small_world(n, k, p, limits, seed)
    check(edges, limits)
    assert (edges == small_world(n, k, p, limits, seed)).all()


def test_without_rewiring_a_small_world_is_a_ring() -> None:
    ring = small_world(6, 2, 0.0, Limits(1, 5), 0)
    assert (ring == graph(6, (0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0))).all()
    assert (small_world(6, 3, 0.0, Limits(1, 5), 0) == ring).all()  # odd k: one fewer
    assert small_world(4, 9, 0.5, Limits(1, 9), 0).sum() == 12  # complete
    assert small_world(1, 4, 0.5, Limits(), 0).tolist() == [[False]]
    assert (small_world(2, 0, 0.5, Limits(), 0) == graph(2, (0, 1))).all()
    assert (small_world(9, 4, 0.5, Limits(), 1) != small_world(9, 4, 0.5, Limits(), 2)).any()


@settings(deadline=None)
@given(st.data(), st.integers(1, 9), LIMITS)
def test_evolution_keeps_its_invariants(data: st.DataObject, n: int, limits: Limits) -> None:
    before = np.triu(data.draw(npst.arrays(np.bool_, (n, n))), 1)
    before = before | before.T
    values = st.sampled_from([0.1, 0.29, 0.5, 0.81, 0.95])
    trust = np.triu(data.draw(npst.arrays(np.float64, (n, n), elements=values)), 1)
    trust = trust + trust.T
    kept, held = before.copy(), trust.copy()
    after = evolve(before, trust, limits)
    check(after, limits)
    assert (before == kept).all()
    assert (trust == held).all()
    assert (evolve(before, trust, limits) == after).all()


def test_stage_1_drops_low_trust_and_only_that() -> None:
    before = graph(4, (0, 1), (1, 2), (2, 3), (3, 0), (0, 2))
    after = evolve(before, trusting(4, 0.5, t02=0.29), Limits(1, 3))
    assert (after == graph(4, (0, 1), (1, 2), (2, 3), (3, 0))).all()
    assert (evolve(before, trusting(4, 0.5, t02=0.3), Limits(1, 3)) == before).all()


def test_stage_2_connects_high_trust_best_first_while_there_is_room() -> None:
    ring = graph(4, (0, 1), (1, 2), (2, 3), (3, 0))
    limits = Limits(1, 3)
    assert evolve(ring, trusting(4, 0.5, t02=0.81), limits)[0, 2]
    assert (evolve(ring, trusting(4, 0.9, t02=0.8, t13=0.8), limits) == ring).all()
    assert (evolve(ring, trusting(4, 0.5, t02=0.9), Limits(2, 2)) == ring).all()
    # Two edges of 0 would be added but one has room: the more trusted.
    path = graph(5, (0, 1), (1, 2), (3, 4))
    after = evolve(path, trusting(5, 0.5, t01=0.95, t03=0.85, t04=0.9), Limits(1, 2))
    assert after[0, 4]
    assert not after[0, 3]


def test_stage_3_gives_back_the_best_trusted() -> None:
    # All of 0's edges go; it comes back to its most trusted partner.
    before = graph(4, (0, 1), (1, 2), (2, 3), (3, 1))
    after = evolve(before, trusting(4, 0.5, t01=0.2, t02=0.25, t03=0.22), Limits(1, 3))
    assert np.flatnonzero(after[0]).tolist() == [2]
    # Equal trust goes to the lower index.
    even = evolve(graph(3), trusting(3, 0.5), Limits(1, 2))
    assert even[0, 1]


def test_stage_4_swaps_the_least_trusted_edge_for_a_better_pair() -> None:
    before = graph(4, (0, 1), (1, 2), (2, 3), (1, 3))
    after = evolve(before, trusting(4, 0.5, t01=0.4, t02=0.7), Limits(1, 3))
    assert np.flatnonzero(after[0]).tolist() == [2]
    # Not when the other end would fall below the least degree, nor when no pair is better.
    alone = graph(4, (0, 1), (2, 3))
    assert (evolve(alone, trusting(4, 0.5, t01=0.4, t02=0.7), Limits(1, 1)) == alone).all()
    ring = graph(4, (0, 1), (1, 2), (2, 3), (3, 0))
    assert (evolve(ring, trusting(4, 0.5), Limits(1, 3)) == ring).all()
