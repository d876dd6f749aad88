"""Counters of all reports: figures by their path in the report, and a reading of each row's
answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ..reading.answers import AnswerScore, answer_key, score
from ..reading.row import ResultRow

STATES = ("right", "wrong", "unreadable")
CHANGES = ("wrong_to_right", "right_to_wrong", "wrong_to_wrong")

_WRONG = AnswerScore(False, None, None)

_PER_QUESTION = ("calls", "prompt_tokens", "completion_tokens")


def change(was: bool, now: bool) -> str:
    """Return the name of a step from one answer to another, such as `wrong_to_right`."""
    return f"{STATES[not was]}_to_{STATES[not now]}"


def by_number(counts: Mapping[int, int], first: int, last: int) -> dict[str, int]:
    """Return counts of rounds or retries for a report: with every number from the first to the
    last.
    """
    return {str(number): counts.get(number, 0) for number in range(first, last + 1)}


def whole(value: object) -> int:
    """Return a value that is a whole number above 0, or 0 for anything else."""
    # True is an int in Python, and not a count.
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return max(0, value)


class Figures:
    """Counts and means by their path in a report, such as `("role", "critic", "accuracy_first")`.

    A mean over nothing is left out; `questions` and `errors` are there from the start.
    """

    def __init__(self) -> None:
        # The sum of each, and the number of values in a mean.
        self._sums: dict[tuple[str, ...], list[float]] = defaultdict(
            lambda: [0, 0], {("questions",): [0, 0], ("errors",): [0, 0]}
        )
        self._listed: set[tuple[str, ...]] = set()

    def count(self, number: float, *path: str) -> None:
        """Add to a count; 0 makes it appear."""
        self._sums[path][0] += number

    def one_of(self, names: Collection[str], happened: str | None, *path: str) -> None:
        """Count an event under its name; all `names` appear in the report, with 0 if they never
        happen.
        """
        # Once a place: the zeros only make the names appear, in this order.
        if path not in self._listed:
            self._listed.add(path)
            for name in names:
                self.count(0, *path, name)
        if happened is not None and happened in names:
            self.count(1, *path, happened)

    def mean(self, value: float, *path: str) -> None:
        """Add a value to a mean, a bool to a rate."""
        sums = self._sums[path]
        sums[0] += value
        sums[1] += 1

    def finished(self, row: ResultRow) -> bool:
        """Count the row under `questions` or `errors`; returns False for an error, whose other
        figures are not counted.
        """
        state = "errors" if row.error else "questions"
        self.count(1, state)
        return state == "questions"

    def decided(self, row: ResultRow, score: float, name: str = "accuracy") -> None:
        """Count how the row was decided, and add to the mean score of that way."""
        way = ("decided_by", str(row.decided_by))
        self.count(1, *way, "count")
        self.mean(score, *way, name)

    def usage(self, row: ResultRow) -> None:
        """Add to `calls_per_question`, `prompt_tokens_per_question` and
        `completion_tokens_per_question`.

        What is not known of a question is left out.
        """
        usage = row.usage
        for name in _PER_QUESTION:
            if isinstance(value := usage.get(name), int | float):
                self.mean(value, f"{name}_per_question")

    def report(self) -> dict[str, Any]:
        """Return everything as nested dicts, in the order in which it was first counted."""
        tree: dict[str, Any] = {}
        for path, (total, values) in self._sums.items():
            branch = tree
            for name in path[:-1]:
                branch = branch.setdefault(name, {})
            branch[path[-1]] = total / values if values else total
        return tree


class Reading:
    """The answers to one question: whether each is right, and which are the same; each is read
    once.

    Where there is no gold answer, or it is none of the options, nothing is right. An answer that
    cannot be read is the same as none.
    """

    def __init__(self, row: ResultRow) -> None:
        self._row = ResultRow.of(row)
        self._scores: dict[str, AnswerScore] = {}
        self._keys: dict[str | None, str | None] = {None: None}

    def score(self, answer: object) -> AnswerScore:
        if not isinstance(answer, str):
            return _WRONG
        if answer not in self._scores:
            row = self._row
            kind, choices = row.get("kind", "span"), row.get("choices")
            try:
                self._scores[answer] = score(answer, row.gold or "", kind, choices)
            except (ValueError, TypeError, AttributeError, KeyError):  # rows of logs may lack it
                self._scores[answer] = _WRONG
        return self._scores[answer]

    def right(self, answer: object) -> bool:
        return self.score(answer).correct

    def em_f1(self, answer: object) -> tuple[float, float]:
        """Return EM and F1, each 0 to 1; for kinds other than spans, both say whether the answer is
        right.
        """
        right, em, f1 = self.score(answer)
        if f1 is None:
            return float(right), float(right)
        return float(em or 0), f1

    def state(self, answer: object) -> str:
        """Return the state of an answer, one of `STATES`."""
        if self.right(answer):
            return "right"
        return "wrong" if isinstance(answer, str) else "unreadable"

    def same(self, one: str | None, other: str | None) -> bool:
        key = self.key(one)
        return key is not None and key == self.key(other)

    def agreed(self, answers: Iterable[str | None]) -> bool:
        """Return whether there is an answer, and all are the same."""
        keys = {self.key(answer) for answer in answers}
        return len(keys) == 1 and None not in keys

    def key(self, answer: str | None) -> str | None:
        if answer not in self._keys:
            try:
                self._keys[answer] = answer_key(str(answer), self._row.get("kind", "span"))
            except ValueError:
                self._keys[answer] = None
        return self._keys[answer]
