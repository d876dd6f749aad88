"""Plots of a reproduced table: published beside measured, EM and F1 by step limit, rounds to
consensus.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..evaluation.earlier import earlier
from ..plots.evaluation import step_limit_plot
from ..plots.figure import BLUE, GREY, ORANGE, new_figure
from ..runs.rows import RESULTS
from .lines import Line
from .measures import rounds
from .presets import Table

BARS = "published_and_measured.png"
_MOST_BARS = 40  # in one picture; more are cut into several
_COLOURS = (BLUE, ORANGE, GREY, "#55a868")


def plots(
    table: Table, lines: Sequence[Line], folders: Mapping[str, Path], out: Path
) -> list[Path]:
    """Draw what there is to draw of a table into a folder, and return the pictures."""
    found = bars(table.title, lines, out)
    if table.plot == "step_limits":
        found += _step_limits(lines, out)
    if table.plot == "rounds":
        found += _rounds(table, folders, out / "rounds.png")
    return found


def bars(title: str, lines: Sequence[Line], out: Path) -> list[Path]:
    """Published and measured figures with intervals, a bar each, where there is a difference to
    show.
    """
    known = [line for line in lines if line.difference is not None]
    pictures = []
    for part in range(0, len(known), _MOST_BARS):
        path = out / (BARS if not part else BARS.replace(".png", f"_{part // _MOST_BARS + 1}.png"))
        _bars(title, known[part : part + _MOST_BARS], path)
        pictures.append(path)
    return pictures


def _bars(title: str, lines: Sequence[Line], path: Path) -> None:
    figure, [axes] = new_figure(9, 1.2 + 0.42 * len(lines))
    places = range(len(lines))
    axes.barh(
        [at - 0.2 for at in places],
        [line.published for line in lines],
        0.38,
        color=GREY,
        label="published",
    )
    axes.barh(
        [at + 0.2 for at in places],
        [line.measured for line in lines],
        0.38,
        color=BLUE,
        label="measured",
    )
    for at, line in zip(places, lines, strict=True):
        if line.measured is None or line.low is None or line.high is None:
            continue
        below, above = max(0.0, line.measured - line.low), max(0.0, line.high - line.measured)
        axes.errorbar(
            [line.measured],
            [at + 0.2],
            xerr=[[below], [above]],
            color="black",
            capsize=3,
            fmt="none",
        )
    axes.set_yticks(
        list(places), [f"{line.row}: {line.figure.replace('_', ' ')}" for line in lines], fontsize=8
    )
    axes.set(xlabel="per cent, with 95% intervals", xlim=(0, 105), title=title)
    axes.set_ylim(len(lines) - 0.5, -0.5)  # the first row on top
    figure.legend(
        *axes.get_legend_handles_labels(),
        loc="outside lower right",
        ncols=2,
        frameon=False,
        fontsize=8,
    )
    figure.savefig(path)


def _step_limits(lines: Sequence[Line], out: Path) -> list[Path]:
    """EM and F1 against the step limit, a picture a configuration; rows are named
    CONFIGURATION.LIMIT.
    """
    curves: dict[str, dict[int, dict[str, Any]]] = {}
    for line in lines:
        name, _, limit = line.row.rpartition(".")
        if line.measured is None or line.low is None or line.high is None or line.failed:
            continue
        point = curves.setdefault(name, {}).setdefault(int(limit), {"limit": int(limit)})
        point[line.figure] = {
            "value": line.measured / 100,
            "low": line.low / 100,
            "high": line.high / 100,
        }
    pictures = []
    for name, points in curves.items():
        path = out / f"step_limits_{name}.png"
        if step_limit_plot([points[limit] for limit in sorted(points)], path):
            pictures.append(path)
    return pictures


def _rounds(table: Table, folders: Mapping[str, Path], path: Path) -> list[Path]:
    """How many questions reached consensus in which round, for each row that has been run."""
    counted = {
        row.id: dict(rounds(earlier(folders[row.name])))
        for row in table.rows.values()
        if row.name in folders and (folders[row.name] / RESULTS).exists()
    }
    if not counted:
        return []
    names = sorted({name for counts in counted.values() for name in counts})
    figure, [axes] = new_figure(7, 4)
    wide = 0.8 / len(counted)
    for place, (row, counts) in enumerate(counted.items()):
        at = [number + (place - (len(counted) - 1) / 2) * wide for number in range(len(names))]
        drawn = axes.bar(
            at, [counts.get(name, 0) for name in names], wide, color=_COLOURS[place % 4], label=row
        )
        axes.bar_label(drawn, fontsize=8)
    axes.set_xticks(range(len(names)), names)
    axes.set(xlabel="round of consensus", ylabel="questions", title=table.title)
    axes.legend(fontsize=8)
    figure.savefig(path)
    return [path]
