"""Figures drawn without a display and without matplotlib's global state."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

BLUE, ORANGE, GREY = "#3366aa", "#dd8833", "#999999"
COLOURS = (BLUE, ORANGE, "#559955", "#aa4455", "#7766aa", "#bb9944", "#44aaaa", GREY)
APART = 0.06  # least distance of two names, as a share of the height


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
) -> tuple[Any, list[Any]]:
    """A figure with its size in inches, and its axes, row by row, without a frame."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=dpi, layout="constrained", facecolor="white")
    # The canvas that needs no display, whatever the user has chosen for other figures.
    FigureCanvasAgg(figure)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for panel in axes:
        panel.spines[["top", "right"]].set_visible(False)
    return figure, axes


def two_axes() -> tuple[Any, list[Any]]:
    """A figure and its two axes side by side."""
    return new_figure(10, 4, columns=2)


def write_names(axes: Any, points: Iterable[tuple[float, float, str, str]]) -> None:
    """Write a name to the right of each point (x, y, name, colour); no name covers another."""
    bottom, top = axes.get_ylim()
    height = bottom
    for x, y, name, colour in sorted(points, key=lambda point: point[1]):
        # From the bottom up; one that would cover the name below it is moved up.
        height = max(y, height + APART * (top - bottom))
        written = axes.annotate(
            f"  {name}", (x, y), (x, height), color=colour, va="center", fontsize=9
        )
        written.set_in_layout(False)  # a long name would squeeze the axes to make room


def saved(figure: Any, path: Path) -> bool:
    """Write a figure; True, as what plots return that had something to show."""
    figure.savefig(path)
    return True
