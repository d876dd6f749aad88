"""The outcome of a reproduction: published figures next to measured ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..base.run_files import Counts
from ..evaluation.earlier import Evaluation
from ..programs.papers import bibtex
from .card import TABLE
from .measures import Between, measured

MOST_FAILED = 0.02
"""Above this share of failed questions a measured figure says little about the published one."""
ROUNDING = 0.005
"""Published figures have two digits at most: this far outside of an interval is still inside."""


@dataclass
class Line:
    """A published figure beside the measured one, both in per cent.

    `low` and `high` are the ends of the measured one's 95% interval, over `n` questions;
    `difference` is measured less published, in points; `inside` says whether the published figure
    lies in the interval. `counts` are those of the summary of the row's run: how many questions
    have a row, an error, no readable answer. With more than 2% errors there is neither difference
    nor `inside`. `why` says why something is missing. `run` is the folder of the run, `lm` whom it
    asked.
    """

    row: str
    figure: str
    published: float | None
    note: str | None = None
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    difference: float | None = None
    inside: bool | None = None
    counts: Counts | None = None
    lm: str | None = None
    run: str | None = None
    why: str | None = None

    def measure(self, score: Mapping[str, Any]) -> None:
        """Set the measured figure, in shares of 1, next to the published one."""
        self.measured = 100 * score["value"]
        self.low, self.high = 100 * score["low"], 100 * score["high"]
        self.n = score["n"]
        # Failed questions count as wrong: many of them would be taken for a worse program.
        if self.counts and self.counts.errors > MOST_FAILED * self.counts.rows:
            self.why = "more than 2% of the questions failed: --retry-errors asks them again"
        elif self.published is not None:
            self.difference = self.measured - self.published
            self.inside = self.low - ROUNDING <= self.published <= self.high + ROUNDING

    def take(self, run: Evaluation) -> None:
        """Set the figure that a run measured, or the reason why it measured none."""
        self.counts, self.run = run.summary.counts, str(run.folder)
        # Several agents may have one LM, which is named once.
        self.lm = ", ".join(dict.fromkeys(lm.name for lm in run.summary.run.lms.values()))
        if run.empty:
            self.why = "every question failed"
            return
        score = measured(self.figure, run)
        if score is None:
            self.why = "these questions do not measure it"
        else:
            self.measure(score)

    @property
    def words(self) -> str:
        """The measured figure with its interval, or the reason why there is none."""
        if self.measured is None:
            return self.why or ""
        return f"{self.measured:.1f} [{self.low:.1f}, {self.high:.1f}]"


@dataclass
class Reproduction:
    """Rows of a table, side by side: `lines`, and the folder `out` with the table and all runs.
    `stopped` says why figures are missing: a budget, or questions of a run that failed.
    `differences` are between rows that the paper compares, `unanimous` the ids of the questions
    that all runs solve (`all_solve`) and that all fail (`all_fail`).
    """

    table: str
    out: Path
    lines: list[Line]
    notes: list[str]
    stopped: str | None = None
    differences: list[Between] = field(default_factory=list)
    unanimous: Mapping[str, list[str]] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        """The table on disk."""
        return self.out / self.table / TABLE

    @property
    def empty(self) -> bool:
        """Whether it ended early without any figure, or all questions of a run failed."""
        if self.stopped is None:
            return False
        # One run that failed throughout is enough: its row says nothing of the program.
        for line in self.lines:
            if line.counts and line.counts.errors == line.counts.rows:
                return True
        return all(line.measured is None for line in self.lines)

    def to_dict(self) -> dict[str, object]:
        return {
            "reproduce": self.table,
            "out": str(self.out),
            "rows": list(map(asdict, self.lines)),
            "differences": list(map(vars, self.differences)),
            **self.unanimous,
            "notes": self.notes,
            "stopped": self.stopped,
            "bibtex": bibtex([self.table.partition("/")[0]]),
        }
