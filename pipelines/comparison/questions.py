"""What a comparison keeps of each question of a run: its score, the mean over repeats, and what it
took.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from ...modules.base.usage import CUT_OFF, Usage, plus, total
from ...modules.reading.answers import normalise_span
from ...modules.reading.grading import Scale
from ...modules.reading.row import ResultRow, score_in, taken
from ..evaluation.earlier import Evaluation
from ..runs.rows import question_hash

FREE = object()


class VotedAnswer(NamedTuple):
    """An answer as it votes: what it says (FREE where no two would be the same), and whether it is
    right.
    """

    said: Hashable
    right: bool


class QuestionAnswers(NamedTuple):
    """What a run made of a question, summed over its repeats.

    With 100,000 questions, whole rows would fill the memory. `asked` is the hash of all that makes
    the question what it is. `unread` answers were cut off or could not be read, and `unread_total`
    is the sum of their scores.
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
        """The same question with another of its repeats."""
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
    """Read a run's rows and sum them up by question.

    `field` of `meta` says to which cluster a question belongs. Answers are kept where they are to
    have `votes`.
    """
    least = Scale.of(run.summary.run.get("metric")).least
    questions: dict[str, QuestionAnswers] = {}
    for row in run.rows:
        answer, earlier = _answered(row, field, least, votes), questions.get(row["id"])
        questions[row["id"]] = answer if earlier is None else earlier.with_repeat(answer)
    return questions


def asked_in(run: Evaluation) -> dict[str, int]:
    """A hash of all that makes a question what it is, by its id."""
    return {row["id"]: question_hash(row) for row in run.rows}


def _answered(row: ResultRow, field: str | None, least: float, votes: bool) -> QuestionAnswers:
    score, failed = score_in(row, least), row["error"] is not None
    ended: Any = row.get("truncated") or row.get("finish_reason") in CUT_OFF
    cut_off = not failed and bool(ended or row["usage"].get("truncated_calls"))
    unreadable = not failed and row["answer"] is None
    unread = unreadable or cut_off
    usage, takes = Usage.of(row["usage"]), taken(row)
    return QuestionAnswers(
        repeats=1,
        total=score,
        f1_total=row.get("f1") if row["kind"] == "span" else None,
        failed=int(failed),
        unreadable=int(unreadable),
        cut_off=int(cut_off),
        unread=int(unread),
        unread_total=score if unread else 0.0,
        usage=usage,
        takes=usage if takes == usage else takes,  # 100,000 questions have to fit into memory
        seconds=row["seconds"],
        asked=question_hash(row),
        cluster=(row.get("meta") or {}).get(field) if field else None,
        votes=(_vote(row, score),) if votes else (),
    )


def _vote(row: ResultRow, score: float) -> VotedAnswer:
    """What an answer counts as in a vote: spans that differ in articles, signs and case are one."""
    answer: Hashable = row["answer"]
    if row["kind"] == "open":
        answer = FREE
    elif row["kind"] == "span" and row["answer"] is not None:
        answer = normalise_span(row["answer"]) or answer
    return VotedAnswer(answer, bool(score))
