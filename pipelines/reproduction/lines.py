"""The outcome of a reproduction: a published figure beside a measured one, and a table of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from ..base.papers import bibtex

MOST_FAILED = 0.02
"""Above this share of failed questions a measured figure says little about the published one."""

CELLS = ("published", "measured [95%]", "n", "lost", "difference", "published inside")


@dataclass(frozen=True)
class Line:
    """A published figure beside the measured one, both in per cent.

    `low` and `high` are the ends of the measured one's 95% interval, over `n` questions;
    `difference` is measured less published, in points; `inside` says whether the published figure
    lies in that interval, or, where the paper only says that its figure lies `above` the published
    one, whether it reaches above that. Of the `rows` that the figure is about, `errors` failed,
    `unreadable` have no readable answer and in `truncated` a reply was cut off at a token limit;
    errors and unreadable answers are wrong. All four are None where nothing was run. With more than
    2% errors there is neither `difference` nor `inside`, and with errors alone nothing was
    measured. `why` says why something is missing. `run` is the folder of the row's run, `lm` whom
    it asked.
    """

    row: str
    figure: str
    published: float | None
    measured: float | None = None
    low: float | None = None
    high: float | None = None
    n: int | None = None
    difference: float | None = None
    inside: bool | None = None
    lm: str | None = None
    run: str | None = None
    why: str | None = None
    note: str | None = None
    above: bool = False
    rows: int | None = None
    errors: int | None = None
    unreadable: int | None = None
    truncated: int | None = None

    def to_dict(self) -> dict[str, object]:
        return dict(vars(self))

    def measured_as(self, value: float, low: float, high: float, n: int) -> Line:
        """The line with what was measured over n questions, in shares of 1, beside the published
        figure.
        """
        value, low, high = 100 * value, 100 * low, 100 * high
        line = replace(self, measured=value, low=low, high=high, n=n)
        if line.failed:
            return replace(
                line,
                why="no difference, since more than 2% of the questions failed: --retry-errors "
                "asks them again",
            )
        if self.published is None:
            return line
        # Published with two digits at most: one on the interval's end is not outside for its
        # rounding.
        reached = self.published <= high + 0.005
        inside = reached and (self.above or low - 0.005 <= self.published)
        return replace(line, difference=value - self.published, inside=inside)

    @property
    def failed(self) -> bool:
        """Whether too many questions failed to hold the figure against the published one."""
        return bool(self.rows and self.errors and self.errors / self.rows > MOST_FAILED)

    @property
    def lost(self) -> str:
        """The failed questions in words, and the unreadable and cut-off answers where there are
        any.
        """
        if self.errors is None:
            return ""
        others = {"unreadable": self.unreadable, "cut off": self.truncated}
        words = [f"{count:,} {what}" for what, count in others.items() if count]
        return ", ".join([f"{self.errors:,} failed", *words])

    @property
    def cells(self) -> tuple[str, ...]:
        """What a table shows, in the order of `CELLS`."""
        bound, measured = "above " * self.above, self.why or ""
        if self.measured is not None:
            measured = f"{self.measured:.1f} [{self.low:.1f}, {self.high:.1f}]"
        return (
            "" if self.published is None else f"{bound}{self.published:.2f}",
            measured,
            "" if self.n is None else f"{self.n:,}",
            self.lost,
            "" if self.difference is None else f"{self.difference:+.1f}",
            {True: "yes", False: "no", None: ""}[self.inside],
        )


@dataclass
class Reproduction:
    """A table, or some of its rows, side by side: `lines`, and the folder with all runs.

    `stopped` says why figures are missing: something ended the reproduction early, or every
    question of a run failed; `empty` that nothing usable came out. `pictures` are the plots.
    """

    name: str
    out: Path
    lines: list[Line]
    notes: list[str]
    pictures: list[Path]
    stopped: str | None = None
    empty: bool = False

    @property
    def bibtex(self) -> list[str]:
        """The paper's entry in BibTeX."""
        return bibtex([self.name.partition("/")[0]])

    def in_words(self, *, quiet: bool = False) -> dict[str, str]:
        """A line per figure."""
        return {f"{line.row}, {line.figure}": "; ".join(line.cells) for line in self.lines}

    def to_dict(self) -> dict[str, object]:
        return {
            "reproduce": self.name,
            "out": str(self.out),
            "rows": [line.to_dict() for line in self.lines],
            "notes": self.notes,
            "plots": [str(picture) for picture in self.pictures],
            "stopped": self.stopped,
            "bibtex": self.bibtex,
        }


def table_page(table: Reproduction) -> str:
    """The table side by side, in Markdown."""
    head = ["row", "figure", *CELLS]
    body = [[line.row, line.figure, *line.cells] for line in table.lines]
    rows = [f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *body]]
    return "\n".join(
        [f"**{table.name}**, published and measured, in per cent", "", *rows, "", *table.notes]
    )
