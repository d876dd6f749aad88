"""Sentences that several commands share: numbers of things, failed questions, and what a sample can show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from ...modules.reading.row import ResultRow
from ...optimizers.statistics.statistics import minimum_detectable_difference

DISCORDANT, POWER = 0.08, 0.8

FEWEST = 6
"""With fewer questions McNemar's exact test cannot reach p < 0.05: five that all go one way give 0.0625."""

LONGEST_REASON = 300  # characters of an error that are shown


def counted(number: int, thing: str) -> str:
    """`1 question`, `2,000 questions`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def smallest_difference(n: int, discordant: float = DISCORDANT) -> float:
    """The smallest true difference (0 to 1) that n paired questions show with a power of 80%; 1 for none.

    `discordant` is the share of them that only one of two programs gets right.
    """
    return minimum_detectable_difference(n, discordant, POWER) if n >= FEWEST else 1.0


def shows(n: int) -> str:
    """What so many questions can show, before anybody has answered them."""
    smallest = smallest_difference(n)
    if smallest >= 1:
        return (
            f"{counted(n, 'question')} can show no difference between two programs at all: it takes {FEWEST}"
        )
    # Below this many questions the difference itself is larger than the share assumed.
    discordant = (
        f"{DISCORDANT:.0%} of them tell two programs apart"
        if smallest <= DISCORDANT
        else "all that tell two programs apart favour one"
    )
    return (
        f"{counted(n, 'question')} show differences from {100 * smallest:.1f} points up (power {POWER:.0%}, "
        f"if {discordant})"
    )


def failed_note(name: str, errors: int, rows: int) -> str:
    count = "count" if errors != 1 else "counts"
    return (
        f"{errors:,} of the {counted(rows, 'question')} of {name} failed and {count} as wrong: "
        "folkmoot evaluate --retry-errors asks again."
    )


def mostly_failed(errors: int, rows: int) -> bool:
    """Whether so many questions failed that the scores are about the failure and not about the program."""
    return rows > 0 and 2 * errors >= rows


def run_failed(name: str, errors: int, rows: int) -> str:
    """What to do about a run of which most questions failed, without a full stop; empty for another run."""
    if not mostly_failed(errors, rows):
        return ""
    return (
        f"{name} failed on {errors:,} of {counted(rows, 'question')}: run it again with --retry-errors "
        "before judging it"
    )


def common_error(rows: Iterable[ResultRow]) -> tuple[str, int] | None:
    """The most frequent reason for which rows failed, and how many gave it; of equals the first."""
    found = Counter(" ".join(str(row["error"]).split()) for row in rows if row["error"] is not None)
    if not found:
        return None
    ((reason, times),) = found.most_common(1)
    return shortened(reason), times


def shortened(reason: str) -> str:
    return reason if len(reason) <= LONGEST_REASON else f"{reason[: LONGEST_REASON - 1]}…"
