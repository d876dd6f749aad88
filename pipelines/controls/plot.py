"""The waterfall of controls: from one first answer to the team, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ...modules.statistics.statistics import Estimate
from ..plots.figure import BLUE, GREY, ORANGE, Units, new_figure, saved


def waterfall_plot(
    first: float,
    steps: Mapping[str, Estimate],
    path: Path,
    *,
    rate: bool = True,
) -> bool:
    """Draw the parts as steps with their 95% intervals, from the score of one first answer to the
    team's.
    """
    units = Units.of(rate)
    scale, level = units.scale, units.scale * first
    figure, [axes] = new_figure(8, 4)
    axes.bar(["one first\nanswer"], [level], color=GREY)
    lowest = level
    for name, part in steps.items():
        value, low, high = map(units.drawn, part)
        label = name.replace("_", "\n")
        color = BLUE if value >= 0 else ORANGE
        axes.bar([label], [value], bottom=level, color=color, alpha=0.6)
        axes.plot([label, label], [level + low, level + high], color="black")
        lowest, level = min(lowest, level + low), level + value
    axes.bar(["the team"], [level], color=GREY)
    axes.set(ylabel=units.score, ylim=(lowest - 0.05 * scale, None))
    axes.set_title("Where the gain comes from")
    return saved(figure, path)
