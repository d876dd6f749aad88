"""Where a running evaluation stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from ...modules.base.usage import Usage
from ...modules.reading.grading import ACCURACY
from ...modules.reading.row import ResultRow, score_in
from ...optimizers.statistics.statistics import wilson
from ..base.display import ProgressLine
from ..base.wording import calls_used, counted, duration, money


@dataclass
class Progress:
    """Where a running evaluation stands; handed to `progress` at the start and after every row.

    `score` is the sum of what the `metric` gave so far.
    """

    total: int
    done: int = 0
    resumed: int = 0
    correct: int = 0
    errors: int = 0
    unreadable: int = 0
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)
    metric: str = ACCURACY
    score: float = 0.0

    @property
    def seconds_left(self) -> float | None:
        """None until this run has finished a question of its own."""
        new = self.done - self.resumed
        return self.seconds / new * (self.total - self.done) if new else None

    def count(self, row: ResultRow, *, resumed: bool = False) -> None:
        self.done += 1
        self.resumed += resumed
        self.correct += bool(row["correct"])
        self.score += score_in(row)
        self.errors += bool(row["error"])
        self.unreadable += row["error"] is None and row["answer"] is None
        if not resumed:
            self.usage.add(Usage.of(row["usage"]))


def evaluation_line(label: str, state: Progress) -> ProgressLine:
    return ProgressLine(label, progress_parts(state), state.done, max(state.total, 1))


def progress_parts(state: Progress) -> Iterable[str]:
    """Give the figures of the line, so short that it fits 80 columns: done, score so far with the
    half-width of its 95% interval, errors, cost (calls where it is unknown), and time left.
    """
    yield f"{state.done:,}/{state.total:,}"
    if state.done and state.metric != ACCURACY:
        yield f"{state.metric} {state.score / state.done:.3g}"
    elif state.done:
        low, high = wilson(state.correct, state.done)
        yield f"{state.correct / state.done:.1%} ± {100 * (high - low) / 2:.1f}"
    if state.errors:
        yield counted(state.errors, "error")
    yield money(state.usage.cost_usd) if state.usage.cost_usd else calls_used(state.usage.calls)
    if state.seconds_left is not None:
        yield f"{duration(state.seconds_left)} left"
