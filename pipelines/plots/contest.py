"""The course of a contest: how far each program was from the reference as questions were asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

from .figure import COLOURS, GREY, Units, new_figure, saved
from .prices import write_names


def course_plot(
    course: Sequence[Mapping[str, object]],
    path: Path,
    *,
    reference: str = "the reference",
    rate: bool = True,
) -> bool:
    """Draw difference and interval over the number of questions, a line for each program, named at
    its end.

    The steps of the course are dicts with `questions`, `name`, `difference`, `low` and `high`.
    Returns False, and writes nothing, when there are fewer than two steps: a point is no course.
    """
    import pandas as pd

    table = pd.DataFrame(course, columns=["questions", "name", "difference", "low", "high"])
    if table.questions.nunique() < 2:
        return False
    units = Units.of(rate)
    table[["difference", "low", "high"]] *= units.scale
    figure, [axes] = new_figure(7, 4)
    axes.axhline(0, color=GREY, linewidth=1)
    ends = []
    for (name, steps), colour in zip(table.groupby("name", sort=False), cycle(COLOURS)):
        axes.plot(steps.questions, steps.difference, color=colour, marker="o", markersize=3)
        axes.fill_between(
            steps.questions, steps.low, steps.high, color=colour, alpha=0.08, linewidth=0
        )
        end = steps.iloc[-1]
        ends.append((end.questions, end.difference, str(name), colour))
    write_names(axes, ends)
    # Room to the right, where the names stand.
    first, last = axes.get_xlim()
    axes.set(
        xlim=(first, last + 0.5 * (last - first)),
        xlabel="questions",
        ylabel=f"{units.difference} against {reference}",
    )
    return saved(figure, path)
