"""The worth of each voter: Shapley values, from the votes of coalitions over recorded answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

MOST_WORTH = 8
"""Most voters of whom Shapley values are computed: every coalition of them is counted."""

MOST_VOTERS = 64
_ABSTAINED = 255
_CELLS = 1_000_000  # how many votes are counted at once

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.float64]


class Ballot(NamedTuple):
    """The votes on one question: which answer each voter gave (equal numbers for equal answers,
    255: none), which of the answers are right (a bit each), and each voter's weight as float64
    bytes (none: all 1).
    """

    answers: bytes
    right: int
    weights: bytes = b""


def ballot_of(
    keys: Sequence[str | None], right: Sequence[bool], weights: Sequence[float] | None = None
) -> Ballot:
    """The ballot of a question: a voter's answer by its key (None abstains), whether it is right,
    its weight.

    Raises ValueError when the lengths differ.
    """
    if len(keys) != len(right) or (weights is not None and len(weights) != len(keys)):
        raise ValueError(f"{len(keys)} answers need as many scores and weights")
    numbers: dict[str, int] = {}
    codes, bits = bytearray(), 0
    for key, is_right in zip(keys, right, strict=True):
        if key is None:
            codes.append(_ABSTAINED)
            continue
        codes.append(numbers.setdefault(key, len(numbers)))
        bits |= bool(is_right) << codes[-1]
    packed = b"" if weights is None else np.asarray(weights, dtype=np.float64).tobytes()
    return Ballot(bytes(codes), bits, packed)


def coalitions_right(ballots: Sequence[Ballot], members: Flags) -> Flags:
    """Truth of the vote of each coalition on each ballot: (ballots, coalitions).

    `members` (coalitions, voters) says who is in each. The answer with the largest sum of weights
    wins; a tie goes to the one with the heaviest single supporter, then to the one given first:
    `voting.weighted`, and with equal weights `voting.majority`. A coalition in which nobody answers
    is not right. Voters that a ballot lacks abstain.
    """
    coalitions, voters = members.shape
    codes = np.full((len(ballots), voters), _ABSTAINED)
    weights = np.ones((len(ballots), voters))
    for row, ballot in enumerate(ballots):
        answers = np.frombuffer(ballot.answers, dtype=np.uint8)[:voters]
        codes[row, : len(answers)] = answers
        if ballot.weights:
            weights[row, : len(answers)] = np.frombuffer(ballot.weights)[:voters]
    kinds = 1 + int(np.where(codes == _ABSTAINED, -1, codes).max(initial=-1))
    codes[codes == _ABSTAINED] = kinds  # one more, which is thrown away below
    shape = (len(ballots), kinds + 1, coalitions)
    total, heaviest, first = np.zeros(shape), np.full(shape, -math.inf), np.full(shape, voters)
    every = np.arange(len(ballots))
    for voter in range(voters):
        place, votes = (every, codes[:, voter]), members[:, voter]
        weight = weights[:, voter, None]
        total[place] += np.where(votes, weight, 0.0)
        heaviest[place] = np.maximum(heaviest[place], np.where(votes, weight, -math.inf))
        first[place] = np.minimum(first[place], np.where(votes, voter, voters))
    total, heaviest, first = total[:, :kinds], heaviest[:, :kinds], first[:, :kinds]
    if not kinds:
        return np.zeros((len(ballots), coalitions), dtype=bool)
    answered = first < voters
    total[~answered] = -math.inf
    # Sums that differ by rounding alone are a tie, as in voting.
    leads = answered & np.isclose(total, total.max(axis=1, keepdims=True), rtol=1e-12, atol=1e-12)
    heaviest[~leads] = -math.inf
    leads &= heaviest == heaviest.max(axis=1, keepdims=True)
    winner = np.where(leads, first, voters + 1).argmin(axis=1)
    right = np.array(
        [[ballot.right >> code & 1 for code in range(kinds)] for ballot in ballots], dtype=bool
    )
    return np.asarray(np.take_along_axis(right, winner, axis=1) & answered.any(axis=1))


@lru_cache(4_096)
def vote_right(ballot: Ballot) -> bool:
    """True if the vote of all is right on a ballot."""
    return bool(coalitions_right([ballot], np.ones((1, len(ballot.answers)), dtype=bool))[0, 0])


def shapley_values(ballots: Mapping[Ballot, int], voters: int) -> tuple[list[float], float]:
    """Each voter's Shapley value, and the accuracy of all voting together.

    A coalition is worth its accuracy: the share of questions that the vote among its members gets
    right (nobody: 0). A voter's value is what it adds on joining, the mean over all orders of
    joining (Shapley 1953), so that the values sum to the accuracy of all. None of it asks an LM.

    Args:
        ballots: how often each ballot was cast; at least one.
        voters: how many there are, in the ballots' order; at most 8.

    Raises ValueError without a ballot or for more than 8 voters.
    """
    questions = sum(ballots.values())
    if not questions or not 1 <= voters <= MOST_WORTH:
        raise ValueError(f"Shapley values need a ballot and 1 to {MOST_WORTH} voters, not {voters}")
    places = np.arange(2**voters)
    members = (places[:, None] >> np.arange(voters) & 1).astype(bool)
    worth = _worth(ballots, members) / questions
    sizes = members.sum(axis=1)
    share = np.array([1 / (voters * math.comb(voters - 1, size)) for size in range(voters)])
    values = []
    for voter in range(voters):
        without = places[~members[:, voter]]
        added = worth[without | (1 << voter)] - worth[without]
        values.append(math.fsum(share[sizes[without]] * added))
    return values, float(worth[-1])


def _worth(ballots: Mapping[Ballot, int], members: Flags) -> Numbers:
    worth = np.zeros(len(members))
    cast, times = list(ballots), np.array(list(ballots.values()), dtype=np.float64)
    step = max(1, _CELLS // members.size)
    for start in range(0, len(cast), step):
        worth += times[start : start + step] @ coalitions_right(cast[start : start + step], members)
    return worth
