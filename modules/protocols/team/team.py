"""Supervised team: workers look things up on their own, a supervisor accepts an answer or sends one
back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import dspy
from optuna.distributions import CategoricalDistribution, IntDistribution

from ....signatures import team as words
from ....signatures.examples import WORKED, Worked
from ...agents.demonstration import Demonstration, demo_of, held, worked_example
from ...agents.exchange import Exchange, Hear
from ...agents.own_prompts import meant_for
from ...agents.retrieval import Retrieval, environment_named
from ...agents.seat import Seat, forget
from ...agents.transcript import Task, Turn, all_agree
from ...base.calls import ASKER, metered
from ...base.errors import UserError, checked_whole
from ...base.fence import cut, one_line
from ...base.saved_file import Described
from ...base.space import Parameter, Space, When, lists
from ...base.together import together
from ...environment import Environment
from ...reading.row import ResultRow, TurnDetails
from ...reading.voting import Ties, vote_among
from ...reports.team import team_report
from ..declaration import Plot, Protocol, comma_items
from ..program import LAYOUT, Program, SeatTurns, prediction_of
from ..roles import HERE, WORKERS, Role, acting_as, cast_of, roles_given, seated
from .worker import STEP_FIELDS, UNCUT, TeamWorker, trace_text

_DRESS = " .,:;!*_`'\"()[]"
GREEDY = {"temperature": 0.0}
ACCEPT, RETRY = "accept", "retry"
MAX_SUGGESTION_CHARS = 500
"""The longest suggestion of a supervisor: room for advice, not for another role."""


class SupervisorDecision(NamedTuple):
    """A supervisor's decision: whether `worker`'s answer stands, or what it is to try instead."""

    accept: bool
    worker: str
    suggestion: str


class SupervisedTeam(Program):
    """Reasoning as a Team (section 3).

    Every worker looks for the answer on its own, all at the same time. The supervisor sees their
    traces, never the environment, and accepts one worker's answer or sends one worker back with a
    suggestion, at most `max_retries` times; after that it has to accept.

    Args: workers: any number of names of `ROLES` (bold, cautious, neutral) and of `own_roles`;
        equal ones become `NAME.0`, `NAME.1`, ….
        environment: where workers without tools of their own look things up.
        own_roles: roles of your own by name, as `Deliberation` takes them. A role that answers
            guides a worker by its instruction, and one called `supervisor` the supervisor.
        max_steps: most steps of one attempt; the paper
        studies 5, 8, 10 and 15. max_retries: the paper's value is 3. A single worker that cannot be
        sent back has no supervisor. demonstration: one-shot with a worked trace, `hotpotqa` or one
        in a file; None is zero-shot. styles: whether the supervisor is told how each worker goes
        about it. limits: whether long thoughts, observations and traces are cut; the paper cuts
        none. tie_break: whose answer is taken where the supervisor could not be read twice and most
        workers share none: `first`, `strongest:WORKER`, or `random`, with the question's id and
        `seed`.
        seed: see `tie_break`.
        lms: LMs for agents: a worker's name or `supervisor`.
        sampling: LM settings of every agent; temperature 0 unless given.
        prompt_layout: `role_last`, after what all agents share, or `role_first`, in the system
            message.
        prompts: agent → your instructions, or the path of a YAML file with them.

    `decided_by` is `supervisor:WORKER`, `alone:WORKER` (no supervisor), `fallback:majority` or
    `fallback:first` (the supervisor could not be read twice: the answer most workers share, else
    the first worker's), `fallback:strongest` or `fallback:random` (as `tie_break` says), or `none`.
    `rounds` is 1 and the retries; a turn's `round` is the attempt of that worker.

    Raises:
        UserError: no or unknown workers, no environment, or a limit out of range.
    """

    def __init__(
        self,
        workers: Sequence[str],
        environment: Environment | None = None,
        *,
        own_roles: Mapping[str, Any] | None = None,
        max_steps: int = 8,
        max_retries: int = 3,
        demonstration: Demonstration = None,
        styles: bool = True,
        limits: bool = True,
        tie_break: str = "first",
        seed: int = 0,
        lms: Mapping[str, dspy.BaseLM] | None = None,
        sampling: Mapping[str, object] | None = None,
        prompt_layout: str = "role_last",
        prompts: Mapping[str, str] | str | Path | None = None,
    ) -> None:
        super().__init__()
        advice = "name them in order, such as ['bold', 'cautious']"
        own = roles_given(own_roles)
        cast = cast_of("workers", workers, own, advice, acting=True)
        self.roles = [workers] if isinstance(workers, str) else list(workers)
        if not self.roles:
            raise UserError(f"a team has at least one worker: {advice}")
        here = {name for name, role in cast.items() if HERE in role.tools or not role.tools}
        if environment is None and here:
            raise UserError(
                "a team needs a place to look things up: give it an environment, such as "
                "corpus:PATH"
            )
        if not isinstance(environment, Environment | None):
            raise UserError(
                f"environment is {environment!r}: give an environment, such as "
                f"fm.CorpusEnvironment(PATH)"
            )
        self.max_steps = checked_whole("max_steps", max_steps)
        self.max_retries = checked_whole("max_retries", max_retries, 0)
        settings = {**GREEDY, **(sampling or {})}
        seats = seated(cast, self.roles)
        names = [seat.name for seat in seats]
        self.workers = [
            TeamWorker(
                seat.name,
                seat.role,
                acting_as(cast[seat.role]),
                cast[seat.role].place(environment) if cast[seat.role].tools else environment,
                self.max_steps,
                settings,
                seat.sample,
                limits,
            )
            for seat in seats
        ]
        supervised = len(names) > 1 or self.max_retries > 0
        supervisor = own.get("supervisor")
        if supervisor is not None:
            if supervisor.tools:
                raise UserError("a supervisor looks nothing up: drop the tools of its role")
            cast["supervisor"] = supervisor
        self.supervisor = (
            _supervisor("supervisor", words.Supervising, supervisor, names, settings)
            if self.max_retries
            else None
        )
        self.last_word = (
            _supervisor("supervisor.last", words.Deciding, supervisor, names, settings)
            if supervised
            else None
        )
        self.word(prompts, prompt_layout)
        self.styles, self.limits = styles, limits
        self.demonstration = held(demonstration)
        if demonstration is not None:
            self._demonstrate(worked_example(demonstration))
        self.ties = Ties.of(tie_break, names, seed, ("first", "strongest", "random"))
        self.retrieval = Retrieval(environment)
        self.take(cast, own)
        self.assign(lms)

    def describe(self) -> Described:
        return {
            **self.named(),
            "workers": self.roles,
            "max_steps": self.max_steps,
            "max_retries": self.max_retries,
            "demonstration": self.demonstration,
            "styles": self.styles,
            **({} if self.limits else {"limits": False}),
            **({} if self.ties == Ties() else self.ties.described()),
            "sampling": self.workers[0].act.predict.config,
            **environment_named(self.retrieval.environment),
        }

    def turns(self) -> list[SeatTurns]:
        attempts = 1 + self.max_retries
        counted: list[SeatTurns] = [
            (worker.act, 1, attempts * self.max_steps) for worker in self.workers
        ]
        counted += [(worker.conclude, 0, attempts) for worker in self.workers]
        counted += [(self.supervisor, 1, self.max_retries)] if self.supervisor is not None else []
        return counted + ([(self.last_word, 0, 1)] if self.last_word is not None else [])

    def exchange(self) -> Exchange:
        """Workers read the supervisor's suggestions, which carry what it read of the others."""
        steps = [
            (seat, 0, self.max_retries * most / len(self.workers))
            for worker in self.workers
            for seat, most in ((worker.act, self.max_steps), (worker.conclude, 1))
        ]
        names = [worker.name for worker in self.workers]
        return Exchange(names, self._again, turns=steps, stances=False)

    def most_turns(self) -> int:
        """All workers try once and one more with each retry; the step limit adds the call for the
        answer.
        """
        attempts = len(self.workers) + self.max_retries
        return attempts * (self.max_steps + 1) + (
            self.max_retries + 1 if self.last_word is not None else 0
        )

    def report(self, rows: Iterable[ResultRow]) -> dict[str, object]:
        return team_report(rows)

    async def solve(self, task: Task) -> dspy.Prediction:
        first = await together(worker.attempt(task) for worker in self.workers)
        transcript, latest = list(first), {turn.agent: turn for turn in first}
        agreed = 1 if all_agree([turn.answer for turn in first], task.kind) else None
        if self.last_word is None:
            return prediction_of(
                task, first[0].answer, f"alone:{first[0].agent}", transcript, consensus_round=agreed
            )
        answer: str | None = None
        decided_by = "none"
        for round in range(1, self.max_retries + 2):
            last = round > self.max_retries
            if last and all(turn.answer is None for turn in latest.values()):
                break
            seat = self.supervisor if self.supervisor is not None and not last else self.last_word
            turn, decision = await self._judge(seat, task, round, list(latest.values()))
            transcript.append(turn)
            if decision is None:
                answer, decided_by = _fall_back(list(latest.values()), task, self.ties)
                break
            if decision.accept:
                answer, decided_by = latest[decision.worker].answer, f"supervisor:{decision.worker}"
                break
            worker = next(worker for worker in self.workers if worker.name == decision.worker)
            old = latest[worker.name]
            retried = await worker.attempt(
                task, number=old.round + 1, earlier=old, suggestion=decision.suggestion
            )
            transcript.append(retried)
            latest[worker.name] = retried
            if agreed is None and all_agree([turn.answer for turn in latest.values()], task.kind):
                agreed = round + 1
        return prediction_of(
            task, answer, decided_by, transcript, rounds=round, consensus_round=agreed
        )

    async def _again(self, task: Task, recorded: Sequence[Turn], hear: Hear) -> list[Turn]:
        """Send back whom the recorded supervisor sent back, with what `hear` leaves of the
        suggestion.
        """
        workers = {worker.name: worker for worker in self.workers}
        transcript = list(recorded[: len(workers)])
        for turn in recorded:
            worker = workers.get(turn.details.get("worker", "")) if turn.step == RETRY else None
            if worker is None:
                continue
            heard = hear(worker.name, [turn])
            suggestion = str(heard[0].details.get("suggestion", "")) if heard else ""
            old = next(each for each in reversed(transcript) if each.agent == worker.name)
            transcript.append(
                await worker.attempt(
                    task,
                    number=old.round + 1,
                    earlier=old,
                    suggestion=suggestion,
                )
            )
        return transcript

    def _demonstrate(self, worked: Worked) -> None:
        if not worked.trace:
            traced = [name for name, one in WORKED.items() if one.trace]
            raise UserError(
                f"the demonstration shows no trace: choose {' or '.join(traced)}, or add a trace"
            )
        for worker in self.workers:
            worker.demonstrate(worked)
        for seat in self._deciding:
            seat.predict.demos = [self._shown(seat, worked)]

    @property
    def _deciding(self) -> list[Seat]:
        return [seat for seat in (self.supervisor, self.last_word) if seat is not None]

    def _shown(self, seat: Seat, worked: Worked) -> dspy.Example:
        """The worked question as a supervisor sees it, and how it decides."""
        names = [worker.name for worker in self.workers]
        text = trace_text([dict(zip(STEP_FIELDS, step, strict=True)) for step in worked.trace])
        notes = [self._traced(name, text, worked.answer) for name in names]
        more = {"decision": ACCEPT, "worker": names[0], "suggestion": ""}
        return demo_of(worked, seat.predict.signature, notes=notes, **more)

    def _traced(self, worker: str, text: str, answer: str | None) -> dict[str, object]:
        """A trace for a supervisor. Of a worker that the user told what to do, no style is
        known.
        """
        role = next(each.role for each in self.workers if each.name == worker)
        is_styled = self.styles and role in words.STYLES and meant_for(worker, self.prompts) is None
        title = words.TRACE.format(worker=worker)
        if is_styled:
            title = words.STYLED.format(worker=worker, style=words.STYLES[role])
        return {"title": title, "text": text, "answer": answer} | (
            {} if self.limits else {"most": UNCUT}
        )

    async def _judge(
        self, seat: Seat, task: Task, round: int, latest: Sequence[Turn]
    ) -> tuple[Turn, SupervisorDecision | None]:
        """The supervisor's turn and decision; None when it could not be read twice."""
        notes = [self._traced(turn.agent, turn.text, turn.answer) for turn in latest]
        answers = {turn.agent: turn.answer for turn in latest}
        with metered() as usage:
            reply = await seat.fill(task, notes=notes)
            decision = read_decision(reply, answers)
            if decision is None:
                forget(reply)
                reply = await seat.fill(task, notes=notes, correction=words.UNDECIDED)
                decision = read_decision(reply, answers)
        accepted = answers[decision.worker] if decision is not None and decision.accept else None
        step = None if accepted is not None else "retry" if decision is not None else "undecided"
        details: TurnDetails = (
            {}
            if decision is None
            else {"worker": decision.worker, "suggestion": decision.suggestion}
        )
        unread = " ".join(str(reply[name]) for name in ("decision", "worker") if name in reply)
        turn = Turn(
            "supervisor",
            round,
            accepted,
            reply.judgement,
            cut(one_line(unread), 200) if decision is None else None,
            usage=usage,
            step=step,
            details=details,
        )
        return turn, decision


def read_decision(
    reply: Mapping[str, object], answers: Mapping[str, str | None]
) -> SupervisorDecision | None:
    """A supervisor's decision from its reply; None when it does not say what to do, or with whom.

    `answers` has every worker's. Where there is no `decision` to take, the worker named is
    accepted. Only an answer that could be read can be accepted, and a retry needs a suggestion,
    which becomes one line of at most MAX_SUGGESTION_CHARS characters.
    """
    named = [name for name in answers if _names(str(reply["worker"]), name)]
    decision = str(reply["decision"]).strip(_DRESS).casefold() if "decision" in reply else ACCEPT
    if len(named) != 1 or decision not in (ACCEPT, RETRY):
        return None
    suggestion = (
        cut(one_line(str(reply["suggestion"])), MAX_SUGGESTION_CHARS) if decision == RETRY else ""
    )
    if (decision == ACCEPT and answers[named[0]] is None) or (decision == RETRY and not suggestion):
        return None
    return SupervisorDecision(decision == ACCEPT, named[0], suggestion)


def _names(text: str, worker: str) -> bool:
    """Whether a text is the worker's name and no more than "the" and "worker" beside it."""
    words = [word.strip(_DRESS) for word in text.casefold().split()]
    return [word for word in words if word not in ("the", "worker", "")] == [worker.casefold()]


def _fall_back(latest: Sequence[Turn], task: Task, ties: Ties) -> tuple[str | None, str]:
    """The answer most workers share, else the first that there is, or which of the top ones `ties`
    takes.
    """
    answers, names = [turn.answer for turn in latest], [turn.agent for turn in latest]
    vote = vote_among(answers, task.kind, decide_tie=ties.decider(ASKER.get().question, names))
    if not vote.tied and vote.answer is not None and vote.scores[vote.answer] > 1:
        return vote.answer, "fallback:majority"
    if ties.rule == "first":
        return next((answer for answer in answers if answer is not None), None), "fallback:first"
    return vote.answer, f"fallback:{ties.rule}"


def _supervisor(
    name: str,
    signature: Any,
    role: Role | None,
    workers: Sequence[str],
    sampling: Mapping[str, object],
) -> Seat:
    if role is not None:
        signature = signature.with_instructions(role.signature.instructions)
    named = signature.with_updated_fields("worker", type_=Literal[tuple(workers)])
    return Seat(name, named, sampling=sampling)


def _read(parts: Sequence[str]) -> dict[str, object]:
    if len(parts) > 1:
        raise UserError(
            f"a team has workers only, not {':'.join(parts)!r}: write team:bold,cautious"
        )
    return {"workers": comma_items(parts)}


_some_of = partial(lists, least=1, most=3, ordered=False, repeated=True)
_SPACE: Space = {
    "workers": Parameter(_some_of(WORKERS), of_roles=lambda names: _some_of([*names, *WORKERS])),
    "max_steps": Parameter(CategoricalDistribution((5, 8, 10, 15))),
    "max_retries": Parameter(IntDistribution(0, 3)),
    "tie_break": Parameter(
        CategoricalDistribution(("first", "random")),
        When("max_retries", above=0),
        default="first",
    ),
    "prompt_layout": LAYOUT,
    "sampling.temperature": Parameter(CategoricalDistribution((None, 0.5, 1.0))),
}

SupervisedTeam.protocol = Protocol(
    "team",
    "team:bold,cautious",
    _read,
    _SPACE,
    plot=Plot(
        "team_plot",
        "Each worker alone, the team, and the best worker in hindsight; and what a smaller step "
        "limit would "
        "at least have kept.",
    ),
    fixed=("demonstration",),
)
