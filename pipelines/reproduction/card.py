"""A reproduced table: published figures beside measured ones, and the card of its folder."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

from ...modules.base.keyed import only
from ..base.cards import Card, Kind, Score
from ..base.run_files import Counts
from ..base.wording import counted
from ..lms.ledger import totals
from ..programs.papers import bibtex
from ..training.card import CALLS

TABLE = "table.json"
MOST_FAILED = 0.02
"""Above this share of failed questions a measured figure says little about the published one."""
ROUNDING = 0.005
"""Published figures have two digits at most: this far outside of an interval is still inside."""


@dataclass
class Line:
    """A published figure beside the measured one, both in per cent; of a row, or of its difference
    to the row `against`, paired by question.

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
    against: str | None = None
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

    def measure(self, score: Score) -> None:
        """Set the measured figure, in shares of 1, next to the published one."""
        self.measured, self.n, self.why = 100 * score.value, score.n, None
        self.low, self.high = 100 * score.low, 100 * score.high
        # Failed questions count as wrong: many of them would be taken for a worse program.
        if self.counts and self.counts.errors > MOST_FAILED * self.counts.rows:
            self.why = "more than 2% of the questions failed: --retry-errors asks them again"
        elif self.published is not None:
            self.difference = self.measured - self.published
            self.inside = self.low - ROUNDING <= self.published <= self.high + ROUNDING

    def cells(self) -> list[str]:
        """Return what a table shows of it: the columns of `HEADS`."""
        name, measured = self.row, self.why or ""
        if self.against is not None:
            name += f" less {self.against}"
        if self.measured is not None:
            measured = f"{self.measured:.1f} [{self.low:.1f}, {self.high:.1f}]"
        lost = only(self.counts or {}, LOST).items()
        return [
            name,
            self.figure,
            _text(self.published, ".2f"),
            measured,
            _text(self.n, ","),
            ", ".join(f"{number:,} {what}" for what, number in lost if number),
            _text(self.difference, "+.1f"),
            {True: "yes", False: "no", None: ""}[self.inside],
        ]


HEADS = (
    *("row", "figure", "published", "measured [95%]", "n", "lost", "difference"),
    "published inside",
)
LOST = ("errors", "unreadable", "truncated")


def _text(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


@dataclass
class Reproduction:
    """Rows of a table, side by side: `lines`, and the folder `out` with the table and all runs.
    `stopped` says why figures are missing: a budget, or questions of a run that failed.
    `differences` are between rows that the paper compares, `unanimous` the ids of the questions
    that all runs solve (`all_solve`) and that all fail (`all_fail`).
    """

    table: str
    out: Path
    lines: Sequence[Line]
    differences: Sequence[Line]
    unanimous: Mapping[str, Sequence[str]]
    notes: Sequence[str]
    stopped: str | None

    @property
    def folder(self) -> Path:
        """The folder of the table itself."""
        return self.out / self.table

    @property
    def empty(self) -> bool:
        """Whether it ended early without any figure."""
        return self.stopped is not None and all(line.measured is None for line in self.lines)

    def to_dict(self) -> dict[str, object]:
        return {
            "reproduce": self.table,
            "out": str(self.out),
            "rows": list(map(asdict, self.lines)),
            "differences": list(map(asdict, self.differences)),
            **self.unanimous,
            "notes": self.notes,
            "stopped": self.stopped,
            "bibtex": bibtex([self.table.partition("/")[0]]),
        }


def _describe(folder: Path, table: Mapping[str, Any]) -> Card:
    name, rows = table["reproduce"], table["rows"]
    card = Card(f"published table {name}", program=str(name))
    card.ended(table.get("stopped"))
    runs = dict.fromkeys(row["run"] for row in rows if row["run"])
    card.children = list(map(Path, runs))
    # A training pays in a folder of its own, below that of its test.
    trainings = [run / CALLS for run in card.children]
    card.paid(totals(*card.children, *trainings).to_dict())
    # Nothing to agree with: figures that the paper lacks, and those of runs that failed too often.
    compared = [row["inside"] for row in rows if row["inside"] is not None]
    if compared:
        figures = counted(len(compared), "measured figure")
        card.sentences = [f"{sum(compared):,} of {figures} agree with the published ones."]
    for what in ("all_solve", "all_fail"):
        if ids := table.get(what):
            agree = f"{what.replace('_', ' ')} {counted(len(ids), 'question')}"
            card.sentences.append(f"{agree}: {shorten(', '.join(ids), 60)}")
    # LMs may be stand-ins for the paper's.
    if lms := dict.fromkeys(row["lm"] for row in rows if row.get("lm")):
        card.lm = ", ".join(lms)
        card.sentences.append(f"Asked: {card.lm}.")
    # All figures of a row have its note; where nothing was measured, the table says why.
    notes = [f"{row['row']}: {row['note']}" for row in rows if row.get("note")]
    notes += [f"{row['row']}: {row['why']}" for row in rows if row.get("why") and row["n"]]
    card.sentences += dict.fromkeys(notes)
    tested = dict.fromkeys(row["run"] for row in rows if row.get("counts"))
    if len(tested) > 1:
        card.next = shlex.join(["folkmoot", "compare", *tested])
    return card


KIND = Kind(TABLE, "reproduce", "a published table", _describe)
