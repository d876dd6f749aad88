"""Calibrates a router: finds the vote share that an answer of its programs needs to be accepted."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Annotated, Literal

import dspy
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ...agents.adapter import settings_of
from ...base.errors import UserError, checked_whole, first_fault, is_number
from ...base.keyed import without
from ...base.sync import run_sync
from ...base.together import together
from ...base.usage import Usage
from ...reading.answers import same_answer, score
from ...reading.asked import Kind
from ...reading.question import Question
from ...reading.row import ResultRow, TurnFields, answering, taken
from ...statistics.handover import fewest_kept, share_never, threshold_for
from ..program import Program
from ..saved import hashes

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0, le=10_000_000)]

TIE = 1e-3
"""The most that a member's accuracy adds to its vote: it may break ties, and nothing else."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class AskedPart(_Strict):
    """A program by its hash, and the name and settings of each agent's LM."""

    program: str
    lms: dict[str, str]


class Stage(_Strict):
    """The calibration of one part of a router.

    An answer with a score of at least `threshold` is accepted; None accepts none. Of the
    `questions` that reached the part, `kept` answers were accepted, `errors` of them wrong; `bound`
    is the upper limit of their error. The first test needs `needs` accepted answers without an
    error. `never` is the share of calibrations like this one that find no threshold. `weights` are
    the members' accuracy on other questions.
    """

    asked: AskedPart
    threshold: float | None
    questions: Count
    kept: Count
    errors: Count
    bound: Share
    needs: Count
    never: Share
    weights: dict[str, Share]


class RouterCalibration(_Strict):
    """The promise of a router: with probability `confidence`, at most `max_error` of the accepted
    answers are wrong.

    `stages` are by part, `cheap` and `team`. `usage` is the bill of all `questions`. `scores`
    counts the scores of the part that is asked first, to detect drift.
    """

    max_error: Annotated[float, Field(gt=0, lt=1)]
    confidence: Annotated[float, Field(gt=0, lt=1)]
    rule: str
    questions: Annotated[Count, Field(gt=0)]
    stages: Annotated[dict[Literal["cheap", "team"], Stage], Field(min_length=1)]
    usage: dict[str, int | float | None]
    scores: list[Annotated[tuple[float, Count], Field(strict=False)]]

    @model_validator(mode="after")
    def _one_score_each(self) -> RouterCalibration:
        if sum(times for _, times in self.scores) != self.questions:
            raise ValueError("there is not one score for each question")
        return self

    @property
    def share(self) -> float:
        """The share of the questions that are answered, 0 to 1."""
        return self._kept / self.questions

    @property
    def error(self) -> float | None:
        """The share of wrong answers among the accepted ones, or None."""
        if not self._kept:
            return None
        return sum(stage.errors for stage in self.stages.values()) / self._kept

    @property
    def _kept(self) -> int:
        return sum(stage.kept for stage in self.stages.values())

    @property
    def bound(self) -> float | None:
        """The upper limit of `error`, or None."""
        return max((stage.bound for stage in self.stages.values() if stage.kept), default=None)

    @property
    def price(self) -> dict[str, float | None]:
        """Calls, tokens and USD per question; None for what is not known."""
        return {
            name: None if value is None else value / self.questions
            for name, value in self.usage.items()
        }

    def watched(self) -> list[float]:
        """Return the scores of the part that is asked first, one for each question."""
        return [score for score, times in self.scores for _ in range(times)]

    def lines(self) -> list[str]:
        """Return the calibration as sentences for its user."""
        promise = f"error at most {self.max_error:.4g} with {self.confidence:.4g} confidence"
        words = [f"answers {self.share:.1%} of {self.questions:,} questions; {promise}"]
        if self.error is not None and self.bound is not None:
            words.append(f"error among those answered: {self.error:.1%}, at most {self.bound:.1%}")
        for name, stage in self.stages.items():
            words.append(
                f"{name}: {stage.kept:,} of {stage.questions:,} answers stand, {stage.errors:,} of "
                f"them wrong; the tests can start with {stage.needs:,} kept answers without an "
                f"error; {stage.never:.0%} of such calibrations let no answer stand"
            )
        calls, usd = self.price["calls"], self.price["cost_usd"]
        asked = "unknown" if calls is None else f"{calls:.3g}"
        money = "a price that is not known" if usd is None else f"{usd:.3g} USD"
        words.append(f"{asked} calls and {money} per question")
        return words

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    __str__ = __repr__  # pydantic's own lists the fields


@dataclass(frozen=True)
class PartAnswer:
    """A program's answer to a question, and its usage."""

    answer: str | None
    right: bool
    transcript: Sequence[TurnFields]
    usage: Usage


def calibration_of(name: str, value: object) -> RouterCalibration | None:
    """Return a calibration from its JSON; None stays None. Raises UserError for another value."""
    if value is None or isinstance(value, RouterCalibration):
        return value
    try:
        return RouterCalibration.model_validate(value)
    except ValidationError as problem:
        raise UserError(
            f"the router's {name} cannot be used ({first_fault(problem)}): calibrate it again"
        ) from None


def asked_of(program: Program, lm: dspy.BaseLM | None) -> AskedPart:
    """Return the identity of a program and its agents' LMs; `lm` is that of agents without one."""
    known = {}
    for name, seat in program.seats().items():
        asked = seat.predict.lm or lm
        if asked is not None:
            known[name] = _sent(asked)
    return AskedPart(program=hashes(program)["program_hash"], lms=known)


def _sent(lm: dspy.BaseLM) -> str:
    # The seed changes with repeats, and does not make answers better or worse.
    settings = without(settings_of(lm), ("seed",))
    return f"{lm.model} {json.dumps(settings, sort_keys=True, default=str)}"


def sureness(
    answer: str | None,
    transcript: Sequence[TurnFields],
    kind: Kind,
    weights: Mapping[str, float],
) -> float:
    """Return the vote share of an answer, 0 to 1, to which the accuracy of the members that gave it
    is added to break ties; -1 for no answer.

    Every sample and every member votes with its answer in its last round. A vote counts as much as
    the LM's own probability of it, or 1 if the LM gave none.
    """
    if answer is None:
        return -1.0
    turns = answering(transcript)
    last: dict[str, int] = {}
    for turn in turns:
        last[turn.agent] = max(turn.round, last.get(turn.agent, 0))
    # The answers of earlier rounds are no votes.
    votes = [turn for turn in turns if turn.round == last[turn.agent]]
    if not votes:
        return 1.0
    same = [turn for turn in votes if same_answer(turn.answer, answer, kind)]
    tie = sum(weights.get(turn.agent, 0.0) for turn in same)
    sure: float = sum(turn.get("probability", 1.0) for turn in same)
    return (sure + TIE * tie) / len(votes)


def calibrated(
    parts: Mapping[Literal["cheap", "team"], Program],
    questions: Sequence[Question],
    *,
    max_error: float,
    confidence: float,
    rule: str,
    lm: dspy.BaseLM | None,
    weights_from: Iterable[ResultRow] | None,
    recorded: Mapping[str, Iterable[ResultRow]],
    concurrency: int,
) -> RouterCalibration:
    """Return the calibration of the parts: each is asked the questions whose answers the parts
    before it do not give, and its threshold is tested on them. Raises UserError for questions or
    rows that do not fit.
    """
    # The parts' tests share the probability of an error (Bonferroni).
    confidence_each = 1 - (1 - confidence) / len(parts)
    _check(questions, max_error, confidence, confidence_each, parts, recorded)
    lm = dspy.settings.lm if lm is None else lm
    if not isinstance(lm, dspy.BaseLM | None):
        raise UserError(f"lm is {str(lm)[:80]!r}: give an LM, such as fm.lm('openai/gpt-4o-mini')")
    checked_whole("concurrency", concurrency)
    weights: dict[str, float] = {}
    if weights_from is not None:
        weights = _accuracies(weights_from, questions)
    stages: dict[Literal["cheap", "team"], Stage] = {}
    left, bill = list(questions), Usage()
    watched: list[float] = []
    for index, (name, part) in enumerate(parts.items()):
        with dspy.context(lm=lm):
            answers = _answers(name, part, left, recorded.get(name), concurrency)
        own = weights if index == 0 else {}
        sure: list[float] = []
        for question, given in zip(left, answers, strict=True):
            bill.add(given.usage)
            sure.append(sureness(given.answer, given.transcript, question.kind, own))
        scores = np.array(sure)
        right = np.array([given.right for given in answers], dtype=bool)
        # The first part: only that is asked all questions, as drift must be measured on.
        watched = watched or sure
        cut = threshold_for(scores, right, max_error, confidence_each)
        threshold, kept, errors, bound = cut or (None, 0, 0, 1.0)
        never = share_never(scores, right, max_error, confidence_each) if left else 1.0
        stages[name] = Stage(
            asked=asked_of(part, lm),
            threshold=threshold,
            questions=len(left),
            kept=kept,
            errors=errors,
            bound=bound,
            needs=fewest_kept(max_error, confidence_each),
            never=never,
            weights=own,
        )
        # Without a threshold no answer stands, and all questions go on to the next part.
        if cut is not None:
            left = list(compress(left, (scores < cut.score).tolist()))
    return RouterCalibration(
        max_error=max_error,
        confidence=confidence,
        rule=rule,
        questions=len(questions),
        stages=stages,
        usage={
            "calls": bill.calls,
            "prompt_tokens": bill.prompt_tokens,
            "completion_tokens": bill.completion_tokens,
            "cost_usd": bill.cost_usd,
        },
        scores=sorted(Counter(watched).items()),
    )


def _check(
    questions: Sequence[Question],
    max_error: float,
    confidence: float,
    confidence_each: float,
    parts: Mapping[Literal["cheap", "team"], Program],
    recorded: Mapping[str, object],
) -> None:
    for name, value in (("max_error", max_error), ("confidence", confidence)):
        if not is_number(value) or not 0 < value < 1:
            raise UserError(f"{name} is {value!r}: give a share between 0 and 1, such as 0.2")
    for question in questions:
        if question.answer is None:
            raise UserError(
                f"the question {question.id} has no gold answer: calibrate on labelled questions"
            )
    if len({question.id for question in questions}) < len(questions):
        raise UserError("two of the questions to calibrate on have the same id: give each once")
    if (needs := fewest_kept(max_error, confidence_each)) > len(questions):
        raise UserError(
            f"an error of at most {max_error:g} takes {needs} questions answered without an error "
            f"to show, and there are {len(questions)} questions: give more"
        )
    if other := recorded.keys() - parts:
        raise UserError(
            f"recorded has rows of {min(other)!r}: this router asks {' and '.join(parts)}"
        )
    texts = {question.question for question in questions}
    for part in parts.values():
        for predictor in part.predictors():
            # An LM that is shown the answer is right more often than on other questions.
            if any(demo.get("question") in texts for demo in predictor.demos):
                raise UserError(
                    "the router's programs are shown some of these questions as examples: "
                    "calibrate on other questions"
                )


def _accuracies(rows: Iterable[ResultRow], questions: Sequence[Question]) -> dict[str, float]:
    """Return the accuracy of each member, 0 to 1. Raises UserError for rows on these questions."""
    ids = {question.id for question in questions}
    texts = {question.question for question in questions}
    marks: defaultdict[str, list[bool]] = defaultdict(list)
    for row in map(ResultRow.of, rows):
        if row.id in ids or row.question in texts:
            raise UserError(
                f"weights_from has the question {row.id}, which is one to calibrate on: weights "
                "fitted on these questions would break the promise; take rows of other questions"
            )
        if row.error is None and row.gold is not None:
            for turn in answering(row.transcript):
                graded = score(turn.answer, row.gold, row.kind, row.choices)
                marks[turn.agent].append(graded.correct)
    if not marks:
        raise UserError("weights_from has no finished row with an answer of a member: give a run's")
    return {agent: sum(right) / len(right) for agent, right in marks.items()}


def _answers(
    name: str,
    program: Program,
    questions: Sequence[Question],
    rows: Iterable[ResultRow] | None,
    concurrency: int,
) -> list[PartAnswer]:
    """Return the program's answers to the questions, from rows or by asking, in their order. Raises
    UserError for questions without a row.
    """
    if rows is None:
        return run_sync(_ask, program, questions, concurrency)
    by_id = {}
    for row in map(ResultRow.of, rows):
        if row.error is None and row.correct is not None and not row.repeat:
            by_id[row.id] = row
    missing = [question.id for question in questions if question.id not in by_id]
    if missing:
        raise UserError(
            f"the rows of {name} have no answer to {len(missing)} of the questions, such as "
            f"{missing[0]}: evaluate it on all of them"
        )
    answers = []
    for question in questions:
        row = by_id[question.id]
        answers.append(PartAnswer(row.answer, bool(row.correct), row.transcript, taken(row)))
    return answers


async def _ask(
    program: Program, questions: Sequence[Question], concurrency: int
) -> list[PartAnswer]:
    room = asyncio.Semaphore(concurrency)

    async def ask(question: Question) -> PartAnswer:
        async with room:
            prediction = await program.answer(question)
        gold = question.gold or ""
        right = score(prediction.answer, gold, question.kind, question.choices).correct
        return PartAnswer(
            prediction.answer, right, prediction.transcript, Usage.of(prediction.usage)
        )

    return await together(ask(question) for question in questions)
