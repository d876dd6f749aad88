"""One run compared with another: scores, difference, test, prices, and why there is no verdict."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from ...modules.reading.grading import ACCURACY
from ...modules.statistics.clusters import Clustered
from ...modules.statistics.statistics import Difference, Interval
from ..runs.caveats import FEWEST, FEWEST_EXACT, smallest_difference
from .compared import SURE
from .verdict import NOT_COMPARABLE, UNDECIDED, A, B
from .words import Sentence, say

MIDP, EXACT, CLUSTERS = "McNemar's mid-p", "McNemar's exact p", "cluster-robust p"
PAIRED_T = "paired t-test"

_POWER = 1.43
"""A difference of half a 95% interval times this factor is detected with 80% power: (1.96 + 0.84) /
1.96.
"""


def shown_by(difference: Interval) -> str:
    """Return the outcome that an interval of a difference shows."""
    if difference.low > 0:
        return A
    if difference.high < 0:
        return B
    return UNDECIDED


@dataclass(frozen=True, repr=False)
class Pair:
    """One run, `a`, against another, `b`. Differences are `a` minus `b`.

    Attributes:
        n: the number of questions.
        score_a, score_b: mean scores, 0 to 1 where answers are right or wrong (`is_rate`).
        difference, low, high: of the scores, with its 95% interval: Tango's, or Student's for other
            scores and means over repeats.
        p: of `test`: McNemar's where each question is right or wrong in both (`right_or_wrong`),
            else the paired t-test, or with `clustered` the cluster-robust test.
        p_adjusted: p after Holm's correction over all pairs.
        f1: the difference in F1 over span questions, or None.
        call_ratio, token_ratio, cost_ratio, seconds_ratio: usage per answer, a's by b's, with
            cached answers at their price, or None.
        only_a, only_b: ids of the questions that only one had right, or better.
        cluster, clustered: the field of `meta` by which questions belong together, and the
            difference over these clusters, which decides.
        failure, other_metric, unread: reasons why there is no verdict.
        confounds: what differs beside the programs.
        unchecked_judge: whether an LM graded that was not checked against people.
        price_a, price_b: the price per question of each in `price_unit`, or None.
        margin, least: the difference that does not matter, and its lower bound, or None.
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
    right_or_wrong: bool
    f1: Difference | None
    call_ratio: float | None
    token_ratio: float | None
    cost_ratio: float | None
    seconds_ratio: float | None
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    test: str = MIDP
    cluster: str | None = None
    clustered: Clustered | None = None
    failure: str = ""
    other_metric: str = ""
    unread: str = ""
    confounds: tuple[str, ...] = ()
    metric: str = ACCURACY
    is_rate: bool = True
    unchecked_judge: bool = False
    price_a: float | None = None
    price_b: float | None = None
    price_unit: str = ""
    margin: float | None = None
    least: float | None = None

    @property
    def accuracy_a(self) -> float | None:
        if not self.is_rate:
            return None
        return self.score_a

    @property
    def accuracy_b(self) -> float | None:
        if not self.is_rate:
            return None
        return self.score_b

    @property
    def cause(self) -> str:
        """Why there is no verdict; empty where there is one."""
        return self.failure or self.other_metric or self.unread

    @property
    def interval(self) -> Interval:
        """The interval that decides; it reaches 0 where the corrected test shows nothing."""
        deciding = self.clustered or self
        low, high = deciding.low, deciding.high
        # Test and interval are computed differently: if the test shows nothing, the interval must
        # not exclude 0.
        if self.p_adjusted >= SURE:
            low, high = min(low, 0.0), max(high, 0.0)
        return Interval(low, high)

    @property
    def outcome(self) -> str:
        """`a` or `b`, whichever is shown to be better, `undecided`, or `not_comparable`."""
        if self.cause:
            return NOT_COMPARABLE
        return shown_by(self.interval)

    @property
    def f1_outcome(self) -> str:
        """The outcome in F1, which has no test of its own: its interval decides."""
        if self.cause or self.f1 is None:
            return NOT_COMPARABLE
        return shown_by(Interval(self.f1.low, self.f1.high))

    @property
    def won(self) -> tuple[str, str] | None:
        """The better run and the other one, or None."""
        return {A: (self.a, self.b), B: (self.b, self.a)}.get(self.outcome)

    @property
    def no_worse(self) -> bool | None:
        """Whether a is shown to be at most `margin` worse than b, or None."""
        if self.margin is None or self.least is None or self.cause:
            return None
        return self.least > -self.margin

    @property
    def worth(self) -> str:
        """The outcome and the two prices together, in a word or two."""
        outcome = self.outcome
        if outcome not in (A, B):
            return {NOT_COMPARABLE: "no verdict"}.get(outcome, outcome)
        if self.price_a is None or self.price_b is None:
            return {A: "better, price unknown", B: "worse, price unknown"}[outcome]
        if outcome == A and self.price_a > self.price_b:
            return "better, dearer"
        if outcome == A:
            return "worth it"
        if self.price_a < self.price_b:
            return "worse, cheaper"
        return "not worth it"

    @property
    def smallest(self) -> float:
        """The smallest true difference (0 … 1) that this many questions show with 80% power."""
        if self.clustered is None and self.right_or_wrong:
            discordant = (len(self.only_a) + len(self.only_b)) / self.n
            fewest = {EXACT: FEWEST_EXACT}.get(self.test, FEWEST)
            # At least one is assumed, since seeing no discordant pair does not mean there are none.
            return smallest_difference(self.n, max(discordant, 1 / self.n), fewest)
        low, high = self.interval
        # If all clusters differ by the same, their interval has no width.
        if low == high:
            low, high = self.low, self.high
        if low == high:
            return self.largest
        return min(self.largest, _POWER * (high - low) / 2)

    @property
    def largest(self) -> float:
        """The largest possible difference."""
        if self.is_rate:
            return 1.0
        return math.inf

    # Words

    headline = Sentence("pair_headline", "The outcome in a few words, without a full stop.")
    figures = Sentence(
        "figures", "Both scores and their difference with its interval, without a full stop."
    )
    verdict = Sentence("pair_verdict", "The outcome in figures.")
    sure = Sentence("sure", "The interval, the test and what it shows.")
    price = Sentence("price", "The price of a compared with that of b.")
    no_worse_words = Sentence(
        "no_worse", "Whether a is shown to be at most the margin worse; empty where nobody asked."
    )
    few_clusters = Sentence(
        "few_clusters",
        "A warning where there are too few clusters; empty where there are enough, or none.",
    )

    @property
    def notes(self) -> list[str]:
        """Why there is no verdict, and what differs other than the programs."""
        names = ("cause", "confounds", "unchecked_judge", "few_clusters")
        return list(filter(None, [say(name, self) for name in names]))

    def to_dict(self) -> dict[str, object]:
        """Return the pair as JSON; figures of runs with different metrics are null."""
        fields = asdict(self) | {
            "f1": self.f1 and self.f1._asdict(),
            "clustered": self.clustered and self.clustered._asdict(),
        }
        # The deciding interval, since that of the scores may contradict the corrected test.
        if self.clustered is None:
            fields |= self.interval._asdict()
        if self.other_metric:
            fields |= dict.fromkeys(("difference", "low", "high", "p", "p_adjusted"))
        for words in (
            *("accuracy_a", "accuracy_b", "outcome", "no_worse"),
            *("worth", "notes", "verdict"),
        ):
            fields[words] = getattr(self, words)
        return fields

    def __repr__(self) -> str:
        return f"Pair({self.verdict})"
