"""The plots of a report, in the page itself: accuracy against price, and each protocol's own."""

from __future__ import annotations

import base64
import math
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..base.journal import read_object
from ..comparison.compared import Compared
from ..comparison.verdict import Verdict
from ..controls.outcome import HOME, controls_in
from ..plots.contest import course_plot
from ..plots.controls import waterfall_plot
from ..plots.protocols import drawings
from .contested import ContestResult


class Picture(NamedTuple):
    """A plot as a data URI, what it shows in words, and the same for narrow screens where there is
    one.
    """

    uri: str
    caption: str
    narrow: str | None = None


class PricePoint(NamedTuple):
    """A run in the chart: its place in % of the width, the heights of its score and interval, what
    it is, and where its name stands: at which height, and whether to the right.
    """

    name: str
    x: float
    y: float
    high: float
    low: float
    on_front: bool
    said: str
    label: float = 0.0
    label_right: bool = True


class PriceChart(NamedTuple):
    """Accuracy against price, drawn by the page itself, and what that shows in words.

    Places are in % of the width and in pixels from the top, `HEIGHT` in all. Ticks have a place and
    a label, `line` the corners of the front.
    """

    points: list[PricePoint]
    across: list[tuple[float, str]]
    up: list[tuple[float, str]]
    line: list[tuple[float, float]]
    x_label: str
    y_label: str
    alt: str
    caption: str


HEIGHT, TOP, BOTTOM = 290, 14, 252
LEFT, RIGHT = 9.0, 97.0
MOST_TICKS = 5
LETTER, LINE = 1.1, 14.0  # % of the width for a letter of a name, pixels for a line


def ticks(low: float, high: float, *, log: bool = False) -> list[float]:
    """Round numbers between two others, a few of them; of a logarithmic axis the powers of 10, with
    2 and 5 times those where they are few.
    """
    if log:
        ends = math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1
        powers = [10.0**power for power in range(*ends)]
        tens = [power for power in powers if low <= power <= high]
        found = tens if len(tens) > 1 else [f * power for power in powers for f in (1, 2, 5)]
        return [value for value in found if low <= value <= high]
    rough = (high - low) / MOST_TICKS
    power = 10 ** math.floor(math.log10(rough))
    step = next(step for step in (power, 2 * power, 5 * power, 10 * power) if step >= rough)
    return [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]


def price_chart(compared: Sequence[Compared], verdict: Verdict) -> PriceChart | None:
    """Accuracy with its interval against price per question; a line joins the verdict's front.

    Runs that failed are left out, as their failures would pass for cheap answers; None when all
    did.
    """
    runs = [run for run in compared if not run.failed]
    if not runs or len({run.metric for run in runs}) > 1:
        return None
    known_prices = [verdict.prices[run.name] for run in runs]
    if None in known_prices:
        return None
    prices = [price or 0.0 for price in known_prices]
    is_rate = all(run.is_rate for run in runs)
    scale = 100 if is_rate else 1
    scores = [[scale * run.score[key] for key in ("value", "low", "high")] for run in runs]
    front = verdict.recommendation.front if verdict.recommendation else ()
    names = [run.name for run in runs]
    best = [names.index(name) for name in front]
    dearest = max(prices)
    log = dearest > 10 * min(prices) > 0
    first, last = (min(prices) / 1.5, dearest * 1.5) if log else (0.0, dearest * 1.15 or 1.0)
    bottom, top = min(low for _, low, _ in scores), max(high for _, _, high in scores)
    room = 0.08 * (top - bottom) or 0.5 * scale / 100
    bottom, top = bottom - room, top + room

    def x(value: float) -> float:
        share = math.log(value / first) / math.log(last / first) if log else value / last
        return round(LEFT + share * (RIGHT - LEFT), 2)

    def y(value: float) -> float:
        return round(BOTTOM - (value - bottom) / (top - bottom) * (BOTTOM - TOP), 1)

    unit = f"{verdict.unit} per question"
    points = [
        PricePoint(
            run.name,
            x(each),
            y(value),
            y(high),
            y(low),
            place in best,
            (
                f"{value:.1f}% right ({low:.1f} to {high:.1f}%)"
                if is_rate
                else f"{value:.3g} ({low:.3g} to {high:.3g})"
            )
            + f" for {each:,.4g} {unit}",
        )
        for place, (run, each, (value, low, high)) in enumerate(
            zip(runs, prices, scores, strict=True)
        )
    ]
    points = _labelled(points)
    line: list[tuple[float, float]] = []
    for place in best:
        line += [(points[place].x, line[-1][1])] if line else []
        line.append((points[place].x, points[place].y))
    better = "more often right" if is_rate else "better"
    caption = f"Up is {better}, left is cheaper; bars are 95% intervals."
    if front:
        caption += (
            " Circles are the program to take, and each cheaper one that is shown to beat all "
            "that are "
            f"cheaper still: {', '.join(front)}."
        )
    failed = [run.name for run in compared if run.failed]
    if failed:
        caption += f" Left out, as most of their questions failed: {', '.join(failed)}."
    what = "Accuracy" if is_rate else runs[0].metric
    alt = f"{what} against price. {'; '.join(f'{one.name}: {one.said}' for one in points)}."
    y_label = "right answers in %" if is_rate else runs[0].metric
    return PriceChart(
        points,
        [(x(value), f"{value:,.4g}") for value in ticks(first, last, log=log)],
        [(y(value), f"{value:.4g}") for value in ticks(bottom, top)],
        line,
        unit,
        y_label,
        alt,
        caption,
    )


def _labelled(points: Sequence[PricePoint]) -> list[PricePoint]:
    """The points with their names where no other name is, from above."""
    taken: list[tuple[float, float, float]] = []  # left and right end, height
    labelled: dict[int, PricePoint] = {}
    for place, point in sorted(enumerate(points), key=lambda one: one[1].y):
        length = LETTER * len(point.name)
        right = point.x + length < RIGHT
        left_end = point.x if right else point.x - length
        height = point.y
        while any(
            left < left_end + length and left_end < end and abs(height - other) < LINE
            for left, end, other in taken
        ):
            height += LINE
        taken.append((left_end, left_end + length, height))
        labelled[place] = point._replace(label=height, label_right=right)
    return [labelled[place] for place in range(len(points))]


def protocol_plots(run: Mapping[str, Any], report: Mapping[str, Any]) -> list[Picture]:
    """The plot of the run's protocol, where it has one and something to show; the trust map of a
    network.
    """
    kind = str(run["program"].get("program"))
    pictures = []
    for plot in drawings(kind, report).values():
        pictures += _picture(partial(plot.draw, report), plot.caption)
    return pictures + (_of_training(run) if kind == "network" else [])


def controls_plots(folder: Path) -> list[Picture]:
    """The waterfall of the controls of a run, where its folder has them."""
    found = controls_in(folder / HOME)
    if found is None:
        return []
    draw = partial(waterfall_plot, found.levels["first"], found.steps, rate=found.rate)
    return _picture(draw, " ".join(found.lines()[-2:]))


def contest_plots(result: ContestResult, *, rate: bool) -> list[Picture]:
    """The course of a contest, where its folder has it."""
    draw = partial(course_plot, result.course, reference=result.reference, rate=rate)
    caption = f"How far each program was from {result.reference} after so many questions, with "
    return _picture(draw, f"{caption}95% intervals that hold at every look.")


def _picture(draw: Callable[..., bool], caption: str) -> list[Picture]:
    """What a function draws, wide and tall, where there is anything to show."""
    wide = _svg(draw)
    return [Picture(wide, caption, _svg(partial(draw, tall=True)))] if wide else []


def _of_training(run: Mapping[str, Any]) -> list[Picture]:
    """The pictures of a network's training, where the network is still where the run found it."""
    folder = str(run["settings"].get("program_spec", "")).partition("network:")[2]
    place = Path(folder).expanduser()
    if not folder or (read_object(place / "network.json") or {}).get("learned") != (
        run["program"].get("learned")
    ):
        return []
    pictures = []
    for name, caption in _TRAINING.items():
        file = place / "plots" / f"{name}.png"
        with suppress(OSError):
            image = file.read_bytes()
            if image.startswith(_PNG) and len(image) <= _MOST_BYTES:
                pictures.append(Picture(_uri(image, "png"), caption))
    return pictures


_PNG, _MOST_BYTES = b"\x89PNG", 2**22
_TRAINING = {
    "trust": "How much each agent (row) trusts each other agent (column), from 0 to 1, over the "
    "training and at its end.",
    "graphs": "Who is connected to whom over the training; thicker lines mean more trust.",
    "rewards": "Reward and accuracy of one agent and of the group over the training, and how sure "
    "choices were.",
    "strategies": "The share of each strategy among the choices over the training.",
}


def _uri(image: bytes, kind: str) -> str:
    return f"data:image/{kind};base64," + base64.b64encode(image).decode("ascii")


def _svg(draw: Callable[..., bool]) -> str | None:
    """The plot that a function draws into a file; None where there is nothing to show."""
    with tempfile.TemporaryDirectory(prefix="folkmoot-") as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # characters that the font lacks
        path = Path(scratch) / "plot.svg"
        return _uri(path.read_bytes(), "svg+xml") if draw(path) else None
