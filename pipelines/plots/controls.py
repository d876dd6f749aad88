"""The waterfall of controls: from one first answer to the team, part by part."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .figure import BLUE, GREY, ORANGE, new_figure, saved


def waterfall_plot(result: Mapping[str, Any], path: Path, *, tall: bool = False) -> bool:
    """Draw the parts of a `ControlsResult` as steps with their 95% intervals, beside both ends.

    Returns False, and writes nothing, when no question is finished.
    """
    if not result.get("questions"):
        return False
    scale = 100 if result["unit"] == "points" else 1
    steps = {name: part for name, part in result["parts"].items() if part["value"] is not None}
    if len(steps) < len(result["parts"]):
        sampling, decider = steps["sampling"], steps["decider"]
        steps = {"sampling": sampling, "talk": result["talk"], "decider": decider}
    figure, [axes] = new_figure(5 if tall else 8, 4)
    level = scale * result["levels"]["first"]
    axes.bar(["one first\nanswer"], [level], color=GREY)
    lowest = level
    for name, part in steps.items():
        value, low, high = (scale * part[end] for end in ("value", "low", "high"))
        colour = BLUE if value >= 0 else ORANGE
        label = name.replace("_", "\n")
        axes.bar([label], [value], bottom=level, color=colour, alpha=0.6)
        axes.plot([label, label], [level + low, level + high], color="black", linewidth=1.5)
        lowest = min(lowest, level + low)
        level += value
    axes.bar(["the team"], [level], color=GREY)
    unit = "right, in %" if scale == 100 else "score"
    axes.set(ylabel=unit, ylim=(max(0.0, lowest - 0.1 * scale), None))
    axes.set_title("Where the gain comes from")
    return saved(figure, path)
