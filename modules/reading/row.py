"""The row of a question: what a program answered, who said what on the way, and what it took."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from ..base.usage import Usage, UsageFields
from .answers import Kind

RowKey = tuple[str, int]
"""The key of a row within its run: the question's id, and the number of the repeat."""


class Passage(TypedDict):
    """A text that an agent looked up, with its title and where it is from."""

    title: str | None
    text: str
    source: str | None


class Examined(TypedDict):
    """The answer that an evaluator looked at, its agent, and the answer it was held against."""

    agent: str
    answer: str | None
    counterfactual: str | None


class SpokenTurn(TypedDict):
    """The part of a turn that other agents see; `answer` is None where none could be read."""

    agent: str
    round: int
    answer: str | None
    text: str


class TurnDetails(TypedDict, total=False):
    """The fields of a turn that only some protocols have."""

    blind: bool
    queries: list[str]
    fallback: str
    failed: str
    trace: list[dict[str, str]]
    forced: bool
    worker: str
    suggestion: str
    strategy: str
    confidence: float
    probability: float
    weight: float
    part: str


class TurnFields(SpokenTurn, TurnDetails, total=False):
    """A turn of a row's transcript; see `agents.transcript.Turn`."""

    raw: str
    evidence: list[Passage]
    step: str
    examined: Examined
    usage: UsageFields


CHECK = "check"
"""What decided about a task that was done: there is no answer to be read."""


class CheckFields(TypedDict):
    """How the check of a task ended: its exit code (None: it took too long, or is a function), its
    last lines, and its seconds.
    """

    exit_code: int | None
    lines: list[str]
    seconds: float


class ResultRow(TypedDict):
    """A line of `results.jsonl`: one repeat of one question.

    Attributes:
        answer: None if none could be read or the question failed.
        correct: False in these cases, too; None if the score is neither right nor wrong.
        score: what the metric gave, 1 or 0 for right and wrong; None for an error.
        em, f1: 0 … 1 for questions of the kind `span`, else None.
        strict: whether a number is right and in the data's own form.
        usage: the cost of its calls; answers from a record or cache cost nothing.
        takes: the same with these answers at their price; absent where there are none.
        error: why the question failed, or why the metric gave no score.
        truncated: whether any reply was cut off at a token limit.
        finish_reason: how replies ended, in the endpoint's words; `length` if one was cut off.
        program: the beginning of the program's hash.
        model: the names under which endpoints answered.
        raw: what a program of yours returned, where no answer could be read.
        metric_usage: the cost of the metric's own LM calls.
        worth: in trials of a study, (prompt tokens, completion tokens, USD) of each call in the
            order in which they ended, as if none had come from a record or cache.
        shown: where options were asked in another order, the question's own label of each label
            that was shown, as texts of the transcript have them.
    """

    id: str
    repeat: int
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
    takes: NotRequired[UsageFields]
    seconds: float | None
    error: str | None
    meta: dict[str, Any]
    finish_reason: NotRequired[str | None]
    truncated: NotRequired[bool]
    program: NotRequired[str]
    model: NotRequired[str]
    reasoning: NotRequired[str]
    strict: NotRequired[bool]
    raw: NotRequired[str]
    score: NotRequired[float | None]
    feedback: NotRequired[str]
    check: NotRequired[CheckFields]
    metric_usage: NotRequired[UsageFields]
    worth: NotRequired[list[list[Any]]]
    shown: NotRequired[dict[str, str]]


def row_key(row: ResultRow) -> RowKey:
    """The key of a row; a repeat that is not named is the first."""
    return row["id"], row.get("repeat", 0)


def row_state(row: ResultRow) -> str:
    """What became of a question: `failed`, `scored` (neither right nor wrong), `right`,
    `unreadable` or `wrong`.
    """
    if row["error"]:
        return "failed"
    if row["correct"] is None:
        return "scored"
    if row["correct"]:
        return "right"
    return "unreadable" if row["answer"] is None else "wrong"


def score_in(row: ResultRow, least: float = 0.0) -> float:
    """The score of a row; 1 or 0 where a row says no more than right or wrong, `least` for an
    error.
    """
    score = row.get("score", float(bool(row["correct"])))
    return least if score is None or row["error"] is not None else score


def taken(row: ResultRow) -> Usage:
    """The bill of a row without caches; None in it where a cost is not known."""
    if "takes" in row:
        return Usage.of(row["takes"])
    usage = Usage.of(row["usage"])
    if usage.cached_calls:  # of what these took, nothing was noted
        return Usage.unknown(usage.calls, usage.truncated_calls)
    return usage
