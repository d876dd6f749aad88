"""What a budget-matched baseline would take: how many samples the bill of a run pays for, and a
ceiling.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ...modules.base.usage import Usage
from ...modules.protocols.single import SELF_CONSISTENCY, SingleAgent
from ...modules.reading.metrics import Metric
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow
from ..base.budget import Account, Budget, open_account
from ..base.run_files import LMFields
from ..base.wording import counted, money
from ..evaluation.check import check_folder
from ..evaluation.earlier import Evaluation, earlier
from ..evaluation.estimate import estimate, left_of
from ..lms.foreign import billed_as
from ..lms.ledger import read_ledger, usage_of
from ..lms.prices import Prices
from .matched import tokens_per_question, usages_of
from .words import say

TOLERANCE = 1.2
"""How many times the bill of the run that it matches a baseline may take: a pilot is no exact
estimate.
"""


@dataclass(frozen=True)
class Match:
    """How many samples of `lm` the bill pays for: max(1, ⌊spent per question / taken by a sample⌋).

    Both are in dollars where both are known, else in tokens, prompt and completion together: those
    of a question are the mean over the `rows` of the matched run whose calls were all paid for,
    those of a sample the mean over `pilot` questions asked once, or, where `pilot` is 0, an
    estimate.
    """

    tokens_per_question: float
    rows: int
    tokens_per_sample: float = math.inf
    pilot: int = 0
    cost_per_question: float | None = None
    cost_per_sample: float | None = None
    lm: str = ""

    @property
    def in_dollars(self) -> bool:
        """Whether what was spent and what a sample takes are both known in dollars."""
        return bool(self.cost_per_question and self.cost_per_sample)

    @property
    def spent(self) -> float:
        """What the matched run spent per question, in dollars or tokens."""
        dollars = self.cost_per_question if self.in_dollars else None
        return self.tokens_per_question if dollars is None else dollars

    @property
    def taken(self) -> float:
        """What a sample takes, in the same unit."""
        dollars = self.cost_per_sample if self.in_dollars else None
        return self.tokens_per_sample if dollars is None else dollars

    @property
    def samples(self) -> int:
        return max(1, int(self.spent / self.taken))

    @property
    def fits(self) -> bool:
        """Whether at least one sample per question is within the bill."""
        return self.taken <= TOLERANCE * self.spent

    @property
    def sentence(self) -> str:
        """What was spent, what a sample takes, and how many samples that gives."""
        return say("match", self)


@dataclass(frozen=True)
class Arm:
    """One LM alone: the folder of its pilot and its samples, and on how many questions both are
    still to be asked.
    """

    lm: Any
    identity: LMFields
    folder: Path
    match: Match
    pilot_left: int
    left: int

    @property
    def calls(self) -> int:
        """How many calls are likely."""
        return self.pilot_left + self.match.samples * self.left

    @property
    def cost_usd(self) -> float | None:
        """What those calls are likely to cost; None where the price is not known."""
        per_sample = self.match.cost_per_sample
        return None if per_sample is None else per_sample * self.calls


@dataclass(frozen=True)
class MatchPlan:
    """A budget-matched baseline that is checked; no LM has been called.

    `ceiling` is the budget that was given, or else what the run took on as many questions, those of
    the `pilot` too, for each of the `arms`, and a fifth more.
    """

    run: Evaluation
    questions: Sequence[Question]
    pilot: Sequence[Question]
    arms: Sequence[Arm]
    metric: Metric
    home: Path
    budget: Budget | None
    concurrency: int
    name: str

    @property
    def ceiling(self) -> Budget:
        if self.budget is not None:
            return self.budget
        times = TOLERANCE * len(self.arms) * (len(self.questions) + len(self.pilot))
        bill = self.arms[0].match
        if bill.cost_per_question is not None:
            return Budget(usd=float(f"{times * bill.cost_per_question:.3g}"))
        return Budget(tokens=math.ceil(times * bill.tokens_per_question))

    @property
    def cost(self) -> tuple[float, float] | None:
        """What it is likely to cost in dollars, and at most; None where a price is not known."""
        costs = [arm.cost_usd for arm in self.arms if arm.cost_usd is not None]
        if len(costs) < len(self.arms):
            return None
        most = self.ceiling.usd or sum(costs)
        return min(sum(costs), most), most if sum(costs) else 0.0

    def account(self) -> Account:
        """What earlier attempts left of the ceiling. Raises UserError for a budget that cannot be
        held.
        """
        spent = Usage()
        for arm in self.arms:
            for folder in (arm.folder / "pilot", *arm.folder.glob("*-samples")):
                for entry in read_ledger(folder):
                    # A call that a stop cut off is booked as the most that it may have taken: many
                    # of them
                    # would end the next attempt at once.
                    if self.budget is not None or not entry.get("lost"):
                        spent.add(usage_of(entry))
        return open_account(self.ceiling, [billed_as(arm.lm) for arm in self.arms], spent)

    def lines(self) -> list[str]:
        """How often each LM is likely to be asked, what that takes, and the ceiling."""
        questions = counted(len(self.questions), "question")
        lines = [f"{questions} again, by 1 agent for the bill of {self.name}"]
        for arm in self.arms:
            samples, calls = counted(arm.match.samples, "sample"), counted(arm.calls, "call")
            pilot = f" (estimated: a pilot of {counted(len(self.pilot), 'question')} decides)"
            line = f"{arm.identity['endpoint']}: {samples} per question, {calls}"
            lines.append(line + pilot * (not arm.match.pilot))
        cost = money(self.cost and self.cost[0])
        why = ", as much as it took and a fifth more; --budget sets another one"
        return [*lines, f"cost: {cost}; at most {self.ceiling}{why * (self.budget is None)}"]

    def to_dict(self) -> dict[str, Any]:
        arms = {
            arm.identity["name"]: {
                "samples": arm.match.samples,
                "calls": arm.calls,
                "cost_usd": arm.cost_usd,
            }
            for arm in self.arms
        }
        return {
            "run": str(self.run.folder),
            "out": str(self.home),
            "questions": len(self.questions),
            "tokens_per_question": self.arms[0].match.tokens_per_question,
            "cost_per_question": self.arms[0].match.cost_per_question,
            "lms": arms,
            "cost_usd": self.cost,
            "budget": str(self.ceiling),
        }


def arm_of(
    lm: Any,
    identity: LMFields,
    folder: Path,
    bill: Match,
    questions: Sequence[Question],
    pilot: Sequence[Question],
    metric: Metric,
) -> Arm:
    """What an LM alone would take: as its pilot has shown, or estimated from the prompt of a
    sample.
    """
    check_folder(folder / "pilot", sampling(1), pilot, lm, metric)
    pilot_left, _ = left_of(folder / "pilot", pilot)
    if not pilot_left:
        match = measured_match(bill, earlier(folder / "pilot"))
        left, _ = left_of(folder / f"{match.samples}-samples", questions)
        return Arm(lm, identity, folder, match, 0, len(left))
    sample = estimate(sampling(1), questions, lm, out=folder / "pilot")
    tokens = sum(map(_likely, filter(None, (sample.prompt_tokens, sample.completion_tokens))))
    cost = None if sample.cost_usd is None else _likely(sample.cost_usd) / len(questions)
    match = replace(bill, tokens_per_sample=tokens / len(questions), cost_per_sample=cost)
    return Arm(lm, identity, folder, match, len(pilot_left), len(questions))


def _likely(ends: tuple[float, float]) -> float:
    """The middle of an estimate, as a factor from both ends."""
    return math.sqrt(ends[0] * ends[1])


def measured_match(spent: Match, pilot: Evaluation) -> Match:
    """The match if a sample takes what it took in the pilot. Raises UserError where nobody counted
    that.
    """
    tokens, asked = tokens_per_question(pilot.rows)
    if tokens is None:
        raise UserError(
            f"what a sample takes is not known, since no question of the pilot in {pilot.folder} "
            "was answered by an LM that counts tokens: see the errors in its rows, and delete it "
            "to try again"
        )
    cost = cost_per_question(pilot.rows)
    return replace(spent, tokens_per_sample=tokens, pilot=asked, cost_per_sample=cost)


def sampling(samples: int) -> SingleAgent:
    return SingleAgent(SELF_CONSISTENCY, samples=samples)


def cost_per_question(rows: Iterable[ResultRow], prices: Prices | None = None) -> float | None:
    """Mean dollars of the answered questions, as they were or at other `prices`; None where a
    price or a number of tokens is not known, or nothing was paid.
    """
    usages = [usage for usage in usages_of(rows) if usage.tokens is not None]
    costs = [usage.cost_usd if prices is None else prices.cost(usage) for usage in usages]
    known = [cost for cost in costs if cost is not None]
    return sum(known) / len(known) if any(known) and len(known) == len(costs) else None


def costliest(runs: Sequence[Evaluation]) -> int:
    """The place of the run that spent most per question, in dollars where all are known, else
    tokens. Raises UserError where nobody knows what any of them spent.
    """
    costs = [cost_per_question(run.rows) for run in runs]
    spent = [tokens_per_question(run.rows)[0] for run in runs] if None in costs else costs
    place = max(range(len(runs)), key=lambda place: spent[place] or 0.0)
    spent_by(runs[place])
    return place


def spent_by(run: Evaluation) -> Match:
    """What a run spent per question, with nothing known of a sample. Raises UserError where nobody
    knows.
    """
    tokens, rows = tokens_per_question(run.rows)
    if tokens is None:
        raise UserError(
            f"what {run.folder} spent is not known, since {_unknown_because(run.rows)}, or set "
            f"the samples "
            f"of single:{SELF_CONSISTENCY} yourself"
        )
    return Match(tokens, rows)


def _unknown_because(rows: Iterable[ResultRow]) -> str:
    """Why nobody knows the tokens of these rows, and what to do about it."""
    usages = [row["usage"] for row in rows if row["error"] is None]
    if not usages:
        return "all of its questions failed: run it again with --retry-errors"
    if any(usage["cached_calls"] for usage in usages):
        return "its answers came from a record or cache: match the run that paid for them"
    if any(usage["calls"] is None for usage in usages):
        return "calls in threads of its program's own are nobody's: match another run"
    if not any(usage["calls"] for usage in usages):
        return "no call of an LM was seen in it: match a run that asks one"
    return "its LM did not say how many tokens its calls took: take an LM that does"


def dollars_per_question(run: Evaluation, lms: Sequence[Any]) -> float | None:
    """What the run spent per question; None where the price of one of these LMs is not known.

    The tokens of a run of one LM cost what that LM is said to cost now, so that both sides are
    priced alike.
    """
    prices = [billed_as(one).prices for one in lms]
    if None in prices:
        return None
    alone = len({lm["name"] for lm in run.summary.run["lms"].values()}) == 1
    own = prices[0] if alone and prices[0] is not None and not prices[0].steps else None
    return cost_per_question(run.rows, own)
