"""Causal consistency (CaCo-CoT): reasoners answer until evaluators accept an answer."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Annotated, Unpack

import dspy

from ...signatures.causal import COUNTERFACTUAL, SOLUTION, CausalEvaluator, CausalReasoner
from ...signatures.examples import Worked
from ..agents.demonstration import Demonstration, demo_of, held, worked_example
from ..agents.exchange import Exchange
from ..agents.seat import Seat
from ..agents.transcript import Task, Turn
from ..base.calls import ASKER
from ..base.errors import UserError, checked_whole, is_number
from ..base.saved_file import Described
from ..base.space import Parameter, When, choice, whole_numbers
from ..base.together import together
from ..reading.answers import answer_key
from ..reading.row import Examined, ResultRow
from ..reading.voting import Key, Ties, supporters_of
from ..reports.causal import causal_report
from .declaration import Plot, distinct, known_names
from .declared import WORDING, Declared, Said, Shared
from .program import SeatTurns, prediction_of, turns_of
from .roles import Role, roles_given, seat_of

SINGLE_SAMPLE: Mapping[str, object] = {"temperature": 0.5, "top_p": 0.4}
"""The sampling of single answers by default (CaCo-CoT, experiment details)."""

REASONER_PARTS = {"concepts": "concepts", "subquestions": "subquestions", "rationale": "rationale"}
_NOBODY: tuple[str | None, float] = None, 0.0
"""The leading answer and its share, where there is no answer."""

EVALUATOR_PARTS = {
    "non_causal": "check",
    "counterfactual": "contradiction",
    "reconsideration": "reconsideration",
}


def _share(name: str, value: object) -> float:
    if not is_number(value) or not 0 <= value <= 1:
        raise UserError(f"{name} is {value!r}: give a share from 0 to 1")
    return float(value)


def _components(name: str, value: object) -> list[str]:
    advice = "give a list of components to leave out"
    parts = [*REASONER_PARTS, *EVALUATOR_PARTS]
    named = known_names(name, value, parts, "component", advice)
    return list(dict.fromkeys(named))


def _read(parts: Sequence[str]) -> dict[str, object]:
    if not any(parts):
        return {}
    form = r"R(?P<reasoners>\d{1,4})(?:E(?P<evaluators>\d{1,4}))?"
    counts = re.fullmatch(form, parts[0], re.IGNORECASE)
    if len(parts) > 1 or counts is None:
        raise UserError(
            f"{':'.join(parts)!r} is not a number of reasoners and evaluators: "
            "write for example causal:R2E1"
        )
    return {name: int(count) for name, count in counts.groupdict().items() if count}


_EVALUATED = When("evaluators", above=0)
_SHARES = Parameter(choice(0.34, 0.5, 0.67), _EVALUATED)
_ONE_TO_THREE = Parameter(whole_numbers(1, 3), _EVALUATED)
_DRAWN = Parameter(choice("random", "first"), When("reasoners", above=1))


class CausalConsistency(
    Declared,
    name="causal",
    example="causal:R2E1",
    read=_read,
    space={**WORDING, "sampling.temperature": Parameter(choice(None, 0.0, 1.0))},
    order=("reasoners", "evaluators", "tie_break"),
    plot=Plot(
        "causal_plot",
        "In which round an answer stood, and what the evaluators' changes did to right and wrong "
        "answers.",
    ),
    fixed=("demonstration",),
):
    """CaCo-CoT (Tang et al. 2024, Algorithm 1).

    Args:
        reasoners: R, at least 1.
        evaluators: E; 0 is a plain vote.
        th0: the share of reasoners that an answer must exceed to be examined alone.
        th1: the share of evaluators that an answer must exceed to be taken.
        n: how many of the most frequent answers are examined when none exceeds `th0`.
        d_max: most rounds (the paper: 3); after them the evaluators' last answer is taken.
        own_roles: roles of your own by name, as `fm.roles` reads them; `judge`, `evaluator` and
            `supervisor` take these parts.
        without: parts left out (Table 3): `concepts`, `subquestions`, `rationale` of the reasoners,
            `non_causal`, `counterfactual`, `reconsideration` of the evaluators.
        demonstration: the worked question that is shown: `scienceqa`, `com2sense`, `boolq`,
            `gsm8k`, `hotpotqa`, or a file that `fm.worked` wrote.
        tie_break: which of equally frequent answers goes first: `random`, as in the paper, `first`
            (the one given first), or `strongest:REASONER`.
        seed: settles draws, together with the question's id.
        lms: LMs of `reasoner`, `evaluator`, or `reasoner.0`, `reasoner.1`, ….
        sampling: LM settings of all agents; temperature 0.5 and top_p 0.4 unless given.
        prompt_layout: where instructions stand: `role_last` (the default), after what all agents
            share, or `role_first`, in the system message.
        prompts: your instructions by agent, or a YAML file with them.

    `decided_by` is `accepted` (an evaluator upheld the answer of most reasoners), `evaluators`
    (theirs is the answer), `depth limit`, `vote` (without evaluators), or `none`. `rounds` is the
    depth reached. Unreadable answers count in the denominator of shares.

    Raises UserError for a count, threshold, component or demonstration that does not exist.
    """

    sampling = SINGLE_SAMPLE

    def __init__(
        self,
        reasoners: Annotated[int, checked_whole, whole_numbers(1, 4)] = 2,
        evaluators: Annotated[int, partial(checked_whole, least=0), whole_numbers(0, 2)] = 1,
        *,
        th0: Annotated[float, _share, _SHARES] = 0.5,
        th1: Annotated[float, _share, _SHARES] = 0.5,
        n: Annotated[int, checked_whole, _ONE_TO_THREE] = 2,
        d_max: Annotated[int, checked_whole, _ONE_TO_THREE] = 3,
        own_roles: Mapping[str, object] | None = None,
        without: Annotated[Sequence[str], _components] = (),
        demonstration: Demonstration | None = None,
        tie_break: Annotated[str, Said.CHANGED, _DRAWN] = "random",
        seed: int = 0,
        **shared: Unpack[Shared],
    ) -> None:
        own = roles_given(own_roles)
        evaluator = own.get("evaluator") or Role(CausalEvaluator)
        reasoning = _trimmed(CausalReasoner, REASONER_PARTS, without)
        evaluating = _trimmed(evaluator.signature, EVALUATOR_PARTS, without)
        names = distinct(["reasoner"] * reasoners)
        self.reasoners = [Seat(name, reasoning) for name in names]
        self.evaluators = [
            seat_of(name, replace(evaluator, signature=evaluating))
            for name in distinct(["evaluator"] * evaluators)
        ]
        self.demonstration = held(demonstration)
        if demonstration is not None:
            self._demonstrate(worked_example(demonstration))
        self.ties = Ties.of(tie_break, names, seed, ("random", "first", "strongest"))
        self.tie_break = str(self.ties)
        self.take({"evaluator": evaluator}, own)

    async def solve(self, task: Task) -> dspy.Prediction:
        transcript: list[Turn] = []
        for depth in range(1, self.d_max + 1):
            # Seeded by question and round: the order in which questions are answered must not
            # matter.
            draw = random.Random(f"{self.seed}/{ASKER.get().question or task.key}/{depth}")
            solutions = await self._reason(task, depth)
            transcript += solutions
            given = self._ranked(solutions, task, draw)
            leading, share = next(iter(given), _NOBODY)
            settled = partial(prediction_of, task, transcript=transcript, rounds=depth)
            if not self.evaluators:
                return settled(answer=leading, decided_by="vote")
            # Algorithm 1: a majority answer is examined alone; without a majority, each of the top
            # answers is.
            alone = share > self.th0
            most = 1 if alone else self.n
            examined = [answer for answer, _ in given[:most]]
            verdicts = await self._evaluate(task, depth, solutions, examined, draw)
            transcript += verdicts
            answer, share = next(iter(self._ranked(verdicts, task, draw)), _NOBODY)
            if alone and _same(answer, leading, task):
                return settled(answer=leading, decided_by="accepted", consensus_round=depth)
            if not alone and share > self.th1:
                return settled(answer=answer, decided_by="evaluators", consensus_round=depth)
        return settled(answer=answer, decided_by="depth limit")

    async def _reason(self, task: Task, depth: int) -> list[Turn]:
        """Return the solutions of all reasoners, asked for concurrently, as independent samples."""
        # Sample numbers go on from round to round: for a number used twice, a cache would answer.
        first = (depth - 1) * len(self.reasoners) + 1
        return await together(
            reasoner.ask(task, round=depth, rollout=number)
            for number, reasoner in enumerate(self.reasoners, first)
        )

    async def _evaluate(
        self,
        task: Task,
        depth: int,
        solutions: Sequence[Turn],
        answers: Sequence[str],
        draw: random.Random,
    ) -> list[Turn]:
        """For each answer, an evaluator's verdict on a solution with this answer, which it compares
        with a counterfactual answer.
        """
        asked = []
        in_turn = zip(answers, cycle(self.evaluators))
        first = (depth - 1) * self.n + 1
        # All is drawn before the first call, since the order of replies must not matter.
        for number, (answer, evaluator) in enumerate(in_turn, first):
            supporting = [turn for turn in solutions if _same(turn.answer, answer, task)]
            solution = draw.choice(supporting)
            other = _counterfactual(task, answer, solutions, draw)
            asked.append((evaluator, solution, other, number))
        return await together(self._examine(task, depth, *each) for each in asked)

    async def _examine(
        self,
        task: Task,
        depth: int,
        evaluator: Seat,
        solution: Turn,
        other: str | None,
        rollout: int,
    ) -> Turn:
        shown = None if "counterfactual" in self.without else other
        notes = _notes(solution.text, solution.answer, shown)
        verdict = await evaluator.ask(task, round=depth, notes=notes, rollout=rollout)
        examined = Examined(agent=solution.agent, answer=solution.answer, counterfactual=shown)
        return replace(verdict, examined=examined)

    def _ranked(
        self, turns: Sequence[Turn], task: Task, draw: random.Random
    ) -> list[tuple[str, float]]:
        """Return (answer, its share of all turns), the most frequent first."""
        answers, agents = [turn.answer for turn in turns], [turn.agent for turn in turns]
        return ranked(answers, agents, self.ties, draw, key=partial(_key, task=task))

    def _demonstrate(self, worked: Worked) -> None:
        """Give every agent the worked question as a demonstration."""
        for reasoner in self.reasoners:
            reasoner.predict.demos = [demo_of(worked, reasoner.predict.signature)]
        said = []
        for part, field in REASONER_PARTS.items():
            if part not in self.without:
                said.append(worked.fields[field])
        shown = None if "counterfactual" in self.without else worked.other
        notes = _notes("\n".join(said), worked.answer, shown)
        for evaluator in self.evaluators:
            evaluator.predict.demos = [demo_of(worked, evaluator.predict.signature, notes=notes)]

    def describe(self) -> Described:
        return super().describe() | {
            "reasoners": len(self.reasoners),
            "evaluators": len(self.evaluators),
        }

    def turns(self) -> list[SeatTurns]:
        """In every round one evaluator is asked, or, without a majority, one for each of the top
        answers.
        """
        rounds = self.d_max if self.evaluators else 1
        most = min(self.n, len(self.reasoners))
        turns = turns_of(self.reasoners, 1, rounds)
        for place, evaluator in enumerate(self.evaluators):
            # Evaluators take the answers of a round in turn, so this one takes every E-th.
            asked = rounds * len(range(place, max(most, 1), len(self.evaluators)))
            turns += turns_of([evaluator], 0, asked)
        return turns

    def exchange(self) -> Exchange:
        """Return the reasoners, which never read each other and so cannot answer again."""
        return Exchange([reasoner.name for reasoner in self.reasoners])

    def report(self, rows: Iterable[ResultRow]) -> dict[str, object]:
        return causal_report(rows)


def _counterfactual(
    task: Task, answer: str, solutions: Sequence[Turn], draw: random.Random
) -> str | None:
    """Return a counterfactual to an answer: one that a reasoner gave, else another option, else
    None (the evaluator then thinks of one).
    """
    given = [turn.answer for turn in solutions]
    possible = {"choice": list(task.choices or ()), "boolean": ["yes", "no"]}
    for answers in (given, possible.get(task.kind, [])):
        others = [
            other for other in answers if other is not None and not _same(other, answer, task)
        ]
        if others:
            return draw.choice(others)
    return None


def _key(answer: str, task: Task) -> str:
    """Return the key by which answers are equal: an option's text, since real questions may repeat
    one.
    """
    choices = task.choices or {}
    if task.kind == "choice" and answer in choices:
        return choices[answer].strip()
    return answer_key(answer, task.kind)


def _same(one: str | None, other: str | None, task: Task) -> bool:
    return one is not None and other is not None and _key(one, task) == _key(other, task)


def _notes(text: str, answer: str | None, other: str | None) -> list[dict[str, str | None]]:
    """Return the notes for an evaluator; without another answer it has to think of one itself."""
    solution = {"title": SOLUTION, "text": text, "answer": answer}
    if other is None:
        return [solution]
    return [solution, {"title": COUNTERFACTUAL, "text": "", "answer": other}]


def _trimmed(
    signature: type[dspy.Signature], parts: Mapping[str, str], without: Iterable[str]
) -> type[dspy.Signature]:
    for part in without:
        if part in parts:
            signature = signature.delete(parts[part])
    return signature


def ranked(
    answers: Sequence[str | None],
    voters: Sequence[str],
    ties: Ties,
    draw: random.Random,
    *,
    key: Key = str,
) -> list[tuple[str, float]]:
    """Return (answer, its share of all votes), the most frequent first; None abstains.

    Of equally frequent answers, that of the voter whom `ties` names comes first, then the one given
    first; by the rule `random`, their order is drawn.
    """
    supporters = supporters_of(answers, key)
    order = list(supporters)
    if ties.rule == "random":
        draw.shuffle(order)

    def place(answer: str) -> tuple[int, bool]:
        by = supporters[answer]
        return -len(by), ties.name not in [voters[i] for i in by]

    return [(answer, len(supporters[answer]) / len(answers)) for answer in sorted(order, key=place)]
