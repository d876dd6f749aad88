"""Which of several programs to take: the cheapest that is within a margin of the best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...optimizers.statistics.clusters import clustered_mean
from ...optimizers.statistics.noninferiority import CONFIDENCE, score_limits
from ..base.wording import difference_text, difference_unit
from .compared import Compared

MARGIN = 0.02
RESAMPLES = 2_000


class PriceAxis(NamedTuple):
    """What runs are priced in, and what each took for a question."""

    unit: str
    each: list[float]


def price_axis(runs: Sequence[Compared]) -> PriceAxis:
    """Dollars, where all are known and somebody paid some; else tokens; else calls.

    Tokens and dollars of answers from a record are not known: with any of those, calls count. A run whose
    calls are not known either has a price without end: it is never the cheaper one.
    """
    asked = [max(1, round(run.score["n"])) for run in runs]

    def each(totals: Sequence[float]) -> list[float]:
        return [total / n for total, n in zip(totals, asked, strict=True)]

    costs = [run.usage.get("cost_usd") for run in runs]
    tokens = [run.tokens or 0 for run in runs]
    fresh = not any(run.usage["cached_calls"] for run in runs)
    if fresh and all(cost is not None for cost in costs) and any(costs):
        return PriceAxis("US dollars", each([cost or 0.0 for cost in costs]))
    if fresh and all(tokens):
        return PriceAxis("tokens", each(tokens))
    return PriceAxis(
        "calls", each([math.inf if (calls := run.usage["calls"]) is None else calls for run in runs])
    )


def front(prices: Sequence[float], accuracies: Sequence[float]) -> list[int]:
    """The places, by price, of those that no other is both cheaper and more often right than.

    Of equals in one, the better in the other counts as both; of equals in both, the first does.
    """
    order = sorted(range(len(prices)), key=lambda place: (prices[place], -accuracies[place], place))
    found: list[int] = []
    for place in order:
        if not found or accuracies[place] > accuracies[found[-1]]:
            found.append(place)
    return found


@dataclass(frozen=True)
class Recommendation:
    """The cheapest run whose accuracy is within `margin` (0 to 1) of that of the `best`.

    `difference` is its accuracy less that of the best, `low` the one-sided 95% limit of that (Tango's), and
    `chosen` the share of 2,000 resamples of the questions in which the same run would be recommended.
    `sentence` says all that.
    """

    run: str
    best: str
    margin: float
    difference: float
    low: float
    chosen: float
    sentence: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def recommend(
    runs: Sequence[Compared],
    scores: Sequence[npt.NDArray[np.float64]],
    margin: float = MARGIN,
    *,
    seed: int = 0,
) -> Recommendation:
    """Recommend one of at least two runs; `scores[i]` has what run i scored on each question.

    Prices are those of `price_axis`, taken as they were found: only the questions are resampled.
    """
    price, answers = price_axis(runs), np.asarray(scores, dtype=float)
    is_rate = all(run.is_rate for run in runs)
    prices, n = np.asarray(price.each), answers.shape[1]
    # Questions with the same answers are alike: drawing how often each kind occurs is the same resample.
    kinds, counts = np.unique(answers.T, axis=0, return_counts=True)
    drawn = np.random.default_rng(seed).multinomial(n, counts / n, size=RESAMPLES) @ kinds / n
    accuracy = answers.mean(axis=1)
    place, best = _chosen(accuracy, prices, margin), _best(accuracy, prices)
    chosen = float(np.mean([_chosen(each, prices, margin) == place for each in drawn]))
    gained = int((answers[place] > answers[best]).sum())
    lost = int((answers[best] > answers[place]).sum())
    low = 0.0
    if place != best and is_rate:
        low = score_limits(gained, lost, n, CONFIDENCE).low
    elif place != best:
        apart = (answers[place] - answers[best]).tolist()
        low = clustered_mean(apart, range(n), 2 * CONFIDENCE - 1).low if n > 1 else -math.inf
    difference = float(accuracy[place] - accuracy[best])
    unit = difference_unit(is_rate, runs[0].metric)
    within = f"{difference_text(margin, is_rate, 'g')}{unit}"
    first = "the most often right" if is_rate else f"the best{unit}"
    said = _sentence([run.name for run in runs], accuracy, price, place, best, within, first)
    if place != best:
        out = "" if low > -margin else "not "
        said += (
            f" Difference to {runs[best].name}: {difference_text(difference, is_rate)}{unit}, one-sided 95% "
            f"limit {difference_text(low, is_rate)}: that it loses no more than {within} is {out}shown."
        )
    said += f" {chosen:.0%} of resamples of the questions say the same."
    return Recommendation(runs[place].name, runs[best].name, margin, difference, low, chosen, said)


def _best(accuracy: npt.NDArray[np.float64], prices: npt.NDArray[np.float64]) -> int:
    """The most accurate, of equals the cheapest."""
    return int(np.lexsort((prices, -accuracy))[0])


def _chosen(accuracy: npt.NDArray[np.float64], prices: npt.NDArray[np.float64], margin: float) -> int:
    """The cheapest within the margin of the best, of equally cheap ones the most accurate."""
    near = np.flatnonzero(accuracy >= accuracy.max() - margin - 1e-12)
    return int(near[np.lexsort((-accuracy[near], prices[near]))[0]])


def _sentence(
    names: Sequence[str],
    accuracy: npt.NDArray[np.float64],
    price: PriceAxis,
    place: int,
    best: int,
    margin: str,
    first: str,
) -> str:
    head = f"Recommended: {names[place]}"
    within = f"within {margin}"
    if place == best:
        unknown = " What it took is not known." if math.isinf(price.each[place]) else ""
        return f"{head}: {first}, and no cheaper run is {within} of it.{unknown}"
    cheapest = front(price.each, list(accuracy))[0]
    times = f"at {price.each[place] / price.each[best]:.2f} times its price in {price.unit}"
    if math.isinf(price.each[best]):
        times = f"at {price.each[place]:.3g} {price.unit} a question, where nobody knows what that one took"
    gain = accuracy[best] - accuracy[cheapest]
    if cheapest == place or gain <= 0:
        return f"{head}: {within} of {names[best]}, {first}, {times}."
    share = (accuracy[place] - accuracy[cheapest]) / gain
    return f"{head}: {share:.0%} of the gain of {names[best]} over {names[cheapest]} {times}."
