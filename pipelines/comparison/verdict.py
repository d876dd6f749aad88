"""What a comparison concludes: which program to take, by one rule, on which every sentence and plot
rests.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from .compared import Compared

A, B, UNDECIDED, NOT_COMPARABLE = "a", "b", "undecided", "not_comparable"
BETTER, BEATS, WORSE = "better", "beats", "worse"
DOLLARS, TOKENS, CALLS = "US dollars", "tokens", "calls"


class QuestionPrices(NamedTuple):
    """What programs are priced in, and what each takes per question, by name; infinite where
    unknown.
    """

    unit: str
    each: dict[str, float]

    def of(self, run: str) -> float | None:
        price = self.each[run]
        return price if math.isfinite(price) else None


def prices_of(runs: Sequence[Compared], usable: Sequence[Compared]) -> QuestionPrices:
    """Dollars, where they are known for all usable runs and one paid some; else tokens; else calls.

    Tokens and dollars of answers from a record are not known: with any of those, calls count.
    """
    fresh = not any(run.usage["cached_calls"] for run in runs)
    totals: dict[str, dict[str, float | int | None]] = {
        DOLLARS: {run.name: run.usage["cost_usd"] for run in runs},
        TOKENS: {run.name: run.tokens or None for run in runs},
        CALLS: {run.name: run.usage["calls"] for run in runs},
    }

    def serves(unit: str) -> bool:
        spent = [totals[unit][run.name] for run in usable]
        return fresh and None not in spent and any(spent)

    unit = next((unit for unit in (DOLLARS, TOKENS) if serves(unit)), CALLS)
    each = {}
    for run in runs:
        total = totals[unit][run.name]
        each[run.name] = math.inf if total is None else total / max(1, run.answers)
    return QuestionPrices(unit, each)


class Rivals(NamedTuple):
    """Whom a team has to beat before it is called better: the runs that are one prompt, and those
    that are one prompt asked as often as the team's bill allows, on its own LM or on the best of
    its `lms` LMs.
    """

    one_prompt: list[str]
    k_times: list[str]
    lms: int

    @property
    def kinds(self) -> dict[str, list[str]]:
        """Each kind in words, and the runs of that kind."""
        who = "one prompt" if self.lms == 1 else "the best of its LMs alone,"
        return {"one prompt": self.one_prompt, f"{who} asked k times": self.k_times}


@dataclass(frozen=True)
class Recommendation:
    """The cheapest program that nothing is shown to beat: `run`. Of equally cheap ones the one most
    often right, then the first.

    `unbeaten` are all that nothing is shown to beat, the cheapest first, and `leader` is the one
    most often right. `front` has the recommended program and each cheaper one that is shown to beat
    all that are cheaper still, by price. Prices are in `unit` per question, None where not known.
    """

    run: str
    leader: str
    unbeaten: tuple[str, ...]
    front: tuple[str, ...]
    unit: str
    price: float | None
    leader_price: float | None

    @property
    def sentence(self) -> str:
        """Which program to take and why, and what the one that is ahead of it takes."""
        if self.price is None:
            return (
                f"Recommended: {self.run}. Nothing is shown to beat it, and what it takes is "
                f"not known."
            )
        sentence = (
            f"Recommended: {self.run}, the cheapest in {self.unit} that nothing is shown to beat"
        )
        if self.leader == self.run:
            return f"{sentence}."
        if self.leader_price is None:
            much = "nobody knows how much"
        elif self.price:
            much = f"{times(self.leader_price / self.price)} as much"
        else:
            much = f"{self.leader_price:.3g} per question"
        return f"{sentence}; {self.leader}, ahead so far, takes {much}."

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"sentence": self.sentence}


@dataclass(frozen=True)
class Verdict:
    """What is shown of the programs beside the reference, and which one to take.

    `outcome` is about the `subject`: `better` (the recommended program is a team that is shown to
    beat one prompt and one prompt asked as often as the team's bill allows), `beats` (it is shown
    to beat the reference), `undecided` (nothing is shown to beat the reference; the subject is the
    most often right of those that may), `worse` (the reference is shown to beat all others) or
    `not_comparable` (there is no subject). `beaten` are all that the subject is shown to beat. Of a
    team that beats the reference, `rivals` has these two kinds of rival and the runs of each;
    without a run of the second kind, one takes about `rival_usd` dollars (None: not known).
    `recommendation` is None where nothing can be compared with the reference, or metrics differ.
    `unit` and `prices`, by program and per question, are what *cheapest* goes by.
    """

    outcome: str
    subject: str | None
    beaten: tuple[str, ...]
    recommendation: Recommendation | None
    unit: str
    prices: dict[str, float | None]
    rivals: dict[str, list[str]] = field(default_factory=dict)
    rival_usd: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON, without the recommendation, which has a place of its own."""
        return {key: value for key, value in asdict(self).items() if key != "recommendation"}


def conclude(
    runs: Sequence[Compared],
    usable: Sequence[Compared],
    outcomes: Mapping[tuple[str, str], str],
    prices: QuestionPrices,
    rivals: Mapping[str, Rivals],
) -> Verdict:
    """The verdict on runs, the first of which is the reference.

    `usable` are those that can be judged and recommended; `outcomes` is that of each pair (a, b),
    and `rivals` has those of each run that is known to be a team.
    """
    beats = {(a, b) if won == A else (b, a) for (a, b), won in outcomes.items() if won in (A, B)}
    recommendation = _recommended(usable, prices, beats) if usable else None
    each = {run.name: prices.of(run.name) for run in runs}
    outcome, subject = _subject(runs, outcomes, recommendation.run if recommendation else None)
    if subject is None:
        return Verdict(outcome, None, (), None, prices.unit, each)
    beaten = tuple(run.name for run in runs if (subject.name, run.name) in beats)
    rival = rivals.get(subject.name) if outcome == BEATS else None
    kinds = rival.kinds if rival else {}
    beats_all = kinds and all(names and {*names} <= {*beaten} for names in kinds.values())
    if beats_all and recommendation and recommendation.run == subject.name:
        outcome = BETTER
    spent = None if subject.usage["cached_calls"] else subject.usage["cost_usd"]
    usd = spent * rival.lms if rival and not rival.k_times and spent else None
    return Verdict(outcome, subject.name, beaten, recommendation, prices.unit, each, kinds, usd)


def _subject(
    runs: Sequence[Compared], outcomes: Mapping[tuple[str, str], str], recommended: str | None
) -> tuple[str, Compared | None]:
    """The outcome beside the reference, and the run that it is about."""
    by_score = sorted(runs[1:], key=lambda run: -run.score["value"])
    for won, outcome in ((A, BEATS), (UNDECIDED, UNDECIDED), (B, WORSE)):
        alike = [run for run in by_score if outcomes[run.name, runs[0].name] == won]
        if alike:
            wanted = recommended if won == A else None
            return outcome, next((run for run in alike if run.name == wanted), alike[0])
    return NOT_COMPARABLE, None


def _recommended(
    usable: Sequence[Compared], prices: QuestionPrices, beats: Collection[tuple[str, str]]
) -> Recommendation:
    """The recommendation among one usable run or more."""
    # Sorting is stable: of equal price and score, the run that was named first stays first.
    by_price = sorted(usable, key=lambda run: (prices.each[run.name], -run.score["value"]))
    order = [run.name for run in by_price]
    beaten = {loser for _, loser in beats}
    # A winner has the higher score, so the most often right is never beaten and this is never
    # empty.
    unbeaten = [name for name in order if name not in beaten]
    chosen = unbeaten[0]
    leader = max(by_price, key=lambda run: run.score["value"]).name
    front = [
        name
        for place, name in enumerate(order[: order.index(chosen) + 1])
        if name == chosen or all((name, cheaper) in beats for cheaper in order[:place])
    ]
    both = prices.of(chosen), prices.of(leader)
    return Recommendation(chosen, leader, tuple(unbeaten), tuple(front), prices.unit, *both)


def times(ratio: float) -> str:
    """`3.2 times`, and below 1.05 with two decimals."""
    return f"{ratio:.1f} times" if ratio >= 1.05 else f"{ratio:.2f} times"
