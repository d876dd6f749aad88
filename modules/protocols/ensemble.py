"""A static ensemble: independent programs answer at the same time, and their votes are counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from typing import Annotated, Unpack

import dspy

from ...signatures.roles import Picker
from ..agents.seat import Seat
from ..agents.transcript import Task, Turn
from ..base.calls import (
    ASKER,
    ROLLOUTS,
    CallError,
    Usage,
    bound,
    with_usage,
)
from ..base.errors import UserError, checked_among, checked_whole, said_by
from ..base.space import Parameter, Space, When, choice, lists
from ..base.together import those_who_answer
from ..reading.row import ResultRow, TurnDetails, TurnFields
from ..reading.voting import TIES, Ties
from ..reports.ensemble import ensemble_report
from .declaration import distinct
from .declared import WORDING, Declared, Said, Setting, Shared
from .foreign import Foreign
from .pick import picked
from .program import Program, SeatTurns, prediction_of, solved_by
from .single import SingleAgent, member
from .strategies import SAMPLED, STRATEGIES
from .votes import (
    FITTED,
    REPLAYS,
    VOTES,
    Ballot,
    checked_weights,
    count_ballots,
    member_weights,
    usual_ties,
    weighs,
)

_ASKED_ONCE = [name for name, strategy in STRATEGIES.items() if strategy.samples is None]
_MEMBERS = Parameter(lists(_ASKED_ONCE, 2, 4, ordered=False))
_TIES = Parameter(choice(*TIES), default="first")
_STRONGEST: Space = {
    "strongest": Parameter(
        choice(*STRATEGIES),
        When("tie_break", ("strongest",)),
        joins="tie_break",
        among="members",
    )
}


def _members(name: str, members: object) -> list[Program]:
    if isinstance(members, str) or not isinstance(members, Sequence) or not members:
        raise UserError(
            "an ensemble needs a list of members: name at least one strategy or program"
        )
    return [_member(name, given) for given in members]


def _member(name: str, given: object) -> Program:
    if callable(given) and not isinstance(given, Program):
        return Foreign(given)
    return member(name, given)


class Ensemble(
    Declared,
    name="ensemble",
    example="ensemble:simple,cot:majority",
    space={**_STRONGEST, **WORDING},
    replays=REPLAYS,
    holds=("members",),
):
    """Members asked once each, concurrently (Agents of Commonsense, section 4.2.2).

    Args:
        members: names of strategies, programs, or modules and functions of your own; at least one.
        vote: `majority`, `weighted`, `probability` (the LM's own, from `fm.lm(…, logprobs=True)` or
            DSPy's decision outputs), or `pick` (where answers differ, an LM says which is best).
        weights: one non-negative number per member; None until `fit_weights` has set them.
        samples: the number of answers of each member, for a pick.
        tie_break: which of the answers with the top score wins: `first` (the earliest member's),
            `weight` (the heaviest single member's), `strongest:MEMBER` or `random`. None is `first`
            for `majority`, else `weight`.
        seed: settles draws, together with the question's id.
        lms: LMs by member; members of the same name are `name.0`, `name.1`, ….
        sampling: LM settings of all agents, such as `{"temperature": 0.5}`.
        prompt_layout: as elsewhere; None leaves that of each member.
        prompts: your instructions by agent, or a YAML file with them.

    `decided_by` is the vote, or `none`; `tied` says whether two answers had the top score. A member
    whose request is refused has no vote; its turn says why in `failed`.

    Raises UserError for no members, an unknown vote or rule for ties, weights that do not fit the
    members, and a vote by probabilities if an LM gives none.
    """

    def __init__(
        self,
        members: Annotated[Sequence[str | dspy.Module | Callable[..., object]], _members, _MEMBERS],
        vote: Annotated[str, partial(checked_among, allowed=VOTES), choice(*FITTED)] = "majority",
        weights: Sequence[float] | None = None,
        *,
        samples: Annotated[int, checked_whole, Said.CHANGED] = 1,
        tie_break: Annotated[str | None, Said.CHANGED, _TIES] = None,
        seed: Annotated[int, Said.DRAWN] = 0,
        **shared: Unpack[Shared],
    ) -> None:
        self.names = distinct([_name(member) for member in self.members])
        for agent, name in zip(self.members, self.names, strict=True):
            if isinstance(agent, SingleAgent):
                agent.rename(name)
        if weights is not None:
            self.weights = checked_weights(weights, len(members))
        if samples > 1 and vote != "pick":
            raise UserError(f"samples are for the vote pick, not for {vote}: drop them")
        if vote == "pick" and tie_break is not None:
            raise UserError("a pick has no ties: drop tie_break")
        if tie_break is not None:
            self.tie_break: str | None = str(Ties.of(tie_break, self.names, seed))
        self.picker = Seat("pick", Picker) if vote == "pick" else None

    @property
    def ties(self) -> Ties:
        """The given rule for ties, or else the usual one of the vote."""
        if self.tie_break is None:
            return usual_ties(self.vote)
        return Ties.of(self.tie_break, self.names, self.seed)

    @property
    def weighs(self) -> bool:
        """Whether the vote or its ties need weights."""
        return weighs(self.vote, self.ties)

    @property
    def lacks_weights(self) -> bool:
        return self.weighs and self.weights is None

    @property
    def draws(self) -> bool:
        return super().draws or (self.picker is not None and self.seed != 0)

    def _said(self, setting: Setting) -> bool:
        is_usual = setting.name == "tie_break" and self.ties == usual_ties(self.vote)
        return super()._said(setting) and not is_usual

    def other_seats(self) -> list[str]:
        return STRATEGIES.names()

    def turns(self) -> list[SeatTurns]:
        turns: list[SeatTurns] = []
        for program in self.members:
            for seat, fewest, most in program.turns():
                turns.append((seat, self.samples * fewest, self.samples * most))
        if self.picker is not None:
            turns.append((self.picker, 0, 2))
        return turns

    async def solve(self, task: Task) -> dspy.Prediction:
        if self.lacks_weights:
            raise UserError(
                "the weighted ensemble has no weights: pass weights=[…] or fit them on training "
                "questions"
            )
        names = [name for name in self.names for _ in range(self.samples)]
        answered = await those_who_answer(
            partial(with_usage, _sample, program, task, number)
            for program, number in product(self.members, range(self.samples))
        )
        # Each sample gets a name of its own: a report counts answers by the names of turns.
        turns = list(map(_turn, distinct(names), answered))
        if self.picker is not None:
            return await self._picked(task, turns, self.picker)
        ballots = [Ballot(turn.agent, turn.answer, turn.details.probability) for turn in turns]
        question = ASKER.get().question
        decided = count_ballots(ballots, task.kind, question, self.vote, self.weights, self.ties)
        return prediction_of(task, decided.answer, self.vote, turns, tied=decided.tied)

    async def _picked(self, task: Task, turns: list[Turn], picker: Seat) -> dspy.Prediction:
        decision = await picked(picker, task, turns, self.seed, 2)
        if decision is None:  # the answers are the same
            answer = next((turn.answer for turn in turns if turn.answer is not None), None)
            return prediction_of(task, answer, self.vote, turns)
        return prediction_of(task, decision.answer, self.vote, [*turns, decision], rounds=2)

    def fit_weights(self, rows: Iterable[ResultRow]) -> list[float]:
        """Set each member's weight to the log-odds of its accuracy on recorded rows.

        Args:
            rows: rows of `results.jsonl` from an evaluation of this ensemble on training questions.

        Returns the weights, in member order: K-ary log-odds, so that with K answers to choose from
        any member better than chance counts. A worse member gets the weight 0: its votes are
        dropped rather than reversed. Raises UserError when the rows do not come from these members.
        """
        self.weights = member_weights(self.names, rows)
        # In a plain majority the new weights would have no effect.
        if not self.weighs:
            self.vote = "weighted"
        return self.weights

    @contextmanager
    def unweighed(self) -> Iterator[None]:
        """Vote by plain majority within the block, as for rows that weights are fitted on."""
        vote, tie_break = self.vote, self.tie_break
        self.vote, self.tie_break = "majority", None
        try:
            yield
        finally:
            self.vote, self.tie_break = vote, tie_break

    def report(self, rows: Iterable[ResultRow]) -> dict[str, object]:
        return ensemble_report(rows)


async def _sample(member: Program, task: Task, number: int) -> dspy.Prediction:
    """Return a member's prediction: the first sample, number 0, or a later one."""
    if number == 0:
        return await solved_by(member, task)
    # Otherwise the cache would return the first sample again.
    with bound(ROLLOUTS, ROLLOUTS.get().of_copy(number, SAMPLED["temperature"])):
        return await solved_by(member, task)


def _turn(name: str, outcome: CallError | tuple[dspy.Prediction, Usage]) -> Turn:
    """Return the turn of a member: the last one of its own transcript, with its answer and all its
    usage; the turn of a refused request says why.
    """
    if isinstance(outcome, CallError):
        return Turn(name, 1, None, "", details=TurnDetails(failed=said_by(outcome)))
    prediction, usage = outcome
    if not prediction.transcript:
        return Turn(name, 1, prediction.answer, "", usage=usage)
    last = TurnFields.of(prediction.transcript[-1])
    details = TurnDetails()
    # The last turn may have the probability of another answer.
    if last.probability is not None and last.answer == prediction.answer:
        details["probability"] = last.probability
    return Turn(name, 1, prediction.answer, str(last.text), usage=usage, details=details)


def _name(member: Program) -> str:
    if isinstance(member, SingleAgent):
        return member.seat.name
    return type(member).__name__.lower()
