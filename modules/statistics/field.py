"""Decides which programs leave a field while answers come in, and which to recommend.

Every two programs are watched as a pair (`anytime.PairWatch`), each at alpha / (K - 1), so that all
statements hold jointly at any number of looks. No LM is asked here: the same rules run on recorded
answers.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from statistics import fmean
from typing import Literal, TypeAlias

from .anytime import PairWatch, State, log_e_value
from .prices import cheapest
from .statistics import FEWEST, Difference, Interval

Pair: TypeAlias = tuple[int, int]
"""Indices of two programs, the cheaper one first; of equally cheap ones, the earlier."""
Why: TypeAlias = Literal["beaten", "no_better"]


@dataclass(frozen=True)
class Exit:
    """A program that left after `seen` questions because of another one, `by`. `beaten`: the other
    one is shown to be better. `no_better`: the other one is cheaper, and shown to be no worse by
    more than the margin.
    """

    program: int
    by: int
    why: Why
    seen: int = 0


def leaving(
    states: Mapping[Pair, State],
    racing: Collection[int],
    covered: Mapping[int, frozenset[int]],
    protected: Collection[int] = (),
) -> list[Exit]:
    """Decide which racing programs leave by the states of their pairs, in order.

    Args:
        states: by pair; in a pair (a, b), a is the cheaper one, and "no_worse" says that a is no
            worse than b by more than the margin.
        racing: programs that are still in.
        covered: by program, the programs that it replaced without beating them, including those
            replaced by these.
        protected: programs that leave only when they are beaten.

    A program that replaces another must be shown to be no worse than all programs that the other
    covers; otherwise a chain of small losses could exceed the margin. One program always stays.
    """
    left, exits = set(racing), list[Exit]()
    covers = {program: frozenset(covered.get(program, ())) for program in racing}
    for program in sorted(racing):
        winners = [other for other in sorted(racing) if better(states, other, program)]
        if winners:
            # Prefer a program that no other beats, so that the reason remains valid later.
            beaten = {
                loser for rival, loser in product(racing, winners) if better(states, rival, loser)
            }
            by = next((winner for winner in winners if winner not in beaten), winners[0])
            exits.append(Exit(program, by, "beaten"))
            left.discard(program)
            if by in covers:
                # It now stands in for those that the loser had replaced, and must stay no worse
                # than they.
                covers[by] |= covers[program]
    if not left:  # each is beaten by another one, which only rounding could cause
        return []
    cheapest_first = sorted(left, key=lambda program: _rank(states, program, left))
    for program in reversed(cheapest_first):
        if program in protected:
            continue
        for cheaper in cheapest_first[: cheapest_first.index(program)]:
            replaced = covers[program] | {program}
            if cheaper in left and all(no_worse(states, cheaper, gone) for gone in replaced):
                exits.append(Exit(program, cheaper, "no_better"))
                left.discard(program)
                covers[cheaper] |= replaced
                break
    return exits


def better(states: Mapping[Pair, State], one: int, other: int) -> bool:
    """Return whether `one` is shown better than `other`."""
    return states.get((one, other)) == "a" or states.get((other, one)) == "b"


def no_worse(states: Mapping[Pair, State], one: int, other: int) -> bool:
    """Return whether `one` is shown better than `other`, or no worse than it by more than the
    margin.
    """
    return better(states, one, other) or states.get((one, other)) == "no_worse"


def shown_above(states: Mapping[Pair, State], one: int, other: int) -> bool:
    """Return whether `one` is shown better than `other`, directly or through programs in
    between.
    """
    above, new = {other}, {other}
    programs = {program for pair in states for program in pair}
    while new:
        pairs = product(programs - above, new)
        new = {program for program, below in pairs if better(states, program, below)}
        above |= new
    return one != other and one in above


def _rank(states: Mapping[Pair, State], program: int, among: Iterable[int]) -> int:
    """Return the number of cheaper programs among others, by the order in the pairs."""
    return sum((other, program) in states for other in among)


class FieldWatch:
    """Watches a field of programs until one is left, or no difference between the rest can be
    shown.

    Args:
        prices: each program's price per question, in one unit. planned: the planned number of
            questions; with None, there is neither a last look nor futility.
        margin: the difference in scores that does not matter.
        alpha: the allowed error for all pairs together. kept: programs that the others have to beat
            for a verdict (the reference, and one prompt asked k times). They leave only when they
            are beaten, and are asked even then, as long as any other is racing.
        stops: whether programs leave at all.
    """

    def __init__(
        self,
        prices: Sequence[float],
        *,
        planned: int | None = None,
        margin: float = 0.05,
        alpha: float = 0.05,
        kept: Collection[int] = (),
        stops: bool = True,
    ) -> None:
        if len(prices) < 1:
            raise ValueError("a field has at least one program")
        self.prices, self.margin = tuple(prices), margin
        self.alpha = alpha / max(1, len(prices) - 1)
        self.kept, self.stops = frozenset(kept), stops
        self.racing = set(range(len(prices)))
        self.withdrawn: set[int] = set()
        self.doubted: set[int] = set()
        """Programs of which nothing is concluded so far."""

        self.exits: dict[int, Exit] = {}
        self.seen = 0
        self._covered: dict[int, frozenset[int]] = {}
        order = sorted(self.racing, key=lambda program: (prices[program], program))
        self.pairs: dict[Pair, PairWatch] = {}
        for a, b in combinations(order, 2):
            # For the verdict, a kept program has to be beaten: "no worse" is not enough for a
            # cheaper one, so its pair is watched further.
            watched = None if b in self.kept and a not in self.kept else margin
            self.pairs[a, b] = PairWatch(planned, self.alpha, watched)

    @property
    def states(self) -> dict[Pair, State]:
        """The state of each pair that can be compared."""
        left_out = self.withdrawn | self.doubted
        return {
            pair: watch.state for pair, watch in self.pairs.items() if left_out.isdisjoint(pair)
        }

    def withdraw(self, program: int) -> None:
        """Take out a program whose answers are no evidence: no conclusion about it is drawn any
        more.
        """
        self.withdrawn.add(program)
        self.racing.discard(program)

    def update(self, scores: Mapping[int, float], cluster: str | None = None) -> None:
        """Add the scores, 0 … 1, of one more question, for all programs that were asked."""
        self.seen += 1
        for (a, b), watch in self.pairs.items():
            if a in scores and b in scores:
                watch.update(scores[a] - scores[b], cluster)
                # The first few answers may look decisive by luck: their evidence counts, but
                # decides later.
                if len(watch.differences) < FEWEST:
                    watch.state = "open"

    def decide(self) -> list[Exit]:
        """Let programs leave by the answers so far; returns those that left."""
        if not self.stops or self.seen < FEWEST:
            return []
        protected = self.kept if self.racing - self.kept else frozenset()
        exits = leaving(self.states, self.racing, self._covered, protected)
        for gone in exits:
            self.exits[gone.program] = Exit(gone.program, gone.by, gone.why, self.seen)
            self.racing.discard(gone.program)
            # One that is shown to be better has more than replaced the loser itself.
            own = self._covered.get(gone.program, frozenset())
            replaced = own if gone.why == "beaten" else own | {gone.program}
            self._covered[gone.by] = self._covered.get(gone.by, frozenset()) | replaced
        return exits

    def last_look(self) -> list[Exit]:
        """Test all pairs once more, at the planned number of questions; returns the programs that
        left.
        """
        for watch in self.pairs.values():
            watch.last_look()
        return self.decide()

    @property
    def asked(self) -> frozenset[int]:
        """The programs that get the next question: the racing and the kept ones."""
        return (self.kept | self.racing) - self.withdrawn

    @property
    def decided(self) -> bool:
        """Whether more questions are useless: one program or no open pair is left, and more answers
        could not dispel a doubt.
        """
        if self.seen < FEWEST or self.doubted & self.racing:
            return False
        return all(self._watch(a, b).state != "open" for a, b in combinations(self.racing, 2))

    @property
    def recommended(self) -> int:
        """The program to take: the cheapest of those that no other is shown to beat."""
        everyone = range(self.size)
        pairs = product(everyone, self.racing)
        beaten = {program for rival, program in pairs if self.better(rival, program)}
        left = self.racing - beaten or self.racing or set(everyone)
        prices = {program: self.prices[program] for program in sorted(left)}
        return cheapest(prices, lambda program: self._lead(program, min(left)))

    def _lead(self, program: int, other: int) -> float:
        """Return the mean difference of two programs on the questions that both answered."""
        differences = [] if program == other else self.differences(program, other)
        return fmean(differences) if differences else 0.0

    @property
    def size(self) -> int:
        return len(self.prices)

    def better(self, one: int, other: int) -> bool:
        """Return whether `one` is shown better than `other`, directly or through programs in
        between.
        """
        return shown_above(self.states, one, other)

    def differences(self, one: int, other: int) -> list[float]:
        """Return the scores of `one` minus those of `other` on the questions that both answered."""
        sign = 1 if (one, other) in self.pairs else -1
        return [sign * value for value in self._watch(one, other).differences]

    def against(self, one: int, other: int) -> Difference:
        """Return the mean difference of one and another, 0 without answers, with its interval."""
        return Difference(self._lead(one, other), *self.interval(one, other))

    def interval(self, one: int, other: int) -> Interval:
        """Return the mean of `differences` for new questions like these, at alpha / (K - 1)."""
        low, high = self._watch(one, other).interval
        return Interval(low, high) if (one, other) in self.pairs else Interval(-high, -low)

    def at_most(self, one: int, other: int, margin: float) -> bool:
        """Return whether `one` is shown to be better than `other` by no more than `margin`."""
        return no_worse(self.states, other, one) or self.interval(one, other).high <= margin

    def needed(self, one: int, other: int) -> int | None:
        """Predict how many questions will decide a pair, if answers go on in the same way; None if
        no decision is in sight. A pair is decided when one program is better, or the cheaper one no
        worse.
        """
        seen = self._watch(one, other).differences
        growth = max(log_e_value(seen), log_e_value(seen, -self.margin)) if seen else 0.0
        if growth <= 0.1:  # almost no evidence yet
            return None
        # The logarithm of an e-value grows about evenly with the questions.
        return max(len(seen) + 1, math.ceil(len(seen) * -math.log(self.alpha) / growth))

    def _watch(self, one: int, other: int) -> PairWatch:
        return self.pairs.get((one, other)) or self.pairs[other, one]
