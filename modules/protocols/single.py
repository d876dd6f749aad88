"""One agent alone: a prompting strategy, or one role of the deliberation in a single pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Unpack

import dspy

from ..agents.demonstration import Demonstration, held, worked_example
from ..agents.retrieval import Environment, checked_retrieval, with_queries
from ..agents.seat import Seat
from ..agents.transcript import Task
from ..base.calls import ASKER
from ..base.errors import UserError, checked_whole
from ..base.space import Parameter, When, choice
from ..reading.voting import Ties
from .declared import WORDING, Declared, Said, Shared
from .program import Program, SeatTurns, turns_of
from .roles import Role, cast_of, roles_given, seat_of
from .strategies import STRATEGIES, Strategy, demonstrations

SELF_CONSISTENCY = "self_consistency"

_VOTING = tuple(name for name, plan in STRATEGIES.items() if plan.samples is not None)
_SAMPLES = Parameter(choice(3, 5, 10), When("strategy", _VOTING))
_TIES = Parameter(choice("first", "random"), When("strategy", _VOTING))


def _read(parts: Sequence[str]) -> dict[str, object]:
    """Return the parameters in a short spec: a strategy, or `role=NAME`. Raises UserError for
    more.
    """
    named = ":".join(parts)
    if named.startswith("role="):
        return {"role": named.removeprefix("role=")}
    if len(parts) > 1:
        strategy = STRATEGIES.spec(named)
        if strategy is None or strategy.rest:
            raise UserError(
                f"a single agent has one strategy or role, not {named!r}: write single:cot"
            )
    return {"strategy": named} if named else {}


class SingleAgent(
    Declared,
    name="single",
    example="single:cot",
    read=_read,
    space=WORDING,
    fixed=("demonstration",),
):
    """A single agent: the baseline of every protocol.

    Args:
        strategy: a prompting strategy of `STRATEGIES`: `simple` (the default; answer only),
            `zero_shot`, `few_shot`, `cot` (reasoning first), `self_consistency` (the majority of
            several `cot` answers), `complexity` (of the longer half of these), `self_ask`
            (sub-questions first), `decomposition` (subtasks first), `least_to_most` (ever harder
            sub-questions), `plan_and_solve`.
        role: instead of a strategy, a role of the deliberation.
        own_roles: roles of your own by name, as `fm.roles` reads them; `judge`, `evaluator` and
            `supervisor` take these parts.
        samples: how many answers vote, for a strategy of one call; None is 10 for
            `self_consistency` and `complexity`, else one.
        tie_break: of equally frequent answers, `first` takes the earliest, `random` draws.
        seed: settles draws, together with the question's id.
        demonstration: Show a worked question before every call: one of folkmoot's by name, or a
            file that fm.worked wrote.
        lm: an LM of its own; None takes the one of the run.
        lms: LMs of single steps, such as `decomposition.split`.
        environment: where a `retriever` looks things up; without one it answers from memory.
        retrieval: `queries`, which an agent writes itself, or `question`, the only query.
        max_queries: most queries that an agent writes.
        sampling: LM settings of all agents, such as `{"temperature": 0.5}`.
        prompt_layout: where instructions stand: `role_last` (the default), after what all agents
            share, or `role_first`, in the system message.
        prompts: your instructions by agent, or a YAML file with them.

    Raises UserError for an unknown strategy, role or demonstration, strategy and role together, and
    samples below 1 or for a strategy of several steps.
    """

    def __init__(
        self,
        strategy: Annotated[str | None, Said.CHANGED, choice(*STRATEGIES)] = None,
        *,
        role: Annotated[str | None, Said.CHANGED] = None,
        own_roles: Mapping[str, object] | None = None,
        samples: Annotated[int | None, Said.CHANGED, _SAMPLES] = None,
        tie_break: Annotated[str, Said.CHANGED, _TIES] = "first",
        seed: Annotated[int, Said.DRAWN] = 0,
        demonstration: Annotated[Demonstration | None, Said.CHANGED] = None,
        lm: dspy.BaseLM | None = None,
        environment: Environment | None = None,
        retrieval: Annotated[str, checked_retrieval] = "queries",
        max_queries: Annotated[int, checked_whole] = 2,
        **shared: Unpack[Shared],
    ) -> None:
        if strategy is not None and role is not None:
            raise UserError(
                f"a single agent has a strategy or a role, not both: drop {strategy!r} or {role!r}"
            )
        own = roles_given(own_roles)
        cast: dict[str, Role] = {}
        if role is None:
            self.strategy = name = "simple" if strategy is None else strategy
            self.plan = STRATEGIES.named(name)
            acting = Role(self.plan.signature)
        else:
            cast = cast_of("role", [role], own, "name a role")
            name, acting = role, cast[role]
            self.plan = Strategy(acting.signature)
            # For a role of several agents, one agent is asked as often.
            if samples is None and acting.repeats > 1:
                samples = acting.repeats
        if samples is not None:
            self.plan = self.plan.sampled(checked_whole("samples", samples))
        self.samples, self.sampling = self.plan.samples, self.plan.sampling
        self.ties = Ties.of(tie_break, (), seed, ("first", "random"))
        if self.ties != Ties() and self.samples is None:
            raise UserError(f"{name!r} answers once, and so without ties: drop tie_break")
        self.seat = seat_of(name, acting, environment, retrieval, max_queries)
        # An agent for each step, so that it can have an LM of its own.
        self.steps = {
            step: Seat(f"{name}.{step}", signature) for step, signature in self.plan.steps.items()
        }
        self.demonstration = held(demonstration)
        if demonstration is not None:
            if role is not None:
                raise UserError(
                    f"the role {role!r} has no worked demonstration: use labelled demos instead"
                )
            for step, demo in demonstrations(self.plan, worked_example(demonstration)).items():
                self._answering[step].predict.demos = [demo]
        self.take(cast, own)
        if lm is not None:
            self.assign(dict.fromkeys(self.seats(), lm))

    async def solve(self, task: Task) -> dspy.Prediction:
        prediction = await self.plan.flow(self.seat, self.steps, task, self.samples or 1)
        if self.ties.rule == "random" and prediction.get("tied"):
            leading = prediction["leading"]
            decide_tie = self.ties.decider(ASKER.get().question)
            # With one supporter each, since only the number of answers matters for a draw.
            prediction["answer"] = leading[decide_tie([[0]] * len(leading))]
        return prediction

    @property
    def _answering(self) -> dict[str, Seat]:
        """Name of a step, or `answer` → its agent."""
        return {**self.steps, "answer": self.seat}

    def turns(self) -> list[SeatTurns]:
        times, turns = self.samples or 1, list[SeatTurns]()
        for name, answering in self._answering.items():
            fewest, most = self.plan.turns.get(name, (1, 1))
            turns += turns_of([answering], times * fewest, times * most)
        return turns

    def other_seats(self) -> list[str]:
        return STRATEGIES.names()

    def rename(self, name: str) -> None:
        """Give this agent and its steps another name, to tell agents of one strategy apart."""
        self.seat.name = name
        for step, seat in self.steps.items():
            seat.name = f"{name}.{step}"
        for query in with_queries([self.seat])[1:]:
            query.name = f"{name}.query"

    def sampled(self, samples: int) -> SingleAgent:
        """Return a copy that is asked several times and gives its most frequent answer, with the
        same instructions and examples. Raises UserError for a role and for a strategy of several
        steps.
        """
        if self.strategy is None:
            raise UserError(f"the role {self.role!r} takes no samples: sample a strategy")
        layout = self.prompt_layout
        agent = SingleAgent(
            self.strategy, samples=samples, lm=self.seat.predict.lm, prompt_layout=layout
        )
        for own, other in zip(agent.predictors(), self.predictors(), strict=True):
            own.signature, own.demos = other.signature, other.demos
        return agent


def member(name: str, given: object) -> Program:
    """Return a program inside of another: the given one, or an agent with the named strategy.
    Raises UserError, which begins with the parameter's `name`, for anything else.
    """
    if isinstance(given, str):
        return SingleAgent(given)
    if not isinstance(given, Program):
        raise UserError(
            f"{name}: {type(given).__name__} is not a program: give one, or the name of a strategy"
        )
    return given
