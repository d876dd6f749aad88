"""The table of programs that answered the same questions, as lines of text with interval bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from ...modules.statistics.statistics import Estimate
from ..base.wording import shortened, signed

WIDTH = 80
LONGEST_NAME = 22
FINE = 0.02
"""Intervals with a half-width below this are written with a decimal."""

_SCORE_BAR, _DIFFERENCE_BAR, _SHORTEST_BAR = 13, 13, 7


UNANSWERED = Estimate(0.0, 0.0, 1.0)
"""The score of a program without any answer."""


@dataclass(frozen=True)
class Standing:
    """A line of the table: one program.

    Args: score: its share of right answers (0 to 1), or its mean score. difference: its score minus
        that of the reference; None for the reference itself. price: as a multiple of the
        reference's price; None where it is not known. note: text shown instead of the difference,
        such as `no verdict` or `out: …`. usd: dollars per question; where any row has them, the
        table has a column of cents. failures: how many answers failed or could not be read, which
        the table has no room for.
    """

    name: str
    score: Estimate
    difference: Estimate | None = None
    price: float | None = None
    note: str = ""
    usd: float | None = None
    failures: str = ""


def table_lines(
    rows: Sequence[Standing], reference: str, *, is_rate: bool = True, metric: str = "right"
) -> list[str]:
    """Return the table as one line for the heads of the columns and one for each row, at most 80
    wide.

    Args: reference: the name of the program that the others are compared with. is_rate: whether
        scores are shares, which are written in percent and their differences in points.
        metric: what the scores are called in the head.
    """
    differences = [row.difference for row in rows if row.difference is not None]
    decimals = int(any(row.high - row.low < 2 * FINE for row in differences))
    price_head, *prices = _prices(rows)
    cells = [_cells(row, is_rate, decimals) for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    name_width, score_width, value_width, end_width = widths
    price_width = max(map(len, [price_head, *prices]))
    fixed = name_width + score_width + value_width + end_width + price_width + 2 * 4 + 2
    # The two bars share what the texts leave of a line; each has a shortest length.
    room = max(2 * _SHORTEST_BAR, WIDTH - fixed)
    score_bar = min(_SCORE_BAR, max(_SHORTEST_BAR, room - _DIFFERENCE_BAR))
    difference_bar = min(_DIFFERENCE_BAR, max(_SHORTEST_BAR, room - score_bar))
    middle = value_width + 1 + difference_bar + 1 + end_width

    scores = [row.score for row in rows if row.score != UNANSWERED]
    lows, highs = [score.low for score in scores], [score.high for score in scores]
    span = (min(lows, default=0.0), max(highs, default=1.0))
    reach = max(map(abs, chain.from_iterable(differences)), default=0.0) or 1.0
    lines = []
    for row, texts, price in zip(rows, cells, prices, strict=True):
        name, score, value, end = texts
        cell = shortened(row.note, middle) or value
        if row.difference is not None and not row.note:
            bar = _bar(row.difference, (-reach, reach), difference_bar, zero=True)
            cell = f"{value:>{value_width}} {bar} {end}"
        bar = " " * score_bar
        if row.score != UNANSWERED:
            bar = _bar(row.score, span, score_bar)
        line = f"{name:<{name_width}}  {score:>{score_width}} {bar}  {cell:<{middle}}  {price}"
        lines.append(line.rstrip())
    right = f"{metric:<{score_width + 1 + score_bar}}"
    against = shortened(f"against {reference}", middle)
    head = f"{'':<{name_width}}  {right}  {against:<{middle}}  {price_head}"
    return [head, *lines]


def _cells(row: Standing, is_rate: bool, decimals: int) -> tuple[str, str, str, str]:
    """Return the name, score, difference and ends of its interval as texts."""
    score = f"{row.score.value:.3g}"
    if is_rate:
        score = f"{row.score.value:.{decimals}%}"
    if row.score == UNANSWERED:
        score = "–"
    value, ends = "·", ""
    if row.difference is not None:
        value, low, high = (signed(end, is_rate, decimals) for end in row.difference)
        ends = f"[{low}, {high}]"
    return shortened(row.name, LONGEST_NAME), score, value, ends


def _prices(rows: Sequence[Standing]) -> list[str]:
    """Return the head and the cells of the price column, with cents per question where known."""
    multiples, cents = ["price"], ["¢"]
    for row in rows:
        multiples.append(multiple(row.price))
        if row.usd is None:
            cents.append("?")
        else:
            cents.append(f"{100 * row.usd:.2g}¢")
    # Without any price in dollars, the cells of cents would say nothing.
    if not any(row.usd for row in rows):
        return multiples
    width = max(map(len, cents))
    return [f"{cent:>{width}} {times}" for cent, times in zip(cents, multiples, strict=True)]


def multiple(ratio: float | None) -> str:
    """Return a multiple of a price, such as `5.6×`, `3×` or `0.25×`; `?` where it is not known."""
    if ratio is None or not math.isfinite(ratio):
        return "?"
    # Written with a decimal, 9.96 would be 10.0 and 3.02 would be 3.0.
    if ratio < 0.95:
        return f"{ratio:.2g}×"
    if ratio >= 9.95 or abs(ratio - round(ratio)) < 0.05:
        return f"{ratio:.0f}×"
    return f"{ratio:.1f}×"


def _bar(of: Estimate, span: tuple[float, float], width: int, *, zero: bool = False) -> str:
    """Return an interval as a line with a dot at its value, drawn to the scale of the whole column.

    With `zero`, a mark stands where the scale has 0; otherwise the interval's ends are drawn.
    """
    low, high = span
    scale = (width - 1) / ((high - low) or math.inf)
    start = round((of.low - low) * scale)
    dot = round((of.value - low) * scale)
    end = round((of.high - low) * scale)
    cells = list(f"{' ' * start}{'─' * (end + 1 - start)}".ljust(width))
    if zero:
        cells[round(-low * scale)] = "┊"
    else:
        cells[start], cells[end] = "▕", "▏"
    cells[dot] = "●"
    return "".join(cells)
