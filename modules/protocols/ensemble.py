"""A static ensemble: independent programs answer at the same time, and their votes are counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dspy

from ..agents.transcript import Task, Turn
from ..base.calls import with_usage
from ..base.errors import UserError
from ..base.space import Choice, Parameter, Pick, Space
from ..base.together import together
from ..reading.answers import score
from ..reading.voting import log_odds, vote_among
from .declaration import Described, Protocol, Replayed, Replays, comma_items
from .program import Program, SeatTurns, distinct, prediction_of, solved_by
from .registry import titled
from .single import SingleAgent
from .strategies import STRATEGIES

VOTES = ("majority", "weighted")


class Ensemble(Program):
    """Members asked once each, concurrently (Agents of Commonsense, section 4.2.2).

    Args:
        members: names of single-agent strategies, or programs of any kind; at least one.
        vote: `majority` (ties go to the earliest member) or `weighted` (ties go by weight, then by order).
        weights: one non-negative number a member, for `weighted`; None until `fit_weights` has set them.
        lms: LMs for single members, by strategy name; members of the same name are `name.0`, `name.1`, ….

    `decided_by` is the vote, or `none` when no member gave a readable answer.

    Raises:
        UserError: no members, unknown vote, or weights that do not fit the members.
    """

    def __init__(
        self,
        members: Sequence[str | Program],
        vote: str = "majority",
        weights: Sequence[float] | None = None,
        *,
        lms: Mapping[str, Any] | None = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        if isinstance(members, str) or not isinstance(members, Sequence) or not members:
            raise UserError("an ensemble needs a list of members: name at least one strategy or program")
        if sampling and not all(isinstance(member, str) for member in members):
            raise UserError("sampling is for members given by name: set it on the programs that are members")
        if vote not in VOTES:
            raise UserError(f"there is no vote {vote!r}: choose {' or '.join(VOTES)}")
        self.members = [
            SingleAgent(member, sampling=sampling) if isinstance(member, str) else member
            for member in members
        ]
        self.names = distinct([_name(member) for member in self.members])
        for member, name in zip(self.members, self.names, strict=True):
            if isinstance(member, SingleAgent):
                member.rename(name)
        self.vote = vote
        self.weights = None if weights is None else _checked_weights(weights, len(self.members))
        self.assign(lms)

    def describe(self) -> dict[str, Any]:
        members = [member.describe() for member in self.members]
        return {**self.named(), "members": members, "vote": self.vote, "weights": self.weights}

    def turns(self) -> list[SeatTurns]:
        return [turns for member in self.members for turns in member.turns()]

    async def solve(self, task: Task) -> dspy.Prediction:
        if self.vote == "weighted" and self.weights is None:
            raise UserError(
                "the weighted ensemble has no weights: pass weights=[…] or fit them on training questions"
            )
        asked = await together(with_usage(solved_by(member, task)) for member in self.members)
        turns = []
        for name, (prediction, usage) in zip(self.names, asked, strict=True):
            argument = str(prediction.transcript[-1]["text"]) if prediction.transcript else ""
            turns.append(Turn(name, 1, prediction.answer, argument, usage=usage))
        weights = None if self.vote == "majority" else self.weights
        outcome = vote_among([turn.answer for turn in turns], task.kind, weights)
        return prediction_of(task, outcome.answer, self.vote, turns, tied=outcome.tied)

    def fit_weights(self, rows: Iterable[Mapping[str, Any]]) -> list[float]:
        """Set each member's weight to the log-odds of its accuracy on recorded rows of this ensemble.

        Args:
            rows: rows of `results.jsonl` from an evaluation of this ensemble on training questions.

        Returns the weights, in member order: K-ary log-odds, so that with K answers to choose from any member
        better than chance counts. One that is not gets the weight 0: its votes are dropped rather than turned
        round. Raises UserError when the rows do not come from these members.
        """
        self.weights = member_weights(self.names, rows)
        self.vote = "weighted"
        return self.weights


def member_weights(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> list[float]:
    """A weight a member, in the order of their names, as `Ensemble.fit_weights` sets them."""
    right = [0] * len(names)
    total = options = 0
    for row in rows:
        turns = {turn["agent"]: turn["answer"] for turn in row["transcript"]}
        if row.get("error"):
            continue
        if list(turns) != list(names):
            raise UserError(f"row {row['id']!r} is not of this ensemble: its members are {', '.join(names)}")
        total += 1
        options += _options(row)
        for index, name in enumerate(names):
            right[index] += score(turns[name], row["gold"], row["kind"], row.get("choices")).correct
    if not total:
        raise UserError(
            "there are no finished rows to fit weights on: evaluate the ensemble on training questions"
        )
    typical = max(2, round(options / total))
    return [max(0.0, log_odds(count / total, total, options=typical)) for count in right]


def _name(member: Program) -> str:
    if isinstance(member, SingleAgent):
        return member.seat.name
    return type(member).__name__.lower()


def _checked_weights(weights: Sequence[float], members: int) -> list[float]:
    try:
        values = [float(weight) for weight in weights]
    except (TypeError, ValueError):
        raise UserError(f"the weights are {weights!r}: give one number a member") from None
    if len(values) != members or any(not 0 <= value < float("inf") for value in values) or not any(values):
        raise UserError(
            f"{len(values)} weights for {members} members: give one number of at least 0 each, not all 0"
        )
    return values


def _options(row: Mapping[str, Any]) -> int:
    """How many answers a question had: its options, or for open ones the different answers given, and one."""
    if row["kind"] == "choice" and row.get("choices"):
        return len(row["choices"])
    return 2 if row["kind"] == "boolean" else len({turn["answer"] for turn in row["transcript"]} - {None}) + 1


def _read(parts: Sequence[str]) -> dict[str, Any]:
    return {"members": comma_items(parts)} | ({"vote": parts[1]} if len(parts) > 1 else {})


def _title(described: Described) -> str:
    members = [titled(member).removeprefix("single ") for member in described["members"]]
    return f"{', '.join(members)} · {described['vote']}"


def _singles(described: Described) -> list[dict[str, Any]]:
    return [
        member
        for member in described["members"]
        if member["program"] == "single" and not member.get("environment") and "class" not in member
    ]


def _replayed(rows: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any]) -> list[Replayed | None]:
    """The outcomes of other votes on recorded answers; weights that are not given are fitted on the rows."""
    finished = [row for row in rows if not row["error"]]
    names = [turn["agent"] for turn in finished[0]["transcript"]] if finished else []
    weights = parameters.get("weights")
    if parameters.get("vote") == "weighted" and weights is None and finished:
        weights = member_weights(names, finished)
    decided_by = "majority" if weights is None else "weighted"

    def outcome(row: Mapping[str, Any]) -> Replayed:
        answer = vote_among([turn["answer"] for turn in row["transcript"]], row["kind"], weights).answer
        return Replayed(answer, "none" if answer is None else decided_by, 1, row["usage"]["calls"])

    return [None if row["error"] else outcome(row) for row in rows]


_SPACE: Space = {
    "members": Parameter(
        Pick(tuple(name for name, known in STRATEGIES.items() if known.samples is None), 2, 4, ordered=False)
    ),
    "vote": Parameter(Choice(VOTES)),
    "sampling.temperature": Parameter(Choice((None, 0.5, 1.0))),
}

Ensemble.protocol = Protocol(
    "ensemble",
    "ensemble:simple,cot:majority",
    _read,
    _SPACE,
    # The recorded ensemble is the one that needs no weights.
    Replays(
        ("vote", "weights"),
        lambda parameters, largest: (
            {name: value for name, value in parameters.items() if name != "weights"} | {"vote": "majority"}
        ),
        _replayed,
        same_calls=True,
    ),
    _title,
    singles=_singles,
    holds=("members",),
)
