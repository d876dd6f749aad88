"""What a table's runs say together: differences between rows that the paper compares, and the
questions on which all runs agree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...modules.statistics.controls import paired_difference
from ..base.wording import signed_interval
from ..comparison.tested import QuestionAnswers
from .presets import Row, Table

Answered = Mapping[str, QuestionAnswers]
"""What a run answered, by the id of the question."""

_INSTEAD = {"consensus": "accuracy"}
_OF_QUESTION = dict.fromkeys(("accuracy", "em", "average", "consensus"), "score") | {"f1": "f1"}


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
        ends = (end / 100 for end in (self.measured, self.low, self.high))
        return f"published {self.published:+.1f}, measured {signed_interval(*ends)}"


def row_pairs(table: Table) -> Iterator[tuple[Row, Row]]:
    """The pairs of rows that the paper compares: `against` maps the name of a row to those of its
    rivals, or a part of it to the parts that stand there in theirs.
    """
    by_id = {row.id: row for row in table.rows}
    for row in table.rows:
        parts = row.id.split(".")
        # Once each: a name of one part is that part, too.
        for word in dict.fromkeys([row.id, *parts]):
            for other in table.against.get(word, ()):
                name = ".".join(other if part == word else part for part in parts)
                rival = by_id.get(other if word == row.id else name)
                if rival is not None:
                    yield row, rival


def differences(table: Table, answered: Mapping[str, Answered]) -> list[Between]:
    """The differences of rows that were measured on the same questions; `answered` is by a row's
    name.
    """
    found = list[Between]()
    for row, rival in row_pairs(table):
        runs = [answered.get(each.name, {}) for each in (rival, row)]
        for figure, attribute in _OF_QUESTION.items():
            # A network's consensus stands against one LM's accuracy.
            rivals = rival.published.get(figure, rival.published.get(_INSTEAD.get(figure, "")))
            published = (row.published.get(figure), rivals)
            # Rows may share a run, which does not differ from itself.
            if runs[0] is runs[1] or None in published:
                continue
            scores = [
                [getattr(run[name], attribute) for run in runs]
                for name in runs[0].keys() & runs[1].keys()
            ]
            scores = [each for each in scores if None not in each]
            if scores:
                before, after = zip(*scores, strict=True)
                value, low, high = (100 * end for end in paired_difference(before, after))
                said: Any = published[0] - published[1]  # type: ignore[operator]
                found.append(Between(row.id, rival.id, figure, said, value, low, high, len(scores)))
    return found


def unanimous(answered: Mapping[str, Answered]) -> dict[str, list[str]]:
    """The ids of the questions that all runs solve, and that all fail; none with one run alone."""
    # Rows may share a run: one that agrees with itself says nothing.
    runs = list({id(run): run for run in answered.values()}.values())
    found: dict[str, list[str]] = {"all_solve": [], "all_fail": []}
    for name in dict.fromkeys(name for run in runs for name in run):
        scores = [run[name].score for run in runs if name in run]
        if len(scores) > 1 and min(scores) == max(scores) and scores[0] in (0.0, 1.0):
            found["all_solve" if scores[0] else "all_fail"].append(name)
    return found
