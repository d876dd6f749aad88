"""A router: asks a cheap program first, and the team only if that answer calls for it."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal, Unpack

import dspy

from ...agents.transcript import Task
from ...base.errors import checked_among
from ...reading.answers import same_answer
from ...reading.question import Question
from ...reading.row import ResultRow, TurnFields, answering
from ...statistics.handover import DriftWatch
from ..declared import Declared, Said, Shared
from ..program import Program, SeatTurns, solved_by
from ..single import member
from .calibration import RouterCalibration, asked_of, calibrated, calibration_of, sureness

DISPUTED, NEVER, ALWAYS = RULES = ("disputed", "never", "always")
CHEAP, TEAM, PERSON = "cheap", "team", "person"


EARLIER = {"weights": {"agreement": -1.0}, "bias": 1.0, "threshold": 0.001}
"""How earlier versions write `disputed` in their files."""


def _checked_rule(parameter: str, rule: object) -> str:
    if rule == EARLIER:
        return DISPUTED
    return checked_among(parameter, rule, RULES)


def _rules_written(rule: str) -> tuple[str, str]:
    """Return a rule as calibrations have it: of this version, and of earlier ones."""
    earlier = EARLIER if rule == DISPUTED else rule
    return rule, json.dumps(earlier, sort_keys=True)


class Router(
    Declared,
    name="router",
    example="router:self_consistency:deliberation:intuitive,reasoner:judge",
    space={},
    holds=(CHEAP, TEAM),
):
    """Asks the cheap program, and the team only if the rule says so.

    Args:
        cheap: the program that is asked first, or the name of a strategy.
        team: the program that the rule asks; its answer then counts if it can be read.
        rule: when the team is asked: `disputed` (where the cheap program's samples do not all
            agree), `never`, or `always` (the cheap program is not asked).
        calibration: the result of `calibrate`, as JSON.
        lms: LMs by agent.
        sampling: LM settings of all agents, such as `{"temperature": 0.5}`.
        prompt_layout: as elsewhere; None leaves that of each member.
        prompts: your instructions by agent, or a YAML file with them.

    `decided_by` is `cheap:…` or `team:…` with what settled it there, or `none`; once calibrated,
    also `person`, with no answer. Each turn has its `part`, `cheap` or `team`.

    Raises UserError for parts that are no programs, another rule, and a calibration that cannot be
    used.
    """

    def __init__(
        self,
        cheap: Annotated[str | Program, member],
        team: Annotated[str | Program, member],
        rule: Annotated[str, _checked_rule] = DISPUTED,
        *,
        calibration: Annotated[
            RouterCalibration | Mapping[str, object] | None, calibration_of, Said.CHANGED
        ] = None,
        **shared: Unpack[Shared],
    ) -> None:
        self._watch: DriftWatch | None = None
        self._warned: set[str] = set()

    def turns(self) -> list[SeatTurns]:
        # The second part may not be asked: that depends on the first one's answer.
        first, *after = self._parts_to_ask().values()
        turns = list(first.turns())
        for part in after:
            turns += [(seat, 0, most) for seat, _, most in part.turns()]
        return turns

    def most_turns(self) -> int:
        return sum(part.most_turns() for part in self._parts_to_ask().values())

    def _parts_to_ask(self) -> dict[Literal["cheap", "team"], Program]:
        """Return the parts that the rule may ask, in their order."""
        parts: dict[Literal["cheap", "team"], Program] = {}
        if self.rule != ALWAYS:
            parts["cheap"] = self.cheap
        if self.rule != NEVER:
            parts["team"] = self.team
        return parts

    async def solve(self, task: Task) -> dspy.Prediction:
        if self.calibration is not None:
            return await self._ask_until_sure(task, self.calibration)
        asked: dict[str, dspy.Prediction] = {}
        if self.rule != ALWAYS:
            asked[CHEAP] = await solved_by(self.cheap, task)
            if self.rule == NEVER or not _is_disputed(task, asked[CHEAP]):
                return _make_prediction(task, asked)
        asked[TEAM] = await solved_by(self.team, task)
        return _make_prediction(task, asked)

    def calibrate(
        self,
        questions: Sequence[Question],
        *,
        max_error: float,
        confidence: float = 0.95,
        lm: dspy.BaseLM | None = None,
        weights_from: Iterable[ResultRow] | None = None,
        recorded: Mapping[str, Iterable[ResultRow]] | None = None,
        concurrency: int = 16,
    ) -> RouterCalibration:
        """Set thresholds so that at most `max_error` of the accepted answers are wrong.

        Args:
            questions: questions with gold answers, drawn like those to come, that nothing in the
                router has learned from: neither demonstrations nor vote weights.
            max_error: the promised share of wrong answers among those given, 0 to 1.
            confidence: the probability that a calibration keeps the promise.
            lm: the LM of agents without one; None takes DSPy's.
            weights_from: rows of the cheap program on other questions. Its members' accuracy there
                breaks ties between equal vote shares.
            recorded: rows of `cheap` and `team` on these questions, such as `{"cheap":
                fm.evaluate(router.cheap, ...).rows}`, which are then not asked again.
            concurrency: questions under way at a time.

        The score of an answer is the share of the samples or members that gave it; if an LM gives
        its own probability of an answer (`fm.lm(…, logprobs=True)`, DSPy's decision outputs), its
        vote weighs that much. Thresholds are tested in a fixed sequence, from 15% answered in steps
        of 2.5%, with the exact binomial bound. An answer of the cheap program is accepted from its
        threshold on. The other questions go to the team, whose threshold is tested in the same way
        on the questions that are left; each of the two tests has half the error probability. A
        question below both thresholds goes to a person: the answer is None and `decided_by` is
        `person`. With the rule `never` or `always` one program is asked, with all of the error
        probability.

        If the program or LM of a part changes later, the router warns once and no longer accepts
        its answers. It watches the cheap scores for drift, with a false alarm in at most 1 of 100
        services; after drift it warns once, and sends every question to the team. Loading the
        router restarts the watch.

        Raises UserError for questions without gold answers, of which there are too few, or which
        demonstrations or `weights_from` hold, too.
        """
        self.calibration = calibrated(
            self._parts_to_ask(),
            questions,
            max_error=max_error,
            confidence=confidence,
            rule=self.rule,
            lm=lm,
            weights_from=weights_from,
            recorded=recorded or {},
            concurrency=concurrency,
        )
        self._watch, self._warned = None, set()
        return self.calibration

    async def _ask_until_sure(self, task: Task, calibration: RouterCalibration) -> dspy.Prediction:
        """Return the first answer that reaches the threshold of its part, or none, for a person."""
        asked: dict[str, dspy.Prediction] = {}
        watch = self._watch = self._watch or DriftWatch(calibration.watched())
        # Another rule would keep other questions than those that the promise is about.
        same_rule = calibration.rule in _rules_written(self.rule)
        for index, (name, stage) in enumerate(calibration.stages.items()):
            part: Program = getattr(self, name)
            # The promise is about questions like those of the calibration.
            if index == 0 and watch.drifted:
                continue
            if not same_rule or asked_of(part, dspy.settings.lm) != stage.asked:
                self._warn(
                    f"the {name} part of the router, its LM or the rule is not what the router was "
                    "calibrated with, so its answers do not stand: calibrate the router again, or "
                    "set router.calibration = None"
                )
                continue
            asked[name] = await solved_by(part, task)
            answer, transcript = asked[name].answer, asked[name].transcript
            sure = sureness(answer, transcript, task.kind, stage.weights)
            # The draw breaks ties of ranks; by the question, so that asking again sees the same.
            if index == 0 and watch.see(sure, random.Random(task.key).random()):
                others = "the team" if len(calibration.stages) > 1 else "a person"
                self._warn(
                    "the questions are no longer like those of the router's calibration, so from "
                    f"now on every question goes to {others}: calibrate the router again"
                )
            elif stage.threshold is not None and sure >= stage.threshold:
                return _make_prediction(task, asked, name)
        return _make_prediction(task, asked, PERSON)

    def _warn(self, sentence: str) -> None:
        """Warn once."""
        if sentence not in self._warned:
            self._warned.add(sentence)
            warnings.warn(sentence, stacklevel=2)

    def report(self, rows: Iterable[ResultRow]) -> dict[str, object]:
        """Return the number of questions `routed` to the team and `share_routed`, 0 to 1;
        `questions` and `accuracy` of those (`team`) and of the others (`cheap`); and the questions
        left to a `person`, if any. Failed questions are left out.
        """
        counts = {CHEAP: [0, 0], TEAM: [0, 0]}
        left = 0
        for row in map(ResultRow.of, rows):
            if row.error:
                continue
            if row.decided_by == PERSON:
                left += 1
                continue
            part = TEAM if any(turn.part == TEAM for turn in row.transcript) else CHEAP
            counts[part][0] += 1
            counts[part][1] += bool(row.correct)
        total = counts[CHEAP][0] + counts[TEAM][0]
        figures: dict[str, object] = {"routed": counts[TEAM][0]}
        if left:
            figures[PERSON] = {"questions": left}
        if total:
            figures["share_routed"] = counts[TEAM][0] / total
        for name, (questions, right) in counts.items():
            answered: dict[str, float] = {"questions": questions}
            if questions:
                answered["accuracy"] = right / questions
            figures[name] = answered
        return figures


def _is_disputed(task: Task, said: dspy.Prediction) -> bool:
    """Return whether the program has no answer, or some sample or member gave another one."""
    answers = [turn.answer for turn in answering(list(map(TurnFields.of, said.transcript)))]
    agree = (same_answer(given, said.answer, task.kind) for given in answers)
    return said.answer is None or not all(agree)


def _make_prediction(
    task: Task, asked: Mapping[str, dspy.Prediction], by: str | None = None
) -> dspy.Prediction:
    """Return the prediction with the answer of the part `by`, or without one for a person, and the
    turns of all parts; without `by`, with the last readable answer.
    """
    if by is None:
        readable = [name for name in asked if asked[name].answer is not None]
        by = (readable or list(asked))[-1]
    # `PERSON` is no part: no answer stands.
    stands = asked.get(by, dspy.Prediction(answer=None, consensus_round=None))
    decided_by = PERSON if by == PERSON else "none"
    if stands.answer is not None:
        decided_by = f"{by}:{stands.decided_by}"
    answers, transcript = {}, []
    for name, part in asked.items():
        for agent, given in part.answers.items():
            answers[f"{name}:{agent}"] = given
        transcript += [turn | {"part": name} for turn in part.transcript]
    return dspy.Prediction(
        answer=stands.answer,
        decided_by=decided_by,
        rounds=max((prediction.rounds for prediction in asked.values()), default=0),
        consensus_round=stands.consensus_round,
        kind=task.kind,
        answers=answers,
        transcript=transcript,
    )
