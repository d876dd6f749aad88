"""The summary of each question that a comparison keeps, and the tests of pairs of runs, corrected
for the number of pairs.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...modules.base.usage import CUT_OFF, Usage, plus, total
from ...modules.reading.answers import normalise_span
from ...modules.reading.grading import Scale
from ...modules.reading.row import CHECK, ResultRow, score_in, taken
from ...modules.statistics.clusters import Clustered, clustered_mean
from ...modules.statistics.controls import gain_part, paired_difference
from ...modules.statistics.statistics import (
    Difference,
    holm,
    mcnemar_exact,
    mcnemar_midp,
    paired_bootstrap,
)
from ..evaluation.earlier import Evaluation
from ..runs.rows import question_hash
from .pairs import CLUSTERS, EXACT, MIDP, PAIRED_T, Pair

Scores = npt.NDArray[np.float64]

FREE = object()


class VotedAnswer(NamedTuple):
    """A vote: an answer's text (FREE where answers cannot be equal), and whether it is right."""

    answer: Hashable
    right: bool


class QuestionAnswers(NamedTuple):
    """The answers of a run to a question, summed over repeats. Whole rows of 100,000 questions
    would not fit into memory. `asked` is the hash of the question's text, options and gold answer.
    `unread` answers were cut off or could not be read, and `unread_total` is the sum of their
    scores.
    """

    repeats: int
    total: float
    f1_total: float | None
    failed: int
    unreadable: int
    cut_off: int
    unread: int
    unread_total: float
    usage: Usage
    takes: Usage
    seconds: float | None
    asked: int
    cluster: Hashable
    votes: tuple[VotedAnswer, ...]

    @property
    def score(self) -> float:
        return self.total / self.repeats

    @property
    def f1(self) -> float | None:
        return None if self.f1_total is None else self.f1_total / self.repeats

    def if_unread(self, score: float) -> float:
        """The score of the question if each unread answer had this one."""
        return (self.total - self.unread_total + self.unread * score) / self.repeats

    def with_repeat(self, other: QuestionAnswers) -> QuestionAnswers:
        """Add another repeat of the question."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUMS}
        return self._replace(
            f1_total=plus(self.f1_total, other.f1_total),
            usage=total([self.usage, other.usage]),
            takes=total([self.takes, other.takes]),
            seconds=plus(self.seconds, other.seconds),
            **sums,
        )


_SUMS = ("repeats", "total", "failed", "unreadable", "cut_off", "unread", "unread_total", "votes")


def answered_in(
    run: Evaluation, field: str | None = None, *, votes: bool = False
) -> dict[str, QuestionAnswers]:
    """Read a run's rows and sum them up by question. `field` of `meta` names the cluster of a
    question. Answers are kept only if `votes` are needed.
    """
    least = Scale.of(run.summary.run.metric).least
    questions: dict[str, QuestionAnswers] = {}
    for row in run.rows:
        answer, earlier = _answered(row, field, least, votes), questions.get(row.id)
        questions[row.id] = answer if earlier is None else earlier.with_repeat(answer)
    return questions


def asked_in(run: Evaluation) -> dict[str, int]:
    """A hash of each question's text, options and gold answer, by id."""
    return {row.id: question_hash(row) for row in run.rows}


def _answered(row: ResultRow, field: str | None, least: float, votes: bool) -> QuestionAnswers:
    score, failed = score_in(row, least), row.error is not None
    ended: Any = row.truncated or row.finish_reason in CUT_OFF

    cut_off = not failed and bool(ended or row.usage.truncated_calls)
    unreadable = not failed and row.answer is None and row.decided_by != CHECK
    unread = unreadable or cut_off
    usage, takes = Usage.of(row.usage), taken(row)
    return QuestionAnswers(
        repeats=1,
        total=score,
        f1_total=row.f1 if row.kind == "span" else None,
        failed=int(failed),
        unreadable=int(unreadable),
        cut_off=int(cut_off),
        unread=int(unread),
        unread_total=score if unread else 0.0,
        usage=usage,
        takes=usage if takes == usage else takes,  # 100,000 questions have to fit into memory
        seconds=row.seconds,
        asked=question_hash(row),
        cluster=(row.meta or {}).get(field) if field else None,
        votes=(_vote(row, score),) if votes else (),
    )


def _vote(row: ResultRow, score: float) -> VotedAnswer:
    """The vote of an answer: spans that differ only in articles, punctuation and case are the same
    vote.
    """
    answer: Hashable = row.answer
    if row.kind == "open":
        answer = FREE
    elif row.kind == "span" and row.answer is not None:
        answer = normalise_span(row.answer) or answer
    return VotedAnswer(answer, bool(score))


CONFIDENCE = 0.95


@dataclass(frozen=True)
class Test:
    """The test of two runs: McNemar's where each question is right or wrong in both, the paired
    t-test for other scores and for means over repeats, or with `clusters` the cluster-robust test.
    `field` is the field of `meta` that defines the clusters. `margin` is the difference that does
    not matter, and `others` the number of runs that are held against the reference.
    """

    __test__ = False  # not one of pytest's

    exact: bool
    is_rate: bool
    seed: int
    field: str | None = None
    clusters: Sequence[Hashable] | None = None
    margin: float | None = None
    others: int = 1

    def right_or_wrong(self, a: Scores, b: Scores) -> bool:
        """Whether each question is right or wrong in both runs."""
        return self.is_rate and bool(np.isin([a, b], (0.0, 1.0)).all())

    def p(self, a: Scores, b: Scores) -> float:
        """The two-sided p of two runs, before any correction."""
        clustered = self.clustered(a, b)
        return self._p_of_questions(a, b) if clustered is None else clustered.p

    def clustered(self, a: Scores, b: Scores) -> Clustered | None:
        """The difference over clusters; None without any."""
        return None if self.clusters is None else clustered_mean((a - b).tolist(), self.clusters)

    def pair(
        self,
        ids: Sequence[str],
        names: tuple[str, str],
        a: Sequence[QuestionAnswers],
        b: Sequence[QuestionAnswers],
    ) -> Pair:
        """All figures of two runs on the questions with these ids; p is not yet corrected."""
        scores_a, scores_b = _scores(a), _scores(b)
        right_or_wrong = self.right_or_wrong(scores_a, scores_b)
        clustered = self.clustered(scores_a, scores_b)
        mcnemar = EXACT if self.exact else MIDP
        plain = mcnemar if right_or_wrong else PAIRED_T
        ahead = list(zip(ids, scores_a - scores_b, strict=True))
        p = self.p(scores_a, scores_b)
        return Pair(
            a=names[0],
            b=names[1],
            n=len(ids),
            score_a=math.fsum(scores_a) / len(a),
            score_b=math.fsum(scores_b) / len(b),
            **self._difference(scores_a, scores_b, right_or_wrong)._asdict(),
            p=p,
            p_adjusted=p,
            right_or_wrong=right_or_wrong,
            f1=self._f1(a, b),
            **_ratios(a, b),  # type: ignore[arg-type]  # mypy does not see which fields these are
            only_a=tuple(name for name, gap in ahead if gap > 0),
            only_b=tuple(name for name, gap in ahead if gap < 0),
            test=CLUSTERS if clustered else plain,
            cluster=self.field if clustered else None,
            clustered=clustered,
            is_rate=self.is_rate,
            margin=self.margin,
            least=None if self.margin is None else self._least(scores_a, scores_b),
        )

    def _least(self, a: Scores, b: Scores) -> float:
        """The lower bound of the difference, with 95% confidence for all runs together: each run
        has its share of the error (Bonferroni).
        """
        confidence = 1 - 2 * (1 - CONFIDENCE) / self.others  # of an interval with this lower end
        if self.clusters is not None:
            return clustered_mean((a - b).tolist(), self.clusters, confidence).low
        return self._difference(a, b, self.right_or_wrong(a, b), confidence).low

    def _p_of_questions(self, a: Scores, b: Scores) -> float:
        if self.right_or_wrong(a, b):
            mcnemar = mcnemar_exact if self.exact else mcnemar_midp
            return mcnemar(int((a > b).sum()), int((b > a).sum()))
        # With each question as a cluster of its own, this is Student's test of the differences.
        return clustered_mean((a - b).tolist(), range(len(a))).p if len(a) > 1 else 1.0

    def _difference(
        self, a: Scores, b: Scores, right_or_wrong: bool, confidence: float = CONFIDENCE
    ) -> Difference:
        """The difference with the interval that fits the test: Tango's for answers that are right
        or wrong, else Student's with one win and one loss of weight ½ added.
        """
        # Scores of no known limits: the largest difference seen is the weight of a win.
        unit = 1.0 if self.is_rate else float(abs(a - b).max())
        interval = paired_difference if right_or_wrong else gain_part
        return Difference(*interval(b.tolist(), a.tolist(), unit, confidence))

    def _f1(self, a: Sequence[QuestionAnswers], b: Sequence[QuestionAnswers]) -> Difference | None:
        both = [
            (one.f1, other.f1)
            for one, other in zip(a, b, strict=True)
            if one.f1 is not None and other.f1 is not None
        ]
        return paired_bootstrap(*zip(*both, strict=True), seed=self.seed) if both else None


def corrected(p_values: Sequence[float], left_out: Sequence[int] = ()) -> list[float]:
    """Correct p values by Holm's method; those in the places that are left out become 1."""
    # A pair that cannot be compared is no test, and must not cost the others their power.
    places = [place for place in range(len(p_values)) if place not in left_out]
    adjusted = dict(zip(places, holm([p_values[place] for place in places]), strict=True))
    return [adjusted.get(place, 1.0) for place in range(len(p_values))]


def _scores(answers: Iterable[QuestionAnswers]) -> Scores:
    """The score of each question."""
    return np.array([answer.score for answer in answers])


def taken_by(answers: Iterable[QuestionAnswers]) -> Usage:
    """The usage of all answers, with those from records and caches at their price."""
    return total(answer.takes for answer in answers)


def mean_seconds(answers: Sequence[QuestionAnswers]) -> float | None:
    """The mean time per answer; None where one is not known."""
    seconds = [answer.seconds for answer in answers if answer.seconds is not None]
    if len(seconds) < len(answers):
        return None
    return math.fsum(seconds) / sum(answer.repeats for answer in answers)


def _ratios(a: Sequence[QuestionAnswers], b: Sequence[QuestionAnswers]) -> dict[str, float | None]:
    """The usage per answer of a divided by that of b."""
    takes_a, takes_b = taken_by(a), taken_by(b)
    # Per answer, since a run with more repeats takes more but is not dearer.
    repeats = sum(question.repeats for question in b) / sum(question.repeats for question in a)
    # An answer from the cache takes no time at all, which says nothing about the LM.
    fresh = not any(answer.usage.cached_calls for side in (a, b) for answer in side)
    return {
        "call_ratio": _ratio(takes_a.calls, takes_b.calls, repeats),
        "token_ratio": _ratio(takes_a.tokens, takes_b.tokens, repeats),
        "cost_ratio": _ratio(takes_a.cost_usd, takes_b.cost_usd, repeats),
        "seconds_ratio": _ratio(mean_seconds(a), mean_seconds(b)) if fresh else None,
    }


def _ratio(a: float | None, b: float | None, times: float = 1.0) -> float | None:
    return a / b * times if a is not None and b else None
