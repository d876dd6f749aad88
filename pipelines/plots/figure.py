"""Figures drawn without a display and without matplotlib's global state."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure

BLUE, ORANGE, GREY = "#3366aa", "#dd8833", "#999999"
COLOURS = (BLUE, ORANGE, "#559955", "#aa4455", "#7766aa", "#bb9944", "#44aaaa", GREY)


class Units(NamedTuple):
    """How scores are drawn: shares of right answers in percent, others as they are."""

    scale: int
    difference: str
    score: str

    @classmethod
    def of(cls, rate: bool) -> Units:
        return cls(100, "points", "right answers in %") if rate else cls(1, "score", "score")

    def drawn(self, score: float) -> float:
        return self.scale * score


def new_figure(
    width: float, height: float, *, rows: int = 1, columns: int = 1, dpi: int = 120
) -> tuple[Figure, list[Axes]]:
    """Return a figure of a size in inches, and its axes, row by row, without a frame."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=dpi, layout="constrained", facecolor="white")
    # The canvas that needs no display, whatever the user has chosen for other figures.
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, axes


def two_axes() -> tuple[Figure, list[Axes]]:
    """Return a figure and its two axes side by side."""
    return new_figure(10, 4, columns=2)


def saved(figure: Figure, path: Path) -> bool:
    """Write a figure; returns True, which means that there was something to draw."""
    figure.savefig(path)
    return True
