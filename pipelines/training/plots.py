"""Plots of a strategy network as PNG files: accuracies, calibration, use of strategies, trust,
graph and rewards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..plots.figure import BLUE, COLOURS, GREY, ORANGE, new_figure, saved, two_axes

if TYPE_CHECKING:
    from ...optimizers.policy.batches import TrainingStep
    from ..plots.figure import Axes, Figure

MOST_GRAPHS = 6
"""How many moments of a training the plot of graphs shows."""

_SMOOTH = 20  # batches in the moving mean of the curves

MOST_NUMBERS = 12
"""Agents up to which a map of trust shows its numbers."""

Numbers = npt.NDArray[np.float64]
Moment = tuple[int, npt.NDArray[np.bool_], Numbers]
"""Questions seen so far, adjacency (N, N) and trust (N, N)."""


def network_plot(report: Mapping[str, Any], path: Path) -> bool:
    """Draw a `network_report`, or the scores of recorded answers: who was how often right,
    confidence against accuracy, and the use of strategies by agent and by topic.

    Returns False, and writes nothing, when no agent has answered.
    """
    if not report.get("use"):
        return False
    by_topic = next(iter(report.get("use_by_topic", {}).values()), None)
    topics = report.get("use_by_group") or by_topic or {}
    count = 4 if topics else 3
    figure, axes = new_figure(10, 8, rows=2, columns=2)
    # A panel without anything to show would be an empty frame.
    for left in axes[count:]:
        left.axis("off")
    _score_bars(axes[0], report)
    _reliability(axes[1], report.get("reliability") or {}, report.get("ece"))
    _use_bars(axes[2], report["use"], "Strategies by agent")
    if topics:
        _use_bars(axes[3], topics, "Strategies by topic")
    return saved(figure, path)


def rewards_plot(curve: Sequence[Mapping[str, object]], path: Path) -> bool:
    """Draw how a training went: reward, accuracy of single agents and of the group, then entropy
    and mean trust, a point for each batch.

    `curve` has `questions` seen so far, `reward`, `individual`, `consensus`, `entropy` and `trust`;
    a name may be missing. Returns False, and writes nothing, without a point.
    """
    if not curve:
        return False
    figure, (gains, state) = two_axes()
    _curves(gains, curve, {"reward": "reward", "individual": "one agent", "consensus": "the group"})
    _curves(state, curve, {"entropy": "entropy", "trust": "trust"})
    gains.set(title="Reward, and accuracy of one agent and of the group")
    state.set(title="Entropy of choices, and mean trust")
    return saved(figure, path)


def strategies_plot(curve: Sequence[TrainingStep], path: Path) -> bool:
    """Draw the share of each strategy among the choices over a training, as `strategies` of the
    batches has it. Returns False, and writes nothing, where there is none.
    """
    points = [point for point in curve if point.get("strategies")]
    if not points:
        return False
    figure, [axes] = new_figure(7, 4)
    names, shares = list(points[0]["strategies"]), list[list[float]]()
    for name in names:
        shares.append(smoothed([point["strategies"].get(name, 0.0) for point in points]))
    seen = [point["questions"] for point in points]
    axes.stackplot(seen, shares, labels=names, colors=COLOURS)
    axes.set(xlabel="questions seen", ylabel="share of choices", ylim=(0, 1))
    axes.set(title="Strategies over the training")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=4, frameon=False, fontsize=8)
    return saved(figure, path)


def trust_plot(moments: Sequence[Moment], agents: Sequence[str], path: Path) -> bool:
    """Draw trust (N, N) at several moments as heat maps, each agent by its name.

    Of many moments the first, the last and some between are drawn. Returns False, and writes
    nothing, when there is none.
    """
    if not moments:
        return False
    figure, axes, drawn = _moments(moments, 3.5)
    ticks = range(len(agents))
    for place, (questions, _, trust) in zip(axes, drawn, strict=False):
        place.spines[["top", "right"]].set_visible(True)
        image = place.imshow(np.asarray(trust), vmin=0, vmax=1, cmap="Blues")
        place.set_xticks(ticks, agents, rotation=90, fontsize=7)
        place.set_yticks(ticks, agents, fontsize=7)
        place.set_title(f"after {questions:,} questions", fontsize=9)
        if len(agents) > MOST_NUMBERS:
            continue
        for i, j in np.ndindex(*np.shape(trust)):
            # Black cannot be read on a dark cell.
            colour = "white" if trust[i, j] > 0.6 else "black"
            text = f"{trust[i, j]:.2f}"
            place.text(j, i, text, ha="center", va="center", fontsize=6, color=colour)
    figure.colorbar(image, ax=list(axes), shrink=0.8, label="trust")
    return saved(figure, path)


def graphs_plot(moments: Sequence[Moment], path: Path) -> bool:
    """Draw who is connected to whom at several moments. Thicker lines mean more trust.

    Of many moments the first, the last and some between are drawn. Returns False, and writes
    nothing, when there is none.
    """
    if not moments:
        return False
    figure, axes, drawn = _moments(moments, 3)
    for place, (questions, adjacency, trust) in zip(axes, drawn, strict=False):
        _graph(place, np.asarray(adjacency, dtype=bool), np.asarray(trust))
        place.set_title(f"after {questions:,} questions", fontsize=9)
    return saved(figure, path)


def _moments(moments: Sequence[Moment], size: float) -> tuple[Figure, list[Axes], list[Moment]]:
    """Return a figure with axes of that size for each moment that is drawn, and these moments."""
    count = min(MOST_GRAPHS, len(moments))
    # Rounded places may be the same one.
    places = np.unique(np.linspace(0, len(moments) - 1, count).round().astype(int))
    columns = min(len(places), 3)
    rows = math.ceil(len(places) / columns)
    figure, axes = new_figure(size * columns, size * rows, rows=rows, columns=columns)
    for left in axes[len(places) :]:
        left.axis("off")
    return figure, axes, list(map(moments.__getitem__, places))


def smoothed(values: Sequence[float]) -> list[float]:
    """Return the mean of each value and up to 19 before it."""
    means = []
    for end in range(1, len(values) + 1):
        means.append(float(np.mean(values[max(0, end - _SMOOTH) : end])))
    return means


def _curves(axes: Axes, curve: Sequence[Mapping[str, object]], names: Mapping[str, str]) -> None:
    """Figures of the batches by the questions seen so far, each with its moving mean."""
    for (name, label), colour in zip(names.items(), COLOURS, strict=False):
        points = [(point["questions"], point[name]) for point in curve if name in point]
        if not points:
            continue
        seen, values = zip(*points, strict=True)
        axes.plot(seen, values, color=colour, alpha=0.25, linewidth=1)
        # A line through one point cannot be seen.
        marker = "o" if len(seen) == 1 else ""
        axes.plot(seen, smoothed(values), color=colour, marker=marker, label=label)
    axes.set(xlabel="questions seen")
    if axes.has_data():
        axes.legend(frameon=False)


def _score_bars(axes: Axes, report: Mapping[str, Any]) -> None:
    """Accuracies: zero-shot, the mean of single agents, a plain vote, the group, and its gain."""
    zero_shot = report.get("strategy", {}).get("zero_shot", {}).get("accuracy")
    scores = {"zero-shot": zero_shot, "one agent (mean)": report.get("individual")}
    scores |= {"plain vote": report.get("majority"), "the group": report.get("consensus")}
    values = dict[str, float]()
    for name, value in scores.items():
        if isinstance(value, Mapping):
            values[name] = value["value"]
        elif value is not None:
            values[name] = float(value)
    bars = axes.barh(list(values), list(values.values()), color=(GREY, BLUE, GREY, ORANGE))
    axes.bar_label(bars, labels=list(map("{:.1%}".format, values.values())), fontsize=8)
    axes.invert_yaxis()
    gain = values.get("the group", 0.0) - values.get("one agent (mean)", 0.0)
    axes.set(xlabel="share right", xlim=(0, 1.1), title=f"Gain of the group: {100 * gain:+.1f}")


def _reliability(axes: Axes, bins: Mapping[str, Mapping[str, float]], ece: float | None) -> None:
    # On this line a group is as often right as it is sure.
    axes.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1)
    most = max((figures["count"] for figures in bins.values()), default=1)
    for figures in bins.values():
        point, count = (figures["confidence"], figures["accuracy"]), figures["count"]
        axes.scatter(*point, s=20 + 180 * count / most, color=BLUE, alpha=0.8)
        axes.annotate(f"{count:.0f}", point, textcoords="offset points", xytext=(8, -3), fontsize=8)
    title = "Confidence and accuracy"
    if ece is not None:
        title += f" (ECE {ece:.3f})"
    axes.set(
        xlabel="confidence of the group",
        ylabel="share right",
        xlim=(0, 1.05),
        ylim=(0, 1.05),
        title=title,
    )


def _use_bars(axes: Axes, use: Mapping[str, Mapping[str, float]], title: str) -> None:
    names = list(use)
    strategies = list(dict.fromkeys(chain(*use.values())))
    below = np.zeros(len(names))
    for number, strategy in enumerate(strategies):
        shares = np.array([use[name].get(strategy, 0.0) for name in names])
        # There may be more strategies than colours.
        axes.barh(names, shares, left=below, color=COLOURS[number % len(COLOURS)], label=strategy)
        below += shares
    axes.invert_yaxis()
    axes.tick_params(axis="y", labelsize=8)
    axes.set(xlabel="share of questions", xlim=(0, 1), title=title)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=4, frameon=False, fontsize=8)


def _graph(axes: Axes, adjacency: npt.NDArray[np.bool_], trust: Numbers) -> None:
    angles = 2 * math.pi * np.arange(len(adjacency)) / len(adjacency)
    points = list(zip(np.cos(angles), np.sin(angles), strict=True))
    # Each pair once, whichever of the two listens to the other.
    for i, j in np.argwhere(np.triu(adjacency | adjacency.T, 1)):
        xs, ys = zip(points[i], points[j], strict=True)
        axes.plot(
            xs, ys, color=GREY, linewidth=0.5 + 3 * float(trust[i, j] + trust[j, i]) / 2, zorder=1
        )
    axes.scatter(np.cos(angles), np.sin(angles), s=160, color=BLUE, zorder=2)
    for i, (x, y) in enumerate(points):
        axes.text(x, y, str(i), color="white", ha="center", va="center", fontsize=8, zorder=3)
    axes.set(xlim=(-1.3, 1.3), ylim=(-1.3, 1.3), aspect="equal")
    axes.axis("off")
