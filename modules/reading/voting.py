"""Votes of several agents: majority, weighted, and trust-weighted."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..base.errors import UserError
from .answers import Kind, answer_key

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

LOWEST_TRUST = 0.1
"""The lower bound of trust, and the weight of an agent that nobody is connected to."""

Key = Callable[[str], Hashable]

DecideTie = Callable[[Sequence[Sequence[int]]], int]
"""Takes the places of each leading answer's supporters, the answer given first in front, and
returns which of the answers wins.
"""

TIES = ("first", "weight", "strongest", "random")


@dataclass(frozen=True)
class Ties:
    """A rule for answers that share the top score.

    `first` takes the one given first; `weight` the one with the heaviest single supporter;
    `strongest` that of the voter called `name`; `random` one that seed and question draw. What a
    rule leaves open goes to the answer given first.
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
        """The rule that a user writes, as `random` or `strongest:NAME`. Raises UserError."""
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
        # A rule that draws nothing is the same with every seed.
        if rule != "random":
            seed = 0
        return cls(rule, "".join(voter), seed)

    def __str__(self) -> str:
        return f"{self.rule}:{self.name}" if self.name else self.rule

    def described(self) -> dict[str, Any]:
        """The rule as constructor parameters."""
        parameters: dict[str, Any] = {"tie_break": str(self)}
        if self.rule == "random":
            parameters["seed"] = self.seed
        return parameters

    def decider(
        self,
        question: str | None,
        voters: Sequence[str] = (),
        weights: Sequence[float] | None = None,
    ) -> DecideTie:
        """The rule for the question with this id, and the names and weights of its voters."""

        def chosen(leaders: Sequence[Sequence[int]]) -> int:
            if self.rule == "random":
                # Drawn by the question, so that the order in which questions are answered does not
                # matter.
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
    """The winning answer (None: nobody voted), the score of each, and whether several led."""

    answer: str | None
    scores: dict[str, float]
    tied: bool

    @property
    def leading(self) -> list[str]:
        """Every answer with the top score, the one given first in front."""
        return _leaders(self.scores)


def majority(
    answers: Sequence[str | None], *, key: Key = str, decide_tie: DecideTie | None = None
) -> Vote:
    """The most frequent answer; None abstains, and a tie goes to the answer given first, or as
    `decide_tie` says.

    Answers with equal `key` are the same answer, shown as the first of them was spelled. Scores are
    votes.
    """
    return weighted(answers, [1.0] * len(answers), key=key, decide_tie=decide_tie)


def weighted(
    answers: Sequence[str | None],
    weights: Sequence[float],
    *,
    key: Key = str,
    decide_tie: DecideTie | None = None,
) -> Vote:
    """The answer with the largest sum of weights, one weight an answer, of any finite size and
    sign.

    A tie goes to the answer with the heaviest single supporter, then to the answer given first, or
    as `decide_tie` says. Scores are sums of weights. Raises ValueError when the lengths differ or a
    weight is not finite.
    """
    if len(weights) != len(answers) or not all(map(math.isfinite, weights)):
        raise ValueError(f"{len(answers)} answers need as many finite weights, not {list(weights)}")
    supporters = _supporters(answers, key)
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
    """The vote among answers of a kind, with equal weights (None) or by their sum."""
    key = partial(answer_key, kind=kind)
    if weights is None:
        return majority(answers, key=key, decide_tie=decide_tie)
    return weighted(answers, weights, key=key, decide_tie=decide_tie)


def ranked(
    answers: Sequence[str | None],
    voters: Sequence[str],
    ties: Ties,
    draw: random.Random,
    *,
    key: Key = str,
) -> list[tuple[str, float]]:
    """The answers given with their shares of all votes, most frequent first; None abstains.

    Of equally frequent ones, that of the voter whom `ties` names goes first, then the one given
    first; with the rule `random` they are in an order that is drawn.
    """
    supporters = _supporters(answers, key)
    order = list(supporters)
    if ties.rule == "random":
        draw.shuffle(order)

    def place(answer: str) -> tuple[int, bool]:
        by = supporters[answer]
        return -len(by), ties.name not in [voters[i] for i in by]

    return [(answer, len(supporters[answer]) / len(answers)) for answer in sorted(order, key=place)]


def log_odds(accuracy: float, n: int, *, options: int = 2) -> float:
    """The weight of a voter who was right in a share `accuracy` of `n` questions with `options`
    choices each.

    log((K - 1) p / (1 - p)), the K-ary log-odds; K = 2 is the plain log-odds, negative below one
    half. With more options a voter better than chance keeps a positive weight. p is smoothed by
    half a right and half a wrong answer, p = (accuracy n + 1/2) / (n + 1), so that 0 % and 100 %
    stay finite and n = 0 gives p = 1/2. Raises ValueError for an accuracy outside 0 to 1, a
    negative n, or fewer than two options.
    """
    if not 0 <= accuracy <= 1 or n < 0 or options < 2:
        raise ValueError(
            "log-odds need an accuracy from 0 to 1, n >= 0 and options >= 2, "
            f"not {accuracy}, {n} and {options}"
        )
    right = accuracy * n + 0.5
    return math.log((options - 1) * right / (n + 1 - right))


class Consensus(NamedTuple):
    """The group's answer with its probability, every answer's probability, and each agent's weight
    (N,).
    """

    answer: str | None
    probability: float
    probabilities: dict[str, float]
    weights: npt.NDArray[np.float64]


def trust_consensus(
    answers: Sequence[str | None],
    trust: npt.NDArray[np.float64],
    adjacency: npt.NDArray[np.generic],
) -> Consensus:
    """The trust-weighted vote of N connected agents (MARL-GAT, consensus).

    `trust` (N, N) holds T, `adjacency` (N, N) is true or non-zero where two agents are connected;
    diagonals do not count. With N_i = {j != i : T_ij > 0 and i, j connected} agent i weighs W_i =
    mean of T_ij over N_i, or 0.1, the lower trust bound, without a neighbour. An answer's score is
    the sum of its supporters' weights; probabilities are the softmax of the scores over the answers
    given. The highest wins; of equal scores, the answer whose first supporter has the lower index.
    Abstentions (None) have no score; when all abstain the answer is None, its probability 0. Raises
    ValueError for matrices of another shape or with values that are not finite.
    """
    import numpy as np

    n = len(answers)
    matrix, edges = np.asarray(trust, dtype=np.float64), np.asarray(adjacency) != 0
    if {matrix.shape, edges.shape} != {(n, n)} or not np.isfinite(matrix).all():
        raise ValueError(
            f"{n} agents need {n} x {n} finite trust values, and an adjacency of that shape"
        )
    neighbours = edges & (matrix > 0) & ~np.eye(n, dtype=bool)
    degree = neighbours.sum(axis=1)
    total = np.where(neighbours, matrix, 0.0).sum(axis=1)
    weights = np.where(degree > 0, total / np.maximum(degree, 1), LOWEST_TRUST)
    return weighted_consensus(answers, weights)


def weighted_consensus(
    answers: Sequence[str | None],
    weights: npt.NDArray[np.float64],
    decide_tie: DecideTie | None = None,
) -> Consensus:
    """The vote of `trust_consensus` from the weight of each of N agents, (N,), of any sign.

    Raises ValueError as `weighted` does.
    """
    import numpy as np

    weight_of = np.asarray(weights, dtype=np.float64)
    decide_tie = decide_tie or Ties().decider("")
    winner, scores, _ = weighted(answers, weight_of.tolist(), decide_tie=decide_tie)
    if winner is None:
        return Consensus(None, 0.0, {}, weight_of)
    # Relative to the highest score, or large scores could overflow.
    powers = {answer: math.exp(score - scores[winner]) for answer, score in scores.items()}
    whole = math.fsum(powers.values())
    probabilities = {answer: power / whole for answer, power in powers.items()}
    return Consensus(winner, probabilities[winner], probabilities, weight_of)


def _supporters(answers: Sequence[str | None], key: Key) -> dict[str, list[int]]:
    """The supporters of each answer, by position; answers ordered and spelled as by their first
    supporter.
    """
    by_key: dict[Hashable, list[int]] = {}
    for i, answer in enumerate(answers):
        if answer is not None:
            by_key.setdefault(key(answer), []).append(i)
    return {str(answers[by[0]]): by for by in by_key.values()}


def _leaders(scores: Mapping[str, float]) -> list[str]:
    """The answers with the top score. Sums that differ by rounding alone (0.1 + 0.2 and 0.3) are a
    tie.
    """
    top = max(scores.values(), default=0.0)
    return [
        answer
        for answer, score in scores.items()
        if score == top or math.isclose(score, top, rel_tol=1e-12, abs_tol=1e-12)
    ]
