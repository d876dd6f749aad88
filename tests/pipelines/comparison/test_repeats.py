"""Repeats of a question are not questions: how runs with several answers to each are compared."""

from pathlib import Path

import numpy as np
import pytest
from repeats import null_pair, repeated_run
from scipy import stats

import folkmoot as fm
from folkmoot.modules.statistics.clusters import clustered_mean
from folkmoot.modules.statistics.controls import gain_part
from folkmoot.modules.statistics.statistics import mcnemar_midp
from folkmoot.pipelines.runs.summary import mean_score


def test_a_question_counts_once_by_the_mean_over_its_repeats(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    base, team = rng.random((5, 40)) < 0.5, rng.random((3, 40)) < 0.8
    one, other = repeated_run(tmp_path / "base", base), repeated_run(tmp_path / "team", team)
    found = fm.compare(one, other, names=["base", "team"])
    (pair,) = found
    a, b = team.mean(axis=0), base.mean(axis=0)
    expected = stats.ttest_rel(a, b)
    assert (pair.n, pair.test, pair.right_or_wrong) == (40, "paired t-test", False)
    assert pair.p == pytest.approx(expected.pvalue)
    assert (pair.difference, pair.low, pair.high) == gain_part(b, a)
    assert (pair.score_a, pair.score_b) == pytest.approx((a.mean(), b.mean()))
    assert pair.accuracy_a == pair.score_a
    assert set(pair.only_a) == {f"q{q}" for q in range(40) if a[q] > b[q]}
    assert (pair.call_ratio, pair.token_ratio, pair.cost_ratio) == pytest.approx((1, 1, 1))
    assert pair.outcome == "a"
    runs = [run.score for run in found.runs]
    assert [run["n"] for run in runs] == [40, 40]
    half = stats.t.ppf(0.975, 39) * b.std(ddof=1) / np.sqrt(40)
    assert (runs[0]["low"], runs[0]["high"]) == pytest.approx((b.mean() - half, b.mean() + half))
    mean = "answers to 40 questions: each question counts once, by the mean over its answers."
    assert found.notes == [f"base has 200 {mean}", f"team has 120 {mean}"]
    (clustered,) = fm.compare(one, other, cluster="subject")
    assert clustered.clustered == clustered_mean(a - b, [q % 5 for q in range(40)])


def false_verdicts(tmp_path: Path, pairs: int, n: int, repeats: int) -> tuple[float, float]:
    """The share of pairs of equals with a verdict, and that with each repeat as a question."""
    rng = np.random.default_rng(n)
    verdicts, separate = 0, 0
    for _ in range(pairs):
        right = null_pair(rng, n, repeats)
        named = zip("ab", right, strict=True)
        folders = [repeated_run(tmp_path / name, each) for name, each in named]
        (pair,) = fm.compare(*folders)
        verdicts += pair.outcome in ("a", "b")
        a, b = right
        separate += mcnemar_midp(int((a & ~b).sum()), int((b & ~a).sum())) < 0.05
    return verdicts / pairs, separate / pairs


@pytest.mark.nightly
def test_equals_are_rarely_called_different(tmp_path: Path) -> None:
    found, separate = false_verdicts(tmp_path, 16, 20, 10)
    assert found <= 0.1 < 0.2 < separate


def test_intervals_of_repeats_cover_the_truth() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(1_000):
        means = rng.binomial(5, rng.beta(2, 1, size=60)) / 5
        score = mean_score(means.tolist(), is_rate=True)
        covered += score["low"] <= 2 / 3 <= score["high"]
    assert 0.93 <= covered / 1_000 <= 0.97
    assert mean_score([0.4], is_rate=True) == {"value": 0.4, "low": 0.0, "high": 1.0, "n": 1}
