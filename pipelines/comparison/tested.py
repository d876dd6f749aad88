"""The figures that a comparison holds of each question, and the tests of pairs of runs, corrected
for the number of pairs.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...modules.base.usage import Usage, plus, total
from ...modules.reading.answers import meant_span
from ...modules.reading.grading import Scale
from ...modules.reading.row import ResultRow, is_cut_off, is_unreadable, score_in, taken
from ...modules.statistics.clusters import clustered_mean
from ...modules.statistics.controls import gain_part, paired_difference
from ...modules.statistics.paired import holm, paired_bootstrap
from ...modules.statistics.statistics import Difference, mcnemar_exact, mcnemar_midp
from ..evaluation.earlier import Evaluation
from ..runs.rows import question_hash
from .pairs import CLUSTERS, EXACT, MIDP, PAIRED_T, Pair

Scores = npt.NDArray[np.float64]

FREE = object()


class VotedAnswer(NamedTuple):
    """A vote: an answer (FREE if answers cannot be equal), and whether it is right."""

    answer: Hashable
    right: bool


class QuestionAnswers(NamedTuple):
    """Sums over the answers of a run to one question. Whole rows of 100,000 questions would not fit
    into memory.

    `asked` is a hash of the question's text, options and gold answer. `unread` answers were cut off
    or could not be read; `unread_total` is the sum of their scores.
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
        if self.f1_total is None:
            return None
        return self.f1_total / self.repeats

    def if_unread(self, score: float) -> float:
        """Return the score of the question if each unread answer had this one."""
        return (self.total - self.unread_total + self.unread * score) / self.repeats

    def with_repeat(self, other: QuestionAnswers) -> QuestionAnswers:
        """Return the sums with another repeat of the question added."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUMS}
        return self._replace(
            usage=total([self.usage, other.usage]),
            takes=total([self.takes, other.takes]),
            f1_total=plus(self.f1_total, other.f1_total),
            seconds=plus(self.seconds, other.seconds),
            **sums,
        )


_SUMS = ("repeats", "total", "failed", "unreadable", "cut_off", "unread", "unread_total", "votes")


@dataclass(frozen=True)
class RunAnswers:
    """The answers of a run to the shared questions, which are in the same order for all runs."""

    questions: Sequence[QuestionAnswers]

    def values(self, field: str) -> list[Any]:
        """This field, or property, of each question."""
        return [getattr(question, field) for question in self.questions]

    def sum(self, field: str) -> int:
        return sum(self.values(field))

    def if_unread(self, score: float) -> Scores:
        """Return the score of each question if each unread answer had this one."""
        return np.array([question.if_unread(score) for question in self.questions])

    @cached_property
    def scores(self) -> Scores:
        return np.array(self.values("score"))

    @cached_property
    def f1(self) -> Scores:
        """The F1 of each question; NaN for questions that are not spans."""
        return np.array(self.values("f1"), dtype=float)

    @cached_property
    def repeats(self) -> int:
        return self.sum("repeats")

    @cached_property
    def usage(self) -> Usage:
        return total(self.values("usage"))

    @cached_property
    def takes(self) -> Usage:
        """As `usage`, without records and caches."""
        return total(self.values("takes"))

    @cached_property
    def seconds(self) -> float | None:
        """The mean seconds per answer; None if one is unknown."""
        seconds = self.values("seconds")
        if None in seconds:
            return None
        return math.fsum(seconds) / self.repeats

    @property
    def can_be_votes(self) -> bool:
        """Whether answers can be equal; open answers never are."""
        return all(votes[0].answer is not FREE for votes in self.values("votes"))


def answered_in(
    run: Evaluation, field: str | None = None, *, votes: bool = False
) -> dict[str, QuestionAnswers]:
    """Id → the sums over a question's rows. `field` of `meta` is the question's cluster. The
    answers themselves are only kept for `votes`.
    """
    least = Scale.of(run.summary.run.metric).least
    questions: dict[str, QuestionAnswers] = {}
    for row in run.rows:
        answer = _sum_row(row, field, least, votes)
        if row.id in questions:
            answer = questions[row.id].with_repeat(answer)
        questions[row.id] = answer
    return questions


def asked_in(run: Evaluation) -> dict[str, int]:
    """Return a hash of each question's text, options and gold answer, by id."""
    return {row.id: question_hash(row) for row in run.rows}


def _sum_row(row: ResultRow, field: str | None, least: float, votes: bool) -> QuestionAnswers:
    """Return the sums of one row."""
    score, failed = score_in(row, least), row.error is not None
    cut_off, unreadable = is_cut_off(row), is_unreadable(row)
    unread = unreadable or cut_off
    usage, takes = Usage.of(row.usage), taken(row)
    if takes == usage:
        takes = usage  # one object instead of two, to save memory
    return QuestionAnswers(
        repeats=1,
        total=score,
        f1_total=row.f1 if row.kind == "span" else None,
        failed=int(failed),
        unreadable=int(unreadable),
        cut_off=int(cut_off),
        unread=int(unread),
        unread_total=score * unread,
        usage=usage,
        takes=takes,
        seconds=row.seconds,
        asked=question_hash(row),
        cluster=(row.meta or {}).get(field or ""),
        votes=(_vote(row, score),) * votes,
    )


def _vote(row: ResultRow, score: float) -> VotedAnswer:
    """Return the vote of a row; spans that differ only in articles, punctuation and case are the
    same.
    """
    answer: Hashable = row.answer
    if row.kind == "open":
        answer = FREE
    elif row.kind == "span" and row.answer is not None:
        answer = meant_span(row.answer)
    return VotedAnswer(answer, bool(score))


CONFIDENCE = 0.95
MCNEMAR = ((MIDP, mcnemar_midp), (EXACT, mcnemar_exact))
"""The names and the functions of McNemar's test: the mid-p one, and the exact one."""


@dataclass(frozen=True)
class Test:
    """The test of two runs: McNemar's if each question is right or wrong in both, the paired t-test
    for other scores and for means over repeats, and with `clusters` the cluster-robust test.

    `field` of `meta` defines the clusters. `margin` is the difference that does not matter, and
    `others` the number of runs that are compared with the reference.
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
        """Return whether each question is right or wrong in both runs."""
        return self.is_rate and bool(np.isin([a, b], (0.0, 1.0)).all())

    def p(self, a: Scores, b: Scores) -> float:
        """Return the two-sided p of two runs, before any correction."""
        clusters = self.clusters
        if clusters is None:
            if self.right_or_wrong(a, b):
                _, mcnemar = MCNEMAR[self.exact]
                return mcnemar(int((a > b).sum()), int((b > a).sum()))
            if len(a) == 1:
                return 1.0
            # With every question a cluster of its own, that is Student's test of the differences.
            clusters = range(len(a))
        return clustered_mean((a - b).tolist(), clusters).p

    def pair(
        self, ids: Sequence[str], names: tuple[str, str], a: RunAnswers, b: RunAnswers
    ) -> Pair:
        """Return all figures of two runs on the questions with these ids; p is not yet
        corrected.
        """
        ahead, named = a.scores - b.scores, np.array(ids, dtype=object)
        right_or_wrong = self.right_or_wrong(a.scores, b.scores)
        p = self.p(a.scores, b.scores)
        pair = Pair(
            a=names[0],
            b=names[1],
            n=len(ids),
            score_a=math.fsum(a.scores) / len(ids),
            score_b=math.fsum(b.scores) / len(ids),
            **self._difference(a.scores, b.scores)._asdict(),
            p=p,
            p_adjusted=p,
            right_or_wrong=right_or_wrong,
            f1=self._f1(a.f1, b.f1),
            **_ratios(a, b),  # type: ignore[arg-type]  # mypy does not see which fields these are
            only_a=tuple(named[ahead > 0]),
            only_b=tuple(named[ahead < 0]),
            test=MCNEMAR[self.exact][0] if right_or_wrong else PAIRED_T,
            is_rate=self.is_rate,
            margin=self.margin,
            least=self._least(a.scores, b.scores),
        )
        if self.clusters is None:
            return pair
        clustered = clustered_mean(ahead.tolist(), self.clusters)
        return replace(pair, test=CLUSTERS, cluster=self.field, clustered=clustered)

    def _least(self, a: Scores, b: Scores) -> float | None:
        """Return the lower bound of the difference, with 95% confidence for all runs together: each
        run has its share of the error (Bonferroni). None without a margin.
        """
        if self.margin is None:
            return None
        confidence = 1 - 2 * (1 - CONFIDENCE) / self.others  # of an interval with this lower end
        if self.clusters is not None:
            return clustered_mean((a - b).tolist(), self.clusters, confidence).low
        return self._difference(a, b, confidence).low

    def _difference(self, a: Scores, b: Scores, confidence: float = CONFIDENCE) -> Difference:
        """Return the difference with its interval: Tango's for answers that are right or wrong,
        else Student's with one win and one loss of weight ½ added.
        """
        interval, unit = gain_part, 1.0
        if self.right_or_wrong(a, b):
            interval = paired_difference
        if not self.is_rate:
            # Scores may have no limits, so the largest difference seen is the weight of a win.
            unit = float(abs(a - b).max())
        return Difference(*interval(b.tolist(), a.tolist(), unit, confidence))

    def _f1(self, a: Scores, b: Scores) -> Difference | None:
        """Return the difference in F1 on span questions; None if there are none."""
        both = ~np.isnan(a + b)
        if not both.any():
            return None
        return paired_bootstrap(a[both].tolist(), b[both].tolist(), seed=self.seed)


def corrected(p_values: Sequence[float], left_out: Sequence[int] = ()) -> list[float]:
    """Return the p values corrected by Holm's method; those at the indices `left_out` become 1."""
    # They belong to pairs that cannot be compared, and must not weaken the tests of the others.
    adjusted = np.ones(len(p_values))
    tests = np.setdiff1d(np.arange(len(p_values)), left_out)
    adjusted[tests] = holm(np.array(p_values)[tests].tolist())
    values: list[float] = adjusted.tolist()
    return values


def _ratios(a: RunAnswers, b: RunAnswers) -> dict[str, float | None]:
    """Return the usage per answer of a divided by that of b."""
    # Per answer, since more repeats do not make a program dearer.
    repeats = b.repeats / a.repeats
    ratios = {
        "call_ratio": _ratio(a.takes.calls, b.takes.calls, repeats),
        "token_ratio": _ratio(a.takes.tokens, b.takes.tokens, repeats),
        "cost_ratio": _ratio(a.takes.cost_usd, b.takes.cost_usd, repeats),
        "seconds_ratio": None,
    }
    # Not with cached answers, whose time says nothing about the LM.
    if not a.usage.cached_calls and not b.usage.cached_calls:
        ratios["seconds_ratio"] = _ratio(a.seconds, b.seconds)
    return ratios


def _ratio(a: float | None, b: float | None, times: float = 1.0) -> float | None:
    if a is None or not b:
        return None
    return a / b * times
