"""Intervals, paired tests and sample sizes, against scipy and values worked by hand."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, norm

from folkmoot.modules.statistics.clusters import clustered_mean
from folkmoot.modules.statistics.paired import (
    holm,
    minimum_detectable_difference,
    paired_bootstrap,
    tango,
)
from folkmoot.modules.statistics.statistics import mcnemar_exact, mcnemar_midp, wilson

SHARES = st.floats(0.01, 0.99)


@st.composite
def counts(draw: st.DrawFn) -> tuple[int, int]:
    n = draw(st.integers(1, 5000))
    return draw(st.integers(0, n)), n


@given(counts(), st.floats(0.5, 0.999))
def test_wilson_is_scipys(count: tuple[int, int], confidence: float) -> None:
    k, n = count
    expected = binomtest(k, n).proportion_ci(confidence_level=confidence, method="wilson")
    low, high = wilson(k, n, confidence)
    assert (low, high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert 0 <= low <= k / n <= high <= 1


@given(st.integers(0, 400), st.integers(0, 400))
def test_mcnemar_is_the_exact_binomial_test(a: int, b: int) -> None:
    expected = binomtest(a, a + b, 0.5).pvalue if a + b else 1.0
    assert mcnemar_exact(a, b) == pytest.approx(expected, rel=1e-9)
    assert mcnemar_exact(a, b) == mcnemar_exact(b, a)


SCORES = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)


@given(SCORES, st.integers(0, 2**32), st.randoms())
@settings(max_examples=40)
def test_paired_bootstrap_is_seeded_antisymmetric_and_blind_to_order(pairs, seed, random):
    a, b = zip(*pairs, strict=True)
    result = paired_bootstrap(a, b, seed=seed, resamples=200)
    assert result.difference == pytest.approx(np.mean(a) - np.mean(b))
    assert -1 <= result.low <= result.high <= 1
    assert paired_bootstrap(a, b, seed=seed, resamples=200) == result
    assert paired_bootstrap(b, a, seed=seed, resamples=200).difference == -result.difference
    random.shuffle(pairs)
    a, b = zip(*pairs, strict=True)
    assert paired_bootstrap(a, b, seed=seed, resamples=200) == result


@given(st.integers(1, 100_000), st.floats(0.05, 1.0), SHARES, SHARES)
def test_mdd_solves_its_equation(n: int, discordant: float, power: float, alpha: float) -> None:
    assume(power > alpha)
    d = minimum_detectable_difference(n, discordant, power, alpha)
    s = max(discordant, d)
    z_alpha, z_power = norm.ppf(1 - alpha / 2), norm.ppf(power)
    if 0 < d < 1:
        needed = z_alpha * math.sqrt(s) + z_power * math.sqrt(s - d * d)
        assert needed == pytest.approx(d * math.sqrt(n), abs=1e-6)


@given(st.lists(st.floats(0, 1), max_size=12), st.data())
def test_holm_keeps_order_and_never_lowers_a_p_value(p: list[float], data: st.DataObject) -> None:
    adjusted = holm(p)
    assert all(x <= y <= 1 for x, y in zip(p, adjusted, strict=True))
    assert not p or min(adjusted) == pytest.approx(min(1, len(p) * min(p)))
    assert not p or max(adjusted) >= max(p)
    order = data.draw(st.permutations(range(len(p))))
    assert holm([p[i] for i in order]) == pytest.approx([adjusted[i] for i in order])
    ranked = [y for _, y in sorted(zip(p, adjusted, strict=True))]
    assert ranked == sorted(ranked)


@given(st.integers(0, 60), st.integers(0, 60))
def test_the_mid_p_is_the_exact_p_less_half_of_what_was_seen_on_both_sides(a: int, b: int) -> None:
    midp, exact = mcnemar_midp(a, b), mcnemar_exact(a, b)
    assert midp == mcnemar_midp(b, a) <= exact
    if a != b:
        assert midp == pytest.approx(exact - binom.pmf(min(a, b), a + b, 0.5), abs=1e-12)


CLUSTERED = [
    # Values, clusters, mean, p, low and high by statsmodels 0.15.0:
    # OLS(values, ones).fit(cov_type="cluster", cov_kwds={"groups": …, "use_correction": True},
    # use_t=True)
    (
        [1, -1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 0, 1, 1, -1, 1, -1, 1, 0, -1, -1],
        [0, 1, 2, 3, 4, 5, 5, 1, 0, 1, 1, 5, 5, 0, 2, 4, 0, 4, 0, 2, 4, 1, 2, 1],
        *(0.3333333333333334, 0.17653549565435345, -0.21140812099140155, 0.8780747876580683),
    ),
    (
        [(i * i + i // 7) % 3 - 1 for i in range(80)],
        [i * i % 23 for i in range(80)],
        *(-0.02500000000000001, 0.7237784092096684, -0.17675252724864088, 0.1267525272486409),
    ),
]


@pytest.mark.parametrize("known", CLUSTERED)
def test_clustered_means_are_those_of_statsmodels(known: Any) -> None:
    values, clusters, mean, p, low, high = known
    found = clustered_mean(values, clusters)
    assert found == pytest.approx((mean, low, high, p, len(set(clusters))), abs=1e-9)


@pytest.mark.parametrize(
    ("only_a", "only_b", "n"), [(9, 3, 44), (0, 0, 20), (5, 0, 30), (12, 9, 50), (1, 0, 2)]
)
def test_tangos_interval_holds_what_is_not_rejected(only_a: int, only_b: int, n: int) -> None:
    difference, low, high = tango(only_a, only_b, n)
    assert difference == pytest.approx((only_a - only_b) / n)
    assert -1 <= low < difference < high <= 1 or only_a == n
    mirrored = tango(only_b, only_a, n)
    assert (mirrored.low, mirrored.high) == pytest.approx((-high, -low))
    for end in (low, high):
        # The likelihood's maximum under this difference, found by search.
        rates = [q for q in np.arange(0, 1, 1 / 40_000) if q + end >= 0 and 2 * q + end <= 1]
        best = max(rates, key=lambda q: likelihood(only_a, only_b, n, q, end))
        error = math.sqrt(n * (2 * best + end * (1 - end)))
        assert abs(only_a - only_b - n * end) / error == pytest.approx(1.96, abs=0.02)


def likelihood(only_a: int, only_b: int, n: int, q: float, difference: float) -> float:
    parts = ((only_a, q + difference), (only_b, q), (n - only_a - only_b, 1 - 2 * q - difference))
    if any(rate <= 0 < count for count, rate in parts):
        return -math.inf
    return sum(count * math.log(rate) for count, rate in parts if count)


def test_tangos_interval_covers_where_few_questions_differ() -> None:
    """The bootstrap covered 64% at n = 30 and 79% at n = 50 (benchmarks/coverage.py has more)."""
    drawn = np.random.default_rng(0).multinomial(30, [0.04, 0.04, 0.92], size=2_000)
    intervals = {(b, c): tango(b, c, 30) for b, c in {(b, c) for b, c, _ in drawn}}
    covered = [intervals[b, c].low <= 0 <= intervals[b, c].high for b, c, _ in drawn]
    assert np.mean(covered) > 0.93
