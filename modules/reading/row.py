"""A row of results: what a program answered to a question, by which turns, and at what cost."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..base.keyed import Keyed
from ..base.usage import CUT_OFF, Usage, UsageFields
from .asked import Kind

RowKey = tuple[str, int]
"""The key of a row within its run: the question's id, and the number of the repeat."""

DECIDERS = ("judge", "pick", "supervisor")
"""Agents that decide about the answers of others: their turns are not votes."""


class Passage(Keyed):
    """A text that an agent looked up, with its title and source."""

    __slots__ = ()
    title: str | None
    text: str
    source: str | None


class Examined(Keyed):
    """What an evaluator examined: an agent's answer, and the other answer it took to be true."""

    __slots__ = ()
    agent: str
    answer: str | None
    counterfactual: str | None


class SpokenTurn(Keyed):
    """The part of a turn that other agents see; `answer` is None if none could be read."""

    __slots__ = ()
    agent: str
    round: int
    answer: str | None
    text: str


class TurnDetails(Keyed):
    """The fields of a turn that only some protocols have."""

    __slots__ = ()
    blind: bool = False
    queries: list[str] | None = None
    failed: str | None = None
    trace: list[dict[str, str]] | None = None
    forced: bool = False
    worker: str | None = None
    suggestion: str | None = None
    strategy: str | None = None
    confidence: float | None = None
    probability: float | None = None
    weight: float | None = None
    part: str | None = None


class TurnFields(SpokenTurn, TurnDetails):
    """A turn of a row's transcript; see `agents.transcript.Turn`."""

    __slots__ = ()
    raw: str | None = None
    evidence: list[Passage] | None = None
    step: str | None = None
    examined: Examined | None = None
    usage: UsageFields | None = None


CHECK = "check"
"""The `decided_by` of a task: a check decided, and there is no answer to read."""


class CheckFields(Keyed):
    """How the check of a task ended: its exit code (None: it took too long, or is a function), the
    last lines of its output, and its seconds.
    """

    __slots__ = ()
    exit_code: int | None
    lines: list[str]
    seconds: float


class ResultRow(Keyed):
    """A line of `results.jsonl`: one repeat of one question, a dictionary whose keys are also
    attributes (`row.answer`, `row.transcript[0].agent`).

    Attributes:
        answer: None if none could be read or the question failed.
        correct: False in these cases, too; None if the score is neither right nor wrong.
        score: what the metric gave, 1 or 0 for right and wrong; None for an error.
        em, f1: 0 … 1 for questions of the kind `span`, else None.
        strict: whether a number is right and in the data's own form.
        usage: the cost of its calls; answers from a record or cache cost nothing.
        takes: the same with these answers at their price; absent where there are none.
        transcript: the turns; of a failed question those before it failed.
        error: why the question failed, or why the metric gave no score.
        truncated: whether any reply was cut off.
        finish_reason: how replies ended, in the endpoint's words.
        program: the beginning of the program's hash.
        model: the names under which endpoints answered.
        raw: what a program of yours returned, where no answer could be read.
        metric_usage: the cost of the metric's own LM calls.
        worth: in trials of a study, (prompt tokens, completion tokens, USD) of each call in the
            order in which they ended, as if none had come from a record or cache.
        shown: where options were asked in another order, the question's own label of each label
            that was shown.
    """

    __slots__ = ()
    id: str
    repeat: int = 0
    kind: Kind
    question: str
    choices: dict[str, str] | None
    answer: str | None
    gold: str | list[str] | None
    correct: bool | None
    em: float | None
    f1: float | None
    decided_by: str | None
    rounds: int
    consensus_round: int | None
    transcript: list[TurnFields]
    usage: UsageFields
    takes: UsageFields | None = None
    seconds: float | None
    error: str | None
    meta: dict[str, Any] | None = None
    finish_reason: str | None = None
    truncated: bool = False
    program: str | None = None
    model: str | None = None
    reasoning: str | None = None
    strict: bool = False
    raw: str | None = None
    score: float | None = None
    feedback: str | None = None
    check: CheckFields | None = None
    metric_usage: UsageFields | None = None
    worth: list[list[float | None]] | None = None
    shown: dict[str, str] | None = None


def answering(transcript: Iterable[TurnFields] | None) -> list[TurnFields]:
    """Return the turns that give an answer, without those that only prepare one."""
    return [turn for turn in transcript or () if not turn.step]


def row_key(row: ResultRow) -> RowKey:
    """Return the key of a row; a row without `repeat` is the first."""
    return row["id"], row.get("repeat", 0)


def row_state(row: ResultRow) -> str:
    """Return the outcome of a question: `failed`, `scored` (neither right nor wrong), `right`,
    `unreadable` or `wrong`.
    """
    row = ResultRow.of(row)
    if row.error:
        return "failed"
    if row.correct is None:
        return "scored"
    if row.correct:
        return "right"
    return "unreadable" if row.answer is None else "wrong"


def is_cut_off(row: ResultRow) -> bool:
    """Return whether a reply of an answered question was cut off."""
    ended: object = row.truncated or row.finish_reason in CUT_OFF
    return row.error is None and bool(ended or row.usage.truncated_calls)


def is_unreadable(row: ResultRow) -> bool:
    """Return whether no answer could be read although the question did not fail; a task needs
    none.
    """
    return row.error is None and row.answer is None and row.decided_by != CHECK


def score_in(row: ResultRow, least: float = 0.0) -> float:
    """Return the score of a row: 1 or 0 if the row only says right or wrong, `least` if it
    failed.
    """
    row = ResultRow.of(row)
    score = row.get("score", float(bool(row.correct)))
    return least if score is None or row.error is not None else score


def evidence_in(row: ResultRow, least: float = 0.0) -> float | None:
    """Return the score of a row as evidence in a contest: None if it failed, since a failure counts
    neither for nor against its program.
    """
    return None if row.error is not None else score_in(row, least)


def taken(row: ResultRow, paid: Usage | None = None) -> Usage:
    """Return what a row's calls cost without records and caches, with None for what is unknown.

    `paid` is the row's usage, if the caller has it already.
    """
    row = ResultRow.of(row)
    if row.takes is not None:
        return Usage.of(row.takes)
    usage = paid or Usage.of(row.usage)
    # The row does not say what its cached calls would have cost.
    return Usage.unknown(usage.calls, usage.truncated_calls) if usage.cached_calls else usage
