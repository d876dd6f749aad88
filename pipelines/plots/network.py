"""Plots of a strategy network as PNG files: how sure and how right, who used what, trust, graph,
rewards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .figure import BLUE, COLOURS, GREY, ORANGE, new_figure, two_axes

MOST_GRAPHS = 6
"""How many moments of a training the plot of graphs shows."""

_SMOOTH = 20  # batches in the moving mean of the curves

Numbers = npt.NDArray[np.float64]


def network_plot(report: Mapping[str, Any], path: Path, *, tall: bool = False) -> bool:
    """Draw a `network_report`: confidence against accuracy, and each agent's use of strategies.

    Returns False, and writes nothing, when no agent has answered.
    """
    if not report.get("use"):
        return False
    figure, (reliability, use) = two_axes(tall=tall)
    _reliability(reliability, report.get("reliability") or {}, report.get("ece"))
    _use_bars(use, report["use"])
    figure.savefig(path)
    return True


def rewards_plot(curve: Sequence[Mapping[str, float]], path: Path) -> bool:
    """Draw how a training went: reward and accuracy, then entropy and mean trust, a point for each
    batch.

    `curve` has `questions` seen so far, `reward`, `individual`, `entropy` and `trust`; a name may
    be missing. Returns False, and writes nothing, without a point.
    """
    if not curve:
        return False
    figure, (gains, state) = two_axes()
    for axes, names in ((gains, ("reward", "individual")), (state, ("entropy", "trust"))):
        for name, colour in zip(names, (BLUE, ORANGE), strict=True):
            points = [(point["questions"], point[name]) for point in curve if name in point]
            if not points:
                continue
            steps, values = zip(*points, strict=True)
            axes.plot(steps, values, color=colour, alpha=0.25, linewidth=1)
            axes.plot(
                steps,
                smoothed(values),
                color=colour,
                marker="o" if len(steps) == 1 else "",
                label=name,
            )
        axes.set(xlabel="questions seen")
        if axes.has_data():
            axes.legend(frameon=False)
    gains.set(title="Reward and accuracy of single agents")
    state.set(title="Entropy of choices, and mean trust")
    figure.savefig(path)
    return True


def trust_plot(trust: Numbers, agents: Sequence[str], path: Path) -> None:
    """Draw trust (N, N) as a heat map, each agent by its name."""
    figure, [place] = new_figure(5, 5)
    place.spines[["top", "right"]].set_visible(True)
    image = place.imshow(np.asarray(trust), vmin=0, vmax=1, cmap="Blues")
    figure.colorbar(image, ax=place, shrink=0.8, label="trust")
    ticks = range(len(agents))
    place.set_xticks(ticks, agents, rotation=90, fontsize=7)
    place.set_yticks(ticks, agents, fontsize=7)
    if len(agents) <= 12:
        for i, j in np.ndindex(*np.shape(trust)):
            colour = "white" if trust[i, j] > 0.6 else "black"
            place.text(
                j, i, f"{trust[i, j]:.2f}", ha="center", va="center", fontsize=7, color=colour
            )
    place.set(title="Trust between agents")
    figure.savefig(path)


def graphs_plot(moments: Sequence[tuple[int, npt.NDArray[np.bool_], Numbers]], path: Path) -> bool:
    """Draw who is connected to whom at several moments: (questions seen, adjacency (N, N), trust
    (N, N)).

    Thicker lines mean more trust. Of many moments the first, the last and some between are drawn.
    Returns False, and writes nothing, when there is none.
    """
    if not moments:
        return False
    places = np.unique(
        np.linspace(0, len(moments) - 1, min(MOST_GRAPHS, len(moments))).round().astype(int)
    )
    columns = min(len(places), 3)
    rows = math.ceil(len(places) / columns)
    figure, axes = new_figure(3 * columns, 3 * rows, rows=rows, columns=columns)
    for left in axes[len(places) :]:
        left.axis("off")
    for drawn, place in zip(axes, places, strict=False):
        questions, adjacency, trust = moments[place]
        _graph(drawn, np.asarray(adjacency, dtype=bool), np.asarray(trust))
        drawn.set_title(f"after {questions:,} questions", fontsize=9)
    figure.savefig(path)
    return True


def smoothed(values: Sequence[float]) -> list[float]:
    """The mean of each value and up to 19 before it."""
    return [
        float(np.mean(values[max(0, end - _SMOOTH) : end])) for end in range(1, len(values) + 1)
    ]


def _reliability(axes: Any, bins: Mapping[str, Mapping[str, float]], ece: float | None) -> None:
    axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1)
    most = max((figures["count"] for figures in bins.values()), default=1)
    for figures in bins.values():
        point, count = (figures["confidence"], figures["accuracy"]), figures["count"]
        axes.scatter(*point, s=20 + 180 * count / most, color=BLUE, alpha=0.8)
        axes.annotate(f"{count:.0f}", point, textcoords="offset points", xytext=(8, -3), fontsize=8)
    title = "Confidence and accuracy" if ece is None else f"Confidence and accuracy (ECE {ece:.3f})"
    axes.set(
        xlabel="confidence of the group",
        ylabel="share right",
        xlim=(0, 1.05),
        ylim=(0, 1.05),
        title=title,
    )


def _use_bars(axes: Any, use: Mapping[str, Mapping[str, float]]) -> None:
    names = list(use)
    strategies = list(dict.fromkeys(strategy for shares in use.values() for strategy in shares))
    below = np.zeros(len(names))
    for number, strategy in enumerate(strategies):
        shares = np.array([use[name].get(strategy, 0.0) for name in names])
        axes.barh(names, shares, left=below, color=COLOURS[number % len(COLOURS)], label=strategy)
        below += shares
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=8)
    axes.set(xlabel="share of questions", xlim=(0, 1), title="Strategies by agent")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=4, frameon=False, fontsize=8)


def _graph(axes: Any, adjacency: npt.NDArray[np.bool_], trust: Numbers) -> None:
    n = len(adjacency)
    angles = [2 * math.pi * i / n for i in range(n)]
    points = [(math.cos(angle), math.sin(angle)) for angle in angles]
    for i, j in np.argwhere(np.triu(adjacency | adjacency.T, 1)):
        xs, ys = zip(points[i], points[j], strict=True)
        axes.plot(
            xs, ys, color=GREY, linewidth=0.5 + 3 * float(trust[i, j] + trust[j, i]) / 2, zorder=1
        )
    axes.scatter(*zip(*points, strict=True), s=160, color=BLUE, zorder=2)
    for i, (x, y) in enumerate(points):
        axes.text(x, y, str(i), color="white", ha="center", va="center", fontsize=8, zorder=3)
    axes.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal")
    axes.axis("off")
