"""Plots of a study as PNG files: how it went, the front, and which parameters mattered."""

from __future__ import annotations

from pathlib import Path

from ..runs.study_file import StudyReport, TrialEntry
from .figure import BLUE, GREY, ORANGE, new_figure, saved
from .trials import DONE, trials_frame


def history_plot(report: StudyReport, path: Path) -> bool:
    """Draw the first objective of every trial in order, and the best so far. False without a
    finished trial.
    """
    goal = report.goal
    table = trials_frame(report).reindex(columns=["trial", "state", goal])
    scored = table.dropna(subset=[goal])
    if scored.empty:
        return False
    figure, [axes] = new_figure(7, 4)
    for state, colour, label in (
        ("complete", BLUE, "trial"),
        ("told", GREY, "replayed from another trial, without a call"),
        ("pruned", ORANGE, "stopped early"),
    ):
        own = scored[scored.state == state]
        if len(own):
            axes.scatter(own.trial, own[goal], s=14, color=colour, label=label)
    # The score of one that was stopped is over fewer questions, and may be high by chance.
    whole = scored[scored.state != "pruned"]
    best = whole[goal].cummax()
    axes.step(whole.trial, best, where="post", color=BLUE, label="best so far")
    axes.set(xlabel="trial", ylabel=f"{goal} in training", title="How the study went")
    axes.legend(frameon=False, fontsize=8)
    return saved(figure, path)


def front_plot(report: StudyReport, path: Path) -> bool:
    """Draw every finished setting by its first two objectives, the front with its intervals. False
    for a study with one objective.
    """
    goals = report.objectives
    finished = [each for each in report.table if each.state in DONE and each.scores]
    if len(goals) < 2 or not finished:
        return False
    figure, [axes] = new_figure(7, 4)
    first, second = goals[:2]

    def point(entry: TrialEntry) -> tuple[float, float]:
        return entry.value(second), entry.value(first)

    across, up = zip(*map(point, finished), strict=True)
    axes.scatter(across, up, s=14, color=GREY, label="every setting")
    for place, entry in enumerate(report.front):
        (x, y), scores = point(entry), entry.scores
        ends = []
        for name, value in ((second, x), (first, y)):
            low, high = scores[name].get("low", value), scores[name].get("high", value)
            ends.append([[max(0.0, value - low)], [max(0.0, high - value)]])
        # The legend names the front once, not each of its points.
        label = "" if place else "Pareto-optimal, with 95% intervals: none is better in both"
        axes.errorbar(x, y, xerr=ends[0], yerr=ends[1], fmt="o", color=BLUE, capsize=2, label=label)
        axes.annotate(
            f"trial {entry.trial}", (x, y), (5, 5), textcoords="offset points", fontsize=8
        )
    axes.set(
        xlabel=f"{second} a question",
        ylabel=f"{first} in training",
        title=f"What more {first} costs",
    )
    axes.legend(frameon=False, fontsize=8)
    return saved(figure, path)
