"""Votes of several agents: majority and weighted."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

from ..base.errors import UserError
from .asked import Kind

Key = Callable[[str], Hashable]

DecideTie = Callable[[Sequence[Sequence[int]]], int]
"""(for each leading answer, in the order in which they were given: the positions of its supporters)
→ the index of the answer that wins.
"""

TIES = ("first", "weight", "strongest", "random")


@dataclass(frozen=True)
class Ties:
    """A rule for answers that share the top score.

    `first` takes the answer given first; `weight` the one with the heaviest single supporter;
    `strongest` that of the voter called `name`; `random` one drawn by seed and question. If a rule
    does not decide, the answer given first wins.
    """

    rule: str = "first"
    name: str = ""
    seed: int = 0

    @classmethod
    def of(
        cls,
        tie_break: object,
        voters: Sequence[str],
        seed: object = 0,
        allowed: Sequence[str] = TIES,
    ) -> Ties:
        """Return the rule that a user writes, as `random` or `strongest:NAME`. Raises UserError."""
        rule, *voter = re.split("[:=]", str(tie_break), maxsplit=1)
        if rule not in allowed or (rule == "strongest") != bool(voter):
            forms = " or ".join(allowed).replace("strongest", "strongest:NAME")
            raise UserError(f"there is no rule {tie_break!r} for ties: choose {forms}")
        for name in voter:
            if name not in voters:
                raise UserError(
                    f"{name!r} does not vote: choose strongest among {', '.join(voters)}"
                )
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise UserError(f"seed is {seed!r}: give a whole number")
        # So that equal rules compare equal: only `random` uses the seed.
        if rule != "random":
            seed = 0
        return cls(rule, "".join(voter), seed)

    def __str__(self) -> str:
        return f"{self.rule}:{self.name}" if self.name else self.rule

    def described(self) -> dict[str, object]:
        """Return the rule as constructor parameters."""
        parameters: dict[str, object] = {"tie_break": str(self)}
        if self.rule == "random":
            parameters["seed"] = self.seed
        return parameters

    def decider(
        self,
        question: str | None,
        voters: Sequence[str] = (),
        weights: Sequence[float] | None = None,
    ) -> DecideTie:
        """Return a function that breaks ties by this rule, for the question with this id and voters
        with these names and weights.
        """

        def chosen(leaders: Sequence[Sequence[int]]) -> int:
            if self.rule == "random":
                # Seeded by the question: the order in which questions are answered must not matter.
                return random.Random(f"{self.seed}/{question}/tie").randrange(len(leaders))
            if self.rule == "weight" and weights is not None:
                heaviest = [max(map(weights.__getitem__, places)) for places in leaders]
                return heaviest.index(max(heaviest))
            if self.rule == "strongest":
                for leader, places in enumerate(leaders):
                    if self.name in [voters[place] for place in places]:
                        return leader
            return 0

        return chosen


class Vote(NamedTuple):
    """The winning answer (None: nobody voted), the score of each answer, and whether several had
    the top score.
    """

    answer: str | None
    scores: dict[str, float]
    tied: bool

    @property
    def leading(self) -> list[str]:
        """All answers with the top score, in the order in which they were given."""
        return _leaders(self.scores)


def majority(answers: Sequence[str | None], *, key: Key = str) -> Vote:
    """Return the vote for the most frequent answer; an answer of None abstains.

    A tie goes to the answer given first. Answers with equal `key` are the same answer, spelled as
    the first of them. Scores are numbers of votes.
    """
    return weighted(answers, [1.0] * len(answers), key=key)


def weighted(
    answers: Sequence[str | None],
    weights: Sequence[float],
    *,
    key: Key = str,
    decide_tie: DecideTie | None = None,
) -> Vote:
    """Return the vote for the answer with the largest sum of weights: one weight per answer, of any
    finite value and sign.

    A tie goes to the answer with the heaviest single supporter, then to the answer given first, or
    as `decide_tie` says. Scores are sums of weights. Raises ValueError when the lengths differ or a
    weight is not finite.
    """
    if len(weights) != len(answers) or not all(map(math.isfinite, weights)):
        raise ValueError(f"{len(answers)} answers need as many finite weights, not {list(weights)}")
    supporters = supporters_of(answers, key)
    scores = {}
    for answer, places in supporters.items():
        scores[answer] = math.fsum(map(weights.__getitem__, places))
    leaders = _leaders(scores)
    winner, tied = next(iter(leaders), None), len(leaders) > 1
    if tied:
        decide_tie = decide_tie or Ties("weight").decider("", weights=weights)
        winner = leaders[decide_tie([supporters[answer] for answer in leaders])]
    return Vote(winner, scores, tied)


def vote_among(
    answers: Sequence[str | None],
    kind: Kind,
    weights: Sequence[float] | None = None,
    decide_tie: DecideTie | None = None,
) -> Vote:
    """Return the vote among answers of a kind, by `weighted`, or by `majority` without weights."""
    if weights is None:
        weights = [1.0] * len(answers)
    return weighted(answers, weights, key=same_if(kind), decide_tie=decide_tie)


def all_agree(answers: Sequence[str | None], kind: Kind) -> bool:
    """Return whether there are answers, all of them could be read, and all are equal."""
    if not answers or None in answers:
        return False
    return len(supporters_of(answers, same_if(kind))) == 1


@cache
def same_if(kind: Kind) -> Key:
    """Return the key function by which answers of a kind are the same (`answer_key`)."""
    from .answers import answer_key  # only imported when there are answers to compare

    return partial(answer_key, kind=kind)


def supporters_of(answers: Sequence[str | None], key: Key) -> dict[str, list[int]]:
    """Answer → the positions of its supporters. Answers have the order and the spelling of their
    first supporter.
    """
    by_key: dict[Hashable, list[int]] = {}
    for i, answer in enumerate(answers):
        if answer is not None:
            by_key.setdefault(key(answer), []).append(i)
    return {str(answers[by[0]]): by for by in by_key.values()}


def _leaders(scores: Mapping[str, float]) -> list[str]:
    """Return the answers with the top score. Scores that differ only by rounding (0.1 + 0.2 and
    0.3) are equal.
    """
    top = max(scores.values(), default=0.0)
    return [
        answer
        for answer, score in scores.items()
        if score == top or math.isclose(score, top, rel_tol=1e-12, abs_tol=1e-12)
    ]
