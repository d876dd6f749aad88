"""The progress display of a contest: a table redrawn in place, or lines in a pipe."""

from __future__ import annotations

import time
from collections.abc import Iterator

from rich.text import Text

from ...modules.base.fence import clean
from ..base.wording import ProgressLine, duration, money
from ..comparison.table import WIDTH, table_lines
from ..reporting.contested import Place
from .race import Race
from .standing import places

STYLES = {"out": "bright_black"}
"""State of a program → the style of its line, if it has one."""


def contest_line(race: Race) -> ProgressLine:
    """Return the progress of a contest, as a table for a terminal and as a line for a pipe."""
    standings = places(race, so_far=True)
    asked = race.answered
    total = race.planned or len(race.questions)
    form = "{} {:.0%}" if race.scores.rate else "{} {:.3g}"
    parts = list(_figures(race, asked, total))
    for each in standings:
        score = form.format(each.name, each.right)
        if each.reason:
            score += f" ({each.reason})"
        parts.append(score)
    prices = race.task_prices
    if prices:
        parts.append(prices)
    picture = _picture(race, standings, asked, total, prices)
    return ProgressLine("try", parts, asked, max(total, 1), picture, stage=bool(prices))


def _picture(race: Race, standings: list[Place], asked: int, total: int, prices: str) -> Text:
    """Return the standings in at most 12 lines of 80 columns; programs that have left are grey."""
    rows, scores = [standing.shown for standing in standings], race.scores
    head, *lines = table_lines(rows, standings[0].name, is_rate=scores.rate, metric=scores.title)
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(clean(head)[:WIDTH] + "\n", style="dim")
    for line, standing in zip(lines, standings, strict=True):
        text.append(clean(line)[:WIDTH] + "\n", style=STYLES.get(standing.state, ""))
    for line in filter(None, (race.latest, prices)):
        text.append(clean(line)[:WIDTH] + "\n", style="dim")
    text.append(clean("  ".join(_figures(race, asked, total)))[:WIDTH])
    return text


def _figures(race: Race, asked: int, total: int) -> Iterator[str]:
    """Yield the figures of the progress: questions, money, time, programs that are racing."""
    racing = sum(lane.out is None for lane in race.lanes.values())
    yield f"{asked:,}/{total:,} questions"
    yield money(race.paid.cost_usd)
    yield duration(time.monotonic() - race.began)
    yield f"{racing} of {len(race.lanes)} programs racing"
