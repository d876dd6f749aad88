"""What runs measure of a published table: its figures, most of them scores of a run's summary, the
others means over its rows; differences between its rows; questions on which all runs agree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ...modules.network.report import network_report
from ...modules.reading.row import ResultRow
from ...modules.reports.deliberation import JUDGE
from ..base.cards import Score
from ..base.journal import read_object
from ..comparison.compare import compare
from ..evaluation.earlier import Evaluation
from ..runs.summary import mean_score
from ..training.teach import SCORES
from .card import Line
from .presets import Row, Table

_GROUPS = {
    "natural": ("subject", "natural science"),
    "social": ("subject", "social science"),
    "language": ("subject", "language science"),
    "grades_1_6": ("grade_band", "1-6"),
    "grades_7_12": ("grade_band", "7-12"),
}


def line_of(row: Row, figure: str, folder: Path, run: Evaluation | None) -> Line:
    """Return the line of a figure, with what was measured in the folder of the row's run."""
    line = Line(row.id, figure, row.published[figure], row.note, why=row.reason or "not run")
    if folder.is_dir():
        line.run = str(folder)
    score: Any = None
    # A network that was tested on recorded answers leaves its scores, and no run.
    recorded = read_object(folder / SCORES)
    if run is not None:
        line.counts, line.lm = run.summary.counts, ", ".join(run.summary.run.lm_names)
        line.why = "every question failed"
        if not run.empty:
            score, line.why = measured(figure, run), "these questions do not measure it"
    elif recorded is not None:
        gain = recorded["differences"]["consensus"]["individual"]
        score = {**{"improvement": gain, **recorded}[figure], "n": recorded["questions"]}
    if score is not None:
        line.measure(Score.of(figure, score))
    return line


def measured(figure: str, run: Evaluation) -> Any:
    """Return a figure of a run; None with nothing to measure it on. Failed questions count as
    wrong.
    """
    if figure in _GROUPS:
        field, group = _GROUPS[figure]
        return run.summary.groups.get(field, {}).get(group)
    if figure not in _OF_ROW:
        return run.summary.scores.get(
            {"average": "accuracy", "consensus": "accuracy"}.get(figure, figure)
        )
    # All others are means over rows, which no summary has.
    values = map(_OF_ROW[figure], map(ResultRow.of, run.rows))
    # Some figures are of some rows alone, such as those that a judge decided.
    counted = [value for value in values if value is not None]
    # An improvement may be negative, and so is no rate.
    return mean_score(counted, is_rate=figure != "improvement") if counted else None


def _judge(row: ResultRow) -> float | None:
    """Return whether the judge is right, where it was asked; one that could not be read is not."""
    if not any(turn.agent == JUDGE for turn in row.transcript):
        return None
    return float(row.decided_by == JUDGE and bool(row.correct))


def _individual(row: ResultRow) -> float:
    """Return the share of a network's agents that are right; in a failed row none is."""
    return float(network_report([row]).get("individual", 0.0))


_OF_ROW: Mapping[str, Callable[[ResultRow], float | None]] = {
    "judge_accuracy": _judge,
    "consensus_in_round_1": lambda row: float(row.consensus_round == 1),
    "individual": _individual,
    "improvement": lambda row: float(bool(row.correct)) - _individual(row),
}
_COMPARED = ("accuracy", "em", "average", "consensus", "f1")
"""Figures that each question has a score of."""


def differences(table: Table, runs: Mapping[str, Evaluation]) -> list[Line]:
    """Return the differences between rows that the paper compares and that were measured on the
    same questions; `runs` is by a row's name.
    """
    found = list[Line]()
    for row, rival in table.pairs():
        run, other = runs.get(row.name), runs.get(rival.name)
        # Rows may share a run, which does not differ from itself.
        if run is None or other in (None, run) or run.empty or other.empty:
            continue
        try:
            (pair,) = compare(other, run, names=["rival", "row"])
        except UserError:  # two that a budget ended early may have no question in common
            continue
        for figure, own in row.published.items():
            # A network's consensus stands against one LM's accuracy.
            theirs = rival.published.get(figure, rival.published.get("accuracy"))
            gap: Any = pair.f1 if figure == "f1" else pair
            if figure in _COMPARED and own is not None and theirs is not None and gap is not None:
                line = Line(row.id, figure, own - theirs, against=rival.id)
                line.measure(Score(figure, gap.difference, gap.low, gap.high, pair.n))
                found.append(line)
    return found


def unanimous(runs: Iterable[Evaluation]) -> dict[str, list[str]]:
    """Return the ids of the questions that all runs solve, and that all fail; none with one run
    alone.
    """
    scores = defaultdict[str, list[float]](list)
    for run in runs:
        for row in run.rows:
            scores[row.id].append(row.score or 0.0)
    # One run agrees with itself on every question.
    shared = {name: own for name, own in scores.items() if len(own) > 1}
    return {
        "all_solve": [name for name, own in shared.items() if min(own) == 1],
        "all_fail": [name for name, own in shared.items() if max(own) == 0],
    }
