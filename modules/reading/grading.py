"""Graders by name, the scale of a metric's scores, and a check that a score fits its answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from ..base.errors import UserError
from ..base.keyed import Keyed
from .answers import Gold, em_f1, gold_text, golds_of, score
from .asked import Kind, in_one_line
from .row import CheckFields, ResultRow, score_in

ACCURACY = "accuracy"

FAILURE_SCORE = 0.0
"""The score of a question without an answer if the metric states no lowest score, as in DSPy."""

MOST_SCORE = 1e18
"""No score may be further from 0, so that no sum of scores overflows."""

REGEX = "regex:"
MOST_PATTERN = 1_000  # characters
REGEX_SECONDS = 0.25

Grader = Callable[[str, Gold, Kind, Mapping[str, str] | None], bool | float]
"""(answer, gold, kind, choices) → score; of several accepted gold answers, the best counts."""


class MetricFields(Keyed):
    """The metric of a run, as `run.json` describes it (None there means accuracy).

    `spec` is the name from which the metric can be made again, `code` a hash of a user's own
    function.
    """

    __slots__ = ()
    name: str
    spec: str | None = None
    code: str | None = None
    low: float | None = None
    high: float | None = None
    rate: bool | None = None


class MetricError(UserError):
    """A metric gave no score; the question's row becomes an error row."""


class Graded(NamedTuple):
    """An answer's score; whether it is right (None: it only has a score); feedback; and how the
    check of a task ended.
    """

    score: float
    correct: bool | None
    feedback: str | None = None
    check: CheckFields | None = None


class Scale(NamedTuple):
    """The scores that a metric can give: from `low` to `high` (None: no such limit).

    With `rate` True a score is right (1) or wrong (0), with False a number, and with None either.
    """

    low: float | None = None
    high: float | None = None
    rate: bool | None = None

    @classmethod
    def of(cls, metric: MetricFields | None) -> Scale:
        """Return the scale of a metric as `run.json` describes it; None is accuracy."""
        if not metric:
            return cls(0.0, 1.0, True)
        return cls(metric.low, metric.high, metric.rate)

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest possible score."""
        return (
            -MOST_SCORE if self.low is None else self.low,
            MOST_SCORE if self.high is None else self.high,
        )

    @property
    def least(self) -> float:
        """The score of a question without an answer."""
        return FAILURE_SCORE if self.low is None else self.low

    def share(self, score: float) -> float:
        """Return the position of a score between `low` (0 if None) and `high` (1 if None), as 0 to
        1.
        """
        return (score - (self.low or 0.0)) / self.width

    @property
    def width(self) -> float:
        """The distance between `low` (0 if None) and `high` (1 if None)."""
        high = 1.0 if self.high is None else self.high
        return high - (self.low or 0.0)

    def fault(self, value: float) -> str:
        """Return what is wrong with a score, as the end of a sentence; empty for a possible
        score.
        """
        low, high = self.ends
        if not low <= value <= high:  # also for NaN
            return f", outside {low:g} to {high:g}"
        if value < self.least:
            return (
                f", less than a question without an answer scores ({self.least:g}): give its "
                "lowest score by fm.Metric(function, low=…)"
            )
        if self.rate and value not in (0, 1):
            return ": it must be right (1) or wrong (0)"
        return ""


def metric_name(run: Mapping[str, Any]) -> str:
    """Return the name of a run's scores, from its description."""
    return str((run.get("metric") or {}).get("name") or ACCURACY)


# Graders with a name
# ---------------------------------------------------------------------------------


def _accuracy(answer: str, gold: Gold, kind: Kind, choices: Mapping[str, str] | None) -> bool:
    return score(answer, gold, kind, choices).correct


def _em_or_f1(
    place: int, answer: str, gold: Gold, kind: Kind, choices: Mapping[str, str] | None
) -> float:
    """Grade free text by EM (place 0) or F1 (place 1), and all else by accuracy."""
    if kind in ("span", "open"):
        return em_f1(answer, gold)[place]
    return float(_accuracy(answer, gold, kind, choices))


def _exact(answer: str, gold: Gold, kind: Kind, choices: Mapping[str, str] | None) -> bool:
    return answer.strip() in map(str.strip, golds_of(gold))


def _contains(answer: str, gold: Gold, kind: Kind, choices: Mapping[str, str] | None) -> bool:
    def folded(text: str) -> str:
        return " ".join(text.casefold().split())

    text = folded(answer)
    return any(folded(accepted) in text for accepted in golds_of(gold))


GRADERS: dict[str, Grader] = {
    ACCURACY: _accuracy,
    "em": partial(_em_or_f1, 0),
    "exact": _exact,
    "contains": _contains,
    "f1": partial(_em_or_f1, 1),
}


def regex_grader(pattern: str) -> Grader:
    """Return a grader that asks whether a pattern occurs in the answer. Raises UserError for an
    invalid pattern.
    """
    if not pattern or len(pattern) > MOST_PATTERN:
        raise UserError(
            f"the metric regex: needs a pattern of 1 to {MOST_PATTERN:,} characters after it"
        )
    import regex  # takes 11 ms to import

    try:
        compiled = regex.compile(pattern)
    except regex.error as problem:
        raise UserError(
            f"the metric regex:{pattern} is not a regular expression ({problem}): fix it"
        ) from None

    def matches(answer: str, gold: Gold, kind: Kind, choices: Mapping[str, str] | None) -> bool:
        try:
            return compiled.search(answer, timeout=REGEX_SECONDS) is not None
        except TimeoutError:
            raise MetricError(
                f"the metric regex:{pattern} took more than {REGEX_SECONDS:g} s on an answer: "
                "make it simpler"
            ) from None

    return matches


def grader_of(metric: MetricFields | None) -> Grader | None:
    """Return the grader of a metric as `run.json` describes it; None for a judge, and for a user's
    own function, which is not imported. Raises UserError for an invalid pattern.
    """
    spec = metric.get("spec") if metric else ACCURACY
    if isinstance(spec, str) and spec.startswith(REGEX):
        return regex_grader(spec.removeprefix(REGEX))
    return GRADERS.get(str(spec))


# Rows graded again
# -----------------------------------------------------------------------------------


def row_fault(
    row: ResultRow, scale: Scale, grader: Grader | None, *, measured: bool = True
) -> str | None:
    """Return what is wrong with a row's score, as a clause to follow its file and line; None if it
    fits.

    Args:
        row: a row of the right shape.
        scale: the scores that its run can have.
        grader: grades the answer again; None if the metric's grader is not at hand.
        measured: False for a row that another program scored: its score does not have to follow
            from the answer.
    """
    answer, gold, called = row.answer, row.gold, f"the question {in_one_line(row.id)}"
    if row.error is not None:
        if row.correct:
            return f"{called} has an error and is called right"
    elif row.correct is None and (row.score is None or scale.rate):
        return f"{called} is called neither right nor wrong"
    else:
        value = score_in(row)
        if wrong := scale.fault(value):
            return f"the score of {called} is {value:g}{wrong}"
        if row.strict and not row.correct:
            return f"{called} is called right in the strict form, and not right"
        if row.correct not in (None, value):
            verdict = "right" if row.correct else "wrong"
            return f"{called} scores {value:g} and is called {verdict}"
        # A file may come from a stranger and claim an answer that no agent gave.
        said = {turn.answer for turn in row.transcript} - {None}
        if measured and said and answer is not None and answer not in said:
            return f"{called} has the answer {in_one_line(answer)}, which no turn of it gave"
        if measured:
            expected = value
            if answer is None:
                expected = scale.least
            elif grader is not None:
                if gold is None:
                    return f"{called} has no gold answer that its score could come from"
                try:
                    expected = float(grader(answer, gold, row.kind, row.choices))
                except ValueError as problem:  # such as a gold answer that is none of the options
                    return f"{called} cannot be graded ({problem})"
            if not math.isclose(value, expected, abs_tol=1e-9):
                return (
                    f"{called} scores {value:g}, but its answer {in_one_line(answer)} (gold "
                    f"answer {in_one_line(gold_text(gold))}) scores {expected:g}"
                )
    if measured and row.kind == "span" and row.em is not None:
        em, f1 = em_f1(answer, gold or "")
        if row.em != em or not math.isclose(row.f1 or 0.0, f1, abs_tol=1e-9):
            return f"`em` and `f1` of {called} are not those of its answer"
    return None
