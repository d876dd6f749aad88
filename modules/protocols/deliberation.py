"""Sequential deliberation: agents speak in turn, read each other and revise; a tie-break settles the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import dspy

from ...signatures.roles import ROLES, Judge
from ..agents.retrieval import Retrieval, described
from ..agents.seat import Seat
from ..agents.transcript import Task, Turn, all_agree
from ..base.calls import Usage
from ..base.errors import UserError
from ..base.space import Choice, Member, Parameter, Pick, Space, When, Whole
from ..reading.answers import Kind, answer_key
from ..reading.voting import majority
from ..reports.deliberation import deliberation_report
from .program import Program, SeatTurns, prediction_of
from .replays import Replays, Told

MAX_AGENTS = 8

SPACE: Space = {
    "roles": Parameter(Pick(tuple(ROLES), 2, 3)),
    "max_rounds": Parameter(Whole(1, 3)),
    "tie_break": Parameter(Choice(("judge", "majority", "strongest"))),
    "strongest": Parameter(Member("roles"), When("tie_break", ("strongest",)), joins="tie_break"),
    "sampling.temperature": Parameter(Choice((None, 0.5, 1.0))),
}


class Deliberation(Program):
    """Agents of Commonsense (sections 3.1 and 3.2).

    In every round each agent, in order, gets the question, its options and everything said so far in all
    rounds, and gives an argument and an answer. A round in which all answers are valid and equal ends the
    dialogue by consensus. After `max_rounds` without consensus the tie-break decides.

    Args:
        roles: 1 to 8 of intuitive, reasoner, retriever, critic, each at most once, in speaking order.
        tie_break: `judge` (an LM reads the discussion and decides), `strongest:ROLE` (that agent's last valid
            answer) or `majority` (most frequent answer of the last round; ties go to the earliest speaker).
        max_rounds: at least 1; the paper's value is 3.
        lms: LMs for single seats, by role name or `judge`.
        environment: where the retriever looks things up; without one it answers from memory.
        sampling: LM settings of every seat, such as `{"temperature": 0.5}`.

    `decided_by` of the prediction is `consensus`, `judge`, `strongest:ROLE`, `majority`, `fallback:majority`
    (the tie-break itself had no valid answer) or `none`.

    Raises:
        UserError: unknown, repeated, missing or too many roles; unknown tie-break; max_rounds below 1.
    """

    def __init__(
        self,
        roles: Sequence[str],
        tie_break: str = "judge",
        max_rounds: int = 3,
        *,
        lms: Mapping[str, Any] | None = None,
        environment: Any = None,
        sampling: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.roles = _checked_roles(roles)
        self.tie_break = checked_tie_break(tie_break, self.roles)
        if not isinstance(max_rounds, int) or isinstance(max_rounds, bool) or max_rounds < 1:
            raise UserError(f"max_rounds is {max_rounds!r}: give a whole number of at least 1")
        self.max_rounds = max_rounds
        self.agents = [Seat(role, ROLES[role], sampling=sampling) for role in self.roles]
        self.judge = Seat("judge", Judge, sampling=sampling) if self.tie_break == "judge" else None
        self.retrieval = Retrieval(environment) if "retriever" in self.roles else None
        self.assign(lms)

    def describe(self) -> dict[str, Any]:
        return {
            "program": "deliberation",
            "roles": self.roles,
            "tie_break": self.tie_break,
            "max_rounds": self.max_rounds,
            "sampling": self.agents[0].predict.config,
            **described(self.retrieval),
        }

    def turns(self) -> list[SeatTurns]:
        judged: list[SeatTurns] = [] if self.judge is None else [(self.judge, 0, 1)]
        return [*((agent, 1, self.max_rounds) for agent in self.agents), *judged]

    def report(self, rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        return deliberation_report(rows)

    async def solve(self, task: Task) -> dspy.Prediction:
        transcript: list[Turn] = []
        evidence = await self.retrieval.look_up(task) if self.retrieval else None
        for round in range(1, self.max_rounds + 1):
            for agent in self.agents:
                found = evidence if agent.name == "retriever" else None
                transcript.append(await agent.ask(task, round=round, discussion=transcript, evidence=found))
            latest = transcript[-len(self.agents) :]
            if all_agree([turn.answer for turn in latest], task.kind):
                return prediction_of(
                    task, latest[0].answer, "consensus", transcript, rounds=round, consensus_round=round
                )
        if self.judge is None:
            answer, decided_by = settle(transcript, self.tie_break, self.roles, task.kind)
        else:
            verdict = await self.judge.ask(task, round=self.max_rounds, discussion=transcript)
            answer, decided_by = verdict.answer, "judge"
            if answer is None:
                answer, decided_by = fall_back(transcript, self.roles, task.kind)
            transcript.append(verdict)
        return prediction_of(task, answer, decided_by, transcript, rounds=self.max_rounds)


def settle(
    transcript: Sequence[Turn], tie_break: str, roles: Sequence[str], kind: Kind
) -> tuple[str | None, str]:
    """The answer and `decided_by` of a tie-break that needs no LM (`strongest:ROLE` or `majority`)."""
    if tie_break == "majority":
        answer = _vote(transcript, roles, kind)
        return answer, "majority" if answer is not None else "none"
    role = tie_break.removeprefix("strongest:")
    valid = [turn.answer for turn in transcript if turn.agent == role and turn.answer is not None]
    return (valid[-1], tie_break) if valid else fall_back(transcript, roles, kind)


def fall_back(transcript: Sequence[Turn], roles: Sequence[str], kind: Kind) -> tuple[str | None, str]:
    """Majority of the valid last answers when the tie-break has none of its own."""
    answer = _vote(transcript, roles, kind)
    return answer, "fallback:majority" if answer is not None else "none"


def _vote(transcript: Sequence[Turn], roles: Sequence[str], kind: Kind) -> str | None:
    last = [turn.answer for turn in transcript if turn.agent in roles][-len(roles) :]
    return majority(last, key=lambda answer: answer_key(answer, kind)).answer


def replay(
    result: Mapping[str, Any] | dspy.Prediction,
    *,
    max_rounds: int | None = None,
    tie_break: str | None = None,
) -> dspy.Prediction:
    """The outcome under a smaller round limit or another tie-break, from a recorded dialogue, without an LM
    call; its usage is that of the turns it is made of.

    Args:
        result: a prediction of `Deliberation`, or a row of `results.jsonl`, recorded up to its own
            `max_rounds`.
        max_rounds: None keeps the recorded length; otherwise at most that, unless the dialogue ended by
            consensus.
        tie_break: `strongest:ROLE` or `majority`; None keeps the recorded judge, which needs the full length.

    Raises:
        UserError: more rounds than were recorded, or a judge that was never asked at this point.
    """
    kind: Kind = result["kind"]
    turns = [
        Turn(
            turn["agent"],
            turn["round"],
            turn["answer"],
            turn["text"],
            turn.get("raw"),
            tuple(turn.get("evidence") or ()),
            Usage(**turn.get("usage") or {}),
        )
        for turn in result["transcript"]
    ]
    spoken = [turn for turn in turns if turn.agent != "judge"]
    recorded = max((turn.round for turn in spoken), default=0)
    if not recorded:
        raise UserError("this result holds no dialogue: replay needs a recorded run of Deliberation")
    limit = recorded if max_rounds is None else max_rounds
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise UserError(f"max_rounds is {max_rounds!r}: give a whole number of at least 1")
    roles = list(dict.fromkeys(turn.agent for turn in spoken))
    task = Task("(replayed)", None, None, kind)

    def outcome(answer: str | None, decided_by: str, kept: Sequence[Turn], **more: int) -> dspy.Prediction:
        prediction = prediction_of(task, answer, decided_by, kept, **more)
        usage = Usage()
        for turn in kept:
            usage.add(turn.usage)
        prediction["usage"] = usage.to_dict()
        return prediction

    for round in range(1, min(limit, recorded) + 1):
        latest = [turn for turn in spoken if turn.round == round]
        if all_agree([turn.answer for turn in latest], kind):
            kept = [turn for turn in spoken if turn.round <= round]
            return outcome(latest[0].answer, "consensus", kept, rounds=round, consensus_round=round)
    if limit > recorded:
        raise UserError(
            f"the recorded dialogue has {recorded} rounds without consensus: it cannot tell what {limit} give"
        )
    kept = [turn for turn in spoken if turn.round <= limit]
    if tie_break is None or tie_break == "judge":
        verdicts = [turn for turn in turns if turn.agent == "judge"]
        if limit < recorded or (not verdicts and tie_break == "judge"):
            raise UserError(
                f"no judge was asked after round {limit}: choose strongest:ROLE or majority, or run it"
            )
        if not verdicts:
            return outcome(result["answer"], result["decided_by"], kept, rounds=limit)
        answer, decided_by = verdicts[-1].answer, "judge"
        if answer is None:
            answer, decided_by = fall_back(kept, roles, kind)
        return outcome(answer, decided_by, [*kept, verdicts[-1]], rounds=limit)
    answer, decided_by = settle(kept, checked_tie_break(tie_break, roles), roles, kind)
    return outcome(answer, decided_by, kept, rounds=limit)


def told(rows: Sequence[Mapping[str, Any]], parameters: Mapping[str, Any]) -> list[Told | None] | None:
    """The outcomes under other rounds or another tie-break, as `replay` tells them; a judge has to be asked.

    Raises UserError when the rows are of fewer rounds.
    """
    tie_break = parameters.get("tie_break", "judge")
    if tie_break == "judge":
        return None
    found: list[Told | None] = []
    for row in rows:
        if row["error"]:
            found.append(None)
            continue
        outcome = replay(row, max_rounds=parameters.get("max_rounds", 3), tie_break=tie_break)
        heard = [turn for turn in row["transcript"] if turn["agent"] != "judge"]
        calls = sum(turn["usage"]["calls"] for turn in heard if turn["round"] <= outcome.rounds)
        found.append(Told(outcome.answer, outcome.decided_by, outcome.rounds, calls))
    return found


def deepest(parameters: Mapping[str, Any], largest: Mapping[str, Any]) -> dict[str, Any]:
    """The dialogue that tells of all shorter ones: the most rounds, and nobody asked to settle it."""
    return {**parameters, **largest, "tie_break": "majority"}


REPLAYS = Replays(("max_rounds", "tie_break"), deepest, told)


def _checked_roles(roles: Sequence[str]) -> list[str]:
    if not isinstance(roles, str | Sequence):
        raise UserError(f"roles is {roles!r}: give a list of roles in speaking order")
    names = [roles] if isinstance(roles, str) else list(roles)
    if not 1 <= len(names) <= MAX_AGENTS:
        raise UserError(
            f"a deliberation has 1 to {MAX_AGENTS} agents, not {len(names)}: name its roles in order"
        )
    for name in names:
        if not isinstance(name, str) or name not in ROLES:
            raise UserError(f"there is no role {name!r}: choose among {', '.join(ROLES)}")
        if names.count(name) > 1:
            raise UserError(f"the role {name!r} appears more than once: each role may appear once")
    return names


def checked_tie_break(tie_break: str, roles: Sequence[str]) -> str:
    """The tie-break if it is one for these roles; `strongest=ROLE` is accepted for `strongest:ROLE`."""
    rule = str(tie_break).replace("strongest=", "strongest:", 1)
    if rule in ("judge", "majority"):
        return rule
    role = rule.removeprefix("strongest:")
    if role == rule:
        raise UserError(f"there is no tie-break {tie_break!r}: choose judge, majority or strongest:ROLE")
    if role not in roles:
        raise UserError(f"the strongest agent {role!r} does not take part: choose among {', '.join(roles)}")
    return rule
