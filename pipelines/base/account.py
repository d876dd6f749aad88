"""The account of a budget: what was spent of it, and whether another call may be made."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ...modules.base.calls import ASKER, FatalCallError, Usage, metered, refused
from ...modules.base.errors import UserError
from .budget import LIKELY, POLL_SECONDS, Budget, BudgetSpent, BudgetUnheld

LEAST_LEFT = 10  # calls that a budget must have left for each call in flight
TURN_SECONDS = 2.0  # the longest time that a call waits for earlier questions


@dataclass
class Account:
    """What was spent from a budget, and the calls in flight that will add to it. Thread-safe.

    Time counts from the account's opening; calls, tokens and money start with `spent`. Each call in
    flight reserves the price of the dearest call so far, so that together they cannot exceed the
    budget. And at most a tenth of the calls that are left are in flight, so that a kill loses no
    more than that.
    """

    budget: Budget
    spent: Usage = field(default_factory=Usage)
    whole: Budget | None = None  # the user's, if a part is kept back for held-out questions
    likely: Usage = field(default_factory=lambda: LIKELY)
    in_flight: int = 0
    ended: bool = False  # whether it has refused a call
    uncounted: str | None = None  # the LM of a call with unknown tokens or price
    _dearest: Usage | None = None  # the most tokens and dollars of a call so far
    _answered: int = 0
    _took: Usage = field(default_factory=Usage)  # what the answered questions were charged
    # question in flight, in the order in which they began → what it was charged
    _open: dict[object, Usage] = field(default_factory=dict)
    _began: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    async def admit(self) -> None:
        """Reserve one paid call; `leave` releases it.

        If little is left, calls of questions that began earlier go first, but only for a few
        seconds, since a waiting call may occupy the endpoint that an earlier question needs. Raises
        BudgetSpent only once the calls in flight have ended, as the caller may then stop all work.
        """
        patient = time.monotonic() + TURN_SECONDS
        while True:
            with self._lock:
                over = self._over()
                waits = not self._suffices_for(self._turn()) and time.monotonic() < patient
                waits = waits or self._crowded()
                promised = self._fully_promised() or not self._fits_one_more()
                if over is None and not promised and not waits:
                    self.in_flight += 1
                    return
                # Not while calls are in flight, which may cost less than is reserved for them.
                if over is None and promised and not self.in_flight:
                    over = self._note_spent("what is left does not cover another call")
                if over is not None and not self.in_flight:
                    raise self._end(over)
            await asyncio.sleep(POLL_SECONDS)  # polled, since calls may end on other event loops

    def admit_now(self) -> None:
        """As `admit`, for a call that cannot wait: calls in flight count as spent."""
        with self._lock:
            over = self._over()
            if over is None and (self._fully_promised() or not self._fits_one_more()):
                over = self._note_spent(
                    f"{self.spent.calls:,} calls and {self.in_flight:,} in flight"
                )
            if over is not None:
                raise self._end(over)
            self.in_flight += 1

    @asynccontextmanager
    async def question(self, key: object) -> AsyncIterator[None]:
        """A block in which a question is answered, entered once the rest of the budget is likely to
        cover it and the questions in flight. If nothing is left, it is entered at once, since the
        question may need no call.
        """
        while not self._begins(key):
            await asyncio.sleep(POLL_SECONDS)
        try:
            with metered() as usage:
                yield
            with self._lock:
                self._answered += 1
                self._took.add(usage)
        finally:
            with self._lock:
                del self._open[key]

    def _begins(self, key: object) -> bool:
        """Begin a question, if the budget is likely to cover it; returns whether it has begun."""
        with self._lock:
            if self._over() is None and not self._suffices_for(len(self._open) + 1):
                return False
            self._open[key] = Usage()
            return True

    def _turn(self) -> int:
        """Return the rank of the current question among those in flight, by when they began, from
        1.
        """
        key = ASKER.get().turn
        return list(self._open).index(key) + 1 if key in self._open else 1

    def _suffices_for(self, questions: int) -> bool:
        """Return whether the rest of the budget is likely to cover this many questions; True for
        one, which is always tried.
        """
        if questions == 1:
            return True
        for name, limit in self.budget.limits.items():
            taken = [getattr(usage, name) for usage in (self._took, *self._open.values())]
            spent = getattr(self.spent, name)
            if limit is None or spent is None or None in taken:
                continue
            # With the charges of questions in flight, since those that finish first are cheaper
            # than the average.
            mean = getattr(self.likely, name)
            if self._answered:
                mean = sum(taken) / self._answered
            if questions * mean > limit - spent:
                return False
        return True

    @property
    def is_spent(self) -> bool:
        """Whether no further call may start."""
        return self._over() is not None

    def check(self) -> None:
        """Raise BudgetSpent if no further call may start."""
        over = self._over()
        if over is not None:
            raise self._end(over)

    def leave(self) -> None:
        """Release a call that was admitted."""
        with self._lock:
            self.in_flight -= 1

    def charge(self, usage: Usage, model: str) -> None:
        """Add a paid call. If its tokens or price are unknown, a budget that limits these cannot be
        enforced any more.
        """
        with self._lock:
            self._spend(usage)
            if (question := self._open.get(ASKER.get().turn)) is not None:
                question.add(usage)
            if (self.budget.usd is not None and usage.cost_usd is None) or (
                self.budget.tokens is not None and usage.tokens is None
            ):
                self.uncounted = model

    def _spend(self, usage: Usage) -> None:
        self.spent.add(usage)
        if usage.tokens is not None:
            before = self._dearest or Usage()
            self._dearest = Usage(
                prompt_tokens=max(before.tokens or 0, usage.tokens),
                cost_usd=max(before.cost_usd or 0.0, usage.cost_usd or 0.0),
            )

    def _crowded(self) -> bool:
        """Return whether another call has to wait because too many of the calls that are left are
        in flight. With a budget in tokens or dollars, the first call is made alone, since it shows
        whether its endpoint counts tokens.
        """
        sums = self.budget.tokens is not None or self.budget.usd is not None
        if sums and self._dearest is None and not self.spent.calls:
            return self.in_flight > 0
        if self.budget.calls is None:
            return False
        return self.in_flight >= max(1, (self.budget.calls - self.spent.calls) // LEAST_LEFT)

    def _fits_one_more(self) -> bool:
        """Return whether the budget holds if another call and those in flight cost as much as the
        dearest call.
        """
        # The very first call is always made, since only a call shows what one costs.
        if not self.spent.calls and not self.in_flight:
            return True
        dearest = self._dearest
        # If none is known, the mean call of earlier attempts, or of the assumed need of a question.
        if dearest is None:
            likely = self.spent if self.spent.calls else self.likely
            calls = likely.calls
            dearest = Usage(
                prompt_tokens=(likely.tokens or 0) // calls,
                cost_usd=(likely.cost_usd or 0.0) / calls,
            )
        for limit, spent, most in (
            (self.budget.tokens, self.spent.tokens, dearest.tokens),
            (self.budget.usd, self.spent.cost_usd, dearest.cost_usd),
        ):
            if (
                limit is not None
                and spent is not None
                and most is not None
                and spent + (self.in_flight + 1) * most > limit
            ):
                return False
        return True

    @property
    def seconds_left(self) -> float | None:
        if self.budget.seconds is None:
            return None
        return max(0.0, self._began + self.budget.seconds - time.monotonic())

    def _end(self, why: str) -> FatalCallError:
        """Return the error that ends the run."""
        kind = BudgetSpent if self.uncounted is None else BudgetUnheld
        return refused(kind(why))

    def _over(self) -> str | None:
        """Return the sentence why no call may start; None if one may."""
        budget, spent = self.budget, self.spent
        if self.uncounted is not None:
            return (
                f"budget {self.whole or budget} cannot be enforced: {self.uncounted} did not "
                "report the tokens of a call, or contradicted itself; finished work is kept: limit "
                "calls or time instead"
            )
        used = None
        if budget.calls is not None and spent.calls >= budget.calls:
            used = f"{spent.calls:,} calls"
        elif (
            budget.tokens is not None and spent.tokens is not None and spent.tokens >= budget.tokens
        ):
            used = f"{spent.tokens:,} tokens"
        elif budget.usd is not None and spent.cost_usd is not None and spent.cost_usd >= budget.usd:
            used = f"{spent.cost_usd:.4f} USD"
        elif self.seconds_left == 0:
            used = "the time is over"
        return None if used is None else self._note_spent(used)

    def _note_spent(self, used: str) -> str:
        """Return the sentence that the budget is spent; notes that the account has `ended`."""
        self.ended = True
        kept = "finished work is kept; a larger budget goes on from there"
        if self.whole is None or self.whole == self.budget:
            return f"budget {self.budget} spent ({used}): {kept}"
        return (
            f"budget {self.whole} spent ({used}), except for what is kept for the held-out "
            f"questions: {kept}"
        )

    def _fully_promised(self) -> bool:
        """Return whether the calls in flight use up the budget's calls."""
        return (
            self.budget.calls is not None and self.spent.calls + self.in_flight >= self.budget.calls
        )


def open_account(text: str | Budget, engines: Iterable[Any], spent: Usage) -> Account:
    """Return the account of a budget of which `spent` is already used. `engines` count and price
    the LMs that will be asked (`lms.named.billed_as`). Raises UserError if the budget cannot be
    enforced, because a price or the spending so far is unknown.
    """
    budget = text if isinstance(text, Budget) else Budget.parse(text)
    dearest = 0.0
    for engine in engines:
        dearest = max(dearest, (engine.prices and engine.prices.cost(LIKELY)) or 0.0)
        if budget.usd is not None and engine.endpoint is not None and engine.prices is None:
            raise UserError(
                f"{engine.no_price}, so {budget} cannot be enforced: {engine.to_price}, or limit "
                "calls or tokens instead"
            )
    for limit, used, what, instead in (
        (budget.usd, spent.cost_usd, "has cost", "calls or tokens"),
        (budget.tokens, spent.tokens, "has taken in tokens", "calls or time"),
    ):
        if limit is not None and used is None:
            raise UserError(
                f"what this run {what} so far is unknown, so {budget} cannot be enforced: limit "
                f"{instead} instead, or choose another --out"
            )
    return Account(budget, replace(spent), likely=replace(LIKELY, cost_usd=dearest))
