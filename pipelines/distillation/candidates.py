"""The single agents that may stand in for a team, and the demonstrations that its transcripts give
them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import dspy

from ...modules.base.saved_file import Described
from ...modules.protocols.program import Program, distinct
from ...modules.protocols.registry import PROTOCOLS
from ...modules.protocols.single import SELF_CONSISTENCY, SingleAgent
from ...modules.reading.question import Question
from ...modules.reading.row import ResultRow
from ..data import load as data
from ..programs.build import made

SHOWN = 4  # demonstrations
SAMPLES = (2, 3, 5)  # of self-consistency; two tell whether an agent is sure
PLAIN = ("simple", "cot")


@dataclass(frozen=True)
class Parts:
    """A run's questions: those `shown` as demonstrations, those to choose by, and those of the last
    test.
    """

    shown: list[Question]
    selection: list[Question]
    held_out: list[Question]


@dataclass(frozen=True)
class Candidate:
    """A single agent by name, how many demonstrations it is shown, and its name without them."""

    name: str
    program: Program
    demos: int
    plain: str


def split_questions(
    questions: Sequence[Question], team: Mapping[str, ResultRow], seed: int
) -> Parts:
    """Half of the questions, drawn by the seed, for the last test; of the others up to SHOWN that
    the `team` got right as demonstrations, unless the text of one stands among those that
    are left.
    """
    order = random.Random(seed).sample(range(len(questions)), len(questions))
    half = len(questions) // 2
    held = {questions[place].id for place in order[:half]}
    chosen: list[Question] = []
    for question in (questions[place] for place in order[half:]):
        if len(chosen) == min(SHOWN, len(questions) // 8):
            break
        others = [other for other in questions if other.id != question.id]
        if team[question.id]["correct"] and not data.overlap([question], others):
            chosen.append(question)
    shown = {question.id for question in chosen}
    return Parts(
        chosen,
        [question for question in questions if question.id not in held | shown],
        [question for question in questions if question.id in held],
    )


def candidates(
    team: Described,
    calls: float,
    shown: Sequence[tuple[Question, ResultRow]],
) -> list[Candidate]:
    """The single agents that make fewer calls per question than the team, which makes so many: the
    fewest calls first, and without demonstrations before with them.

    Args:
        team: what the team's `describe()` says: its own roles and members are candidates, too.
        calls: calls per question of the team.
        shown: questions that the team got right, each with its row.
    """
    protocol = PROTOCOLS.find(team.get("program"))
    agents: list[tuple[str, Program]] = [(name, SingleAgent(name)) for name in PLAIN]
    for member in protocol.singles(team) if protocol else ():  # as they are in the team
        settings = {name: value for name, value in member.items() if name != "program"}
        agents.append((_name_of(member), made("the team", "single", settings)))
    for samples in SAMPLES:
        sampled = SingleAgent(SELF_CONSISTENCY, samples=samples)
        agents.append((f"{SELF_CONSISTENCY}-{samples}", sampled))
    cheaper: list[tuple[str, Program]] = []
    for name, program in agents:
        others = [team, *(other.describe() for _, other in cheaper)]
        if program.most_turns() < calls and program.describe() not in others:
            cheaper.append((name, program))
    names = distinct([name for name, _ in cheaper])
    plain = [
        Candidate(name, program, 0, name) for name, (_, program) in zip(names, cheaper, strict=True)
    ]
    taught = [_shown(one, shown) for one in plain if shown]
    return sorted([*plain, *taught], key=lambda one: one.program.most_turns())


def _name_of(member: Described) -> str:
    name = f"role-{member['role']}" if member.get("role") else str(member["strategy"])
    name += f"-{member['samples']}" if member.get("samples") else ""
    return name if name not in PLAIN else f"member-{name}"


def _shown(plain: Candidate, shown: Sequence[tuple[Question, ResultRow]]) -> Candidate:
    """The same agent shown the questions, each with what the team said for the right answer."""
    taught: Program = plain.program.deepcopy()
    for predictor in taught.predictors():
        *argued, last = predictor.signature.output_fields
        if last != "answer":
            continue  # a step that prepares an answer
        predictor.demos = []
        for question, row in shown:
            demo = {**question.inputs(), "answer": question.answer}
            arguments = _arguments(row)
            # Only a reply with one field before the answer has a place for an argument.
            if len(argued) == 1 and arguments:
                demo[argued[0]] = arguments[0]
            predictor.demos.append(dspy.Example(demo))
    return Candidate(f"{plain.name}-{len(shown)}-shown", taught, len(shown), plain.name)


def _arguments(row: ResultRow) -> list[str]:
    return [
        str(turn["text"])
        for turn in row["transcript"]
        if not turn.get("step") and turn["answer"] == row["answer"] and str(turn["text"]).strip()
    ]
