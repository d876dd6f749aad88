"""What a comparison of runs says: every run, every pair, a verdict in words, and where two runs
part.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, overload

from ...modules.reading.grading import ACCURACY
from ...optimizers.statistics.clusters import FEW, Clustered
from ...optimizers.statistics.statistics import Difference, Interval
from ..base.html import html_result, html_table
from ..base.wording import (
    FEWEST,
    FEWEST_EXACT,
    answers_text,
    counted,
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
from .verdict import (
    BEATS,
    BETTER,
    NOT_COMPARABLE,
    UNDECIDED,
    WORSE,
    A,
    B,
    Recommendation,
    Verdict,
    times,
)

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 5  # discordant questions that are shown unless more are asked for
MIDP, EXACT, CLUSTERS = "McNemar's mid-p", "McNemar's exact p", "cluster-robust p"
PAIRED_T = "paired t-test"
_POWER = 1.43
"""Half a 95% interval times this is seen with a power of 80%: (1.96 + 0.84) / 1.96 standard errors.
"""


@dataclass(frozen=True, repr=False)
class Pair:
    """One run against another. Differences are `a` minus `b`, in 0 … 1, with a 95% paired bootstrap
    interval.

    Right and wrong answers (`is_rate`) are tested as such, where a question has one answer. Where
    it has several, its score is the mean over these repeats: `test` is the paired t-test of those
    means, low and high are the ends of its interval, `only_a` and `only_b` are the questions on
    which one scores higher, and they are not `right_or_wrong`. So it is with other scores, but
    `difference` is one of means in the unit of their `metric`, and there are no accuracies.

    `outcome` is `a` or `b` for the better one, `undecided`, or `not_comparable`; `notes` say what
    keeps a verdict off and what else than the programs differs, a sentence each. `p` is that of
    `test`: McNemar's mid-p or exact test or, with `clustered`, the cluster-robust one over
    `clusters` of that field of `meta`; `p_adjusted` is the same after Holm's correction over all
    pairs compared. `only_a` and `only_b` are the ids of questions that only one of them answered
    right. `f1` is the difference in F1 over span questions, None without any. Ratios are a's
    over b's, None where b's is zero or unknown: `call_ratio` over all `n` questions; tokens, cost
    and seconds over the `paid` ones, on which neither run had an answer from a record or cache, and
    all ratios are of single answers, of which questions have `repeats_a` and `repeats_b` on
    average. `failed_a` and `failed_b` of the answers failed and count as wrong; from half of them
    up the figures are about the failure, and there is no verdict. Nor is there one with an `unread`
    cause: answers that could not be read are above 5% of a run, or could undo the difference.
    `price_a` and `price_b` are what a and b take per question in `price_unit`, the one that the
    whole comparison goes by (None: not known).
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
    metric: str = ACCURACY
    is_rate: bool = True
    other_metric: str = ""
    judged: str = ""
    repeats_a: float = 1.0
    repeats_b: float = 1.0
    price_a: float | None = None
    price_b: float | None = None
    price_unit: str = ""

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
        return "right" if self.right_or_wrong else "answered better"

    @property
    def unit(self) -> str:
        """What follows such an amount."""
        return difference_unit(self.is_rate, self.metric)

    @property
    def failure(self) -> str | None:
        """Which of the two failed, and what to do; None while there is a verdict. Without a full
        stop.
        """
        runs = ((self.b, self.failed_b, self.repeats_b), (self.a, self.failed_a, self.repeats_a))
        said = (run_failed(run, n, round(repeats * self.n), self.n) for run, n, repeats in runs)
        return "; ".join(filter(None, said)) or None

    @property
    def cause(self) -> str:
        """Why there is no verdict, and what to do; empty while there is one. Without a full
        stop.
        """
        return self.failure or self.other_metric or self.unread

    @property
    def interval(self) -> Interval:
        """The interval that the verdict goes by: over new clusters where there are any."""
        known = self if self.clustered is None else self.clustered
        return Interval(known.low, known.high)

    @property
    def outcome(self) -> str:
        if self.cause:
            return NOT_COMPARABLE
        low, high = self.interval
        if self.p_adjusted < SURE and (low > 0 or high < 0):
            return A if low > 0 else B
        return UNDECIDED

    @property
    def worth(self) -> str:
        """What the outcome and the two prices say together of a beside b."""
        if self.outcome not in (A, B):
            return "no verdict" if self.cause else UNDECIDED
        better = self.outcome == A
        if self.price_a is None or self.price_b is None:
            return f"{'better' if better else 'worse'}, price unknown"
        if better:
            return "better, dearer" if self.price_a > self.price_b else "worth it"
        return "worse, cheaper" if self.price_a < self.price_b else "not worth it"

    @property
    def notes(self) -> list[str]:
        differ = (
            f"{self.a} and {self.b} differ in {' and '.join(self.confounds)}"
            if self.confounds
            else ""
        )
        notes = [f"{note}." for note in (self.cause, differ, self.judged) if note]
        return notes + ([self.few_clusters] if self.few_clusters else [])

    @property
    def few_clusters(self) -> str:
        """A warning where there are too few clusters; empty where there are enough, or none."""
        if self.clustered is None or self.clustered.clusters >= FEW:
            return ""
        return (
            f"There are only {self.clustered.clusters} clusters of {self.cluster}: below {FEW} "
            f"the interval "
            "for new ones is too narrow."
        )

    @property
    def smallest(self) -> float:
        """The smallest true difference (0 … 1) that as many questions, as often discordant, show at
        80% power; 1 where they are too few to show any. Of scores: as widely spread; infinite where
        unknown.
        """
        if self.clustered is not None and self.clustered.high > self.clustered.low:
            found = _POWER * (self.clustered.high - self.clustered.low) / 2
            return min(1.0, found) if self.is_rate else found
        if not self.right_or_wrong:
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
            f"{said} for these clusters of {self.cluster}, {self.amount(low)} to "
            f"{self.amount(high)} for "
            f"new ones, {self.clustered.clusters} clusters"
        )

    @property
    def headline(self) -> str:
        """The outcome in a few words, without a full stop."""
        if self.cause:
            return f"No verdict on {self.a} and {self.b}: {self.cause}"
        if self.outcome != UNDECIDED:
            return f"{self.a} {'beats' if self.outcome == A else 'does worse than'} {self.b}"
        if not self.difference:
            return f"{self.a} and {self.b} are level so far, undecided"
        return f"{self.a if self.difference > 0 else self.b} is ahead so far, undecided"

    @property
    def figures(self) -> str:
        """Both scores and their difference with its interval; where nothing is shown, the leader's
        first.
        """
        scores, ends = [self.score_a, self.score_b], [self.difference, *self.interval]
        if self.outcome == UNDECIDED and self.difference < 0:
            scores, ends = scores[::-1], [-ends[0], -ends[2], -ends[1]]
        first, second = (
            f"{100 * score:.1f}".removesuffix(".0") + "%" if self.is_rate else f"{score:.3g}"
            for score in scores
        )
        scores_text = f"{first} against {second} on {counted(self.n, 'question')}"
        if not self.only_a and not self.only_b:
            return f"{scores_text}: no question was {self.did_well} in only one of the two"
        difference, low, high = map(self._short, ends)
        new = f" for new clusters of {self.cluster}" if self.clustered else ""
        text = f"{scores_text}: {difference}{self.unit}, 95% interval {low} to {high}{new}"
        if self.outcome != UNDECIDED or self.interval.low <= 0 <= self.interval.high:
            return text
        pairs = " over all pairs" if self.p_adjusted != self.p else ""
        return f"{text}, but p = {self.p_adjusted:.2g}{pairs}"

    def _short(self, value: float) -> str:
        """A signed difference without a decimal that is 0."""
        return (
            self.amount(round(value, 3) + 0.0).removesuffix(".0")
            if self.is_rate
            else self.amount(value)
        )

    @property
    def details(self) -> str:
        """The figures, what so many questions can show, and what else than the programs differs."""
        sentences = [f"{self.figures}."]
        if self.outcome == UNDECIDED:
            up = f"show differences from about {self.detectable} up" if self.detectable else ""
            sentences.append(
                f"{counted(self.n, 'question')} {up or 'can show no difference at all'}."
            )
        if self.confounds:
            sentences.append(f"But they differ in {' and '.join(self.confounds)}.")
        return " ".join([*sentences, *([f"{self.judged}."] if self.judged else [])])

    @property
    def verdict(self) -> str:
        """The outcome in plain figures, no bolder than the interval allows, with what else
        differs.
        """
        if self.cause:
            return f"{self.headline}."
        if self.outcome != UNDECIDED or not self.difference:
            return f"{self.headline}: {self.details}"
        return (
            f"{self.headline}. Beside {self.b if self.difference > 0 else self.a}: {self.details}"
        )

    @property
    def sure(self) -> str:
        """The interval, the test and what it says, for those who want to know."""
        if self.cause:
            return "Not known: failed and unreadable answers count as wrong, and are no evidence."
        if not self.only_a and not self.only_b:
            return f"No question was {self.did_well} in only one of the two, n = {self.n:,}."
        corrected = " after Holm's correction" if self.p_adjusted != self.p else ""
        p = "below 0.001" if self.p_adjusted < 0.001 else f"{self.p_adjusted:.2g}"
        interval = f"{self.a} less {self.b}: {self.spread}{self.unit}"
        return f"{interval}; {self.test}{corrected} is {p}, n = {self.n:,}."

    @property
    def price(self) -> str:
        """What a takes beside b, by what *cheapest* goes by, and what a further right
        answer takes.
        """
        if self.price_a is None or self.price_b is None:
            return f"What {self.a} takes beside {self.b} is not known."
        text = f"{self.price_a:,.4g} {self.price_unit} per question against {self.price_b:,.4g}"
        if self.price_b:
            text += f", {times(self.price_a / self.price_b)} the price of {self.b}"
        if self.outcome != A or not self.is_rate or self.price_a <= self.price_b:
            return f"{text}."
        more = (self.price_a - self.price_b) / self.difference
        return f"{text}. Each further right answer takes {more:,.4g} {self.price_unit} more."

    def to_dict(self) -> dict[str, Any]:
        """As JSON: tuples by name."""
        named = {
            key: None if value is None else value._asdict()
            for key, value in (("f1", self.f1), ("clustered", self.clustered))
        }
        said = {
            "outcome": self.outcome,
            "worth": self.worth,
            "notes": self.notes,
            "verdict": self.verdict,
        }
        accuracies = {"accuracy_a": self.accuracy_a, "accuracy_b": self.accuracy_b}
        unknown = dict.fromkeys(
            ("difference", "low", "high", "p", "p_adjusted") if self.other_metric else ()
        )
        return {**asdict(self), **accuracies, **named, **unknown, **said}

    def __repr__(self) -> str:
        return f"Pair({self.verdict})"

    def _repr_html_(self) -> str:
        return html_result(
            f"{self.a} against {self.b}", {"verdict": self.verdict}, _pairs_table([self])
        )


class Comparison(Sequence[Pair]):
    """Runs compared over their shared questions: a sequence of all pairs.

    First come those of the others, as `a`, against the reference, as `b`; then those among the
    others. `runs` has every run, the reference first; `verdict` is what they come to, and every
    sentence and plot rests on it; `notes` says what the figures leave out, a sentence each; `panel`
    (whether a majority vote of some runs beats the best of them) is None where fewer than three can
    vote.
    """

    runs: list[Compared]
    pairs: list[Pair]
    verdict: Verdict
    notes: list[str]
    panel: Panel | None

    def __init__(
        self,
        runs: Sequence[Compared],
        pairs: Sequence[Pair],
        verdict: Verdict,
        notes: Sequence[str],
        rows: Mapping[str, Evaluation],
        panel: Panel | None = None,
    ) -> None:
        self.runs = list(runs)
        self.pairs = list(pairs)
        self.verdict = verdict
        self.notes = list(notes)
        self._rows = rows
        self.panel = panel

    @property
    def against(self) -> list[Pair]:
        """The pairs of the others against the reference, in their order."""
        return self.pairs[: len(self.runs) - 1]

    @property
    def recommendation(self) -> Recommendation | None:
        """Which program to take: the cheapest that nothing is shown to beat."""
        return self.verdict.recommendation

    @property
    def lead(self) -> Pair | None:
        """The pair that the headline is about; None where several others are all worse, or none is
        judged.
        """
        judged = [pair for pair in self.against if not pair.cause]
        if len(judged) < 2 and len(judged or self.against) == 1:
            return (judged or self.against)[0]
        lead = next((pair for pair in judged if pair.a == self.verdict.subject), None)
        return lead if self.verdict.outcome != WORSE else None

    @property
    def headline(self) -> str:
        """What is shown beside the reference, in plain figures."""
        reference, others, lead = self.runs[0].name, len(self.against), self.lead
        if lead is not None and self.verdict.outcome in (BETTER, BEATS):
            return self._beaten(lead)
        if lead is not None:
            nothing = others > 1 and self.verdict.outcome == UNDECIDED
            return f"{f'Nothing is shown to beat {reference}. ' if nothing else ''}{lead.verdict}"
        if self.verdict.outcome == NOT_COMPARABLE:
            return f"No verdict on any of the {others} others beside {reference}."
        worse = len([pair for pair in self.against if not pair.cause])
        judged = "" if worse == others else " that can be compared"
        return f"Nothing here is as good as {reference}: all {worse} others{judged} do worse."

    def _beaten(self, lead: Pair) -> str:
        """What the subject beats, and which of the rivals of a team it does not beat or has not
        met.
        """
        verdict, recommendation = self.verdict, self.recommendation
        beaten: list[str] = []
        unshown: list[str] = []
        unmet: list[str] = []
        for kind, names in verdict.rivals.items():
            left = [name for name in names if name not in verdict.beaten]
            text = kind if names in ([], [lead.b]) else f"{kind} ({', '.join(left or names)})"
            (unmet if not names else unshown if left else beaten).append(text)
        chosen = recommendation.run if recommendation else lead.a
        if chosen != lead.a and not any(chosen in names for names in verdict.rivals.values()):
            unshown.append(chosen)
        if not verdict.rivals and not unshown:
            return lead.verdict
        text = f"{lead.a} {'is better: it ' if verdict.outcome == BETTER else ''}beats "
        text += " and ".join(beaten) or lead.b
        text += f", but is not shown to beat {' or '.join(unshown)}" if unshown else ""
        text += f"; not yet tried against {' or '.join(unmet)}" if unmet else ""
        if verdict.rival_usd is not None:
            text += (
                f" (about {verdict.rival_usd:{',.0f' if verdict.rival_usd >= 10 else '.2g'}} USD)"
            )
        text += f". Beside {lead.b}: {lead.details}"
        asked = list(verdict.rivals.values())[-1:] != [[]]
        return text if asked else f"{text} folkmoot compare RUN --match-budget asks it k times."

    @property
    def said(self) -> list[str]:
        """The headline, which program to take, whether a vote of some runs would be better, and
        each other run beside the reference whose figures alone would mislead.
        """
        more = [self.recommendation.sentence] if self.recommendation else []
        more += [self.panel.sentence] if self.panel else []
        others = (
            [pair for pair in self.against if pair is not self.lead] if len(self.runs) > 2 else []
        )
        more += [pair.verdict for pair in others if pair.cause or pair.confounds or pair.judged]
        return [self.headline, *more]

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
        """A row a pair: what `Pair.to_dict` says, nested names joined by a dot, such as
        `f1.difference`.
        """
        import pandas as pd

        return pd.json_normalize([pair.to_dict() for pair in self.pairs])

    def discordant(self, pair: Pair, most: int = SHOWN) -> list[dict[str, Any]]:
        """Questions that only one of the two answered right, its two kinds in turn and in the
        data's order.

        Dicts with id, question, choices, gold, `right` (the name of the run that had it, or did
        better), `answers` by run's name, in one text where a question has several, and `errors` by
        the name of the run that failed.
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
                    shown.setdefault("errors", {}).update(
                        {run: row["error"]} if row["error"] else {}
                    )
        for (name, run), texts in answers.items():
            found[name]["answers"][run] = answers_text(texts)
        return list(found.values())

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON."""
        return {
            "questions": self.pairs[0].n,
            "runs": [run.to_dict() for run in self.runs],
            "pairs": [pair.to_dict() for pair in self.pairs],
            "verdict": self.verdict.to_dict() | {"headline": self.headline},
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
