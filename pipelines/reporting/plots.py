"""The plots of a report as data URIs: score against price, and each protocol's own."""

from __future__ import annotations

import base64
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from ..base.cards import result_kind
from ..base.journal import read_object
from ..base.run_files import Manifest
from ..comparison.comparison import Comparison
from ..evaluation.card import WITHIN
from ..plots.contest import course_plot
from ..plots.prices import price_plot
from ..plots.protocols import drawings
from .contested import ContestResult


class Picture(NamedTuple):
    """A plot as a data URI, and its caption."""

    uri: str
    caption: str


def price_picture(comparison: Comparison) -> list[Picture]:
    """Return the plot of score against price, of the runs with a verdict, with the front of the
    verdict.
    """
    verdict, take = comparison.verdict, comparison.recommendation
    front = take.front if take else ()
    # Failures would pass for cheap answers, and scores of different metrics share no axis.
    runs = [run for run in comparison.runs if not run.failed]
    if not runs or len({run.metric for run in runs}) > 1:
        return []
    is_rate, caption = runs[0].is_rate, "Up is better, left is cheaper."
    scores = {run.name: (run.score.value, run.score.low, run.score.high) for run in runs}
    if is_rate:
        caption = "Up is more often right, left is cheaper."
    if front:
        caption += (
            " The line joins the program to take and each cheaper one that is shown to beat all "
            f"that are cheaper still: {', '.join(front)}."
        )
    if failed := [run.name for run in comparison.runs if run.failed]:
        caption += f" Left out, as most of their questions failed: {', '.join(failed)}."
    draw = partial(price_plot, scores, verdict.prices, verdict.unit, front=front, rate=is_rate)
    return _picture(draw, caption)


def protocol_plots(run: Manifest, report: Mapping[str, object]) -> list[Picture]:
    """Return the plots of the run's protocol, if it has any to show, such as the trust map of a
    network.
    """
    kind = str(run.program.get("program"))
    pictures = []
    for plot in drawings(kind, report).values():
        pictures += _picture(partial(plot.draw, report), plot.caption)
    if kind == "network":
        pictures += _of_training(run)
    return pictures


def pictures_of(folder: Path) -> list[Picture]:
    """Return the pictures of a result folder, as its card names them; none for another folder."""
    kind = result_kind(folder)
    pictures = {} if kind is None else kind.card(folder).pictures
    found = []
    for file, caption in pictures.items():
        with suppress(OSError):
            # The folder may be somebody else's: no other kind of file goes into the page.
            image = file.read_bytes()
            if image.startswith(_PNG) and len(image) <= _MOST_BYTES:
                found.append(Picture(_uri(image, "png"), caption))
    return found


def controls_plots(folder: Path) -> list[Picture]:
    """Return the pictures that commands about a run put into its folder, such as its controls."""
    return [picture for name in WITHIN for picture in pictures_of(folder / name)]


def contest_plots(result: ContestResult, *, rate: bool) -> list[Picture]:
    """Return the plot of a contest's course, if its folder has one."""
    reference = result.asked[0].name
    draw = partial(course_plot, result.course, reference=reference, rate=rate)
    caption = (
        f"The distance of each program from {reference}, each time the answers so far were tested, "
        "with 95% intervals that hold at all these times."
    )
    return _picture(draw, caption)


def _picture(draw: Callable[..., bool], caption: str) -> list[Picture]:
    """Return the plot that a function draws into a file; empty if there is nothing to show."""
    with tempfile.TemporaryDirectory(prefix="folkmoot-") as scratch, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # characters that the font lacks
        path = Path(scratch) / "plot.svg"
        if not draw(path):
            return []
        return [Picture(_uri(path.read_bytes(), "svg+xml"), caption)]


def _of_training(run: Manifest) -> list[Picture]:
    """Return the plots of a network's training, if the network is still in its place."""
    folder = str(run.settings.program_spec or "").partition("network:")[2]
    place = Path(folder).expanduser()
    # Another network may have been trained there since.
    learned = (read_object(place / "network.json") or {}).get("learned")
    if not folder or learned != run.program.get("learned"):
        return []
    return pictures_of(place)


_PNG, _MOST_BYTES = b"\x89PNG", 2**22


def _uri(image: bytes, kind: str) -> str:
    return f"data:image/{kind};base64," + base64.b64encode(image).decode("ascii")
