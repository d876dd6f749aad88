"""The row of a question: what a program answered, who said what on the way, and what it took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict

from ..base.calls import UsageFields
from .answers import Kind

RowKey = tuple[str, int]
"""What tells a row from the others of its run: the question's id, and which of its repeats it is.
"""


class ResultRow(TypedDict):
    """A line of `results.jsonl`.

    A question that is asked several times has a row for each `repeat`, numbered from 0 on; what a
    run scores is the mean over questions of the mean over their repeats.

    `answer` is None when none could be read and when the question failed, which `error` then says;
    a metric that gave no score is such an error, too, but the answer is kept. `correct` is False in
    all these cases, and None where the metric gives a score that is neither right nor wrong;
    `score` is what the metric said, 1 or 0 for right and wrong, and None for an error. `feedback`
    is what the metric said beside it, and `metric_usage` what its own LM calls took, which `usage`
    leaves out. `em` and `f1` are in 0 … 1, None but for questions of the kind `span`; `strict` is
    there for those of the kind `number`: whether the answer was right and stated in the data's own
    form. `transcript` has the turns as `Turn.to_dict` gives them, `meta` the fields of the
    question's `meta` that are text or numbers. `seconds` is how long the question took. `truncated`
    says whether any of its replies was cut off at a token limit, and `finish_reason`, in the
    endpoint's own words, how they ended: `length` if one was cut off, None for a failed question;
    rows of earlier versions have neither. `worth` is there in the trials of a study: (prompt
    tokens, completion tokens, cost in USD) of each call, in the order in which they ended, as if
    none had come from a record or cache. `raw` is what a program of the user's own said where no
    answer could be read in it.
    """

    id: str
    repeat: int
    kind: Kind
    question: str
    choices: dict[str, str] | None
    answer: str | None
    gold: str | None
    correct: bool | None
    em: float | None
    f1: float | None
    decided_by: str | None
    rounds: int
    consensus_round: int | None
    transcript: list[Mapping[str, Any]]
    usage: UsageFields
    seconds: float | None
    error: str | None
    meta: dict[str, Any]
    finish_reason: NotRequired[str | None]
    truncated: NotRequired[bool]
    strict: NotRequired[bool]
    raw: NotRequired[str]
    score: NotRequired[float | None]
    feedback: NotRequired[str]
    metric_usage: NotRequired[UsageFields]
    worth: NotRequired[list[list[Any]]]


def row_key(row: ResultRow) -> RowKey:
    """The key of a row; a repeat that is not named is the first."""
    return row["id"], row.get("repeat", 0)


def score_in(row: ResultRow, least: float = 0.0) -> float:
    """What the metric gave; 1 or 0 where a row says no more than right or wrong, `least` for an
    error.
    """
    given = row.get("score", float(bool(row["correct"])))
    return least if given is None or row["error"] is not None else given
