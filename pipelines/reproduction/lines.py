"""What a reproduction finds: a published figure beside a measured one, and a table of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Line:
    """A published figure beside the measured one, both in per cent.

    `low` and `high` are the ends of the measured one's 95% interval, over `n` questions; `difference` is
    measured less published, in points; `inside` says whether the published figure lies in that interval, or,
    where the paper only says that its figure lies `above` the published one, whether it reaches above that.
    `why` says why nothing was measured. `run` is the folder of the row's run, `lm` whom it asked.
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

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Published, measured with its interval, difference, and whether the first lies in the second."""
        measured = (
            f"{self.measured:.1f} [{self.low:.1f}, {self.high:.1f}]"
            if self.measured is not None
            else self.why or ""
        )
        return (
            "" if self.published is None else f"{'above ' * self.above}{self.published:.2f}",
            measured,
            "" if self.difference is None else f"{self.difference:+.1f}",
            {True: "yes", False: "no", None: ""}[self.inside],
        )


@dataclass
class Reproduction:
    """A table, or some of its rows, side by side: `lines`, and the folder with all runs.

    `stopped` says why rows are missing, where something ended the reproduction early; `code` is then the
    command's exit code. `pictures` are the plots.
    """

    name: str
    out: Path
    lines: list[Line]
    notes: list[str]
    pictures: list[Path]
    stopped: str | None = None
    code: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            "reproduce": self.name,
            "out": str(self.out),
            "rows": [line.to_dict() for line in self.lines],
            "notes": self.notes,
            "plots": [str(picture) for picture in self.pictures],
            "stopped": self.stopped,
        }
