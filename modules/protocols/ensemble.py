"""A static ensemble: independent programs answer at the same time, and their votes are counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import dspy
from optuna.distributions import CategoricalDistribution

from ...signatures.roles import Picker
from ..agents.seat import Seat
from ..agents.transcript import Task, Turn
from ..base.calls import (
    ASKER,
    ROLLOUTS,
    CallError,
    Rollouts,
    Usage,
    bound,
    with_usage,
)
from ..base.errors import UserError, checked_whole, did_you_mean, said_by
from ..base.saved_file import Described
from ..base.space import Parameter, Space, When, lists
from ..base.together import those_who_answer
from ..reading.answers import Kind, score
from ..reading.row import ResultRow, TurnDetails, TurnFields
from ..reading.voting import TIES, Ties, Vote, log_odds, vote_among
from ..reports.ensemble import ensemble_report
from .declaration import Protocol, Replayed, Replays, items_and
from .foreign import Foreign
from .pick import picked
from .program import LAYOUT, Program, SeatTurns, distinct, prediction_of, solved_by
from .single import SingleAgent
from .strategies import SAMPLED, STRATEGIES

VOTES = ("majority", "weighted", "probability", "pick")
_ROLLOUTS = 10_000  # between samples: more than any member draws itself

FITTED = VOTES[:2]
"""The votes that any recorded answers can be counted by."""


class Ensemble(Program):
    """Members asked once each, concurrently (Agents of Commonsense, section 4.2.2).

    Args:
        members: names of single-agent strategies, programs, or modules and functions of your own;
            at least one.
        vote: `majority`, `weighted`, `probability` (the LM's own, from `fm.lm(…, logprobs=True)` or
            DSPy's decision outputs), or `pick` (where answers differ, an LM says which is best).
        weights: one non-negative number per member, for votes and ties that weigh; None until
            `fit_weights` has set them.
        samples: how often each member answers, for a pick.
        tie_break: which of the answers with the top score wins: `first` (the earliest member's),
            `weight` (the heaviest single member's), `strongest:MEMBER` (that member's) or `random`;
            a remaining tie goes to the first. None is `first` for `majority`, else `weight`.
        seed: settles draws, together with the question's id.
        lms: LMs by member; members of the same name are `name.0`, `name.1`, ….
        sampling: LM settings of all agents, such as `{"temperature": 0.5}`.
        prompt_layout: as elsewhere; None leaves that of each member.
        prompts: your instructions by agent, or a YAML file with them.

    `decided_by` is the vote, or `none`; `tied` says whether two answers had the top score. A member
    whose request is refused has no vote, and its turn says why in `failed`.

    Raises UserError for no members, an unknown vote or rule for ties, weights that do not fit the
    members, and a vote by probabilities where an LM gives none.
    """

    def __init__(
        self,
        members: Sequence[object],
        vote: str = "majority",
        weights: Sequence[float] | None = None,
        *,
        samples: int = 1,
        tie_break: str | None = None,
        seed: int = 0,
        lms: Mapping[str, dspy.BaseLM] | None = None,
        sampling: Mapping[str, object] | None = None,
        prompt_layout: str | None = None,
        prompts: Mapping[str, str] | str | Path | None = None,
    ) -> None:
        super().__init__()
        if isinstance(members, str) or not isinstance(members, Sequence) or not members:
            raise UserError(
                "an ensemble needs a list of members: name at least one strategy or program"
            )
        if sampling and not all(isinstance(member, str) for member in members):
            raise UserError(
                "sampling is for members given by name: set it on the programs that are members"
            )
        if vote not in VOTES:
            raise UserError(
                f"there is no vote {vote!r}{did_you_mean(vote, VOTES)}: choose {' or '.join(VOTES)}"
            )
        self.members = [_member(member, sampling) for member in members]
        self.names = distinct([_name(member) for member in self.members])
        for member, name in zip(self.members, self.names, strict=True):
            if isinstance(member, SingleAgent):
                member.rename(name)
        self.vote = vote
        self.weights = None if weights is None else _checked_weights(weights, len(self.members))
        if vote == "pick" and tie_break is not None:
            raise UserError("a pick has no ties: drop tie_break")
        if checked_whole("samples", samples) > 1 and vote != "pick":
            raise UserError(f"samples are for the vote pick, not for {vote}: drop them")
        self.samples = samples
        self.ties = None if tie_break is None else Ties.of(tie_break, self.names, seed)
        self.seed = seed
        self.picker = Seat("pick", Picker) if vote == "pick" else None
        self.word(prompts, prompt_layout)
        self.assign(lms)

    @property
    def weighs(self) -> bool:
        """Whether the vote or its ties need weights."""
        if self.vote in ("probability", "pick"):
            return False
        return self.vote == "weighted" or (self.ties is not None and self.ties.rule == "weight")

    def describe(self) -> Described:
        members = [member.describe() for member in self.members]
        settings = {**self.named(), "members": members, "vote": self.vote, "weights": self.weights}
        if self.picker is not None and self.seed:
            settings["seed"] = self.seed  # draws the order of the candidates
        if self.samples > 1:
            settings["samples"] = self.samples
        if self.ties not in (None, _ties_of(self.vote)):
            settings |= self.ties.described()
        return settings

    def other_seats(self) -> list[str]:
        return STRATEGIES.names()

    def turns(self) -> list[SeatTurns]:
        turns = [
            (seat, self.samples * fewest, self.samples * most)
            for member in self.members
            for seat, fewest, most in member.turns()
        ]
        return turns if self.picker is None else [*turns, (self.picker, 0, 2)]

    async def solve(self, task: Task) -> dspy.Prediction:
        if self.weighs and self.weights is None:
            raise UserError(
                "the weighted ensemble has no weights: pass weights=[…] or fit them on training "
                "questions"
            )
        asked = await those_who_answer(
            with_usage(_sample(member, task, number))
            for member in self.members
            for number in range(self.samples)
        )
        # A name for each ballot: a report counts the answers by the names of turns.
        names = distinct([name for name in self.names for _ in range(self.samples)])
        turns = [_turn(name, outcome) for name, outcome in zip(names, asked, strict=True)]
        if self.picker is not None:
            return await self._picked(task, turns, self.picker)
        ballots = [Ballot(turn.agent, turn.answer, turn.details.probability) for turn in turns]
        question = ASKER.get().question
        decided = _counted(ballots, task.kind, question, self.vote, self.weights, self.ties)
        return prediction_of(task, decided.answer, self.vote, turns, tied=decided.tied)

    async def _picked(self, task: Task, turns: list[Turn], picker: Seat) -> dspy.Prediction:
        decision = await picked(picker, task, turns, self.seed, 2)
        if decision is None:  # all that answered agree
            answer = next((turn.answer for turn in turns if turn.answer is not None), None)
            return prediction_of(task, answer, self.vote, turns)
        return prediction_of(task, decision.answer, self.vote, [*turns, decision], rounds=2)

    def fit_weights(self, rows: Iterable[ResultRow]) -> list[float]:
        """Set each member's weight to the log-odds of its accuracy on recorded rows.

        Args:
            rows: rows of `results.jsonl` from an evaluation of this ensemble on training questions.

        Returns the weights, in member order: K-ary log-odds, so that with K answers to choose from
        any member better than chance counts. One that is not gets the weight 0: its votes are
        dropped rather than turned round. Raises UserError when the rows do not come from these
        members.
        """
        self.weights = member_weights(self.names, rows)
        if not self.weighs:
            self.vote = "weighted"
        return self.weights

    @contextmanager
    def unweighed(self) -> Iterator[None]:
        """A plain majority for the time being: what weights are fitted on."""
        vote, ties = self.vote, self.ties
        self.vote, self.ties = "majority", None
        try:
            yield
        finally:
            self.vote, self.ties = vote, ties

    def report(self, rows: Iterable[ResultRow]) -> dict[str, object]:
        return ensemble_report(rows)


async def _sample(member: Program, task: Task, number: int) -> dspy.Prediction:
    """A member's prediction; from the second sample on, of calls of its own."""
    if not number:
        return await solved_by(member, task)
    # A repeat of the question has rollouts of its own, on which these are built.
    first = ROLLOUTS.get().rollout + number * _ROLLOUTS
    with bound(ROLLOUTS, Rollouts(first, SAMPLED["temperature"])):
        return await solved_by(member, task)


def _turn(name: str, outcome: CallError | tuple[dspy.Prediction, Usage]) -> Turn:
    """The turn of a member: the last one of its own transcript, with the answer and the whole bill.

    One whose request was refused says why.
    """
    if isinstance(outcome, CallError):
        return Turn(name, 1, None, "", details=TurnDetails(failed=said_by(outcome)))
    prediction, usage = outcome
    if not prediction.transcript:
        return Turn(name, 1, prediction.answer, "", usage=usage)
    last = TurnFields.of(prediction.transcript[-1])
    details = TurnDetails()
    if last.probability is not None and last.answer == prediction.answer:
        details["probability"] = last.probability
    return Turn(name, 1, prediction.answer, str(last.text), usage=usage, details=details)


class Ballot(NamedTuple):
    """A member's answer, with the LM's own probability of it where that is known."""

    agent: str
    answer: str | None
    probability: float | None


def _counted(
    ballots: Sequence[Ballot],
    kind: Kind,
    question: str | None,
    vote: str,
    weights: Sequence[float] | None,
    ties: Ties | None,
) -> Vote:
    """The outcome of a vote, of one question or of its recorded answers."""
    if vote == "probability":
        weights = _probabilities(ballots)
    names = [ballot.agent for ballot in ballots]
    decide_tie = (ties or _ties_of(vote)).decider(question, names, weights)
    answers = [ballot.answer for ballot in ballots]
    return vote_among(answers, kind, None if vote == "majority" else weights, decide_tie)


def member_weights(names: Sequence[str], rows: Iterable[ResultRow]) -> list[float]:
    """A weight per member, in the order of their names, as `Ensemble.fit_weights` sets them."""
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
            scored = score(turns[name], row.gold or "", row.kind, row.choices)
            right[index] += scored.correct
    if not total:
        raise UserError(
            "there are no finished rows to fit weights on: evaluate the ensemble on training "
            "questions"
        )
    typical = max(2, round(options / total))
    # Below 0, a vote for an answer would count against it: who guesses badly is left out.
    return [max(0.0, log_odds(count / total, total, options=typical)) for count in right]


def _probabilities(ballots: Sequence[Ballot]) -> list[float]:
    """The LM's own probability of each answer; 0 for an abstention, whose weight is not used."""
    for ballot in ballots:
        if ballot.answer is not None and ballot.probability is None:
            raise UserError(
                f"the vote goes by probability, and the LM of {ballot.agent!r} gave none: set "
                "logprobs=true for an LM that gives them, or choose majority"
            )
    return [ballot.probability or 0.0 for ballot in ballots]


def _ties_of(vote: str) -> Ties:
    """The rule for ties of a vote, unless another is given."""
    return Ties("first" if vote == "majority" else "weight")


def _member(member: Any, sampling: Mapping[str, object] | None) -> Program:
    if isinstance(member, Program):
        return member
    if isinstance(member, str):
        return SingleAgent(member, sampling=sampling)
    if not callable(member):
        raise UserError(
            f"a member of the ensemble is a {type(member).__name__}: give names of strategies, "
            "programs, a dspy.Module or a function"
        )
    return Foreign(member)


def _name(member: Program) -> str:
    if isinstance(member, SingleAgent):
        return member.seat.name
    return type(member).__name__.lower()


def _checked_weights(weights: Sequence[float], members: int) -> list[float]:
    try:
        values = [float(weight) for weight in weights]
    except (TypeError, ValueError):
        raise UserError(f"the weights are {weights!r}: give one number per member") from None
    finite = all(0 <= value < float("inf") for value in values)
    if len(values) != members or not finite or not any(values):
        raise UserError(
            f"{len(values)} weights for {members} members: give one number of at least 0 each, "
            "not all 0"
        )
    return values


def _options(row: ResultRow) -> int:
    """The number of possible answers: the options, or without any the answers given, and one."""
    choices = row.choices
    if row.kind == "choice" and choices:
        return len(choices)
    if row.kind == "boolean":
        return 2
    return len({turn.answer for turn in row.transcript} - {None}) + 1


def _replayed(rows: Sequence[ResultRow], parameters: Mapping[str, Any]) -> list[Replayed | None]:
    """The outcomes of other votes on recorded answers; weights that are not given are fitted on the
    rows.
    """
    finished = [row for row in map(ResultRow.of, rows) if not row.error]
    vote = parameters.get("vote") or "majority"
    if not finished or vote == "pick":  # which has to be asked
        return [None for _ in rows]
    names = [turn.agent for turn in finished[0].transcript]
    rule, weights = parameters.get("tie_break"), parameters.get("weights")
    ties = _ties_of(vote) if rule is None else Ties.of(rule, names, parameters.get("seed", 0))
    if weights is None and (vote == "weighted" or (vote == "majority" and ties.rule == "weight")):
        weights = member_weights(names, finished)
    outcomes: list[Replayed | None] = []
    for row in map(ResultRow.of, rows):
        if row.error:
            outcomes.append(None)
            continue
        ballots = [Ballot(turn.agent, turn.answer, turn.probability) for turn in row.transcript]
        answer = _counted(ballots, row.kind, row.id, vote, weights, ties).answer
        decided_by = "none" if answer is None else vote
        outcomes.append(Replayed(answer, decided_by, 1, row.usage.calls or 0))
    return outcomes


_ASKED_ONCE = [name for name, strategy in STRATEGIES.items() if strategy.samples is None]
_SPACE: Space = {
    "members": Parameter(lists(_ASKED_ONCE, 2, 4, ordered=False)),
    "vote": Parameter(CategoricalDistribution(FITTED)),
    "tie_break": Parameter(CategoricalDistribution(TIES), default="first"),
    "strongest": Parameter(
        CategoricalDistribution(tuple(STRATEGIES)),
        When("tie_break", ("strongest",)),
        joins="tie_break",
        among="members",
    ),
    "prompt_layout": LAYOUT,
    "sampling.temperature": Parameter(CategoricalDistribution((None, 0.5, 1.0))),
}

_FREE = ("vote", "weights", "tie_break", "seed")


def _recorded(parameters: Mapping[str, object], largest: object) -> dict[str, object]:
    """The ensemble to record: the one that needs no weights, and asks nobody else."""
    kept = {name: value for name, value in parameters.items() if name not in _FREE}
    return {**kept, "vote": "majority"}


Ensemble.protocol = Protocol(
    "ensemble",
    "ensemble:simple,cot:majority",
    partial(items_and, "members", "vote"),
    _SPACE,
    Replays(_FREE, _recorded, _replayed, same_calls=True),
    holds=("members",),
)
