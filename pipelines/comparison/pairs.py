"""What a comparison of runs says: every run, every pair, a verdict in words, and where two runs part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, zip_longest
from typing import Any, overload

from ...modules.base.calls import UsageFields
from ...optimizers.statistics.statistics import Difference, Odds
from ..base.wording import mostly_failed, run_failed, smallest_difference
from ..evaluation.earlier import Evaluation

SHOWN = 5  # discordant questions that are shown unless more are asked for


@dataclass(frozen=True)
class Compared:
    """One run, as far as it is compared: every figure is over the shared questions alone.

    `questions` were asked for and `rows` finished, `left_out` of them not shared. `accuracy` and `f1` (None
    without span questions) are `{"value", "low", "high", "n"}` with a 95% interval. Tokens and cost in
    `usage` are those of calls really made; `seconds` is the mean of a question.
    """

    name: str
    folder: str
    questions: int
    rows: int
    left_out: int
    accuracy: dict[str, float]
    f1: dict[str, float] | None
    errors: int
    unreadable: int
    usage: UsageFields
    seconds: float

    @property
    def failed(self) -> bool:
        """Whether so many of the compared questions failed that the scores are not the program's."""
        return mostly_failed(self.errors, round(self.accuracy["n"]))


@dataclass(frozen=True)
class Pair:
    """One run against another. Differences are `a` minus `b`, in 0 … 1, with a 95% paired bootstrap interval.

    `p` is McNemar's exact test, `p_adjusted` the same after Holm's correction over all pairs compared. The
    effect size is `odds`, the odds ratio of the discordant questions (`only_a` over `only_b`, the ids of
    those that only one of them answered right) with its exact interval. `f1` is the difference in F1 over
    span questions, None without any. Ratios are a's over b's, None where b's is zero or unknown: `call_ratio`
    over all `n` questions; tokens, cost and seconds over the `paid` ones, on which neither run had an answer
    from a record or cache. `failed_a` and `failed_b` of the questions failed and count as wrong; from half of
    them up the figures are about the failure, and there is no verdict.
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
    odds: Odds
    f1: Difference | None
    call_ratio: float | None
    paid: int
    token_ratio: float | None
    cost_ratio: float | None
    seconds_ratio: float | None
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    failed_a: int = 0
    failed_b: int = 0

    @property
    def failure(self) -> str | None:
        """Which of the two failed, and what to do; None while there is a verdict. Without a full stop."""
        runs = ((self.b, self.failed_b), (self.a, self.failed_a))
        return "; ".join(filter(None, (run_failed(run, n, self.n) for run, n in runs))) or None

    @property
    def smallest(self) -> float:
        """The smallest true difference (0 … 1) that as many questions, as often discordant, show at 80%
        power; 1 where they are too few to show any."""
        discordant = (len(self.only_a) + len(self.only_b)) / self.n
        return smallest_difference(self.n, max(discordant, 1 / self.n))

    @property
    def verdict(self) -> str:
        """The outcome in a sentence, no bolder than the interval allows."""
        if self.failure is not None:
            return f"No verdict on {self.a} and {self.b}: {self.failure}."
        points, low, high = (100 * value for value in (self.difference, self.low, self.high))
        gap = f"{abs(points):.1f} points (95% interval {low:+.1f} to {high:+.1f}, n = {self.n})"
        if self.p_adjusted < 0.05 and self.low > 0:
            return f"{self.a} beats {self.b} by {gap}."
        if self.p_adjusted < 0.05 and self.high < 0:
            return f"{self.a} does worse than {self.b} by {gap}."
        found = (
            f"{points:+.1f} points (95% interval {low:+.1f} to {high:+.1f})"
            if self.only_a or self.only_b
            else "no question was right in only one of the two"
        )
        unseen = (
            f"differences under about {100 * self.smallest:.0f} points go unseen"
            if self.smallest < 1
            else "so few questions can show no difference at all"
        )
        return f"No difference between {self.a} and {self.b} is shown: {found}; with n = {self.n}, {unseen}."

    def to_dict(self) -> dict[str, Any]:
        """As JSON: tuples by name, and an odds ratio without a finite value as null."""
        odds = {key: value if math.isfinite(value) else None for key, value in self.odds._asdict().items()}
        f1 = self.f1._asdict() if self.f1 else None
        return {**asdict(self), "odds": odds, "f1": f1, "verdict": self.verdict}


class Comparison(Sequence[Pair]):
    """Runs compared over their shared questions: a sequence of pairs, the reference as `b` in each.

    `runs` has every run, the reference first; `notes` says what the figures leave out, a sentence each.
    """

    def __init__(
        self,
        runs: Sequence[Compared],
        pairs: Sequence[Pair],
        notes: Sequence[str],
        rows: Mapping[str, Evaluation],
    ) -> None:
        self.runs = list(runs)
        self.pairs = list(pairs)
        self.notes = list(notes)
        self._rows = rows

    @property
    def names(self) -> list[str]:
        return [run.name for run in self.runs]

    @overload
    def __getitem__(self, index: int) -> Pair: ...
    @overload
    def __getitem__(self, index: slice) -> list[Pair]: ...
    def __getitem__(self, index: int | slice) -> Pair | list[Pair]:
        return self.pairs[index]

    def __len__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        return "\n".join([*(pair.verdict for pair in self.pairs), *self.notes])

    def discordant(self, pair: Pair, most: int = SHOWN) -> list[dict[str, Any]]:
        """Questions that only one of the two answered right, its two kinds in turn and in the data's order.

        Dicts with id, question, choices, gold, `right` (the name of the run that had it), `answers` by run's
        name, and `errors` by the name of the run that failed.
        """
        turns = chain.from_iterable(zip_longest(pair.only_a, pair.only_b))
        chosen = [name for name in turns if name is not None][:most]
        found: dict[str, dict[str, Any]] = {name: {} for name in chosen}
        for run in (pair.a, pair.b):
            for row in self._rows[run].rows:
                if row["id"] in found:
                    shown = found[row["id"]]
                    shown |= {key: row.get(key) for key in ("id", "question", "choices", "gold")}
                    shown["right"] = run if row["correct"] else shown.get("right")
                    shown.setdefault("answers", {})[run] = row["answer"]
                    shown.setdefault("errors", {}).update({run: row["error"]} if row["error"] else {})
        return list(found.values())

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "questions": self.pairs[0].n,
            "runs": [asdict(run) for run in self.runs],
            "pairs": [pair.to_dict() for pair in self.pairs],
            "notes": self.notes,
        }
