"""Plots of an evaluation as PNG files."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...modules.reports.counting import CHANGES
from .comparison import Ends, intervals_drawn
from .figure import BLUE, GREY, ORANGE, new_figure, saved, two_axes

if TYPE_CHECKING:
    from .figure import Axes


def score_plot(scores: Mapping[str, Ends], path: Path, *, metric: str, rate: bool = True) -> Path:
    """Draw scores by name, each with its 95% interval. Returns the path."""
    figure, axes = intervals_drawn(scores, rate)
    unit = " in %" if rate else ""
    axes.set(xlabel=f"{metric}{unit}, with 95% intervals")
    saved(figure, path)
    return path


def deliberation_plot(report: Mapping[str, Any], path: Path) -> bool:
    """Draw a `deliberation_report`: when agents agreed, and how right each was at first and at
    last.

    Returns False, and writes nothing, when the report holds no dialogue.
    """
    if not report.get("role") or not report.get("first_consensus_round"):
        return False
    figure, (rounds, roles) = two_axes()
    _consensus_bars(rounds, report["first_consensus_round"])
    rounds.set(
        xlabel="round of first consensus", ylabel="questions", title="When the agents agreed"
    )

    ends = itemgetter("accuracy_first", "accuracy_last")
    accuracies = {name: ends(role) for name, role in report["role"].items()}
    _bars_in_pairs(roles, accuracies, {"first answer": GREY, "last answer": BLUE})
    group = report["accuracy_excluding_errors"]
    roles.axhline(group, color=ORANGE, linestyle="--", label=f"the group: {group:.0%}")
    roles.set(ylabel="accuracy", ylim=(0, 1), title="How right each was")
    roles.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=3, frameon=False)
    return saved(figure, path)


def agreement_plot(report: Mapping[str, Any], path: Path) -> bool:
    """Draw the `agreement` of a report as a heat map: how often each two agents gave the same
    answer.

    Returns False, and writes nothing, when the report has no two agents.
    """
    # Ensembles report members, deliberations roles.
    names = list(report.get("member_accuracy") or report.get("role") or ())
    shares = report.get("agreement") or {}
    if len(names) < 2:
        return False
    size = 3 + 0.5 * len(names)
    figure, [axes] = new_figure(size, 0.8 * size)
    grid = np.full((len(names), len(names)), np.nan)
    for (row, name), (column, other) in product(enumerate(names), repeat=2):
        # A report has each pair once, in one of two orders.
        share = shares.get(f"{name}-{other}", shares.get(f"{other}-{name}"))
        if share is not None:
            grid[row, column] = share
            # Black cannot be read on a dark cell.
            colour = "white" if share > 0.6 else "black"
            axes.text(column, row, f"{share:.0%}", ha="center", va="center", color=colour)
    image = axes.imshow(grid, vmin=0, vmax=1, cmap="Blues")
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.set(title="Who agreed with whom")
    figure.colorbar(image, ax=axes, label="share of questions")
    return saved(figure, path)


def causal_plot(report: Mapping[str, Any], path: Path) -> bool:
    """Draw a `causal_report`: when reasoners and evaluators agreed, and what evaluators' changes
    did.

    Returns False, and writes nothing, when no evaluator was asked.
    """
    evaluator = report.get("evaluator") or {}
    if not evaluator.get("evaluations"):
        return False
    figure, (rounds, changes) = two_axes()
    _consensus_bars(rounds, report["consensus_round"])
    rounds.set(xlabel="round of consensus", ylabel="questions", title="When an answer stood")

    counts = {name.replace("_", " "): evaluator[name] for name in CHANGES}
    changes.bar_label(changes.bar(list(counts), list(counts.values()), color=[BLUE, ORANGE, GREY]))
    changes.set(
        xlabel=f"{evaluator['changed']:,} changes in {evaluator['evaluations']:,} evaluations",
        ylabel="evaluations",
        title="What evaluators changed",
    )
    return saved(figure, path)


def team_plot(report: Mapping[str, Any], path: Path) -> bool:
    """Draw a `team_report`: workers beside team and best worker, and what each number of steps
    gave.

    Returns False, and writes nothing, when no worker left a trace.
    """
    if not report.get("worker") or not report.get("best_worker"):
        return False
    figure, (bars, curve) = two_axes()
    both = itemgetter("em", "f1")
    scores = {f"{name} alone": both(alone) for name, alone in report["worker"].items()}
    scores["the team"] = (report["em_excluding_errors"], report["f1_excluding_errors"])
    scores["best worker\nin hindsight"] = both(report["best_worker"])
    _bars_in_pairs(bars, scores, {"EM": BLUE, "F1": ORANGE})
    bars.tick_params(axis="x", labelsize=8)
    bars.set(ylabel="score", ylim=(0, 1.05), title="Workers, team, and best worker")
    bars.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2, frameon=False)

    points = report.get("first_attempts") or {}
    steps = list(map(int, points))
    for key, label, colour in (("em", "EM", BLUE), ("f1", "F1", ORANGE), ("ended", "ended", GREY)):
        shares = list(map(itemgetter(key), points.values()))
        curve.plot(steps, shares, marker="o", color=colour, label=label)
    curve.set(
        xlabel="steps",
        ylabel="share of first attempts",
        ylim=(0, 1.05),
        title="Done within a number of steps",
    )
    # The labels of more steps would run into each other.
    between = len(steps) // 5 if len(steps) > 10 else 1
    curve.set_xticks(steps[::between])
    curve.legend(frameon=False)
    return saved(figure, path)


def _bars_in_pairs(
    axes: Axes, groups: Mapping[str, tuple[float, float]], colours: Mapping[str, str]
) -> None:
    """Draw two bars side by side for each group, each kind in its colour."""
    for place, (label, colour) in enumerate(colours.items()):
        # Half a bar to the left and right of the group's place, where its name stands.
        at = np.arange(len(groups)) + 0.4 * place - 0.2
        heights = list(map(itemgetter(place), groups.values()))
        bars = axes.bar(at, heights, width=0.4, color=colour, label=label)
        axes.bar_label(bars, fmt="{:.0%}", fontsize=8)
    axes.set_xticks(range(len(groups)), list(groups))


def _consensus_bars(axes: Axes, counts: Mapping[str, int]) -> None:
    colours = [{"never": GREY}.get(name, BLUE) for name in counts]
    axes.bar_label(axes.bar(list(counts), list(counts.values()), color=colours))
