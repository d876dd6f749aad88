"""Supervised team: workers look things up on their own, a supervisor accepts an answer or sends a
worker back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Literal, NamedTuple, Unpack

import dspy

from ....signatures import team as words
from ....signatures.examples import Worked, worked_examples
from ...agents.demonstration import Demonstration, demo_of, held, worked_example
from ...agents.exchange import Exchange, Hear
from ...agents.own_prompts import meant_for
from ...agents.retrieval import Retrieval, environment_named
from ...agents.seat import Seat, forget
from ...agents.transcript import Task, Turn, agreed
from ...base.calls import ASKER, metered
from ...base.errors import UserError, checked_whole
from ...base.fence import cut, one_line
from ...base.saved_file import Described
from ...base.space import Declaration, Parameter, When, choice, lists, whole_numbers
from ...base.together import together
from ...environment.base import Environment
from ...reading.row import ResultRow, TurnDetails
from ...reading.voting import Ties, vote_among
from ...reports.team import team_report
from ..declaration import Plot
from ..declared import WORDING, Declared, Said, Shared
from ..program import SeatTurns, prediction_of
from ..roles import HERE, WORKERS, Role, acting_as, cast_of, roles_given, seated
from .worker import UNCUT, TeamWorker, steps_of, trace_text

_DRESS = " .,:;!*_`'\"()[]"
GREEDY: Mapping[str, object] = {"temperature": 0.0}
ACCEPT, RETRY = "accept", "retry"
MAX_SUGGESTION_CHARS = 500
"""The longest suggestion of a supervisor: room for advice, not for another role."""

_ADVICE = "name them in order, such as ['bold', 'cautious']"


class SupervisorDecision(NamedTuple):
    """A supervisor's decision: `worker`'s answer is accepted, or it is to try the suggestion."""

    accept: bool
    worker: str
    suggestion: str


def _workers(own: Sequence[str] = ()) -> Declaration:
    return lists([*own, *WORKERS], least=1, most=3, ordered=False, repeated=True)


_TIES = Parameter(choice("first", "random"), When("max_retries", above=0))


class SupervisedTeam(
    Declared,
    name="team",
    example="team:bold,cautious",
    space=WORDING,
    plot=Plot(
        "team_plot",
        "Each worker alone, the team, and the best worker in hindsight; and what a smaller step "
        "limit would at least have kept.",
    ),
    fixed=("demonstration",),
):
    """Reasoning as a Team (section 3).

    Every worker looks for the answer on its own. The supervisor sees their traces and accepts one
    answer, or sends one worker back with a suggestion.

    Args:
        workers: names of `ROLES` (bold, cautious, neutral) and of `own_roles`; equal ones become
            `NAME.0`, `NAME.1`, ….
        environment: where workers without tools of their own look things up.
        own_roles: roles of your own by name, as `fm.roles` reads them; `judge`, `evaluator` and
            `supervisor` take these parts.
        max_steps: the most steps of an attempt; the paper studies 5, 8, 10 and 15.
        max_retries: how often a worker is sent back; the paper's value is 3. With one worker and 0
            there is no supervisor.
        demonstration: the worked trace that is shown: `hotpotqa` or a file.
        styles: whether the supervisor reads how each worker works.
        limits: whether long thoughts, observations and traces are cut, unlike the paper's.
        tie_break: if the supervisor could not be read twice and most workers share no answer:
            `first`, `strongest:WORKER` or `random`.
        seed: settles draws, together with the question's id.
        lms: LMs by worker, or of `supervisor`.
        sampling: LM settings of all agents; temperature 0 unless given.
        prompt_layout: where instructions stand: `role_last` (the default), after what all agents
            share, or `role_first`, in the system message.
        prompts: your instructions by agent, or a YAML file with them.

    `decided_by` is `supervisor:WORKER`, `alone:WORKER` (without a supervisor), or `none`; where the
    supervisor could not be read twice, `fallback:majority` or `fallback:` and the tie-break. A
    turn's `round` is the attempt of that worker.

    Raises UserError for no or unknown workers, no environment, and a limit out of range.
    """

    sampling = GREEDY

    def __init__(
        self,
        workers: Annotated[Sequence[str], Parameter(_workers(), of_roles=_workers)],
        environment: Environment | None = None,
        *,
        own_roles: Mapping[str, object] | None = None,
        max_steps: Annotated[int, checked_whole, choice(5, 8, 10, 15)] = 8,
        max_retries: Annotated[int, partial(checked_whole, least=0), whole_numbers(0, 3)] = 3,
        demonstration: Demonstration | None = None,
        styles: bool = True,
        limits: Annotated[bool, Said.CHANGED] = True,
        tie_break: Annotated[str, Said.CHANGED, _TIES] = "first",
        seed: Annotated[int, Said.DRAWN] = 0,
        **shared: Unpack[Shared],
    ) -> None:
        own = roles_given(own_roles)
        cast = cast_of("workers", workers, own, _ADVICE, acting=True)
        self.roles = [workers] if isinstance(workers, str) else list(workers)
        if not self.roles:
            raise UserError(f"a team has at least one worker: {_ADVICE}")
        _check_environment(environment, cast)
        self.retrieval = Retrieval(environment)
        self.workers: list[TeamWorker] = []
        for name, role_name, sample in seated(cast, self.roles):
            role = cast[role_name]
            place = role.place(environment) if role.tools else environment
            told = acting_as(role)
            self.workers.append(TeamWorker(name, role_name, told, place, max_steps, sample, limits))
        self.names = [worker.name for worker in self.workers]
        supervisor = own.get("supervisor")
        if supervisor is not None:
            if supervisor.tools:
                raise UserError("a supervisor looks nothing up: drop the tools of its role")
            cast["supervisor"] = supervisor
        self.supervisor = self.last_word = None
        if max_retries:
            self.supervisor = self._decider("supervisor", words.Supervising, supervisor)
        if max_retries or len(self.workers) > 1:
            self.last_word = self._decider("supervisor.last", words.Deciding, supervisor)
        self.ties = Ties.of(tie_break, self.names, seed, ("first", "strongest", "random"))
        self.tie_break = str(self.ties)
        self.demonstration = held(demonstration)
        if demonstration is not None:
            self._demonstrate(worked_example(demonstration))
        self.take(cast, own)

    def _decider(self, name: str, signature: type[dspy.Signature], role: Role | None) -> Seat:
        if role is not None:
            signature = signature.with_instructions(role.signature.instructions)
        # The names as a type: endpoints then let the supervisor write no other.
        workers = Literal[tuple(self.names)]  # type: ignore[valid-type]
        return Seat(name, signature.with_updated_fields("worker", type_=workers))

    async def solve(self, task: Task) -> dspy.Prediction:
        transcript = await together(worker.attempt(task) for worker in self.workers)
        latest = {turn.agent: turn for turn in transcript}
        # Only for the record: the supervisor decides even if all agree.
        consensus = 1 if agreed(transcript, task.kind) else None
        if self.last_word is None:
            (alone,) = transcript
            return prediction_of(
                task, alone.answer, f"alone:{alone.agent}", transcript, consensus_round=consensus
            )
        answer: str | None = None
        decided_by = "none"
        for round in range(1, self.max_retries + 2):
            last = round > self.max_retries
            # There is no answer to accept, and no worker can be sent back any more.
            if last and all(turn.answer is None for turn in latest.values()):
                break
            # The last word can only accept.
            seat = self.last_word
            if self.supervisor is not None and not last:
                seat = self.supervisor
            turn, decision = await self._judge(seat, task, round, list(latest.values()))
            transcript.append(turn)
            if decision is None:
                answer, decided_by = self._fall_back(latest, task)
                break
            if decision.accept:
                answer, decided_by = latest[decision.worker].answer, f"supervisor:{decision.worker}"
                break
            retried = await self._retry(task, latest[decision.worker], decision.suggestion)
            transcript.append(retried)
            latest[retried.agent] = retried
            if consensus is None and agreed(latest.values(), task.kind):
                consensus = round + 1
        return prediction_of(
            task, answer, decided_by, transcript, rounds=round, consensus_round=consensus
        )

    async def _retry(self, task: Task, old: Turn, suggestion: str) -> Turn:
        """Return the turn of another attempt, of the worker whose last attempt is `old`."""
        worker = self.workers[self.names.index(old.agent)]
        return await worker.attempt(task, number=old.round + 1, earlier=old, suggestion=suggestion)

    async def _judge(
        self, seat: Seat, task: Task, round: int, latest: Sequence[Turn]
    ) -> tuple[Turn, SupervisorDecision | None]:
        """Return the supervisor's turn and decision; no decision if it could not be read twice."""
        notes = [self._trace_for_supervisor(turn.agent, turn.text, turn.answer) for turn in latest]
        answers = {turn.agent: turn.answer for turn in latest}
        with metered() as usage:
            reply = await seat.fill(task, notes=notes)
            decision = read_decision(reply, answers)
            if decision is None:
                # No optimizer should learn from a reply that could not be read.
                forget(reply)
                reply = await seat.fill(task, notes=notes, correction=words.UNDECIDED)
                decision = read_decision(reply, answers)
        turn = partial(Turn, "supervisor", round, text=reply.judgement, usage=usage)
        if decision is None:
            unread = " ".join(str(reply[name]) for name in ("decision", "worker") if name in reply)
            return turn(answer=None, raw=cut(one_line(unread), 200), step="undecided"), None
        details = TurnDetails(worker=decision.worker, suggestion=decision.suggestion)
        if decision.accept:
            return turn(answer=answers[decision.worker], details=details), decision
        return turn(answer=None, step=RETRY, details=details), decision

    def _fall_back(self, latest: Mapping[str, Turn], task: Task) -> tuple[str | None, str]:
        """Return the answer that most workers share, or else the one that `tie_break` takes; and
        what decided.
        """
        answers = [turn.answer for turn in latest.values()]
        decide_tie = self.ties.decider(ASKER.get().question, self.names)
        vote = vote_among(answers, task.kind, decide_tie=decide_tie)
        if not vote.tied and vote.answer is not None and vote.scores[vote.answer] > 1:
            return vote.answer, "fallback:majority"
        if self.ties.rule == "first":  # of all answers, not only of the most frequent ones
            readable = (answer for answer in answers if answer is not None)
            return next(readable, None), "fallback:first"
        return vote.answer, f"fallback:{self.ties.rule}"

    def _trace_for_supervisor(
        self, worker: str, text: str, answer: str | None
    ) -> dict[str, object]:
        """Return a worker's trace as the supervisor reads it."""
        # The user's own instructions replace a worker's style.
        role = self.workers[self.names.index(worker)].role
        is_styled = self.styles and role in words.STYLES and meant_for(worker, self.prompts) is None
        title = words.TRACE.format(worker=worker)
        if is_styled:
            title = words.STYLED.format(worker=worker, style=words.STYLES[role])
        note: dict[str, object] = {"title": title, "text": text, "answer": answer}
        if not self.limits:
            note["most"] = UNCUT
        return note

    def _demonstrate(self, worked: Worked) -> None:
        """Show a worked example to every agent. Raises UserError for one without a trace."""
        if not worked.trace:
            traced = [name for name, example in worked_examples().items() if example.trace]
            raise UserError(
                f"the demonstration shows no trace: choose {' or '.join(traced)}, or add a trace"
            )
        for worker in self.workers:
            worker.demonstrate(worked)
        text = trace_text(steps_of(worked))
        notes = [self._trace_for_supervisor(name, text, worked.answer) for name in self.names]
        decided = {"decision": ACCEPT, "worker": self.names[0], "suggestion": ""}
        for seat in (self.supervisor, self.last_word):
            if seat is not None:
                shown = demo_of(worked, seat.predict.signature, notes=notes, **decided)
                seat.predict.demos = [shown]

    def describe(self) -> Described:
        environment = environment_named(self.retrieval.environment)
        return super().describe() | {"workers": self.roles} | environment

    def turns(self) -> list[SeatTurns]:
        attempts = 1 + self.max_retries
        turns: list[SeatTurns] = [
            (worker.act, 1, attempts * self.max_steps) for worker in self.workers
        ]
        turns += [(worker.conclude, 0, attempts) for worker in self.workers]
        if self.supervisor is not None:
            turns.append((self.supervisor, 1, self.max_retries))
        if self.last_word is not None:
            turns.append((self.last_word, 0, 1))
        return turns

    def most_turns(self) -> int:
        # Each attempt has a call for each step and one for the answer.
        attempts: int = len(self.workers) + self.max_retries
        deciding: int = 0 if self.last_word is None else self.max_retries + 1
        return attempts * (int(self.max_steps) + 1) + deciding

    def report(self, rows: Iterable[ResultRow]) -> dict[str, object]:
        return team_report(rows)

    def exchange(self) -> Exchange:
        # Workers do not read one another: the supervisor's suggestions pass on what it has read.
        steps: list[SeatTurns] = []
        # Each retry goes to a worker that is not known beforehand: all get an equal share.
        share = self.max_retries / len(self.workers)
        for worker in self.workers:
            steps += [(worker.act, 0, share * self.max_steps), (worker.conclude, 0, share)]
        return Exchange(self.names, self._again, turns=steps, stances=False)

    async def _again(self, task: Task, recorded: Sequence[Turn], hear: Hear) -> list[Turn]:
        """Return the turns when workers are sent back as recorded, but with the suggestions that
        `hear` makes of the recorded ones.
        """
        transcript = list(recorded[: len(self.workers)])
        for turn in recorded:
            name = turn.details.worker or ""
            if turn.step != RETRY or name not in self.names:
                continue
            heard = hear(name, [turn])
            suggestion = str(heard[0].details.get("suggestion", "")) if heard else ""
            old = next(said for said in reversed(transcript) if said.agent == name)
            transcript.append(await self._retry(task, old, suggestion))
        return transcript


def _check_environment(environment: object, cast: Mapping[str, Role]) -> None:
    """Raise UserError for another object than an environment, or if a worker lacks one."""
    needed = any(HERE in role.tools or not role.tools for role in cast.values())
    if needed and environment is None:
        raise UserError(
            "a team looks things up: give it an environment to do that in, such as --set "
            "environment=corpus:PATH, in Python environment=fm.CorpusEnvironment(PATH)"
        )
    if not isinstance(environment, Environment | None):
        raise UserError(
            f"environment is {environment!r}: give an environment, such as "
            "fm.CorpusEnvironment(PATH)"
        )


def read_decision(
    reply: Mapping[str, object], answers: Mapping[str, str | None]
) -> SupervisorDecision | None:
    """Return a supervisor's decision from its reply; None if it does not say what to do, or which
    worker it means.

    `answers` has every worker's. If the reply has no field `decision`, the named worker is
    accepted. Only an answer that could be read can be accepted, and a retry needs a suggestion,
    which becomes one line of at most MAX_SUGGESTION_CHARS characters.
    """
    named = [name for name in answers if _names(str(reply["worker"]), name)]
    decision = str(reply["decision"]).strip(_DRESS).casefold() if "decision" in reply else ACCEPT
    if len(named) != 1 or decision not in (ACCEPT, RETRY):
        return None
    (worker,) = named
    if decision == ACCEPT:
        if answers[worker] is None:
            return None
        return SupervisorDecision(True, worker, "")
    suggestion = cut(one_line(str(reply["suggestion"])), MAX_SUGGESTION_CHARS)
    if not suggestion:
        return None
    return SupervisorDecision(False, worker, suggestion)


def _names(text: str, worker: str) -> bool:
    """Return whether a text is the worker's name, perhaps with "the" and "worker", and nothing
    else.
    """
    words = [word.strip(_DRESS) for word in text.casefold().split()]
    return [word for word in words if word not in ("the", "worker", "")] == [worker.casefold()]
