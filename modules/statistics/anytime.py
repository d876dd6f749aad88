"""Sequential tests and intervals, valid at every look while answers come in. All functions are
pure.

Differences are scores of a minus scores of b on the same question, in [-1, 1]. The evidence against
"the mean difference is m" is an e-value: the wealth of a gambler who bets against m, question by
question, and starts with 1. If m is true, the wealth ever exceeds 1/alpha with probability at most
alpha (Ville's inequality), so looking after every question does not increase the error.

Source: betting e-values of Waudby-Smith and Ramdas (2024), "Estimating means of bounded random
variables by betting"; anytime t-test after Wang and Ramdas (2024).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from .paired import score_interval
from .statistics import Interval

Numbers: TypeAlias = npt.NDArray[np.float64]
State: TypeAlias = Literal["open", "a", "b", "no_worse", "futile"]

BETS = 32
# Looking for futility is slow and says little more after a few answers, so it is done rarely.
FUTILITY_EVERY, FUTILITY_FROM, FUTILE_BELOW = 50, 50, 0.05
PREDICTIONS, STEPS = 500, 10
FEWEST_CLUSTERS = 5
SCALES = (1.0, 10.0, 100.0)
SMALL_CLUSTER, MANY_CLUSTERS = 5.0, 40
"""With at least this many clusters of at most this mean size, clusters are bet on like
questions.
"""


@lru_cache(maxsize=1)
def _fractions() -> Numbers:
    """Return the bets (K,) as fractions of the largest safe stake; negative ones bet on b.

    They are 2B - 1 at the mid-quantiles of B ~ Beta(3, 3).
    """
    from scipy.special import betaincinv

    middles: Numbers = (np.arange(BETS) + 0.5) / BETS
    return np.asarray(2.0 * betaincinv(3.0, 3.0, middles) - 1.0, dtype=np.float64)


def _log_factors(values: Numbers, mean: float) -> Numbers:
    """Return the logarithms of 1 + stake x (value - mean), for each bet and each value, (K, V)."""
    share = _fractions()[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        # Stakes that cannot lose all: a value is -1 at the least and 1 at the most.
        up = (values - mean) / (1.0 + mean)
        down = (mean - values) / (1.0 - mean)
        relative = np.where(share > 0, up, down)
    # At the ends -1 and 1, a value that equals the mean does not change the wealth.
    relative = np.where(values == mean, 0.0, relative)
    return np.asarray(np.log1p(np.abs(share) * relative), dtype=np.float64)


def _log_mean(logs: Numbers) -> Numbers:
    """Return the logarithm of the mean over the first axis of numbers given as logarithms."""
    # The largest is taken out, or its exponential could overflow; infinity minus itself is no
    # number.
    top = logs.max(axis=0)
    if np.isinf(top).any():
        return np.asarray(np.where(np.isinf(top), top, 0.0), dtype=np.float64)
    return np.asarray(top + np.log(np.exp(logs - top).mean(axis=0)), dtype=np.float64)


def log_e_value(differences: Sequence[float], mean: float = 0.0) -> float:
    """Return the logarithm of the e-value against "the mean difference is `mean`"; 0 without
    differences.

    For right or wrong answers and mean 0 it is the Beta(3, 3) mixture of binomial likelihood ratios
    on the questions that tell the two programs apart. Raises ValueError for numbers outside
    [-1, 1].
    """
    values, counts = np.unique(_checked(differences), return_counts=True)
    if not -1.0 <= mean <= 1.0:
        raise ValueError(f"a mean difference lies between -1 and 1, not at {mean}")
    if not len(values):
        return 0.0
    return float(_log_mean(_log_factors(values, mean) @ counts))


def confidence_sequence(wins: int, losses: int, ties: int, alpha: float = 0.05) -> Interval:
    """Return the confidence sequence at `alpha`: the mean differences that are not refuted, with
    any number of earlier tests.

    `wins`, `losses` and `ties` count the differences 1, -1 and 0. With none it is (-1, 1). The
    interval excludes 0 exactly when `log_e_value` at 0 reaches log(1/alpha). Raises ValueError for
    negative counts and unless 0 < alpha < 1.
    """
    if min(wins, losses, ties) < 0:
        raise ValueError(f"counts cannot be negative: {wins}, {losses} and {ties}")
    return _interval(np.array([1.0, -1.0, 0.0]), np.array([wins, losses, ties]), alpha)


def mean_sequence(differences: Sequence[float], alpha: float = 0.05) -> Interval:
    """Return the same for differences of any size in [-1, 1], such as those of graded scores."""
    values, counts = np.unique(_checked(differences), return_counts=True)
    return _interval(values, counts, alpha)


def _interval(values: Numbers, counts: npt.NDArray[np.int_], alpha: float) -> Interval:
    """Return the confidence sequence of differences that are counted by value."""
    from scipy.optimize import brentq

    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha lies between 0 and 1, not at {alpha}")
    if not counts.sum():
        return Interval(-1.0, 1.0)
    limit = -math.log(alpha)
    # A value that was never seen would count as 0 × −inf, which is NaN.
    values, counts = values[counts > 0], counts[counts > 0]

    def excess(mean: float) -> float:
        return float(_log_mean(_log_factors(values, mean) @ counts)) - limit

    # log E is convex in the mean and at most 0 at the observed one, so each side has one end.
    middle = float(values @ counts / counts.sum())
    edge = 1.0 - 1e-9
    low = high = middle
    if middle > -edge:
        low = brentq(excess, -edge, middle, xtol=1e-9) if excess(-edge) > 0 else -1.0
    if middle < edge:
        high = brentq(excess, middle, edge, xtol=1e-9) if excess(edge) > 0 else 1.0
    return Interval(low, high)


def sampled_interval(differences: Sequence[float], of: int, alpha: float = 0.05) -> Interval:
    """Return the interval of the mean difference over a list of `of` questions, from those asked so
    far in random order.

    Questions are drawn without replacement, so the interval is a point when all are asked. Raises
    ValueError for more differences than questions.
    """
    from scipy.optimize import brentq, minimize_scalar

    seen = _checked(differences)
    if len(seen) > of:
        raise ValueError(f"{len(seen)} differences cannot come from {of} questions")
    sums = np.concatenate([[0.0], np.cumsum(seen)[:-1]]) if len(seen) else seen
    left = of - np.arange(len(seen))
    rest = of - len(seen)
    total = float(seen.sum())
    # Whatever the remaining questions bring, the mean of the list lies in here.
    certain = Interval((total - rest) / of, (total + rest) / of)
    if not len(seen) or not rest:
        return certain
    limit = -math.log(alpha)

    def excess(mean: float) -> float:
        # The mean that the remaining questions would need, if `mean` is the mean of the list.
        expected = np.clip((of * mean - sums) / left, -1 + 1e-12, 1 - 1e-12)
        share = _fractions()[:, None]
        gap = seen - expected
        relative = np.where(share > 0, gap / (1.0 + expected), -gap / (1.0 - expected))
        logs = np.log1p(np.abs(share) * relative).sum(axis=1)
        return float(_log_mean(logs)) - limit

    best = minimize_scalar(excess, bounds=certain, method="bounded", options={"xatol": 1e-6})
    # Every mean is refuted, which happens with probability alpha at most: say what is certain.
    if best.fun >= 0:
        return certain
    low = brentq(excess, certain.low, best.x) if excess(certain.low) > 0 else certain.low
    high = brentq(excess, best.x, certain.high) if excess(certain.high) > 0 else certain.high
    return Interval(low, high)


def log_e_clusters(means: Sequence[float], mean: float = 0.0) -> float:
    """Return the logarithm of the anytime t-test's e-value of cluster means, over three effect
    scales.

    0, which is no evidence, below five clusters and where all means are equal.
    """
    values = np.asarray(means, dtype=np.float64) - mean
    spread = float(((values - values.mean()) ** 2).sum()) if len(values) else 0.0
    if len(values) < FEWEST_CLUSTERS or spread <= 1e-12:
        return 0.0
    return _log_e_t(len(values) * float(values.mean()) ** 2 / spread, len(values))


def _log_e_t(t: float, n: int) -> float:
    """Return that e-value from T = n mean^2 / sum of squared deviations."""
    ratios = 1.0 + n / np.array(SCALES)
    logs = -0.5 * np.log(ratios) + n / 2 * (np.log1p(t) - np.log1p(t / ratios))
    return float(_log_mean(logs))


class _Coins:
    """The exact probability that fair coins cross the boundary of the sequential test. Between two
    equal programs, the winner of each discordant question is a fair coin.
    """

    def __init__(self, alpha: float) -> None:
        self._limit = -math.log(alpha)
        self._logs = _log_factors(np.array([1.0, -1.0]), 0.0)
        self._boundary = 1  # the smallest lead that has crossed at some earlier number of coins
        # by number of coins: the probability of each number of wins without having crossed so far
        self._open: list[Numbers] = [np.ones(1)]

    def crossed(self, wins: int, losses: int) -> bool:
        """Return whether these counts cross the boundary."""
        return float(_log_mean(self._logs @ np.array([wins, losses]))) >= self._limit

    def critical_lead(self, coins: int, alpha: float) -> int:
        """Return the smallest lead that counts as a difference at the last look, for an overall
        error of `alpha`.
        """
        self._extend(coins)
        still_open = self._open[coins]
        # Coins that crossed before have used up their part of alpha.
        left = alpha - (1.0 - float(still_open.sum()))
        leads = np.abs(2 * np.arange(coins + 1) - coins)
        # With room for one lead more than there can be, whose tail is 0: some lead always counts.
        chances = np.bincount(leads, weights=still_open, minlength=coins + 2)
        tails = np.cumsum(chances[::-1])[::-1]
        return int(np.argmax(tails <= left + 1e-15))

    def _extend(self, coins: int) -> None:
        while len(self._open) <= coins:
            before = self._open[-1]
            now = np.zeros(len(before) + 1)
            now[:-1] += before / 2
            now[1:] += before / 2
            n = len(before)
            # The boundary moves by at most one coin per step, so it is followed, not searched.
            lead = max(self._boundary - 1, 0)
            lead += (n - lead) % 2  # leads are odd after an odd number of coins
            while lead <= n and not self.crossed((n + lead) // 2, (n - lead) // 2):
                lead += 2
            self._boundary = lead
            if lead <= n:
                now[: (n - lead) // 2 + 1] = 0.0
                now[(n + lead) // 2 :] = 0.0
            self._open.append(now)


@lru_cache(maxsize=32)
def _coins(alpha: float) -> _Coins:
    return _Coins(alpha)


class PairWatch:
    """Watches the differences between programs a and b until it is decided which is better.

    `state` is "open", then for good "a" or "b" (that one is better), "no_worse" (with a `margin`: a
    is no worse than b by more than the margin) or "futile" (the planned questions will not decide).
    `interval` is that of the mean difference a - b for new questions like these: the confidence
    sequence, or the interval of the last look's test.

    Args:
        planned: the planned number of questions; without it there is neither futility nor a last
            look. It may be set later, once. alpha: the allowed error over the whole watch, the last
            look included.
        margin: the difference that does not matter, in scores, such as 0.05.
    """

    def __init__(
        self, planned: int | None = None, alpha: float = 0.05, margin: float | None = None
    ) -> None:
        if not 0.0 < alpha < 1.0:
            raise ValueError(f"alpha lies between 0 and 1, not at {alpha}")
        if margin is not None and not 0.0 < margin < 1.0:
            raise ValueError(f"a margin lies between 0 and 1, not at {margin}")
        self.planned, self.alpha, self.margin = planned, alpha, margin
        self.state: State = "open"
        self.differences: list[float] = []
        self.log_e = 0.0
        """The largest logarithm of the e-value against equality so far."""
        self._counts: dict[float, int] = {}
        self._clusters: dict[str, list[float]] = {}
        self._looked = False
        self._last: Interval | None = None
        self._decided: Interval | None = None

    @property
    def interval(self) -> Interval:
        """The confidence sequence of the mean difference; after the last look, where that decided,
        the interval of its test.
        """
        if self._last is not None:
            return self._last
        now = self._interval_now()
        if self._decided is None:
            return now
        # Every interval of the sequence holds, so that of the moment of decision still does.
        mean = sum(self.differences) / len(self.differences)
        # Later answers may have moved the mean out of it; then it ends at the mean.
        low, high = max(now.low, self._decided.low), min(now.high, self._decided.high)
        return Interval(min(low, mean), max(high, mean))

    def _interval_now(self) -> Interval:
        if self._clusters:
            return self._cluster_interval()
        return _interval(*self._counted(), self.alpha)

    def update(self, difference: float, cluster: str | None = None) -> State:
        """Add the next question's difference, and its cluster where questions come in clusters.

        Returns the state. Raises ValueError for a difference outside [-1, 1], and for questions of
        which some have a cluster and others none.
        """
        (value,) = _checked([difference])
        if self.differences and (cluster is None) != (not self._clusters):
            raise ValueError("either every question has a cluster or none has")
        self.differences.append(float(value))
        self._counts[float(value)] = self._counts.get(float(value), 0) + 1
        if cluster is not None:
            self._clusters.setdefault(cluster, []).append(float(value))
        if self.state == "open":
            self._decide()
        return self.state

    def last_look(self) -> State:
        """Test once more, with the rest of `alpha`, and close the pair; returns the state. There is
        a last look only at exactly the planned number of questions, and not after a futility stop,
        with clusters, or for scores between right and wrong.
        """
        planned = self.planned is not None and len(self.differences) == self.planned
        coins = set(self._counts) <= {1.0, -1.0, 0.0}
        if not planned or not coins or self._clusters or self._looked:
            return self.state
        if self.state in ("open", "no_worse"):
            self._looked = True
            wins, losses = self._counts.get(1.0, 0), self._counts.get(-1.0, 0)
            critical = _coins(self.alpha).critical_lead(wins + losses, self.alpha)
            if abs(wins - losses) >= critical:
                self.state = "a" if wins > losses else "b"
            elif self.state == "open":
                self.state = "futile"
            if self.state != "no_worse" and wins + losses:
                # The score test that rejects equality from the same lead on; leads are whole.
                z = (critical - 0.5) / math.sqrt(wins + losses)
                _, *ends = score_interval(wins, losses, len(self.differences), z)
                self._last = Interval(*ends)
        return self.state

    def _counted(self) -> tuple[Numbers, npt.NDArray[np.int_]]:
        return np.array(list(self._counts)), np.array(list(self._counts.values()), dtype=np.int_)

    def _decide(self) -> None:
        lead = sum(value * count for value, count in self._counts.items())
        limit = -math.log(self.alpha)
        self.log_e = max(self.log_e, log_e := self._log_e(0.0))
        if log_e >= limit:
            self.state = "a" if lead > 0 else "b"
            self._decided = self._interval_now()
        # The e-value is large on both sides of the margin, so the side is asked first.
        elif self.margin is not None and lead > -self.margin * len(self.differences):
            self.state = "no_worse" if self._log_e(-self.margin) >= limit else "open"
        if self.state == "open" and self._futile():
            self.state = "futile"

    def _futile(self) -> bool:
        """Return whether a futility check is due, and a verdict is unlikely."""
        seen = len(self.differences)
        if self.planned is None or self._clusters or not FUTILITY_FROM <= seen < self.planned:
            return False
        return seen % FUTILITY_EVERY == 0 and self._chance_of_verdict() < FUTILE_BELOW

    def _log_e(self, mean: float) -> float:
        """Return the logarithm of the e-value against a mean, by clusters where there are some."""
        if not self._clusters:
            values, counts = self._counted()
            return float(_log_mean(_log_factors(values, mean) @ counts))
        means = self._cluster_means()
        if self._bets_on_clusters():
            return log_e_value(means, mean)
        return log_e_clusters(means, mean)

    def _cluster_means(self) -> list[float]:
        return [sum(values) / len(values) for values in self._clusters.values()]

    def _bets_on_clusters(self) -> bool:
        """Return whether there are many small clusters, for which the t-test is too coarse."""
        n = len(self._clusters)
        return n >= MANY_CLUSTERS and len(self.differences) <= SMALL_CLUSTER * n

    def _cluster_interval(self) -> Interval:
        from scipy.optimize import brentq

        means = np.array(self._cluster_means())
        n, middle = len(means), float(means.mean())
        if self._bets_on_clusters():
            return _interval(means, np.ones(n, dtype=np.int_), self.alpha)
        spread = float(((means - middle) ** 2).sum())
        limit = -math.log(self.alpha)
        if n < FEWEST_CLUSTERS or spread <= 1e-12 or _log_e_t(1e12, n) < limit:
            return Interval(-1.0, 1.0)
        t = brentq(lambda value: _log_e_t(value, n) - limit, 0.0, 1e12)
        half = math.sqrt(t * spread / n)
        return Interval(max(-1.0, middle - half), min(1.0, middle + half))

    def _chance_of_verdict(self) -> float:
        """Return the predicted probability of a verdict at the planned number of questions. The
        remaining answers are simulated with shares drawn from Dirichlet(counts + 1/2), seeded by
        the counts, so that the same answers give the same decision.
        """
        # What has not been seen yet may still come.
        counts = {1.0: 0, -1.0: 0, 0.0: 0} | self._counts
        values, seen = np.array(list(counts)), np.array(list(counts.values()))
        rest = (self.planned or 0) - len(self.differences)
        random = np.random.default_rng([len(self.differences), *(int(value) for value in seen)])
        shares = random.dirichlet(seen + 0.5, PREDICTIONS)
        limit = -math.log(self.alpha)
        decided = np.zeros(PREDICTIONS, dtype=bool)
        ends = np.tile(seen, (PREDICTIONS, 1))
        equal, margin = _log_factors(values, 0.0), -(self.margin or 0.0)
        for step in range(STEPS):
            # A verdict may come on the way. Cut so that the steps add up to the rest.
            asked = rest * (step + 1) // STEPS - rest * step // STEPS
            ends += random.multinomial(asked, shares)
            decided |= _log_mean(equal @ ends.T) >= limit
            if self.margin is not None:
                no_worse = _log_mean(_log_factors(values, margin) @ ends.T) >= limit
                decided |= no_worse & (ends @ values > margin * ends.sum(axis=1))
        if set(counts) == {1.0, -1.0, 0.0}:
            coins = _coins(self.alpha)
            apart = ends[:, 0] + ends[:, 1]
            needed = {int(n): coins.critical_lead(int(n), self.alpha) for n in set(apart)}
            leads = np.abs(ends[:, 0] - ends[:, 1])
            decided |= leads >= np.array([needed[int(n)] for n in apart])
        return float(decided.mean())


def _checked(differences: Sequence[float]) -> Numbers:
    values = np.asarray(differences, dtype=np.float64)
    if values.size and not (np.abs(values) <= 1.0).all():  # NaN fails this, too
        raise ValueError("differences lie between -1 and 1")
    return values
