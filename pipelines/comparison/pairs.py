"""What a comparison of runs says: every run, every pair, a verdict in words, and where two runs part."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, overload

from ...modules.reading.grading import ACCURACY
from ...optimizers.statistics.clusters import FEW, Clustered
from ...optimizers.statistics.statistics import Difference, Interval, Odds
from ..base.html import html_result, html_table
from ..base.wording import (
    FEWEST,
    FEWEST_EXACT,
    answers_text,
    difference_text,
    difference_unit,
    percent,
    run_failed,
    smallest_difference,
    used,
)
from ..evaluation.earlier import Evaluation
from .compared import SURE, Compared
from .panel import Panel
from .recommend import Recommendation

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 5  # discordant questions that are shown unless more are asked for
A, B, UNDECIDED, NOT_COMPARABLE = "a", "b", "undecided", "not_comparable"
MIDP, EXACT, CLUSTERS = "McNemar's mid-p", "McNemar's exact p", "cluster-robust p"
PAIRED_T = "paired t-test"
_POWER = 1.43
"""Half a 95% interval times this is seen with a power of 80%: (1.96 + 0.84) / 1.96 standard errors."""


@dataclass(frozen=True, repr=False)
class Pair:
    """One run against another. Differences are `a` minus `b`, in 0 … 1, with a 95% paired bootstrap interval.

    Right and wrong answers (`is_rate`) are tested as such, where a question has one answer. Where it has
    several, its score is the mean over these repeats: `test` is the paired t-test of those means, low and
    high are the ends of its interval, `only_a` and `only_b` are the questions on which one scores higher, and
    there are no `odds`. So it is with other scores, but `difference` is one of means in the unit of their
    `metric`, and there are no accuracies.

    `outcome` is `a` or `b` for the better one, `undecided`, or `not_comparable`; `notes` say what keeps a
    verdict off and what else than the programs differs, a sentence each. `p` is that of `test`: McNemar's
    mid-p or exact test or, with `clustered`, the cluster-robust one over `clusters` of that field of `meta`;
    `p_adjusted` is the same after Holm's correction over all pairs compared. The effect size is `odds`, the
    odds ratio of the discordant questions (`only_a` over `only_b`, the ids of those that only one of them
    answered right) with its interval by the same test. `f1` is the difference in F1 over span questions, None
    without any. Ratios are a's over b's, None where b's is zero or unknown: `call_ratio` over all `n`
    questions; tokens, cost and seconds over the `paid` ones, on which neither run had an answer from a record
    or cache, and all ratios are of single answers, of which questions have `repeats_a` and `repeats_b` on
    average. `failed_a` and `failed_b` of the answers failed and count as wrong; from half of them up the
    figures are about the failure, and there is no verdict. Nor is there one with an `unread` cause: answers
    that could not be read are above 5% of a run, or could undo the difference.
    """

    a: str
    b: str
    n: int
    score_a: float
    score_b: float
    difference: float
    low: float
    high: float
    p: float
    p_adjusted: float
    odds: Odds | None
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
    test: str = MIDP
    cluster: str | None = None
    clustered: Clustered | None = None
    unread: str = ""
    confounds: tuple[str, ...] = ()
    opponent: str = ""
    metric: str = ACCURACY
    is_rate: bool = True
    other_metric: str = ""
    judged: str = ""
    repeats_a: float = 1.0
    repeats_b: float = 1.0

    @property
    def accuracy_a(self) -> float | None:
        return self.score_a if self.is_rate else None

    @property
    def accuracy_b(self) -> float | None:
        return self.score_b if self.is_rate else None

    def amount(self, value: float, form: str = "+.1f") -> str:
        """A difference as it is written: a rate's in points, a score's in its own unit."""
        return difference_text(value, self.is_rate, form)

    def amounts(self, low: float, high: float) -> str:
        """The difference with the ends of an interval."""
        return f"{self.amount(self.difference)} [{self.amount(low)}, {self.amount(high)}]"

    def only_of(self, run: str) -> tuple[str, ...]:
        """The questions on which that one of the two did better."""
        return self.only_a if run == self.a else self.only_b

    @property
    def did_well(self) -> str:
        """What an answer is that only one of the two has."""
        return "answered better" if self.odds is None else "right"

    @property
    def unit(self) -> str:
        """What follows such an amount."""
        return difference_unit(self.is_rate, self.metric)

    @property
    def failure(self) -> str | None:
        """Which of the two failed, and what to do; None while there is a verdict. Without a full stop."""
        runs = ((self.b, self.failed_b, self.repeats_b), (self.a, self.failed_a, self.repeats_a))
        said = (run_failed(run, n, round(repeats * self.n), self.n) for run, n, repeats in runs)
        return "; ".join(filter(None, said)) or None

    @property
    def interval(self) -> Interval:
        """The interval that the verdict goes by: over new clusters where there are any."""
        known = self if self.clustered is None else self.clustered
        return Interval(known.low, known.high)

    @property
    def outcome(self) -> str:
        if self.failure is not None or self.unread or self.other_metric:
            return NOT_COMPARABLE
        low, high = self.interval
        if self.p_adjusted < SURE and (low > 0 or high < 0):
            return A if low > 0 else B
        return UNDECIDED

    @property
    def differ(self) -> str:
        """What else than the programs differs, as the end of a sentence; empty where nothing does."""
        return f"but they differ in {' and '.join(self.confounds)}" if self.confounds else ""

    @property
    def notes(self) -> list[str]:
        found = [cause for cause in (self.other_metric, self.unread) if cause]
        if self.confounds:
            found.append(f"{self.a} and {self.b} differ in {' and '.join(self.confounds)}")
        found += [more for more in (self.opponent, self.judged) if more]
        return [f"{note}." for note in found] + ([self.few_clusters] if self.few_clusters else [])

    @property
    def few_clusters(self) -> str:
        """A warning where there are too few clusters; empty where there are enough, or none."""
        if self.clustered is None or self.clustered.clusters >= FEW:
            return ""
        return (
            f"There are only {self.clustered.clusters} clusters of {self.cluster}: below {FEW} the interval "
            "for new ones is too narrow."
        )

    @property
    def smallest(self) -> float:
        """The smallest true difference (0 … 1) that as many questions, as often discordant, show at 80%
        power; 1 where they are too few to show any. Of scores: as widely spread; infinite where unknown."""
        if self.clustered is not None and self.clustered.high > self.clustered.low:
            found = _POWER * (self.clustered.high - self.clustered.low) / 2
            return min(1.0, found) if self.is_rate else found
        if self.odds is None:
            found = _POWER * (self.high - self.low) / 2 if self.high > self.low else math.inf
            return min(1.0, found) if self.is_rate else found
        discordant = (len(self.only_a) + len(self.only_b)) / self.n
        fewest = FEWEST_EXACT if self.test == EXACT else FEWEST
        return smallest_difference(self.n, max(discordant, 1 / self.n), fewest)

    @property
    def detectable(self) -> str:
        """The smallest difference that can be seen, in words; empty where none can."""
        if self.smallest >= (1 if self.is_rate else math.inf):
            return ""
        return f"{self.amount(self.smallest, '.0f' if self.is_rate else '.2g')}{self.unit}"

    @property
    def spread(self) -> str:
        """The 95% interval in words, of these clusters and of new ones where there are any."""
        said = f"95% interval {self.amount(self.low)} to {self.amount(self.high)}"
        if self.clustered is None:
            return said
        low, high = self.interval
        return (
            f"{said} for these clusters of {self.cluster}, {self.amount(low)} to {self.amount(high)} for "
            f"new ones, {self.clustered.clusters} clusters"
        )

    @property
    def headline(self) -> str:
        """Which of the two is better, and by how much, where one is."""
        beats = "beats" if self.difference > 0 else "does worse than"
        return f"{self.a} {beats} {self.b} by {self.amount(abs(self.difference), '.1f')}{self.unit}"

    @property
    def verdict(self) -> str:
        """The outcome in a sentence, no bolder than the interval allows, with what else differs."""
        if self.failure is not None:
            return f"No verdict on {self.a} and {self.b}: {self.failure}."
        if self.other_metric:
            return f"No verdict on {self.a} and {self.b}: {self.other_metric}."
        if self.unread:
            return f"{self.unread}. There is no verdict on {self.a} and {self.b}."
        differ = f" {self.differ[:1].upper()}{self.differ[1:]}." if self.differ else ""
        differ += "".join(f" {more}." for more in (self.opponent, self.judged) if more)
        if self.outcome != UNDECIDED:
            return f"{self.headline} ({self.spread}, n = {self.n}).{differ}"
        low, high = self.interval
        corrected = " after Holm's correction" if self.p_adjusted != self.p else ""
        doubt = f", but p = {self.p_adjusted:.2g}{corrected}" if low > 0 or high < 0 else ""
        found = (
            f"{self.amount(self.difference)}{self.unit} ({self.spread}{doubt})"
            if self.only_a or self.only_b
            else f"no question was {self.did_well} in only one of the two"
        )
        unseen = (
            f"differences under about {self.detectable} go unseen"
            if self.detectable
            else "so few questions can show no difference at all"
        )
        return (
            f"No difference between {self.a} and {self.b} is shown: {found}; with n = {self.n}, {unseen}."
            f"{differ}"
        )

    def to_dict(self) -> dict[str, Any]:
        """As JSON: tuples by name, and an odds ratio without a finite value as null."""
        known = {} if self.odds is None else self.odds._asdict()
        odds = {key: value if math.isfinite(value) else None for key, value in known.items()} or None
        named = {
            key: None if value is None else value._asdict()
            for key, value in (("f1", self.f1), ("clustered", self.clustered))
        }
        said = {"outcome": self.outcome, "notes": self.notes, "verdict": self.verdict}
        accuracies = {"accuracy_a": self.accuracy_a, "accuracy_b": self.accuracy_b}
        unknown = dict.fromkeys(("difference", "low", "high", "p", "p_adjusted") if self.other_metric else ())
        return {**asdict(self), **accuracies, "odds": odds, **named, **unknown, **said}

    def __repr__(self) -> str:
        return f"Pair({self.verdict})"

    def _repr_html_(self) -> str:
        return html_result(f"{self.a} against {self.b}", {"verdict": self.verdict}, _pairs_table([self]))


class Comparison(Sequence[Pair]):
    """Runs compared over their shared questions: a sequence of all pairs.

    First come those of the others, as `a`, against the reference, as `b`; then those among the others.
    `runs` has every run, the reference first; `notes` says what the figures leave out, a sentence each;
    `recommendation` is None where fewer than two runs can be judged, `panel` (whether a majority vote of some
    runs beats the best of them) where fewer than three can vote.
    """

    runs: list[Compared]
    pairs: list[Pair]
    notes: list[str]
    recommendation: Recommendation | None
    panel: Panel | None

    def __init__(
        self,
        runs: Sequence[Compared],
        pairs: Sequence[Pair],
        notes: Sequence[str],
        rows: Mapping[str, Evaluation],
        recommendation: Recommendation | None = None,
        panel: Panel | None = None,
    ) -> None:
        self.runs = list(runs)
        self.pairs = list(pairs)
        self.notes = list(notes)
        self._rows = rows
        self.recommendation = recommendation
        self.panel = panel

    @property
    def against(self) -> list[Pair]:
        """The pairs of the others against the reference, in their order."""
        return self.pairs[: len(self.runs) - 1]

    @property
    def said(self) -> list[str]:
        """The verdict on each pair, the recommendation, and whether a vote of some runs would be better."""
        more = [self.recommendation.sentence] if self.recommendation else []
        more += [self.panel.sentence] if self.panel else []
        return [*(pair.verdict for pair in self.pairs), *more]

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
        return "\n".join([*self.said, *self.notes])

    def _repr_html_(self) -> str:
        columns = ["", self.runs[0].metric, "questions", "errors", "unreadable", "used"]
        runs = [
            [
                run.name,
                percent(run.score),
                int(run.score["n"]),
                run.errors,
                run.unreadable,
                used(run.usage),
            ]
            for run in self.runs
        ]
        said = {str(number): line for number, line in enumerate([*self.said, *self.notes], 1)}
        return html_result("Comparison", said, html_table(columns, runs), _pairs_table(self.pairs))

    def to_pandas(self) -> pd.DataFrame:
        """A row a pair: what `Pair.to_dict` says, nested names joined by a dot, such as `odds.ratio`."""
        import pandas as pd

        return pd.json_normalize([pair.to_dict() for pair in self.pairs])

    def discordant(self, pair: Pair, most: int = SHOWN) -> list[dict[str, Any]]:
        """Questions that only one of the two answered right, its two kinds in turn and in the data's order.

        Dicts with id, question, choices, gold, `right` (the name of the run that had it, or did better),
        `answers` by run's name, in one text where a question has several, and `errors` by the name of the run
        that failed.
        """
        turns = chain.from_iterable(zip_longest(pair.only_a, pair.only_b))
        chosen = [name for name in turns if name is not None][:most]
        found: dict[str, dict[str, Any]] = {name: {"answers": {}} for name in chosen}
        answers: defaultdict[tuple[str, str], list[str | None]] = defaultdict(list)
        for run in (pair.a, pair.b):
            for row in self._rows[run].rows:
                if row["id"] in found:
                    shown = found[row["id"]]
                    shown |= {key: row.get(key) for key in ("id", "question", "choices", "gold")}
                    shown["right"] = run if row["id"] in pair.only_of(run) else shown.get("right")
                    answers[row["id"], run].append(row["answer"])
                    shown.setdefault("errors", {}).update({run: row["error"]} if row["error"] else {})
        for (name, run), texts in answers.items():
            found[name]["answers"][run] = answers_text(texts)
        return list(found.values())

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "questions": self.pairs[0].n,
            "runs": [run.to_dict() for run in self.runs],
            "pairs": [pair.to_dict() for pair in self.pairs],
            "recommendation": self.recommendation.to_dict() if self.recommendation else None,
            "panel": self.panel.to_dict() if self.panel else None,
            "notes": self.notes,
        }


def _pairs_table(pairs: Sequence[Pair]) -> str:
    columns = ["better by points, 95%", "", "p", "p adjusted", "calls", "tokens", "cost"]
    rows = (
        [
            f"{pair.a} over {pair.b}",
            pair.amounts(pair.low, pair.high),
            *(pair.p, pair.p_adjusted),
            *(
                None if ratio is None else f"{ratio:.3g}×"
                for ratio in (pair.call_ratio, pair.token_ratio, pair.cost_ratio)
            ),
        ]
        for pair in pairs
    )
    return html_table(columns, rows)
