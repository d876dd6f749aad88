"""Scores of programs against their prices, each point with its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .comparison import Ends
from .figure import BLUE, GREY, Units, new_figure, saved

if TYPE_CHECKING:
    from .figure import Axes

APART = 0.06  # least distance of two names, as a share of the height


def price_plot(
    scores: Mapping[str, Ends],
    prices: Mapping[str, float | None],
    unit: str,
    path: Path,
    *,
    front: Sequence[str] = (),
    rate: bool = True,
) -> bool:
    """Draw scores with their intervals against prices per question, each with its program's name,
    and a line along the programs of the `front`.

    Returns False, and writes nothing, when no price is known.
    """
    priced = {name: price for name, price in prices.items() if price is not None and name in scores}
    if not priced:
        return False
    figure, [axes] = new_figure(8, 5)
    units, points = Units.of(rate), []
    for name, price in priced.items():
        value, low, high = (units.scale * end for end in scores[name])
        axes.plot([price, price], [low, high], color=GREY)
        axes.plot([price], [value], color=BLUE, marker="o")
        points.append((price, value, name, BLUE))
    best = sorted((price, value) for price, value, name, _ in points if name in front)
    if best:
        axes.plot(*zip(*best, strict=True), color=BLUE, alpha=0.5)
    # On a linear axis, one dear program would push all others together.
    if max(priced.values()) > 10 * min(priced.values()) > 0:
        axes.set_xscale("log")
    axes.margins(x=0.4)
    write_names(axes, points)
    axes.set(xlabel=f"{unit} per question", ylabel=f"{units.score}, with 95% intervals")
    return saved(figure, path)


def write_names(axes: Axes, points: Iterable[tuple[float, float, str, str]]) -> None:
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
