"""Which of two runs over the same questions is better: paired difference, exact test, price, verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..modules.errors import UserError
from ..optimizers.statistics import holm, mcnemar_exact, minimum_detectable_difference, paired_bootstrap
from .evaluate import Evaluation


@dataclass(frozen=True)
class Pair:
    """One run against another. Differences are `a` minus `b`, in 0 … 1, with a 95% paired bootstrap interval.

    `p` is McNemar's exact test, `p_adjusted` the same after Holm's correction over all pairs compared.
    `token_ratio` and `cost_ratio` are a's over b's, None where b's is zero or unknown. `only_a` and `only_b`
    are the ids of the questions that only one of them answered right.
    """

    a: str
    b: str
    n: int
    accuracy_a: float
    accuracy_b: float
    difference: float
    low: float
    high: float
    p: float
    p_adjusted: float
    token_ratio: float | None
    cost_ratio: float | None
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]

    @property
    def verdict(self) -> str:
        """The outcome in a sentence, no bolder than the interval allows."""
        points, low, high = (100 * value for value in (self.difference, self.low, self.high))
        gap = f"{abs(points):.1f} points (95% interval {low:+.1f} to {high:+.1f}, n = {self.n})"
        if self.p_adjusted < 0.05 and self.low > 0:
            return f"{self.a} beats {self.b} by {gap}."
        if self.p_adjusted < 0.05 and self.high < 0:
            return f"{self.a} does worse than {self.b} by {gap}."
        discordant = (len(self.only_a) + len(self.only_b)) / self.n
        smallest = 100 * minimum_detectable_difference(self.n, max(discordant, 1 / self.n))
        return (
            f"No difference between {self.a} and {self.b} is shown: {points:+.1f} points (95% interval "
            f"{low:+.1f} to {high:+.1f}); with n = {self.n}, differences under about {smallest:.0f} points "
            "go unseen."
        )


def compare(first: Evaluation, *others: Evaluation, names: Sequence[str] = (), seed: int = 0) -> list[Pair]:
    """Each of the others against the first, question by question; unreadable answers and errors are wrong.

    Args:
        first: the run that the others are measured against.
        others: runs over the same questions; at least one.
        names: what to call the runs, first to last; by default `run 1`, `run 2`, ….
        seed: of the bootstrap.

    Returns one Pair an other run, the other as `a` and the first as `b`, p-values Holm-corrected.

    Raises:
        UserError: nothing to compare with, or runs that do not cover the same questions.
    """
    runs = [first, *others]
    if len(runs) < 2:
        raise UserError("a comparison needs at least two runs: name another one")
    titles = list(names) or [f"run {number}" for number in range(1, len(runs) + 1)]
    right = [{row["id"]: bool(row["correct"]) for row in run.rows} for run in runs]
    for title, answered in zip(titles[1:], right[1:], strict=True):
        if answered.keys() != right[0].keys():
            unshared = len(answered.keys() ^ right[0].keys())
            raise UserError(f"{title} and {titles[0]} differ in {unshared} questions: compare the same ones")
    ids = list(right[0])
    raw = []
    for answered in right[1:]:
        only_a = tuple(name for name in ids if answered[name] and not right[0][name])
        only_b = tuple(name for name in ids if right[0][name] and not answered[name])
        raw.append((only_a, only_b, mcnemar_exact(len(only_a), len(only_b))))
    adjusted = holm([p for _, _, p in raw])
    pairs = []
    for index, (only_a, only_b, p) in enumerate(raw):
        a, b = [float(right[index + 1][name]) for name in ids], [float(right[0][name]) for name in ids]
        difference, low, high = paired_bootstrap(a, b, seed=seed)
        usage_a, usage_b = runs[index + 1].summary.usage, first.summary.usage
        pairs.append(
            Pair(
                a=titles[index + 1],
                b=titles[0],
                n=len(ids),
                accuracy_a=sum(a) / len(ids),
                accuracy_b=sum(b) / len(ids),
                difference=difference,
                low=low,
                high=high,
                p=p,
                p_adjusted=adjusted[index],
                token_ratio=_ratio(_tokens(usage_a), _tokens(usage_b)),
                cost_ratio=_ratio(usage_a["cost_usd"], usage_b["cost_usd"]),
                only_a=only_a,
                only_b=only_b,
            )
        )
    return pairs


def _tokens(usage: dict[str, Any]) -> float:
    return float(usage["prompt_tokens"] + usage["completion_tokens"])


def _ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None
