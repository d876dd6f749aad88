"""What one sees of a contest that runs: a table redrawn in place, or lines in a pipe."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from rich.text import Text

from ...modules.base.fence import clean
from ..base.wording import money
from .race import Race
from .standing import Place, places, table

EVERY = 25
MOST_LINES = 12


def picture(race: Race) -> Text:
    """The standings, at most 12 lines of 80 columns; who has left is grey."""
    standings = places(race)
    lines = table(standings)
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(clean(lines[0]) + "\n", style="dim")
    for line, one in zip(lines[1:], standings, strict=True):
        text.append(clean(line)[:80] + "\n", style="bright_black" if one.state == "out" else "")
    if race.latest:
        text.append(clean(race.latest)[:80] + "\n", style="dim")
    text.append(clean(foot(race)))
    return text


def foot(race: Race) -> str:
    """How far it is, what was paid, and how many programs are left."""
    asked = max((len(lane.answers) for lane in race.lanes.values()), default=0)
    of = race.planned or len(race.questions)
    paid = money(race.paid.cost_usd)
    racing = sum(lane.out is None for lane in race.lanes.values())
    return f"{asked:,} of {of:,} questions, {paid}, {racing} of {len(race.lanes)} programs racing"


class Piped:
    """Prints a line every 25 questions, for output that is not a terminal."""

    def __init__(self, write: Callable[[str], object] | None = None) -> None:
        self._write = write or _to_stderr
        self._next = EVERY

    def __call__(self, race: Race) -> None:
        asked = min((len(lane.answers) for lane in race.asked), default=0)
        if asked < self._next:
            return
        self._next = asked - asked % EVERY + EVERY
        self._write(line(race))


def line(race: Race) -> str:
    """Where the contest stands, in one line."""
    parts = [_short(one) for one in places(race)]
    asked = min((len(lane.answers) for lane in race.asked), default=0)
    seconds = time.monotonic() - race.began
    head = f"{asked} questions, {money(race.paid.cost_usd)}, {seconds:.0f} s"
    return f"{head}: {'; '.join(parts)}"


def _short(one: Place) -> str:
    out = f" ({one.reason})" if one.reason else ""
    return f"{one.name} {100 * one.right:.0f}%{out}"


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"{clean(text)}\n")
    sys.stderr.flush()
