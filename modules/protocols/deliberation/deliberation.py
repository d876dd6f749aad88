"""Sequential deliberation: agents answer in turn and read each other, in several rounds; without
consensus, a tie-break decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Unpack

import dspy

from ....signatures.roles import Judge, Picker
from ...agents.exchange import Exchange, Hear, hear_all
from ...agents.retrieval import Environment, checked_retrieval
from ...agents.seat import Seat
from ...agents.transcript import Task, Turn, agreed
from ...base.calls import ASKER
from ...base.errors import UserError, checked_among, checked_whole
from ...base.keyed import without
from ...base.space import Declaration, Parameter, Space, When, choice, lists, whole_numbers
from ...base.together import together
from ...reading.row import ResultRow
from ..declaration import MAX_ROUNDS, Plot
from ..declared import WORDING, Declared, Said, Shared
from ..pick import picked
from ..program import SeatTurns, prediction_of, turns_of
from ..roles import SEATS, SPEAKERS, Role, cast_of, roles_given, seat_of, seated
from .replay import OPENINGS, REPLAYS
from .tie_breaks import BUILT_IN, chosen, tie_break_named

MAX_AGENTS = 8


def _roles(own: Sequence[str] = ()) -> Declaration:
    return lists([*own, *SPEAKERS], 2, 3)


_OPENING = partial(checked_among, allowed=OPENINGS)
_SEARCHED = tuple(name for name, rule in BUILT_IN.items() if not rule.picks)
_VOTES = tuple(name for name, rule in BUILT_IN.items() if rule.votes)
_TIES: Space = {
    "ties": Parameter(
        choice("first", "random"),
        When("tie_break", _VOTES),
        joins="tie_break",
        default="first",
    ),
    "strongest": Parameter(
        choice(*SPEAKERS),
        When("tie_break", ("strongest",)),
        joins="tie_break",
        among="roles",
    ),
}


class Deliberation(
    Declared,
    name="deliberation",
    example="deliberation:intuitive,reasoner:judge",
    space={**_TIES, **WORDING},
    order=("roles", "max_rounds", "tie_break", "ties", "opening"),
    replays=REPLAYS,
    plot=Plot(
        "deliberation_plot",
        "In which round the agents agreed, and how often each agent's first and last answer was "
        "right.",
    ),
):
    """Agents of Commonsense (sections 3.1 and 3.2).

    In every round each agent, in order, reads everything said so far, and answers. Equal answers of
    all in a round are the consensus; after `max_rounds` the tie-break decides.

    Args:
        roles: 1 to 8 agents in speaking order: names of `ROLES` (intuitive, reasoner, retriever,
            critic) and of `own_roles`, each at most once; or roles by name, such as `{"lawyer":
            Lawyer, "critic": "critic"}`.
        tie_break: `judge` (an LM reads the discussion and decides), `pick` (an LM says which of the
            last answers is best), `majority` of the last round (ties go to the earliest speaker,
            with `majority:random` to a drawn one, with `majority:strongest=ROLE` to that agent),
            `strongest:ROLE` (that agent's last readable answer), or a function of the turns (dicts
            with `agent`, `round`, `answer` and `text`) that returns an answer or None.
        max_rounds: at least 1; the paper's value is 3.
        own_roles: roles of your own by name, as `fm.roles` reads them; `judge`, `evaluator` and
            `supervisor` take these parts.
        opening: `in_turn`, as in the paper, or `blind`: in the first round nobody sees what the
            others say.
        seed: settles draws, together with the question's id.
        lms: LMs by role, or of `judge`.
        environment: where a `retriever` looks things up; without one it answers from memory.
        retrieval: `queries`, which an agent writes itself, or `question`, the only query.
        max_queries: most queries that an agent writes.
        sampling: LM settings of all agents, such as `{"temperature": 0.5}`.
        prompt_layout: where instructions stand: `role_last` (the default), after what all agents
            share, or `role_first`, in the system message.
        prompts: your instructions by agent, or a YAML file with them.

    `decided_by` is `consensus`, the tie-break, `fallback:majority` (the tie-break had no readable
    answer) or `none`.

    Raises UserError for unknown, repeated, missing, unusable or too many roles, an unknown
    tie-break or opening, and max_rounds below 1.
    """

    def __init__(
        self,
        roles: Annotated[
            Sequence[str] | Mapping[str, object], Parameter(_roles(), of_roles=_roles)
        ],
        tie_break: Annotated[
            str | Callable[[list[dict[str, object]]], str | None],
            choice(*_SEARCHED),
        ] = "judge",
        max_rounds: Annotated[int, checked_whole, whole_numbers(1, MAX_ROUNDS)] = MAX_ROUNDS,
        *,
        own_roles: Mapping[str, object] | None = None,
        opening: Annotated[str, _OPENING, Said.CHANGED, choice(*OPENINGS)] = "in_turn",
        seed: Annotated[int, Said.DRAWN] = 0,
        environment: Environment | None = None,
        retrieval: Annotated[str, checked_retrieval] = "queries",
        max_queries: Annotated[int, checked_whole] = 2,
        **shared: Unpack[Shared],
    ) -> None:
        if named_here := isinstance(roles, Mapping):
            own_roles = {**roles, **(own_roles or {})}
            roles = [name for name in roles if name not in SEATS]
        own = roles_given(own_roles)
        cast = cast_of("roles", roles, own, "give a list of roles in speaking order")
        self.roles = [roles] if isinstance(roles, str) else list(roles)
        for name in self.roles:
            if self.roles.count(name) > 1:
                raise UserError(
                    f"the role {name!r} appears more than once: each role may appear once"
                )
        self.seated = seated(cast, self.roles)
        self.names = [seat.name for seat in self.seated]
        if not 1 <= len(self.names) <= MAX_AGENTS:
            raise UserError(
                f"a deliberation has 1 to {MAX_AGENTS} agents, not {len(self.names)}: name its "
                "roles in order"
            )
        self.rule = chosen(tie_break, self.names, seed)
        self.tie_break, self.ties = self.rule.name, self.rule.ties
        looking = (environment, retrieval, max_queries)
        self.agents = [seat_of(name, cast[role], *looking) for name, role, _ in self.seated]
        self.judge = None
        if self.rule.asks_lm and not self.rule.tie_break.picks:
            cast["judge"] = own.get("judge") or Role(Judge)
            self.judge = seat_of("judge", cast["judge"], *looking)
        self.picker = Seat("pick", Picker) if self.rule.tie_break.picks else None
        self.take(cast, own)
        # A user's own judge that this tie-break does not ask.
        self.idle_role = "judge" if "judge" in own and self.judge is None else ""
        if named_here:
            self.refuse_idle_role()

    def voted(self, rounds: int) -> Deliberation:
        """Return a copy with at most so many rounds, and a vote as its tie-break."""
        other: Deliberation = self.deepcopy()
        other.max_rounds, other.rule = rounds, chosen("majority", self.names, self.seed)
        other.tie_break, other.ties = other.rule.name, other.rule.ties
        other.judge = other.picker = None
        # A user's own role of the judge belongs to no agent any more.
        other.own_roles = without(self.own_roles, ["judge"])
        return other

    async def solve(self, task: Task) -> dspy.Prediction:
        transcript: list[Turn] = []
        rounds = 0
        if self.opening == "blind":
            transcript = await self._blind_round(task)
            rounds = 1
        said = list(transcript)
        while rounds < self.max_rounds and not agreed(said, task.kind):
            rounds += 1
            said = await self._round(task, transcript, rounds, hear_all)
        if agreed(said, task.kind):
            answer = said[0].answer
            return prediction_of(
                task, answer, "consensus", transcript, rounds=rounds, consensus_round=rounds
            )
        judged = None
        if self.judge is not None:
            verdict = await self.judge.ask(task, round=rounds, discussion=transcript)
            transcript.append(verdict)
            judged = verdict.answer
        if self.picker is not None:
            choice = await picked(self.picker, task, said, self.seed, rounds)
            if choice is not None:
                transcript.append(choice)
                judged = choice.answer
        # Drawn by the question's id, so that a resumed run draws the same.
        decide_tie = self.ties.decider(ASKER.get().question, self.names)
        answer, decided_by = self.rule.decide(transcript, task.kind, decide_tie, judged)
        return prediction_of(task, answer, decided_by, transcript, rounds=rounds)

    async def _round(
        self, task: Task, transcript: list[Turn], number: int, hear: Hear
    ) -> list[Turn]:
        """Return the turns of one round. Each is added to the transcript at once, where the next
        agent reads it; `hear` chooses what an agent is shown.
        """
        for place, agent in enumerate(self.agents):
            heard = hear(agent.name, transcript)
            transcript.append(await self._speak(place, task, number, heard))
        return transcript[-len(self.agents) :]

    async def _blind_round(self, task: Task) -> list[Turn]:
        """Return the turns of a first round in which no agent reads another, all asked
        concurrently.
        """
        turns = await together(self._speak(place, task, 1, ()) for place in range(len(self.agents)))
        return [replace(turn, details=turn.details.but(blind=True)) for turn in turns]

    async def _speak(self, place: int, task: Task, round: int, discussion: Sequence[Turn]) -> Turn:
        # With a sample number, or agents of the same role would all get the same reply.
        return await self.agents[place].ask(
            task, round=round, discussion=discussion, rollout=self.seated[place].sample
        )

    @property
    def draws(self) -> bool:
        return super().draws or self.picker is not None

    def turns(self) -> list[SeatTurns]:
        turns = turns_of(self.agents, 1, self.max_rounds)
        if self.judge is not None:
            turns += turns_of([self.judge], 0, 1)
        if self.picker is not None:
            turns.append((self.picker, 0, 2))
        return turns

    def report(self, rows: Iterable[ResultRow]) -> dict[str, object]:
        from ...reports.deliberation import deliberation_report

        return deliberation_report(rows)

    def check_saved(self) -> None:
        """Raise UserError for a tie-break that could not be found again by its name."""
        if tie_break_named(self.tie_break)[1] is None:
            raise UserError(
                f"the tie-break {self.tie_break} is a function that cannot be imported, and code "
                "is not saved: put it into a module, or into a package with an entry point "
                "folkmoot.tie_breaks"
            )

    def exchange(self) -> Exchange:
        again = self.max_rounds - 1
        # In these cases, the recorded first answers were given without reading others already.
        alone = self.opening == "blind" or len(self.agents) == 1
        first = None if alone else self._blind_round
        turns = turns_of(self.agents, min(1, again), again)
        return Exchange(self.names, self._again, first, turns)

    async def _again(self, task: Task, recorded: Sequence[Turn], hear: Hear) -> list[Turn]:
        transcript = list(recorded[: len(self.agents)])
        # As many rounds as were recorded, without ending at a consensus, so that only what agents
        # hear differs.
        last = max(turn.round for turn in recorded if turn.agent in self.names)
        for number in range(2, last + 1):
            await self._round(task, transcript, number, hear)
        return transcript
