"""The table of programs that answered the same questions, as lines of text with interval bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ...modules.statistics.statistics import Estimate
from ..base.wording import shortened, signed

WIDTH = 80
LONGEST_NAME = 22
FINE = 0.02
"""Intervals with a half-width below this are written with a decimal."""

_SCORE_BAR, _DIFFERENCE_BAR, _SHORTEST_BAR = 13, 13, 7


@dataclass(frozen=True)
class Standing:
    """A line of the table: one program.

    Args: score: its share of right answers (0 to 1), or its mean score. difference: its score minus
        that of the reference; None for the reference itself. price: as a multiple of the
        reference's price; None where it is not known. note: text shown instead of the difference,
        such as `no verdict` or `out: …`. usd: dollars per question; where any row has them, the
        table has a column of cents.
    """

    name: str
    score: Estimate
    difference: Estimate | None = None
    price: float | None = None
    note: str = ""
    usd: float | None = None


def table_lines(
    rows: Sequence[Standing], reference: str, *, is_rate: bool = True, metric: str = "right"
) -> list[str]:
    """The table as one line for the heads of the columns and one for each row, at most 80 wide.

    Args: reference: the name of the program that the others are compared with. is_rate: whether
        scores are shares, which are written in percent and their differences in points.
        metric: what the scores are called in the head.
    """
    differences = [row.difference for row in rows if row.difference is not None]
    decimals = 1 if any(row.high - row.low < 2 * FINE for row in differences) else 0
    form = f"{{:.{decimals}%}}" if is_rate else "{:.3g}"
    # An interval from 0 to 1 is that of no answer at all.
    scores = [
        "–" if row.score[1:] == (0.0, 1.0) and is_rate else form.format(row.score.value)
        for row in rows
    ]
    values = [signed(row.value, is_rate, decimals) for row in differences]
    ends = [
        f"[{signed(row.low, is_rate, decimals)}, {signed(row.high, is_rate, decimals)}]"
        for row in differences
    ]
    prices, price_head = _prices(rows)
    name_width = max(len(shortened(row.name, LONGEST_NAME)) for row in rows)
    score_width = max(len(text) for text in scores)
    value_width = max((len(text) for text in values), default=1)
    end_width = max((len(text) for text in ends), default=0)
    price_width = max(len(text) for text in [*prices, price_head])
    fixed = name_width + score_width + value_width + end_width + price_width + 2 * 4 + 2
    room = max(2 * _SHORTEST_BAR, WIDTH - fixed)
    score_bar = min(_SCORE_BAR, max(_SHORTEST_BAR, room - _DIFFERENCE_BAR))
    difference_bar = min(_DIFFERENCE_BAR, max(_SHORTEST_BAR, room - score_bar))
    middle = value_width + 1 + difference_bar + 1 + end_width

    span = (min(row.score.low for row in rows), max(row.score.high for row in rows))
    reach = max((abs(end) for row in differences for end in row), default=0.0) or 1.0
    lines = []
    # The reference has no difference, so that these are fewer than the rows.
    texts = iter(zip(differences, values, ends, strict=True))
    for row, score, price in zip(rows, scores, prices, strict=True):
        if row.difference is None:
            cell = shortened(row.note, middle) or "·"
        else:
            _, value, end = next(texts)
            bar = _bar(row.difference, (-reach, reach), difference_bar, zero=True)
            cell = shortened(row.note, middle)
            cell = cell or f"{value:>{value_width}} {bar} {end}"
        bar = _bar(row.score, span, score_bar)
        lines.append(
            f"{shortened(row.name, LONGEST_NAME):<{name_width}}  {score:>{score_width}} {bar}  "
            f"{cell:<{middle}}  {price}".rstrip()
        )
    right = f"{metric:<{score_width + 1 + score_bar}}"
    against = shortened(f"against {reference}", middle)
    head = f"{'':<{name_width}}  {right}  {against:<{middle}}  {price_head}"
    return [head, *lines]


def _prices(rows: Sequence[Standing]) -> tuple[list[str], str]:
    """The cells of the price column, with cents per question where known, and its head."""
    multiples = [multiple(row.price) for row in rows]
    if not any(row.usd for row in rows):
        return multiples, "price"
    cents = ["?" if row.usd is None else f"{100 * row.usd:.2g}¢" for row in rows]
    width = max(map(len, cents))
    cells = [f"{cent:>{width}} {times}" for cent, times in zip(cents, multiples, strict=True)]
    return cells, f"{'¢':>{width}} price"


def multiple(ratio: float | None) -> str:
    """A multiple of a price, such as `5.6×`, `3×` or `0.25×`; `?` where it is not known."""
    if ratio is None or not math.isfinite(ratio):
        return "?"
    # Written with a decimal, 9.96 would be 10.0 and 3.02 would be 3.0.
    digits = 0 if ratio >= 9.95 or abs(ratio - round(ratio)) < 0.05 <= ratio else 1
    return f"{ratio:.{digits}f}×" if ratio >= 0.95 else f"{ratio:.2g}×"


def _bar(of: Estimate, span: tuple[float, float], width: int, *, zero: bool = False) -> str:
    """An interval as a line with a dot at its value, drawn to the scale of the whole column.

    With `zero`, a mark stands where the scale has 0; otherwise the interval's ends are drawn.
    """
    low, high = span
    scale = (width - 1) / (high - low) if high > low else 0.0
    start, dot, end = (round((value - low) * scale) for value in (of.low, of.value, of.high))
    cells = ["─" if start <= place <= end else " " for place in range(width)]
    if zero:
        cells[round(-low * scale)] = "┊"
    else:
        cells[start], cells[end] = "▕", "▏"
    cells[dot] = "●"
    return "".join(cells)
