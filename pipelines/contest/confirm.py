"""The confirmation: the winner and the reference on questions that the race has not used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...modules.base.calls import EndpointDown
from ..base.budget import BudgetSpent
from ..base.wording import signed
from ..comparison.compare import compare
from ..comparison.comparison import Comparison
from .entrants import Entrant
from .lane import Lane, ask_all
from .outcome import CONFIRM
from .plan import ContestPlan

FEWEST_ANSWERS = 20
"""The confirmation reports nothing on fewer answered questions than this."""


def confirm(
    plan: ContestPlan, entrants: Sequence[Entrant], folder: Path
) -> tuple[Comparison | None, str | None]:
    """Ask these programs the unseen questions, and compare them; the first is the reference.

    Returns the comparison (None if the budget was too small) and the reason of an early stop, if
    any.
    """
    lanes: list[Lane] = []
    stopped = None
    try:
        for one in entrants:
            out = folder / CONFIRM / one.folder
            lanes.append(Lane.opened(one, plan.evaluation(one, plan.unseen, out)))
        ask_all(lanes, plan.unseen, plan.request.concurrency)
    except (BudgetSpent, EndpointDown) as problem:
        stopped = str(problem)
    finally:
        runs = [lane.close(stopped) for lane in lanes]
    both = set.intersection(*(set(lane.answers) for lane in lanes))
    if len(both) < FEWEST_ANSWERS:
        return None, stopped
    return compare(*runs), stopped  # each is labelled with its name


def confirmation_words(comparison: Comparison, winner: str) -> str:
    """Describe what the confirmation showed about the winner; empty where it is the reference."""
    first = comparison.runs[0]
    second = next(run for run in comparison.runs if run.name == winner)
    pair = next((one for one in comparison.against if one.a == winner), None)
    if pair is None:
        return ""
    ends = (pair.difference, *pair.interval)
    gap, low, high = (signed(one, decimals=0) for one in ends)
    questions = f"{first.score['n']:,} unseen questions"
    return (
        f"on {questions} {100 * second.score['value']:.0f}% right against "
        f"{100 * first.score['value']:.0f}% ({gap} points, {low} to {high})"
    )
