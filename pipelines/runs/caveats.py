"""What so many questions can show, and what stands against the result of a run."""

from __future__ import annotations

from ...modules.statistics.paired import minimum_detectable_difference
from ..base.run_files import Counts
from ..base.wording import asked, counted

POWER = 0.8

DISCORDANT = (0.1, 0.35)
"""Assumed shares of questions on which only one of two programs is right, where no run shows it."""

FEWEST, FEWEST_EXACT = 5, 6
"""With fewer questions McNemar's mid-p, or exact, test cannot reach p < 0.05, even if all go one
way.
"""

MOST_FAILED = 0.05
"""The largest share of failed questions with which scores are still a result."""


def smallest_difference(n: int, discordant: float, fewest: int = FEWEST) -> float:
    """Return the smallest true difference (0 to 1) that n paired questions show with 80% power; 1
    if there is none. `discordant` is the share of questions that only one of two programs gets
    right.
    """
    if n < fewest:
        return 1.0
    return minimum_detectable_difference(n, discordant, POWER)


def smallest_differences(n: int) -> tuple[float, float]:
    """Return the smallest differences that n questions show where two programs differ on
    DISCORDANT.
    """
    low, high = DISCORDANT
    return smallest_difference(n, low), smallest_difference(n, high)


def shows(n: int, *, is_rate: bool = True) -> str:
    """Describe what this many questions can show, before they are answered. It assumes the middle
    of DISCORDANT as the share on which two programs differ.
    """
    if not is_rate:
        return f"what {counted(n, 'question')} can show depends on how far scores spread"
    difference = smallest_difference(n, sum(DISCORDANT) / 2)
    if difference >= 1:
        return f"{counted(n, 'question')} cannot show a difference between programs"
    return f"{counted(n, 'question')} show differences from about {100 * difference:.0f} points up"


def run_notes(name: str, counts: Counts, finished: int) -> list[str]:
    """Return caveats of a run: failed questions, questions without a row, and repeats. `counts`
    come from its summary, and `finished` is the number of questions with a row.
    """
    errors, rows, questions = counts.errors, counts.rows, counts.questions
    notes = []
    if errors:
        count = "count" if errors != 1 else "counts"
        notes.append(
            f"{errors:,} of the {asked(rows, finished)} of {name} failed and {count} as wrong: "
            "folkmoot evaluate --retry-errors asks again."
        )
    if finished < questions:
        notes.append(
            f"{name} is not finished: {finished:,} of its {questions:,} questions have a row."
        )
    if rows > finished:
        notes.append(
            f"{name} has {rows:,} answers to {counted(finished, 'question')}: each question "
            "counts once, by the mean over its answers."
        )
    return notes


def too_many_failed(errors: int, rows: int) -> bool:
    """Return whether so many of the rows are errors that their scores are no result: nothing may be
    concluded from them.
    """
    return errors > MOST_FAILED * rows


def run_failed(name: str, errors: int, rows: int, questions: int) -> str:
    """Return a sentence on a run of whose rows too many are errors, without a full stop; empty for
    others.
    """
    if not too_many_failed(errors, rows):
        return ""
    return (
        f"{name} failed on {errors:,} of {asked(rows, questions)}, more than {MOST_FAILED:.0%}, so "
        "its score is no result"
    )
