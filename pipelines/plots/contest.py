"""The course of a contest: how far each program was from the reference as questions were asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .figure import COLOURS, GREY, new_figure, saved, write_names


def course_plot(
    course: Sequence[Mapping[str, Any]],
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
    if len({step["questions"] for step in course}) < 2:
        return False
    scale = 100 if rate else 1
    figure, [axes] = new_figure(7, 4)
    axes.axhline(0, color=GREY, linewidth=1)
    ends = []
    for place, name in enumerate(dict.fromkeys(step["name"] for step in course)):
        colour = COLOURS[place % len(COLOURS)]
        steps = [step for step in course if step["name"] == name]
        seen = [step["questions"] for step in steps]
        low, middle, high = (
            [scale * step[end] for step in steps] for end in ("low", "difference", "high")
        )
        axes.plot(seen, middle, color=colour, marker="o", markersize=3)
        axes.fill_between(seen, low, high, color=colour, alpha=0.08, linewidth=0)
        ends.append((seen[-1], middle[-1], name, colour))
    write_names(axes, ends)
    first, last = axes.get_xlim()
    axes.set(
        xlim=(first, last + 0.5 * (last - first)),
        xlabel="questions",
        ylabel=f"{'points' if rate else 'score'} against {reference}",
    )
    return saved(figure, path)
