"""The votes of an ensemble: which answer wins, the weights of members, and replays of recorded
answers under other votes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..base.errors import UserError
from ..base.keyed import without
from ..reading.answers import score
from ..reading.asked import Kind
from ..reading.row import ResultRow
from ..reading.voting import Ties, Vote, vote_among
from .declaration import Replayed, Replays

FITTED = ("majority", "weighted")
"""The votes by which recorded answers can be counted again."""

VOTES = (*FITTED, "probability", "pick")

_FREE = ("vote", "weights", "tie_break", "seed")


class Ballot(NamedTuple):
    """A member's answer, and the probability that its LM gave it, if that is known."""

    agent: str
    answer: str | None
    probability: float | None


def usual_ties(vote: str) -> Ties:
    """Return the default rule for ties of a vote."""
    if vote == "majority":
        return Ties("first")
    return Ties("weight")


def weighs(vote: str, ties: Ties) -> bool:
    """Return whether a vote with this rule for ties needs weights."""
    return vote == "weighted" or (vote == "majority" and ties.rule == "weight")


def count_ballots(
    ballots: Sequence[Ballot],
    kind: Kind,
    question: str | None,
    vote: str,
    weights: Sequence[float] | None,
    ties: Ties,
) -> Vote:
    """Return the outcome of the vote on one question."""
    if vote == "probability":
        weights = _probabilities(ballots)
    names = [ballot.agent for ballot in ballots]
    answers = [ballot.answer for ballot in ballots]
    decide_tie = ties.decider(question, names, weights)
    # In a majority, weights may only break ties.
    counted = None if vote == "majority" else weights
    return vote_among(answers, kind, counted, decide_tie)


def _probabilities(ballots: Sequence[Ballot]) -> list[float]:
    """Return the probability that its LM gave each answer; 0 for an abstention, which has no vote.
    Raises UserError for an answer without one.
    """
    for ballot in ballots:
        if ballot.answer is not None and ballot.probability is None:
            raise UserError(
                f"the vote goes by probability, and the LM of {ballot.agent!r} gave none: set "
                "logprobs=true for an LM that gives them, or choose majority"
            )
    return [ballot.probability or 0.0 for ballot in ballots]


def checked_weights(weights: Sequence[float], members: int) -> list[float]:
    """Return the weights as numbers. Raises UserError unless there is a valid one for each
    member.
    """
    try:
        values = list(map(float, weights))
    except (TypeError, ValueError):
        raise UserError(f"the weights are {weights!r}: give one number per member") from None
    finite = all(0 <= value < float("inf") for value in values)
    if len(values) != members or not finite or not any(values):
        raise UserError(
            f"{len(values)} weights for {members} members: give one number of at least 0 each, "
            "not all 0"
        )
    return values


def member_weights(names: Sequence[str], rows: Iterable[ResultRow]) -> list[float]:
    """Return the weight of each member, in the order of names: the log-odds of being right in these
    rows. Raises UserError for rows of another ensemble, and without finished rows.
    """
    right = [0] * len(names)
    total = options = 0
    for row in map(ResultRow.of, rows):
        turns = {turn.agent: turn.answer for turn in row.transcript}
        if row.error:
            continue
        if list(turns) != list(names):
            raise UserError(
                f"row {row.id!r} is not of this ensemble: its members are {', '.join(names)}"
            )
        total += 1
        options += _options(row)
        for index, name in enumerate(names):
            right[index] += score(turns[name], row.gold or "", row.kind, row.choices).correct
    if not total:
        raise UserError(
            "there are no finished rows to fit weights on: evaluate the ensemble on training "
            "questions"
        )
    typical = max(2, round(options / total))
    # Not below 0, with which a vote for an answer would count against it.
    return [max(0.0, log_odds(count / total, total, options=typical)) for count in right]


def _options(row: ResultRow) -> int:
    """Return the number of possible answers: that of the options, else one more than were given."""
    if row.kind == "choice" and row.choices:
        return len(row.choices)
    if row.kind == "boolean":
        return 2
    return len({turn.answer for turn in row.transcript} - {None}) + 1


def _recorded(parameters: Mapping[str, object], largest: object) -> dict[str, object]:
    """Return the parameters of the ensemble to record: one that needs no weights and no further
    call.
    """
    return {**without(parameters, _FREE), "vote": "majority"}


def _vote_again(rows: Sequence[ResultRow], parameters: Mapping[str, Any]) -> list[Replayed | None]:
    """Return the outcomes of another vote on recorded answers; weights that are not given are
    fitted on the same rows.
    """
    rows = list(map(ResultRow.of, rows))
    finished = [row for row in rows if not row.error]
    vote = parameters.get("vote") or "majority"
    if not finished or vote == "pick":  # a pick needs a call
        return [None] * len(rows)
    names = [turn.agent for turn in finished[0].transcript]
    rule, weights = parameters.get("tie_break"), parameters.get("weights")
    ties = usual_ties(vote) if rule is None else Ties.of(rule, names, parameters.get("seed", 0))
    if weights is None and weighs(vote, ties):
        weights = member_weights(names, finished)
    outcomes: list[Replayed | None] = []
    for row in rows:
        if row.error:
            outcomes.append(None)
            continue
        ballots = [Ballot(turn.agent, turn.answer, turn.probability) for turn in row.transcript]
        answer = count_ballots(ballots, row.kind, row.id, vote, weights, ties).answer
        decided_by = "none" if answer is None else vote
        outcomes.append(Replayed(answer, decided_by, 1, row.usage.calls or 0))
    return outcomes


REPLAYS = Replays(_FREE, _recorded, _vote_again, same_calls=True)


def log_odds(accuracy: float, n: int, *, options: int = 2) -> float:
    """Return the weight of a voter who was right in a share `accuracy` of `n` questions with
    `options` choices each.

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
