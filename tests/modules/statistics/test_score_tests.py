"""The test and intervals for scores neither right nor wrong, under a null that is known."""

import numpy as np
import numpy.typing as npt
import pytest

from folkmoot.modules.statistics.clusters import clustered_mean
from folkmoot.modules.statistics.paired import cohens_kappa, paired_bootstrap
from folkmoot.modules.statistics.statistics import bootstrap_mean

N, SEEDS = 200, 4_000


def scores(
    kind: str, rng: np.random.Generator
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Scores of two equally good programs on the same questions, some hard and some easy."""
    easy = rng.beta(2, 2, size=N)
    if kind == "f1":  # many at 0 and 1, the rest between
        one, other = (np.clip(easy + rng.normal(0, 0.5, N), 0, 1) for _ in "ab")
    elif kind == "likert":
        one, other = (np.clip(np.round(1 + 4 * easy + rng.normal(0, 1, N)), 1, 5) for _ in "ab")
    else:  # a few very large ones
        one, other = (easy + rng.exponential(1.0, N) for _ in "ab")
    return one, other


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["f1", "likert", "skewed"])
def test_the_paired_test_is_wrong_in_one_case_of_twenty(kind: str) -> None:
    rng = np.random.default_rng(7)
    found = 0
    for _ in range(SEEDS):
        one, other = scores(kind, rng)
        found += clustered_mean((one - other).tolist(), range(N)).p < 0.05
    assert 0.04 <= found / SEEDS <= 0.06


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["f1", "likert", "skewed"])
def test_intervals_of_means_and_differences_cover(kind: str) -> None:
    rng = np.random.default_rng(8)
    truth = float(np.mean([scores(kind, rng)[0].mean() for _ in range(20_000)]))
    mean = difference = 0
    times = 1_000
    for seed in range(times):
        one, other = scores(kind, rng)
        known = bootstrap_mean(one.tolist(), seed=seed, resamples=1_000)
        apart = paired_bootstrap(one.tolist(), other.tolist(), seed=seed, resamples=1_000)
        mean += known.low <= truth <= known.high
        difference += apart.low <= 0 <= apart.high
    assert 0.93 <= mean / times <= 0.97
    assert 0.93 <= difference / times <= 0.97


def test_kappa_is_that_of_cohen() -> None:
    one = [True] * 25 + [False] * 25
    other = [True] * 20 + [False] * 5 + [True] * 10 + [False] * 15
    kappa = cohens_kappa(one, other, seed=0)
    assert kappa.value == pytest.approx(0.4)  # the textbook's example: 0.70 agreed, 0.50 by chance
    assert 0.1 < kappa.low < 0.4 < kappa.high < 0.7
    assert cohens_kappa([True] * 4, [True] * 4, seed=0).value == 0.0
    assert cohens_kappa([True, False], [True, False], seed=0).value == 1.0
    with pytest.raises(ValueError, match="same things"):
        cohens_kappa([True], [], seed=0)
