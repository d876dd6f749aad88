"""Plots of programs that answered the same questions, to be used outside of a report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ...modules.base.errors import UserError
from .figure import BLUE, GREY, Units, new_figure, saved

if TYPE_CHECKING:
    from .figure import Axes, Figure

Ends = tuple[float, float, float]
"""A value with the ends of its interval."""


def interval_plot(
    differences: Mapping[str, Ends], reference: str, path: Path, *, rate: bool = True
) -> Path:
    """Draw how far each program is from the reference, with its 95% interval.

    Returns the path. Raises UserError where there is no program to draw.
    """
    if not differences:
        raise UserError(f"there is nothing to draw: no program has a verdict against {reference}")
    figure, axes = intervals_drawn(differences, rate)
    axes.axvline(0, color=GREY, linewidth=1)
    axes.set(xlabel=f"{Units.of(rate).difference} against {reference}, with 95% intervals")
    saved(figure, path)
    return path


def intervals_drawn(values: Mapping[str, Ends], rate: bool) -> tuple[Figure, Axes]:
    """Return a figure and its axes, with a line for each name, the first on top."""
    figure, [axes] = new_figure(7, 1.2 + 0.4 * len(values))
    # The first name is drawn at the bottom, and a reader begins at the top.
    for name, ends in reversed([*values.items()]):
        value, *interval = map(Units.of(rate).drawn, ends)
        axes.plot(interval, [name, name], color=BLUE)
        axes.plot([value], [name], color=BLUE, marker="o")
    axes.margins(y=0.5 / len(values))
    return figure, axes
