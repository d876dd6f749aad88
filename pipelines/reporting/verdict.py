"""What a report says first: which program, by how much, how sure, at what price, and whether it pays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from ...modules.base.calls import plus, tokens_of
from ..base.wording import counted
from ..comparison.compared import Compared
from ..comparison.pairs import NOT_COMPARABLE, UNDECIDED, A, B, Comparison, Pair

SAME_PRICE = 0.05
"""Prices that differ by no more than this share count as the same."""

BETTER, WORSE, UNSHOWN, NO_VERDICT = "better", "worse", "no difference shown", "no verdict"
WORTH_IT, NOT_WORTH_IT, YOUR_CALL, OPEN = "worth it", "not worth it", "your call", "open"
RUN_AGAIN = "run it again"
_OUTCOMES = {A: BETTER, B: WORSE, UNDECIDED: UNSHOWN, NOT_COMPARABLE: NO_VERDICT}


@dataclass(frozen=True)
class PairVerdict:
    """One program against another, in words.

    `outcome` is BETTER, WORSE, UNSHOWN, or NO_VERDICT where a run failed or its answers could not be read;
    `worth` WORTH_IT, NOT_WORTH_IT, YOUR_CALL, OPEN or RUN_AGAIN. `headline` says which and by how much, and
    what else than the programs differs; `scores` how often each is right, `sure` how sure that is, `price`
    what it takes beside the other, `advice` what follows. `smallest` is the smallest difference (0 … 1) that
    these questions could show, where none is shown; 1 if they are too few (None: of a score, not known).
    """

    outcome: str
    worth: str
    headline: str
    scores: str
    sure: str
    price: str
    advice: str
    smallest: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def judged(
    pair: Pair, a: Compared, b: Compared, *, several: bool = False, matched: bool = False
) -> PairVerdict:
    """What to make of a pair; `several` says that its p is corrected for other pairs, `matched` that one
    agent with the same bill stands beside it."""
    outcome = _OUTCOMES[pair.outcome]
    if outcome == NO_VERDICT:
        return _without(pair)
    corrected = " after Holm's correction" if several else ""
    sure = (
        f"{pair.spread}{pair.unit}; {pair.test}{corrected} is {_p(pair.p_adjusted)}, n = {pair.n:,}."
        if pair.only_a or pair.only_b
        else f"Not one of the {counted(pair.n, 'shared question')} was {pair.did_well} in only one of the "
        "two."
    )
    dearer, smallest, headline = _dearer(pair), None, pair.headline
    if outcome == BETTER:
        worth, advice = _of_better(pair, a, b, dearer, matched)
    elif outcome == WORSE:
        worth, advice = _of_worse(pair, dearer)
    else:
        headline = (
            f"No difference shown between {pair.a} and {pair.b} ({pair.amount(pair.difference)}{pair.unit})"
        )
        worth, advice = _of_unshown(pair, dearer)
        smallest = pair.smallest if math.isfinite(pair.smallest) else None
        sure += (
            f" The smallest difference this sample could detect is about {pair.detectable}."
            if pair.detectable
            else f" {counted(pair.n, 'question').capitalize()} can show no difference at all."
        )
    if pair.differ:
        headline += f", {pair.differ}"
        if worth in (WORTH_IT, NOT_WORTH_IT):
            worth, advice = YOUR_CALL, "What else differs may be what made the difference, or hid one."
    advice += f" {pair.opponent}." if pair.opponent else ""
    form, what = (".1%", " right") if pair.is_rate else (".3g", f" in {pair.metric}")
    scores = f"{pair.score_a:{form}}{what} ({pair.a}) against {pair.score_b:{form}} ({pair.b})."
    return PairVerdict(outcome, worth, headline, scores, sure, price_of(pair), advice, smallest)


def _without(pair: Pair) -> PairVerdict:
    """Of a pair on which there is no verdict: the cause, and what to do about it."""
    names = f"{pair.a} and {pair.b}"
    if pair.other_metric:
        said = (
            f"No verdict on {names}: {pair.other_metric}",
            "Not known: scores by different metrics have nothing in common.",
            "Not at all.",
            price_of(pair),
        )
    elif pair.failure is None:
        said = (
            f"{pair.unread}. No verdict on {names}",
            "Not known: answers that could not be read count as wrong.",
            "Not at all: an answer that could not be read is no evidence for or against a program.",
            price_of(pair),
        )
    else:
        said = (
            f"No verdict on {names}: {pair.failure}",
            f"Not known: {pair.failed_a:,} ({pair.a}) and {pair.failed_b:,} ({pair.b}) of "
            f"{counted(pair.n, 'question')} failed, which count as wrong.",
            "Not at all: from half of the questions up, failures say nothing about a program.",
            "Not known: a question that failed is no answer for its price.",
        )
    return PairVerdict(NO_VERDICT, RUN_AGAIN, *said, f"{pair.other_metric or pair.failure or pair.unread}.")


class Lead(NamedTuple):
    """The first lines of a report: a sentence, what it rests on, and whose it is (None: nobody's)."""

    headline: str
    verdict: PairVerdict | None


def lead_of(found: Comparison, verdicts: Sequence[PairVerdict]) -> Lead:
    """What stands first of several: the best run that beats the baseline, else that none does."""
    baseline, verdicts = found.runs[0].name, verdicts[: len(found.against)]
    judged_ones = [verdict for verdict in verdicts if verdict.outcome != NO_VERDICT]
    if not judged_ones and len(verdicts) > 1:
        why = "runs failed or could not be read" if any(pair.unread for pair in found) else "runs failed"
        return Lead(f"No verdict on any of the {len(verdicts)} others beside {baseline}: {why}", None)
    better = [place for place, verdict in enumerate(verdicts) if verdict.outcome == BETTER]
    if len(verdicts) == 1:
        return Lead(verdicts[0].headline, verdicts[0])
    if better:
        best = max(better, key=lambda place: found.pairs[place].score_a)
        return Lead(verdicts[best].headline, verdicts[best])
    left = "" if len(judged_ones) == len(verdicts) else " that did not fail"
    if len(judged_ones) == 1:
        return Lead(judged_ones[0].headline, judged_ones[0])
    if all(verdict.outcome == WORSE for verdict in judged_ones):
        return Lead(
            f"Nothing here is as good as {baseline}: all {len(judged_ones)} others{left} do worse", None
        )
    return Lead(f"None of the {len(judged_ones)} others{left} is shown to beat {baseline}", None)


def price_of(pair: Pair) -> str:
    """What a takes beside b, in words."""
    parts = [
        f"{_times(ratio)} the {what}"
        for ratio, what in (
            (pair.cost_ratio, "cost"),
            (pair.token_ratio, "tokens"),
            (pair.call_ratio, "calls"),
            (pair.seconds_ratio, "time a question"),
        )
        if ratio is not None
    ]
    if not parts:
        return f"What {pair.a} costs beside {pair.b} is not known: no question was paid for in both runs."
    listed = ", ".join(parts[:-1]) + f" and {parts[-1]}" if len(parts) > 1 else parts[0]
    return f"{listed} of {pair.b}."


def _dearer(pair: Pair) -> int | None:
    """1 when a costs more than b, -1 when it costs less, 0 when about the same, None when nobody knows."""
    ratio = next((r for r in (pair.cost_ratio, pair.token_ratio, pair.call_ratio) if r is not None), None)
    if ratio is None:
        return None
    return 1 if ratio > 1 + SAME_PRICE else -1 if ratio < 1 - SAME_PRICE else 0


def _of_better(pair: Pair, a: Compared, b: Compared, dearer: int | None, matched: bool) -> tuple[str, str]:
    if dearer is None:
        return YOUR_CALL, "Better; look up what it costs before you choose it."
    if dearer <= 0:
        return WORTH_IT, f"It is better and costs {'less' if dearer else 'no more'}: take {pair.a}."
    extra = _extra(pair, a, b)
    each = f"Each further right answer takes about {extra} more. " if extra else ""
    said = f"{each}Whether that is worth it is yours to say."
    if not matched and not pair.opponent:
        said += " One agent may do as well for the same bill: folkmoot compare RUN --match-budget tests that."
    return YOUR_CALL, said


def _of_worse(pair: Pair, dearer: int | None) -> tuple[str, str]:
    if dearer == -1:
        return YOUR_CALL, (
            f"It is cheaper, and {'less often right' if pair.is_rate else 'worse'}: {pair.b} if the points "
            f"matter, {pair.a} if the price does."
        )
    return NOT_WORTH_IT, f"It does worse{' and costs more' if dearer else ''}: keep {pair.b}."


def _of_unshown(pair: Pair, dearer: int | None) -> tuple[str, str]:
    if dearer == 1:
        return NOT_WORTH_IT, (
            "Not worth it on this evidence: it costs more, and no gain is shown. More questions could still "
            "show one."
        )
    if dearer == -1:
        return WORTH_IT, (
            f"It costs less, and no loss is shown: on this evidence nothing speaks for paying for {pair.b}. "
            "More questions could still show a loss."
        )
    return OPEN, "They cost about the same: either will do until more questions tell them apart." if (
        dearer == 0
    ) else "Nothing here speaks for either: ask more questions."


def _extra(pair: Pair, a: Compared, b: Compared) -> str | None:
    """What one more right answer takes: dollars where they are known, else tokens; None if neither is."""
    gained = pair.difference * pair.n
    if pair.paid < pair.n or gained <= 0 or not pair.is_rate:
        return None
    costs = [run.usage.get("cost_usd") for run in (a, b)]
    if costs[0] is not None and costs[1] is not None and costs[0] > costs[1]:
        return f"{(costs[0] - costs[1]) / gained:,.4f} US dollars"
    more = plus(tokens_of(a.usage), tokens_of(b.usage), -1)
    return f"{more / gained:,.0f} tokens" if more is not None and more > 0 else None


def _times(ratio: float) -> str:
    return f"{ratio:.1f} times" if ratio >= 1.05 else f"{ratio:.2f} times"


def _p(value: float) -> str:
    return "below 0.001" if value < 0.001 else f"{value:.2g}"
