"""What runs measure of a published table: its figures, most of them scores of a run's summary, the
others means over its rows; differences between its rows; questions on which all runs agree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...modules.base.errors import UserError
from ...modules.network.report import network_report
from ...modules.reading.row import ResultRow
from ...modules.reports.deliberation import JUDGE
from ..base.run_files import ScoreFields
from ..base.wording import signed_interval
from ..comparison.compare import compare
from ..evaluation.earlier import Evaluation
from ..runs.summary import mean_score
from .presets import Table

_SCORES = {
    "accuracy": "accuracy",
    "em": "em",
    "f1": "f1",
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
    """Return a figure of a run; None with nothing to measure it on. Failed questions count as
    wrong. Raises KeyError for an unknown figure.
    """
    if figure in _SCORES:
        return run.summary.scores.get(_SCORES[figure])
    if figure in _GROUPS:
        field, group = _GROUPS[figure]
        return run.summary.groups.get(field, {}).get(group)
    # All others are means over rows, which no summary has.
    values = list[float]()
    for row in map(ResultRow.of, run.rows):
        value = _OF_ROW[figure](row)
        # Some figures are of some rows alone, such as those that a judge decided.
        if value is not None:
            values.append(value)
    if not values:
        return None
    # An improvement may be negative, and so is no rate.
    return mean_score(values, is_rate=figure != "improvement")


def _judge(row: ResultRow) -> float | None:
    """Return whether the judge is right, where it was asked; one that could not be read is not."""
    if not any(turn.agent == JUDGE for turn in row.transcript):
        return None
    return float(row.decided_by == JUDGE and bool(row.correct))


def _individual(row: ResultRow) -> float:
    """Return the share of a network's agents that are right; in a failed row none is."""
    report: Mapping[str, Any] = network_report([row])
    return float(report.get("individual", 0.0))


_OF_ROW: dict[str, Callable[[ResultRow], float | None]] = {
    "judge_accuracy": _judge,
    "consensus_in_round_1": lambda row: float(row.consensus_round == 1),
    "individual": _individual,
    "improvement": lambda row: float(bool(row.correct)) - _individual(row),
}


def on_records(figure: str, scores: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a figure among the scores of a network that was tested on recorded answers."""
    if figure == "improvement":
        scores = {figure: scores["differences"]["consensus"]["individual"], **scores}
    return {**scores[figure], "n": scores["questions"]}


_COMPARED = ("accuracy", "em", "average", "consensus", "f1")
"""Figures that each question has a score of."""


@dataclass(frozen=True)
class Between:
    """A figure of `row` less that of `against`, in points: as published and as measured, paired
    over `n` questions, with the ends of the 95% interval.
    """

    row: str
    against: str
    figure: str
    published: float
    measured: float
    low: float
    high: float
    n: int

    @property
    def words(self) -> str:
        """The published difference, and the measured one."""
        measured = signed_interval(self.measured / 100, self.low / 100, self.high / 100)
        return f"published {self.published:+.1f}, measured {measured}"


def differences(table: Table, runs: Mapping[str, Evaluation]) -> list[Between]:
    """Return the differences between rows that the paper compares and that were measured on the
    same questions; `runs` is by a row's name.
    """
    found = list[Between]()
    for row, rival in table.pairs():
        run, other = runs.get(row.name), runs.get(rival.name)
        # Rows may share a run, which does not differ from itself.
        if run is None or other is None or run is other or run.empty or other.empty:
            continue
        try:
            (pair,) = compare(other, run, names=["rival", "row"])
        except UserError:  # two that a budget ended early may have no question in common
            continue
        for figure in _COMPARED:
            # A network's consensus stands against one LM's accuracy.
            instead = rival.published.get("accuracy") if figure == "consensus" else None
            published = row.published.get(figure), rival.published.get(figure, instead)
            gap: Any = pair.f1 if figure == "f1" else pair
            if None not in published and gap is not None:
                said: Any = published[0] - published[1]  # type: ignore[operator]
                ends = 100 * gap.difference, 100 * gap.low, 100 * gap.high
                found.append(Between(row.id, rival.id, figure, said, *ends, pair.n))
    return found


def unanimous(runs: Iterable[Evaluation]) -> dict[str, list[str]]:
    """Return the ids of the questions that all runs solve, and that all fail; none with one run
    alone.
    """
    scores = defaultdict[str, list[float]](list)
    for run in runs:
        for row in run.rows:
            scores[row.id].append(row.score or 0.0)
    solved, failed = list[str](), list[str]()
    for name, own in scores.items():
        # One run agrees with itself on every question.
        if len(own) == 1:
            continue
        if min(own) == 1:
            solved.append(name)
        if max(own) == 0:
            failed.append(name)
    return {"all_solve": solved, "all_fail": failed}
