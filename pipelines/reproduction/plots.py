"""Plots of a reproduced table: published beside measured, EM and F1 by step limit, rounds to
consensus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..evaluation.earlier import earlier
from ..plots.evaluation import step_limit_plot
from ..plots.figure import BLUE, COLOURS, GREY, new_figure, saved
from ..runs.rows import RESULTS
from .lines import Line
from .measures import rounds
from .presets import Table

BARS = "published_and_measured.png"


def plots(
    table: Table, lines: Sequence[Line], folders: Mapping[str, Path], out: Path
) -> list[Path]:
    """Draw what there is to draw of a table into a folder, and return the pictures."""
    drawn = {out / BARS: bars(table.title, lines, out / BARS)}
    if table.plot == "step_limits":
        drawn[out / "step_limits.png"] = _step_limits(lines, out / "step_limits.png")
    if table.plot == "rounds":
        drawn[out / "rounds.png"] = _rounds(table, folders, out / "rounds.png")
    return [path for path, has_something in drawn.items() if has_something]


def bars(title: str, lines: Sequence[Line], path: Path) -> bool:
    """Draw published and measured figures with intervals, a bar each, where there is a difference
    to show.
    """
    compared = [line for line in lines if line.difference is not None]
    if not compared:
        return False
    figure, [axes] = new_figure(9, 1.2 + 0.42 * len(compared))
    measured = [line.measured or 0.0 for line in compared]
    series = ((-0.2, [line.published for line in compared], GREY, "published"),)
    for shift, values, colour, label in (*series, (0.2, measured, BLUE, "measured")):
        places = [place + shift for place in range(len(compared))]
        axes.barh(places, values, 0.38, color=colour, label=label)
    ends = [
        [
            abs(value - (getattr(line, end) or 0.0))
            for value, line in zip(measured, compared, strict=True)
        ]
        for end in ("low", "high")
    ]
    axes.errorbar(measured, places, xerr=ends, color="black", capsize=3, fmt="none")
    names = [f"{line.row}: {line.figure.replace('_', ' ')}" for line in compared]
    axes.set_yticks(range(len(compared)), names, fontsize=8)
    axes.set(xlabel="per cent, with 95% intervals", xlim=(0, 105), title=title)
    axes.set_ylim(len(compared) - 0.5, -0.5)  # the first row on top
    shown = axes.get_legend_handles_labels()
    figure.legend(*shown, loc="outside lower right", ncols=2, frameon=False, fontsize=8)
    return saved(figure, path)


def _step_limits(lines: Sequence[Line], path: Path) -> bool:
    """Draw EM and F1 against the step limit, a curve for each configuration; rows are named
    CONFIGURATION.LIMIT.
    """
    curves: dict[str, dict[int, dict[str, object]]] = {}
    for line in lines:
        name, _, limit = line.row.rpartition(".")
        if line.measured is None or line.low is None or line.high is None or line.failed:
            continue
        point = curves.setdefault(name, {}).setdefault(int(limit), {"limit": int(limit)})
        scores = {"value": line.measured, "low": line.low, "high": line.high}
        point[line.figure] = {end: score / 100 for end, score in scores.items()}
    ordered = {name: [own[limit] for limit in sorted(own)] for name, own in curves.items()}
    return step_limit_plot(ordered, path)


def _rounds(table: Table, folders: Mapping[str, Path], path: Path) -> bool:
    """Draw how many questions reached consensus in which round, for each row that has been run."""
    counted = {
        row.id: dict(rounds(earlier(folders[row.name])))
        for row in table.rows.values()
        if row.name in folders and (folders[row.name] / RESULTS).exists()
    }
    if not counted:
        return False
    names = sorted({name for counts in counted.values() for name in counts})
    figure, [axes] = new_figure(7, 4)
    wide = 0.8 / len(counted)
    for place, (row, counts) in enumerate(counted.items()):
        at = [number + (place - (len(counted) - 1) / 2) * wide for number in range(len(names))]
        drawn = axes.bar(
            at,
            [counts.get(name, 0) for name in names],
            wide,
            color=COLOURS[place % len(COLOURS)],
            label=row,
        )
        axes.bar_label(drawn, fontsize=8)
    axes.set_xticks(range(len(names)), names)
    axes.set(xlabel="round of consensus", ylabel="questions", title=table.title)
    axes.legend(fontsize=8)
    return saved(figure, path)
