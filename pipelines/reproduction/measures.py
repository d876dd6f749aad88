"""Published figures measured again, each by its name: most are scores of a run's summary, the
others are means over its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...modules.network.report import network_report
from ...modules.reading.row import ResultRow
from ...modules.reports.deliberation import JUDGE
from ..base.run_files import ScoreFields
from ..evaluation.earlier import Evaluation
from ..runs.summary import mean_score

_SCORES = {name: name for name in ("accuracy", "em", "f1")} | {
    "average": "accuracy",
    "consensus": "accuracy",
}
_GROUPS = {
    "natural": ("subject", "natural science"),
    "social": ("subject", "social science"),
    "language": ("subject", "language science"),
    "grades_1_6": ("grade_band", "1-6"),
    "grades_7_12": ("grade_band", "7-12"),
}


def measured(figure: str, run: Evaluation) -> ScoreFields | None:
    """A figure of a run; None with nothing to measure it on. Failed questions count as wrong.
    Raises KeyError for an unknown figure.
    """
    if figure in _SCORES:
        return run.summary.scores.get(_SCORES[figure])
    if figure in _GROUPS:
        field, group = _GROUPS[figure]
        return run.summary.groups.get(field, {}).get(group)
    by_row = [_OF_ROW[figure](row) for row in map(ResultRow.of, run.rows)]
    # Some figures are of some rows alone, such as those that a judge decided.
    values = [value for value in by_row if value is not None]
    if not values:
        return None
    # An improvement may be negative, and so is no rate.
    return mean_score(values, is_rate=figure != "improvement")


def _judge(row: ResultRow) -> float | None:
    """Whether the judge is right, where it was asked; one that could not be read is not."""
    if not any(turn.agent == JUDGE for turn in row.transcript):
        return None
    return float(row.decided_by == JUDGE and bool(row.correct))


def _individual(row: ResultRow) -> float:
    """The share of a network's agents that are right; in a failed row none is."""
    report: Mapping[str, Any] = network_report([row])
    return float(report.get("individual", 0.0))


_OF_ROW: dict[str, Callable[[ResultRow], float | None]] = {
    "judge_accuracy": _judge,
    "consensus_in_round_1": lambda row: float(row.consensus_round == 1),
    "individual": _individual,
    "improvement": lambda row: float(bool(row.correct)) - _individual(row),
}


def on_records(figure: str, scores: Mapping[str, Any]) -> Mapping[str, Any]:
    """A figure among the scores of a network that was tested on recorded answers."""
    if figure == "improvement":
        scores = {figure: scores["differences"]["consensus"]["individual"], **scores}
    return {**scores[figure], "n": scores["questions"]}
