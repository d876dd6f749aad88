"""Sequential deliberation: agents speak in turn, read each other and revise; a tie-break decides
the rest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import dspy
from optuna.distributions import CategoricalDistribution, IntDistribution

from ...signatures.roles import Judge
from ..agents.exchange import Exchange, Hear, hear_all
from ..agents.retrieval import check_retrieval, retrieval_settings, with_queries
from ..agents.transcript import Task, Turn, all_agree
from ..base.calls import ASKER, total
from ..base.errors import UserError, checked_whole, did_you_mean
from ..base.registry import Registry
from ..base.saved_file import Described
from ..base.space import Parameter, Space, When, lists
from ..base.together import together
from ..reading.answers import Kind
from ..reading.row import ResultRow
from ..reading.voting import DecideTie, Ties, vote_among
from ..reports.deliberation import deliberation_report
from .declaration import (
    MAX_ROUNDS,
    Plot,
    Protocol,
    Replayed,
    Replays,
    items_and,
)
from .program import LAYOUT, Program, SeatTurns, prediction_of
from .roles import SEATS, SPEAKERS, Role, cast_of, roles_given, seat_of, seated

MAX_AGENTS = 8
OPENINGS = ("in_turn", "blind")
_TIED = ("first", "strongest", "random")


Turns = Sequence[Mapping[str, Any]]
"""The turns of the agents in order, each with its `agent`, `round`, `answer` and `text`."""


@dataclass(frozen=True)
class TieBreak:
    """The rule that decides a dialogue without consensus.

    `rule` computes the answer: (each turn, number of agents, kind, the named agent) → answer, or
    None; without a rule the judge is asked. `names_agent`: the rule is written with the role of an
    agent, `NAME:ROLE`. `votes`: it may be written with a rule for ties, `NAME:RULE`, and then gets
    that rule.
    """

    rule: Callable[..., str | None] | None = None
    names_agent: bool = False
    votes: bool = False


def _majority(
    turns: Turns,
    agents: int,
    kind: Kind,
    _: str = "",
    decide_tie: DecideTie | None = None,
) -> str | None:
    answers = [turn["answer"] for turn in turns[-agents:]]
    return vote_among(answers, kind, decide_tie=decide_tie).answer


def _last_of(turns: Turns, agents: int, kind: Kind, role: str) -> str | None:
    valid = [
        turn["answer"] for turn in turns if turn["agent"] == role and turn["answer"] is not None
    ]
    return valid[-1] if valid else None


def _own(name: str, function: Any) -> TieBreak:
    """The tie-break that a user's function is. Raises UserError for what is not a function."""
    if isinstance(function, TieBreak):
        return function
    if not callable(function):
        raise UserError(f"{name} is not a tie-break: name a function of the list of turns")

    def rule(turns: Turns, agents: int, kind: Kind, role: str) -> str | None:
        answer: str | None = function([dict(turn) for turn in turns])
        if answer is not None and answer not in [turn["answer"] for turn in turns]:
            raise UserError(
                f"the tie-break {name} gave {answer!r}, which nobody answered: return the answer "
                f"of "
                "a turn, or None"
            )
        return answer

    return TieBreak(rule)


_BUILT_IN: Mapping[str, TieBreak] = {
    "judge": TieBreak(),
    "majority": TieBreak(_majority, votes=True),
    "strongest": TieBreak(_last_of, names_agent=True),
}
TIE_BREAKS: Registry[TieBreak] = Registry("tie_breaks", _own, lambda: _BUILT_IN)
"""Every tie-break by its name. An entry here, or an entry point, is all that it takes to add one.
"""


class Deliberation(Program):
    """Agents of Commonsense (sections 3.1 and 3.2).

    In every round each agent, in order, gets the question, its options and everything said so far
    in all rounds, and gives an argument and an answer. A round in which all answers are valid and
    equal ends the dialogue by consensus. After `max_rounds` without consensus the tie-break
    decides.

    Args: roles: 1 to 8 agents in speaking order: names of `ROLES` (intuitive, reasoner, retriever,
        critic) and of `own_roles`, each at most once; or these roles themselves by name, such as
        `{"lawyer": Lawyer, "critic": "critic"}`.
        tie_break: `judge` (an LM reads the discussion and decides), `majority` (the most
        frequent answer of the last round; ties go to the earliest speaker, or with
        `majority:random` to one that is drawn, with `majority:strongest=ROLE` to that agent's), or
        `strongest:ROLE` (that agent's last valid answer); or a function of yours: it gets the list
        of turns, each a dict with `agent`, `round`, `answer` and `text`, and returns the answer of
        one of them, or None.
        max_rounds: at least 1; the paper's value is 3.
        own_roles: roles of your own by name: signatures, `Role`s or mappings, as `fm.roles` reads
            them from a file. One that is called `judge` takes the judge's seat.
        opening: `in_turn`, as in the paper, or `blind`: in the first round nobody sees what the
            others of that round said, and all are asked at the same time.
        seed: with the question's id it decides a tie that is drawn.
        lms: LMs for single agents, by role name or `judge`.
        environment: where the retriever looks things up; without one it answers from memory.
        retrieval: `queries`, which an agent that looks things up writes itself in every round, from
            the question and the discussion, or `question`, the only query.
        max_queries: how many of them at most.
        sampling: LM settings of every agent, such as `{"temperature": 0.5}`.
        prompt_layout: `role_last`, after what all agents share, or `role_first`, in the system
            message.
        prompts: agent → your instructions, or the path of a YAML file with them.

    `decided_by` of the prediction is `consensus`, the tie-break, `fallback:majority` (the tie-break
    itself had no valid answer) or `none`.

    Raises: UserError: unknown, repeated, missing, unusable or too many roles; unknown tie-break or
        opening; max_rounds below 1.
    """

    def __init__(
        self,
        roles: Sequence[str] | Mapping[str, Any],
        tie_break: str | Callable[[list[dict[str, object]]], str | None] = "judge",
        max_rounds: int = MAX_ROUNDS,
        *,
        own_roles: Mapping[str, Any] | None = None,
        opening: str = "in_turn",
        seed: int = 0,
        lms: Mapping[str, dspy.BaseLM] | None = None,
        environment: Any = None,
        retrieval: str = "queries",
        max_queries: int = 2,
        sampling: Mapping[str, object] | None = None,
        prompt_layout: str = "role_last",
        prompts: Mapping[str, str] | str | Path | None = None,
    ) -> None:
        super().__init__()
        if isinstance(roles, Mapping):
            own_roles = {**roles, **(own_roles or {})}
            roles = [name for name in roles if name not in SEATS]
        own = roles_given(own_roles)
        cast = cast_of("roles", roles, own, "give a list of roles in speaking order")
        self.roles = _checked_roles(roles)
        self.seated = seated(cast, self.roles)
        self.names = [seat.name for seat in self.seated]
        if not 1 <= len(self.names) <= MAX_AGENTS:
            raise UserError(
                f"a deliberation has 1 to {MAX_AGENTS} agents, not {len(self.names)}: name its "
                "roles in order"
            )
        self.tie_break, self.tie_rule = named_tie_break(tie_break, self.names)
        self.max_rounds = checked_whole("max_rounds", max_rounds)
        if opening not in OPENINGS:
            raise UserError(f"there is no opening {opening!r}: choose {' or '.join(OPENINGS)}")
        self.opening = opening
        _ties(self.tie_break, self.tie_rule, self.names, seed, "")
        self.seed, self.environment = seed, environment
        check_retrieval(retrieval, max_queries)
        how: dict[str, Any] = {
            "environment": environment,
            "retrieval": retrieval,
            "max_queries": max_queries,
            "sampling": sampling,
        }
        self.agents = [seat_of(name, cast[role], **how) for name, role, _ in self.seated]
        self.judge = None
        if self.tie_rule.rule is None:
            cast["judge"] = own.get("judge") or Role(Judge)
            self.judge = seat_of("judge", cast["judge"], **how)
        self.word(prompts, prompt_layout)
        self.take(cast, own)
        self.assign(lms)

    def describe(self) -> Described:
        return {
            **self.named(),
            "roles": self.roles,
            "tie_break": self.tie_break,
            "max_rounds": self.max_rounds,
            **({"opening": self.opening} if self.opening != OPENINGS[0] else {}),
            **({"seed": self.seed} if self.tie_break == "majority:random" else {}),
            "sampling": self.agents[0].predict.config,
            **retrieval_settings(self.seats().values(), self.environment),
        }

    def turns(self) -> list[SeatTurns]:
        judging = [] if self.judge is None else with_queries([self.judge])
        speakers = with_queries(self.agents)
        return [
            *((seat, 1, self.max_rounds) for seat in speakers),
            *((seat, 0, 1) for seat in judging),
        ]

    def report(self, rows: Iterable[ResultRow]) -> dict[str, object]:
        return deliberation_report(rows)

    def check_saved(self) -> None:
        """Raise UserError for a tie-break that nobody could find by its name."""
        if _named(self.tie_break)[1] is None:
            raise UserError(
                f"the tie-break {self.tie_break} is a function that cannot be imported, and code "
                f"is "
                "not saved: put it into a module, or into a package with an entry point "
                "folkmoot.tie_breaks"
            )

    def exchange(self) -> Exchange:
        again = self.max_rounds - 1
        alone = self.opening == "blind" or len(self.agents) == 1
        return Exchange(
            self.names,
            self._again,
            None if alone else self._opening,
            [(seat, min(1, again), again) for seat in with_queries(self.agents)],
        )

    async def solve(self, task: Task) -> dspy.Prediction:
        opening = await self._opening(task) if self.opening == "blind" else []
        transcript = await self._rounds(task, opening, hear_all)
        rounds, latest = self._whole_rounds(transcript), transcript[-len(self.agents) :]
        if all_agree([turn.answer for turn in latest], task.kind):
            return prediction_of(
                task,
                latest[0].answer,
                "consensus",
                transcript,
                rounds=rounds,
                consensus_round=rounds,
            )
        judged = None
        if self.judge is not None:
            verdict = await self.judge.ask(task, round=self.max_rounds, discussion=transcript)
            transcript.append(verdict)
            judged = verdict.answer
        ties = _ties(self.tie_break, self.tie_rule, self.names, self.seed, ASKER.get().question)
        answer, decided_by = break_tie(
            transcript, self.tie_break, self.tie_rule, self.names, task.kind, judged, ties
        )
        return prediction_of(task, answer, decided_by, transcript, rounds=self.max_rounds)

    async def _opening(self, task: Task) -> list[Turn]:
        """The first answers of agents who hear nobody, asked for at the same time."""
        turns = await together(self._speak(place, task, 1, ()) for place in range(len(self.agents)))
        return [replace(turn, details={**turn.details, "blind": True}) for turn in turns]

    async def _again(self, task: Task, recorded: Sequence[Turn], hear: Hear) -> list[Turn]:
        transcript = list(recorded[: len(self.agents)])
        last = max(turn.round for turn in recorded if turn.agent in self.names)
        for number in range(2, last + 1):
            await self._round(task, transcript, number, hear)
        return transcript

    async def _rounds(self, task: Task, opening: Sequence[Turn], hear: Hear) -> list[Turn]:
        """Whole rounds, from the `opening` on, until all agree or no round is left."""
        transcript = list(opening)
        while (done := self._whole_rounds(transcript)) < self.max_rounds:
            latest = [turn.answer for turn in transcript[-len(self.agents) :]]
            if all_agree(latest, task.kind):
                break
            await self._round(task, transcript, done + 1, hear)
        return transcript

    async def _round(self, task: Task, transcript: list[Turn], number: int, hear: Hear) -> None:
        """Let every agent speak once, and add what it says to the transcript."""
        for place, agent in enumerate(self.agents):
            heard = hear(agent.name, transcript)
            transcript.append(await self._speak(place, task, number, heard))

    def _whole_rounds(self, transcript: Sequence[Turn]) -> int:
        return len(transcript) // len(self.agents)

    async def _speak(self, place: int, task: Task, round: int, discussion: Sequence[Turn]) -> Turn:
        return await self.agents[place].ask(
            task, round=round, discussion=discussion, rollout=self.seated[place].sample
        )


def break_tie(
    transcript: Sequence[Turn],
    name: str,
    tie_break: TieBreak,
    roles: Sequence[str],
    kind: Kind,
    judged: str | None = None,
    ties: DecideTie | None = None,
) -> tuple[str | None, str]:
    """The answer and `decided_by` of a tie-break by its full name; `judged` is a judge's answer.

    Where the tie-break has no valid answer, the majority of the valid last answers decides.
    """
    rule, more = tie_break.rule, (ties,) if tie_break.votes else ()
    turns = [turn.spoken() for turn in transcript if turn.agent in roles]
    answer = (
        judged if rule is None else rule(turns, len(roles), kind, name.partition(":")[2], *more)
    )
    if answer is not None:
        return answer, name
    return _majority(turns, len(roles), kind), "fallback:majority"


def replay(
    result: ResultRow | dspy.Prediction,
    *,
    max_rounds: int | None = None,
    tie_break: str | Callable[[list[dict[str, object]]], str | None] | None = None,
    opening: str | None = None,
    seed: int = 0,
) -> dspy.Prediction:
    """The outcome under a smaller round limit or another tie-break, from a recorded dialogue,
    without an LM call; its usage is that of the turns it is made of.

    Args:
        result: a prediction of `Deliberation`, or a row of `results.jsonl`, recorded up to its own
            `max_rounds`.
        max_rounds: None keeps the recorded length; otherwise at most that, unless the dialogue
            ended by consensus.
        tie_break: one that asks nobody; None keeps the recorded judge, which needs the full length.
        opening: the recorded one, or None: what agents saw cannot be changed afterwards.
        seed: of a tie that is drawn, which takes a row, since it also needs the question's id.

    Raises: UserError: more rounds than were recorded, another opening, or a judge that was never
        asked at this point.
    """
    kind: Kind = result["kind"]
    blind = any(turn.get("blind") for turn in result["transcript"])
    if opening not in (None, OPENINGS[blind]):
        raise UserError(
            f"the recorded dialogue began {OPENINGS[blind].replace('_', ' ')}, and what agents "
            f"saw cannot be "
            f"changed afterwards: run it with opening={opening!r}"
        )
    turns = [Turn.of(turn) for turn in result["transcript"]]
    spoken = [turn for turn in turns if turn.agent != "judge"]
    recorded = max((turn.round for turn in spoken), default=0)
    if not recorded:
        raise UserError(
            "this result holds no dialogue: replay needs a recorded run of Deliberation"
        )
    limit = recorded if max_rounds is None else checked_whole("max_rounds", max_rounds)
    roles = list(dict.fromkeys(turn.agent for turn in spoken))
    task = Task("(replayed)", None, None, kind)

    def outcome(
        answer: str | None, decided_by: str, kept: Sequence[Turn], **more: int
    ) -> dspy.Prediction:
        prediction = prediction_of(task, answer, decided_by, kept, **more)
        prediction["usage"] = total(turn.usage for turn in kept).to_dict()
        return prediction

    for round in range(1, min(limit, recorded) + 1):
        latest = [turn for turn in spoken if turn.round == round]
        if all_agree([turn.answer for turn in latest], kind):
            kept = [turn for turn in spoken if turn.round <= round]
            return outcome(latest[0].answer, "consensus", kept, rounds=round, consensus_round=round)
    if limit > recorded:
        raise UserError(
            f"the recorded dialogue has {recorded} rounds without consensus: it cannot tell what "
            f"{limit} give"
        )
    kept = [turn for turn in spoken if turn.round <= limit]
    if tie_break is None or tie_break == "judge":
        verdicts = [turn for turn in turns if turn.agent == "judge"]
        if limit < recorded or (not verdicts and tie_break == "judge"):
            raise UserError(
                f"no judge was asked after round {limit}: choose majority or strongest:ROLE, "
                f"or run it"
            )
        if not verdicts:
            return outcome(result["answer"], str(result["decided_by"]), kept, rounds=limit)
        judged = verdicts[-1].answer
        answer, decided_by = break_tie(kept, "judge", TIE_BREAKS["judge"], roles, kind, judged)
        return outcome(answer, decided_by, [*kept, verdicts[-1]], rounds=limit)
    name, tie_rule = named_tie_break(tie_break, roles)
    asked = str(result["id"]) if "id" in result else ""
    if name == "majority:random" and not asked:
        raise UserError(
            "a tie is drawn by the question's id, which a prediction lacks: replay its row"
        )
    ties = _ties(name, tie_rule, roles, seed, asked)
    answer, decided_by = break_tie(kept, name, tie_rule, roles, kind, ties=ties)
    return outcome(answer, decided_by, kept, rounds=limit)


def _replayed(
    rows: Sequence[ResultRow], parameters: Mapping[str, Any]
) -> list[Replayed | None] | None:
    """The outcomes under other rounds or another tie-break, as `replay` gives them; a judge has to
    be asked.

    Raises UserError when the rows are of fewer rounds.
    """
    tie_break = parameters.get("tie_break", "judge")
    if tie_break == "judge":
        return None

    def outcome(row: ResultRow) -> Replayed:
        replayed = replay(
            row,
            max_rounds=parameters.get("max_rounds", MAX_ROUNDS),
            tie_break=tie_break,
            opening=parameters.get("opening"),
            seed=parameters.get("seed", 0),
        )
        return Replayed(
            replayed.answer, replayed.decided_by, replayed.rounds, replayed.usage["calls"]
        )

    return [None if row["error"] else outcome(row) for row in rows]


def _checked_roles(roles: Sequence[str]) -> list[str]:
    names = [roles] if isinstance(roles, str) else list(roles)
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"the role {name!r} appears more than once: each role may appear once")
    return names


def named_tie_break(tie_break: Any, roles: Sequence[str]) -> tuple[str, TieBreak]:
    """A tie-break for these roles with its full name; `strongest=ROLE` means `strongest:ROLE`.

    Raises UserError for a name that no tie-break has, and an agent that does not take part.
    """
    if callable(tie_break):
        name = TIE_BREAKS.adopted(tie_break)
        return name, _own(name, tie_break)
    name, rule, role = _named(str(tie_break))
    if rule is not None and rule.votes and role:
        ties = Ties.of(role, roles, allowed=_TIED)
        return name if ties == Ties() else f"{name}:{str(ties).replace(':', '=')}", rule
    if rule is None or rule.names_agent != bool(role):
        raise UserError(
            f"there is no tie-break {tie_break!r}{did_you_mean(name, TIE_BREAKS.names())}: choose "
            f"{_choices()}, a function of yours, or "
            f"one "
            "that a package registers (entry point folkmoot.tie_breaks)"
        )
    if role and role not in roles:
        raise UserError(
            f"the {name} agent {role!r} does not take part: choose among {', '.join(roles)}"
        )
    return f"{name}:{role}" if role else name, rule


def _named(tie_break: str) -> tuple[str, TieBreak | None, str]:
    """The name of a tie-break, the tie-break of that name, and what stands behind the name."""
    if (whole := TIE_BREAKS.find(tie_break)) is not None:
        return tie_break, whole, ""
    name, *rest = re.split("[:=]", tie_break, maxsplit=1)
    return name, TIE_BREAKS.find(name), "".join(rest)


def _ties(
    name: str, tie_break: TieBreak, roles: Sequence[str], seed: Any, question: str | None
) -> DecideTie:
    """The rule for a tied vote under a tie-break that votes."""
    rule = name.partition(":")[2] if tie_break.votes else ""
    return Ties.of(rule or "first", roles, seed).decider(question, roles)


def _choices() -> str:
    """All tie-breaks as they are written."""
    by_name = {name: TIE_BREAKS.find(name) for name in TIE_BREAKS.names()}
    return ", ".join(
        f"{name}:ROLE" if one and one.names_agent else name for name, one in by_name.items()
    )


_SPACE: Space = {
    "roles": Parameter(
        lists(SPEAKERS, 2, 3), of_roles=lambda names: lists([*names, *SPEAKERS], 2, 3)
    ),
    "max_rounds": Parameter(IntDistribution(1, MAX_ROUNDS)),
    "tie_break": Parameter(CategoricalDistribution(tuple(_BUILT_IN))),
    "ties": Parameter(
        CategoricalDistribution(("first", "random")),
        When("tie_break", tuple(name for name, rule in _BUILT_IN.items() if rule.votes)),
        joins="tie_break",
        default="first",
    ),
    "opening": Parameter(CategoricalDistribution(OPENINGS), default=OPENINGS[0]),
    **{
        name: Parameter(
            CategoricalDistribution(SPEAKERS),
            When("tie_break", (name,)),
            joins="tie_break",
            among="roles",
        )
        for name, rule in _BUILT_IN.items()
        if rule.names_agent
    },
    "prompt_layout": LAYOUT,
    "sampling.temperature": Parameter(CategoricalDistribution((None, 0.5, 1.0))),
}

Deliberation.protocol = Protocol(
    "deliberation",
    "deliberation:intuitive,reasoner:judge",
    partial(items_and, "roles", "tie_break"),
    _SPACE,
    # One dialogue tells of all shorter ones: the most rounds, and nobody asked to decide it.
    Replays(
        ("max_rounds", "tie_break", "seed"),
        lambda parameters, largest: {
            **{name: value for name, value in parameters.items() if name != "seed"},
            **largest,
            "tie_break": "majority",
        },
        _replayed,
    ),
    Plot(
        "deliberation_plot",
        "In which round the agents agreed, and how often each agent's first and last answer was "
        "right.",
    ),
)
