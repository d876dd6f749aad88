"""The verdict of a comparison: the one rule for which program to take, which all sentences and
plots use.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

from ...modules.base.errors import checked_among
from ...modules.statistics.prices import cheapest, price_unit
from .compared import Compared
from .words import Sentence

A, B, UNDECIDED, NOT_COMPARABLE = "a", "b", "undecided", "not_comparable"
BETTER, BEATS, WORSE = "better", "beats", "worse"
AGAINST = {A: BEATS, UNDECIDED: UNDECIDED, B: WORSE}
"""Outcome of a pair → the outcome of its first program against its second."""

NAMES = {"cost_usd": "US dollars", "tokens": "tokens", "calls": "calls"}

FAIL_IF = {
    "worse": (WORSE,),
    "undecided": (UNDECIDED, NOT_COMPARABLE),
    "not-better": (WORSE, UNDECIDED, NOT_COMPARABLE),
}
"""Rule of `--fail-if` → the outcomes of a verdict that fail a build."""


def check_fail_if(rule: str | None) -> None:
    """Raise UserError for a rule that `--fail-if` does not have."""
    if rule is not None:
        checked_among("verdict for --fail-if", rule, FAIL_IF)


class QuestionPrices(NamedTuple):
    """Prices of programs per question in one unit, by name; infinite where unknown."""

    unit: str
    each: dict[str, float]

    def of(self, run: str) -> float | None:
        """Return the price of a run; None where it is not known."""
        price = self.each[run]
        if math.isinf(price):
            return None
        return price


def prices_of(runs: Sequence[Compared], usable: Sequence[Compared]) -> QuestionPrices:
    """Return the prices of runs: in dollars if they are known for all usable runs, else in tokens,
    else in calls; without caches and records.
    """

    def price(run: Compared, unit: str) -> float | None:
        amounts: dict[str, float | None] = {
            "cost_usd": run.takes.cost_usd,
            "tokens": run.tokens or None,
            "calls": run.takes.calls,
        }
        spent = amounts[unit]
        if spent is None:
            return None
        return spent / max(1, run.answers - run.errors)  # failed answers have no price

    unit = price_unit(usable, price)
    each = {}
    for run in runs:
        known = price(run, unit)
        if known is None:
            known = math.inf  # so that it sorts behind all known prices
        each[run.name] = known
    return QuestionPrices(NAMES[unit], each)


class Rivals(NamedTuple):
    """The rivals that a team has to beat before it is called better: the runs of one prompt, and
    the runs of one prompt asked as often as the team's bill allows, on its own LM or on the best of
    its `lms` LMs.
    """

    one_prompt: list[str]
    k_times: list[str]
    lms: int

    @property
    def kinds(self) -> dict[str, list[str]]:
        """The runs of each kind of rival, by the kind's name."""
        who = "the best of its LMs alone," if self.lms > 1 else "one prompt"
        return {"one prompt": self.one_prompt, f"{who} asked k times": self.k_times}


@dataclass(frozen=True)
class Recommendation:
    """The program to take, `run`: the cheapest that nothing is shown to beat; of equally cheap ones
    (within 1%), the one most often right.

    `unbeaten` are all programs that nothing is shown to beat, by price, and `leader` the one of
    them most often right. `front` has it and each cheaper program that is shown to beat all still
    cheaper ones.
    """

    run: str
    leader: str
    unbeaten: tuple[str, ...]
    front: tuple[str, ...]
    unit: str
    price: float | None
    leader_price: float | None

    sentence = Sentence("take", "Which program to take and why.")

    def to_dict(self) -> dict[str, object]:
        return {**asdict(self), "sentence": self.sentence}


@dataclass(frozen=True)
class Verdict:
    """The conclusion about the programs against the reference.

    Attributes:
        outcome: `better` (the recommended program is a team that is shown to beat one prompt and
            its fair opponent), `beats` (the subject is shown to beat the reference), `undecided`
            (nothing is), `worse` (the reference is shown to beat all others) or `not_comparable`.
        subject: the run that the outcome is about, or None.
        reference: the run that the others are compared with.
        beaten: all runs that the subject is shown to beat.
        recommendation: or None.
        unit, prices: the prices per question, by program.
        rivals: for a team that beats the reference, the two kinds of rival and the runs of each.
        rival_usd: the cost in USD of a missing rival asked k times, or None.
    """

    outcome: str
    subject: str | None
    reference: str
    beaten: tuple[str, ...]
    recommendation: Recommendation | None
    unit: str
    prices: dict[str, float | None]
    rivals: dict[str, list[str]] = field(default_factory=dict)
    rival_usd: float | None = None

    def price_ratio(self, run: str) -> float | None:
        """Return the price of a run as a multiple of the reference's; None where one is not
        known.
        """
        price, reference = self.prices[run], self.prices[self.reference]
        if price is None or not reference:
            return None
        return price / reference

    @property
    def unbeaten_choice(self) -> str | None:
        """The recommended program, unless the subject is shown to beat it or it is a rival."""
        if self.recommendation is None:
            return None
        chosen = self.recommendation.run
        if chosen == self.subject or any(chosen in names for names in self.rivals.values()):
            return None
        return chosen

    @property
    def met(self) -> list[str]:
        """The names of the kinds of rival that the subject is shown to beat."""
        met = []
        for kind, names in self.rivals.items():
            if names and set(names).issubset(self.beaten):
                met.append(self._kind(kind, names))
        return met

    @property
    def not_shown(self) -> list[str]:
        """The rivals that were run and that the subject is not shown to beat."""
        found = []
        for kind, names in self.rivals.items():
            if left := [name for name in names if name not in self.beaten]:
                found.append(self._kind(kind, left))
        if choice := self.unbeaten_choice:
            found.append(choice)
        return found

    @property
    def not_met(self) -> list[str]:
        """The kinds of rival of which there is no run."""
        return [kind for kind, names in self.rivals.items() if not names]

    @property
    def not_tried_k_times(self) -> bool:
        """Whether the fair opponent is missing."""
        # That is the last kind of rival; a verdict without rivals needs none.
        return list(self.rivals.values())[-1:] == [[]]

    def _kind(self, kind: str, names: Sequence[str]) -> str:
        if list(names) == [self.reference]:
            return kind
        return f"{kind} ({', '.join(names)})"

    def to_dict(self) -> dict[str, object]:
        """As JSON, without the recommendation, which is written separately."""
        fields = asdict(self)
        del fields["recommendation"]
        return fields


def conclude(
    runs: Sequence[Compared],
    usable: Sequence[Compared],
    outcomes: Sequence[str],
    beats: Collection[tuple[str, str]],
    prices: QuestionPrices,
    rivals: Mapping[str, Rivals],
) -> Verdict:
    """Draw the conclusion from runs; the first is the reference. `usable` are the runs that can be
    judged and recommended, `outcomes` has the outcome of each other run against the reference,
    `beats` which run is shown to beat which, and `rivals` those of each run that is a team.
    """
    recommendation, recommended = None, None
    if usable:
        recommendation = _recommend(usable, prices, beats)
        recommended = recommendation.run
    outcome, subject = _subject(runs, outcomes, recommended)
    verdict = Verdict(
        outcome=outcome,
        subject=None,
        reference=runs[0].name,
        beaten=(),
        recommendation=None,
        unit=prices.unit,
        prices={run.name: prices.of(run.name) for run in runs},
    )
    if subject is None:
        return verdict
    beaten = tuple(run.name for run in runs if (subject.name, run.name) in beats)
    verdict = replace(verdict, subject=subject.name, beaten=beaten, recommendation=recommendation)
    rival = rivals.get(subject.name)
    if outcome != BEATS or rival is None:
        return verdict
    verdict = replace(verdict, rivals=rival.kinds)
    # A team that beats the reference alone is not called better: every kind of rival counts.
    if recommended == subject.name and len(verdict.met) == len(verdict.rivals):
        verdict = replace(verdict, outcome=BETTER)
    bill = subject.takes.cost_usd
    if bill and not rival.k_times:
        verdict = replace(verdict, rival_usd=bill * rival.lms)
    return verdict


def _subject(
    runs: Sequence[Compared], outcomes: Sequence[str], recommended: str | None
) -> tuple[str, Compared | None]:
    """Return the outcome against the reference, and the run that it is about."""
    for won, outcome in AGAINST.items():
        alike = [run for run, own in zip(runs[1:], outcomes, strict=True) if own == won]
        if alike:
            wanted = won == A and recommended
            return outcome, max(alike, key=lambda run: (run.name == wanted, run.score.value))
    return NOT_COMPARABLE, None


def _recommend(
    usable: Sequence[Compared], prices: QuestionPrices, beats: Collection[tuple[str, str]]
) -> Recommendation:
    """Return the recommendation among the usable runs, of which there is at least one."""
    # Sorting is stable: of equal price and score, the run that was named first stays first.
    by_price = sorted(usable, key=lambda run: (prices.each[run.name], -run.score.value))
    order = [run.name for run in by_price]
    # A winner has the higher score, so the run most often right is unbeaten: at least one is left.
    losers = {loser for winner, loser in beats if winner in order}
    unbeaten = [name for name in order if name not in losers]
    scores = {run.name: run.score.value for run in by_price}
    chosen = cheapest({name: prices.each[name] for name in unbeaten}, scores.__getitem__)
    leader = max(order, key=scores.__getitem__)
    front = list[str]()
    for place, name in enumerate(order[: order.index(unbeaten[0])]):
        if all((name, cheaper) in beats for cheaper in order[:place]):
            front.append(name)
    front.append(chosen)
    both = prices.of(chosen), prices.of(leader)
    return Recommendation(chosen, leader, tuple(unbeaten), tuple(front), prices.unit, *both)
