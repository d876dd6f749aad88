"""A router: asks a cheap program first, and the team only if that answer calls for it."""

from __future__ import annotations

import json
import math
import random
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, Unpack

import dspy

from ...agents.transcript import Task
from ...base.errors import UserError, checked_among, is_number
from ...reading.answers import same_answer
from ...reading.question import Question
from ...reading.row import ResultRow, TurnFields, answering
from ...statistics.handover import DriftWatch
from ..declared import Declared, Said, Shared
from ..program import Program, SeatTurns, solved_by
from ..single import member
from .calibration import RouterCalibration, asked_of, calibrated, calibration_of, sureness
from .calibration import Rule as Rule

ALWAYS, NEVER = "always", "never"
CHEAP, TEAM, PERSON = "cheap", "team", "person"
SIGNS = (
    "agreement",
    "unreadable",
    "options",
    "question_words",
    "context_words",
    "argument_words",
    "boolean",
    "number",
    "span",
)
"""The facts about a question before the team is asked; see `signs_of`."""

DISPUTED: Mapping[str, object] = {"weights": {"agreement": -1.0}, "bias": 1.0, "threshold": 0.001}
"""The rule of a router that nobody has taught: the team is asked where the cheap samples do not all
agree.
"""


def _checked_rule(parameter: str, rule: object) -> Rule:
    """The rule as JSON; None is `DISPUTED`. Raises UserError for one that cannot be followed."""
    if rule is None:
        rule = DISPUTED
    if rule in (ALWAYS, NEVER):
        return str(rule)
    form = "give always, never, or weights, bias and threshold"
    if not isinstance(rule, Mapping) or set(rule) != {"weights", "bias", "threshold"}:
        raise UserError(f"the router's rule is {str(rule)[:80]!r}: {form}")
    weights = rule["weights"]
    if not isinstance(weights, Mapping):
        raise UserError(f"the weights of the router's rule are {str(weights)[:80]!r}: {form}")
    for sign in weights:
        checked_among("sign", sign, SIGNS)
    numbers = {**weights, "bias": rule["bias"], "threshold": rule["threshold"]}
    for name, value in numbers.items():
        if not is_number(value) or not math.isfinite(value):
            raise UserError(f"the router's rule has {name} = {value!r}: give a number")
    return {
        "weights": {str(name): float(weight) for name, weight in weights.items()},
        "bias": float(rule["bias"]),
        "threshold": float(rule["threshold"]),
    }


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
        rule: `never`, `always` (the cheap program is not asked), or `{"weights": {SIGN: number},
            "bias": number, "threshold": number}`: the team is asked where bias + Σ weight × sign,
            its expected gain in accuracy, reaches the threshold. The signs are those of `signs_of`.
            None asks it where the cheap program's samples do not all agree.
        calibration: the result of `calibrate`, as JSON.
        lms: LMs by agent.
        sampling: LM settings of all agents, such as `{"temperature": 0.5}`.
        prompt_layout: as elsewhere; None leaves that of each member.
        prompts: your instructions by agent, or a YAML file with them.

    `decided_by` is `cheap:…` or `team:…` with what settled it there, or `none`; once calibrated,
    also `person`, with no answer. Each turn has its `part`, `cheap` or `team`.

    Raises UserError for parts that are no programs, and for a rule or calibration that cannot be
    followed.
    """

    def __init__(
        self,
        cheap: Annotated[str | Program, member],
        team: Annotated[str | Program, member],
        rule: Annotated[Rule | None, _checked_rule] = None,
        *,
        calibration: Annotated[
            RouterCalibration | Mapping[str, object] | None, calibration_of, Said.CHANGED
        ] = None,
        **shared: Unpack[Shared],
    ) -> None:
        self._watch: DriftWatch | None = None
        self._warned: set[str] = set()

    def turns(self) -> list[SeatTurns]:
        # Whether a second part is asked depends on what the first one answers.
        first, *after = self._asked().values()
        turns = list(first.turns())
        for part in after:
            turns += [(seat, 0, most) for seat, _, most in part.turns()]
        return turns

    def most_turns(self) -> int:
        return sum(part.most_turns() for part in self._asked().values())

    def _asked(self) -> dict[Literal["cheap", "team"], Program]:
        """The parts that the rule may ask, in their order."""
        parts: dict[Literal["cheap", "team"], Program] = {}
        if self.rule != ALWAYS:
            parts["cheap"] = self.cheap
        if self.rule != NEVER:
            parts["team"] = self.team
        return parts

    async def solve(self, task: Task) -> dspy.Prediction:
        if self.calibration is not None:
            return await self._surely(task, self.calibration)
        asked: dict[str, dspy.Prediction] = {}
        if self.rule != ALWAYS:
            asked[CHEAP] = await solved_by(self.cheap, task)
            signs = signs_of(task, asked[CHEAP].answer, asked[CHEAP].transcript)
            if not asks_team(self.rule, signs):
                return _settled(task, asked)
        asked[TEAM] = await solved_by(self.team, task)
        return _settled(task, asked)

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
                router has learned from: neither demonstrations, nor vote weights, nor its rule.
            max_error: the promised share of wrong answers among those given, 0 to 1.
            confidence: the probability that a calibration keeps the promise.
            lm: the LM of agents that have none; None takes DSPy's.
            weights_from: rows of the cheap program on other questions. Its members' accuracy there
                breaks ties between equal vote shares.
            recorded: rows of `cheap` and `team` on these questions, such as `{"cheap":
                fm.evaluate(router.cheap, ...).rows}`; what is there is not asked again.
            concurrency: questions under way at a time.

        The score of an answer is the share of the samples or members that gave it; if an LM gives
        its own probability of an answer (`fm.lm(…, logprobs=True)`, DSPy's decision outputs), its
        vote weighs that much. Thresholds are tested in a fixed sequence, from 15% answered in steps
        of 2.5%, with the exact binomial bound. An answer of the cheap program is accepted from its
        threshold on, unless a rule of the router sends the question to the team. The other
        questions go to the team, whose threshold is tested in the same way on the questions that
        are left; each of the two tests has half the error probability. A question below both
        thresholds goes to a person: the answer is None and `decided_by` is `person`. With the rule
        `never` or `always` one program is asked, with all of the error probability.

        If the program or LM of a part changes later, the router warns once and no longer accepts
        its answers. It watches the cheap scores for drift, with a false alarm in at most 1 of 100
        services; after drift it warns once, and sends every question to the team. Loading the
        router restarts the watch.

        Raises UserError for questions without gold answers, of which there are too few, or which
        demonstrations or `weights_from` hold, too.
        """
        self.calibration = calibrated(
            self._asked(),
            questions,
            max_error=max_error,
            confidence=confidence,
            rule=self.rule,
            lm=lm,
            routes=self._routes,
            weights_from=weights_from,
            recorded=recorded or {},
            concurrency=concurrency,
        )
        self._watch, self._warned = None, set()
        return self.calibration

    def _routes(self, task: Task, answer: str | None, transcript: Sequence[TurnFields]) -> bool:
        """Whether a rule that somebody gave or learned sends the question to the team."""
        if isinstance(self.rule, str) or self.rule == DISPUTED:
            return False
        return asks_team(self.rule, signs_of(task, answer, transcript))

    async def _surely(self, task: Task, calibration: RouterCalibration) -> dspy.Prediction:
        """The first answer that its part's threshold lets stand, or none, for a person."""
        asked: dict[str, dspy.Prediction] = {}
        watch = self._watch = self._watch or DriftWatch(calibration.watched())
        # Another rule would keep other questions than those that the promise is about.
        same_rule = json.dumps(self.rule, sort_keys=True) == calibration.rule
        for place, (name, stage) in enumerate(calibration.stages.items()):
            part: Program = getattr(self, name)
            # A threshold promises something only for questions like those of the calibration.
            if place == 0 and watch.drifted:
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
            routed = name == CHEAP and self._routes(task, answer, transcript)
            sure = -1.0 if routed else sureness(answer, transcript, task.kind, stage.weights)
            # The draw breaks ties of ranks; by the question, so that asking again sees the same.
            if place == 0 and watch.see(sure, random.Random(task.key).random()):
                others = "the team" if len(calibration.stages) > 1 else "a person"
                self._warn(
                    "the questions are no longer like those of the router's calibration, so from "
                    f"now on every question goes to {others}: calibrate the router again"
                )
            elif stage.threshold is not None and sure >= stage.threshold:
                return _settled(task, asked, name)
        return _settled(task, asked, PERSON)

    def _warn(self, sentence: str) -> None:
        if sentence not in self._warned:
            self._warned.add(sentence)
            warnings.warn(sentence, stacklevel=2)

    def report(self, rows: Iterable[ResultRow]) -> dict[str, object]:
        """The questions `routed` to the team, their number and `share_routed`, 0 to 1; `questions`
        and `accuracy` of those (`team`) and of the others (`cheap`), and how many of all were left
        to a `person`, if any. Failed questions are left out.
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
        figures: dict[str, Any] = {"routed": counts[TEAM][0]}
        if left:
            figures[PERSON] = {"questions": left}
        if total:
            figures["share_routed"] = counts[TEAM][0] / total
        for name, (questions, right) in counts.items():
            figures[name] = {"questions": questions}
            if questions:
                figures[name]["accuracy"] = right / questions
        return figures


def signs_of(task: Task, answer: str | None, transcript: Sequence[TurnFields]) -> dict[str, float]:
    """The facts without gold answer and team: the question's form and how the cheap program
    took it.

    `agreement`: the share, 0 to 1, of the answers given that are the program's own, 0 when it has
    none; `unreadable`: 1 when it has none; `options`: their number; `question_words`,
    `context_words` and `argument_words` (all that was said, over the answers given): log(1 + number
    of words); `boolean`, `number` and `span`: 1 for a question of this kind.
    """
    transcript = list(map(TurnFields.of, transcript))
    answers = [turn.answer for turn in answering(transcript)]
    agreement = float(answer is not None)
    if answers:
        same = sum(same_answer(given, answer, task.kind) for given in answers)
        agreement = same / len(answers)
    words = sum(len(str(turn.text).split()) for turn in transcript)
    return {
        "agreement": agreement,
        "unreadable": float(answer is None),
        "options": float(len(task.choices or ())),
        "question_words": math.log1p(len(task.question.split())),
        "context_words": math.log1p(len((task.context or "").split())),
        "argument_words": math.log1p(words / max(1, len(answers))),
        **{kind: float(task.kind == kind) for kind in ("boolean", "number", "span")},
    }


def asks_team(rule: Rule, signs: Mapping[str, float]) -> bool:
    """Whether a rule sends a question with these signs to the team."""
    if isinstance(rule, str):
        return rule == ALWAYS
    weights: Mapping[str, float] = rule["weights"]
    # The gain in accuracy, -1 to 1, that is expected of the team on questions like this one.
    gain = math.fsum([rule["bias"], *(weight * signs[name] for name, weight in weights.items())])
    return gain >= float(rule["threshold"])


def _settled(
    task: Task, asked: Mapping[str, dspy.Prediction], by: str | None = None
) -> dspy.Prediction:
    """The answer of one part, or none for a person, and everything that both said; without a name,
    the last readable answer of those asked.
    """
    if by is None:
        readable = [name for name in asked if asked[name].answer is not None]
        by = (readable or list(asked))[-1]
    # A person is none of the parts that were asked: then no answer stands.
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
