"""Plots of an evaluation as PNG files, drawn without a display and without matplotlib's global state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

BLUE, ORANGE, GREY = "#3366aa", "#dd8833", "#999999"


def deliberation_plot(report: Mapping[str, Any], path: Path) -> bool:
    """Draw a `deliberation_report`: when agents agreed, and how right each was at first and at last.

    Returns False, and writes nothing, when the report holds no dialogue.
    """
    if not report.get("role") or not report.get("first_consensus_round"):
        return False
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), dpi=120, layout="constrained", facecolor="white")
    FigureCanvasAgg(figure)
    rounds, roles = figure.subplots(1, 2)

    counts = report["first_consensus_round"]
    colours = [GREY if name == "never" else BLUE for name in counts]
    rounds.bar_label(rounds.bar(list(counts), list(counts.values()), color=colours))
    rounds.set(xlabel="round of first consensus", ylabel="questions", title="When the agents agreed")

    names = list(report["role"])
    for key, label, colour, shift in (
        ("accuracy_first", "first answer", GREY, -0.2),
        ("accuracy_last", "last answer", BLUE, 0.2),
    ):
        heights = [report["role"][name][key] for name in names]
        places = [place + shift for place in range(len(names))]
        bars = roles.bar(places, heights, width=0.4, color=colour, label=label)
        roles.bar_label(bars, fmt="{:.0%}", fontsize=8)
    group = report["accuracy_excluding_errors"]
    roles.axhline(group, color=ORANGE, linestyle="--", label=f"the group: {group:.0%}")
    roles.set_xticks(range(len(names)), names)
    roles.set(ylabel="accuracy", ylim=(0, 1), title="How right each was")
    roles.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3, frameon=False)

    for axes in (rounds, roles):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)
    return True
