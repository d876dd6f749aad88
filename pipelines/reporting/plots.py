"""The plots of a report, as PNG data in the page itself: the cost–accuracy front, and each protocol's own."""

from __future__ import annotations

import base64
import math
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...modules.base.errors import UserError
from ..comparison.compared import Compared
from ..comparison.recommend import front, price_axis
from ..plots.figure import COLOURS, GREY, new_figure
from ..plots.network import trust_plot
from ..plots.protocols import plot_of

_COLOURS = (GREY, *COLOURS[:-1])


class Picture(NamedTuple):
    """A plot as a data URI, what it shows in words, and the same for narrow screens where there is one."""

    uri: str
    alt: str
    caption: str
    narrow: str | None = None


def price_plot(compared: Sequence[Compared]) -> Picture | None:
    """Accuracy with its interval against price a question; a line joins the runs of the front.

    Runs that failed are left out, as their failures would pass for cheap answers; None when all did.
    """
    runs = [run for run in compared if not run.failed]
    if not runs or len({run.metric for run in runs}) > 1:
        return None
    price = price_axis(runs)
    if math.inf in price.each:
        return None
    accuracies = [run.score["value"] for run in runs]
    is_rate = all(run.is_rate for run in runs)
    scale = 100 if is_rate else 1
    best = front(price.each, accuracies)

    def draw(path: Path) -> bool:
        figure, [axes] = new_figure(6, 3.8 + 0.2 * len(runs), dpi=150)
        axes.plot(
            [price.each[place] for place in best],
            [scale * accuracies[place] for place in best],
            color="#bbbbbb",
            linewidth=2,
            drawstyle="steps-post",
            zorder=1,
        )
        for place, run in enumerate(runs):
            value, low, high = (scale * run.score[key] for key in ("value", "low", "high"))
            axes.errorbar(
                price.each[place],
                value,
                yerr=[[max(0.0, value - low)], [max(0.0, high - value)]],
                marker="o" if place in best else "X",
                markersize=9,
                capsize=5,
                linestyle="none",
                color=_COLOURS[place % len(_COLOURS)],
                label=_plain(run.name),
            )
        known = [value for value in price.each if value > 0]
        if len(known) == len(runs) and max(known) > 10 * min(known):
            axes.set_xscale("log")
        else:
            axes.set_xlim(left=0)
        axes.margins(x=0.15)
        axes.set(
            xlabel=f"{price.unit} a question", ylabel="right answers in %" if is_rate else runs[0].metric
        )
        axes.grid(axis="y", color="#e5e5e5", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), frameon=False, fontsize=10)
        figure.savefig(path)
        return True

    listed = "; ".join(
        f"{run.name}: {f'{100 * value:.1f}% right' if is_rate else f'{value:.3g}'} for {each:,.4g} "
        f"{price.unit} a question"
        for run, value, each in zip(runs, accuracies, price.each, strict=True)
    )
    on_it = f"{'is' if len(best) == 1 else 'are'} {' and '.join(runs[place].name for place in best)}"
    others = " Others are crosses." if len(best) < len(runs) else ""
    failed = [run.name for run in compared if run not in runs]
    if failed:
        others += f" Left out, as most of their questions failed: {', '.join(failed)}."
    better = "more often right" if is_rate else "better"
    caption = (
        f"Up is {better}, left is cheaper; bars are 95% intervals. On the front {on_it}: no other "
        f"run here is both cheaper and {better}.{others}"
    )
    what = "Accuracy" if is_rate else runs[0].metric
    return Picture(_png(draw) or "", f"{what} against price. {listed}.", caption)


def protocol_plots(run: Mapping[str, Any], report: Mapping[str, Any]) -> list[Picture]:
    """The plot of the run's protocol, where it has one and something to show; the trust map of a network."""
    kind = str(run["program"].get("program"))
    found = []
    if (plot := plot_of(kind)) is not None:
        draw = plot.draw
        wide = _png(lambda path: bool(draw(report, path)))
        tall = _png(lambda path: bool(draw(report, path, tall=True))) if wide else None
        if wide:
            found.append(Picture(wide, plot.caption, plot.caption, tall))
    return found + (_trust(run) if kind == "network" else [])


def _trust(run: Mapping[str, Any]) -> list[Picture]:
    """The trust map, where the trained network is still where the run found it."""
    folder = str(run["settings"].get("program_spec", "")).partition("network:")[2]
    if not folder or not Path(folder).expanduser().is_dir():
        return []
    from ...modules.network.state import NetworkState

    try:
        state = NetworkState.load(Path(folder).expanduser())
    except UserError:
        return []
    if state.identity != run["program"].get("learned"):
        return []
    names = [f"agent.{place}" for place in range(state.config.agents)]
    caption = "How much each agent (row) trusts each other agent (column), from 0 to 1."

    def draw(path: Path) -> bool:
        trust_plot(state.voting_trust, names, path)
        return True

    uri = _png(draw)
    return [Picture(uri, caption, caption)] if uri else []


def _png(draw: Callable[[Path], bool]) -> str | None:
    with tempfile.TemporaryDirectory(prefix="folkmoot-") as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # characters that the font lacks
        path = Path(scratch) / "plot.png"
        if not draw(path):
            return None
        return "data:image/png;base64," + base64.b64encode(path.read_bytes()).decode("ascii")


def _plain(text: str) -> str:
    """As matplotlib shows it: a dollar sign would begin a formula."""
    return text.replace("$", r"\$")
