"""The confirmation: asks the winner and the reference questions that the race has not used."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...modules.base.calls import EndpointDown
from ...modules.reading.grading import Scale
from ..base.budget import BudgetSpent
from ..base.wording import counted, paused
from ..comparison.compare import compare
from ..comparison.comparison import Comparison
from ..runs.caveats import too_many_failed
from .entrants import Entrant
from .lane import Lane, ask_all
from .outcome import CONFIRM
from .plan import ContestPlan
from .scores import Scores

FEWEST_ANSWERS = 20
"""The confirmation reports nothing on fewer answered questions than this."""


def confirm(
    plan: ContestPlan, entrants: Sequence[Entrant], folder: Path
) -> tuple[Comparison | None, str | None, bool]:
    """Ask these programs, of which the first is the reference, the unseen questions.

    Returns the comparison (None if too few questions were answered), the reason of an early stop,
    if any, and whether the contest has to go on later, because an endpoint or too many questions
    failed.
    """
    lanes: list[Lane] = []
    stopped, pauses = None, False
    try:
        for entrant in entrants:
            out = folder / CONFIRM / entrant.folder
            lanes.append(Lane.opened(entrant, plan.evaluation(entrant, plan.unseen, out)))
        ask_all(lanes, plan.unseen)
    except BudgetSpent as problem:
        stopped = str(problem)
    except EndpointDown as problem:
        stopped, pauses = paused(problem), True
    finally:
        # Also after an error, so that the answers so far are kept.
        runs = [lane.close(stopped) for lane in lanes]
    for lane in lanes:
        failed = lane.failed(plan.unseen)
        if too_many_failed(failed, len(lane.answers)):
            name, asked = lane.entrant.name, counted(len(lane.answers), "unseen question")
            why = f"{failed} of {asked} of {name} failed"
            return None, f"{why}; the same command asks them again", True
    # A budget may have stopped it when only some programs had answered a question.
    both = set.intersection(*(set(lane.answers) for lane in lanes))
    if len(both) < FEWEST_ANSWERS:
        return None, stopped, pauses
    return compare(*runs), stopped, pauses  # each is labelled with its name


def confirmation_words(comparison: Comparison, winner: str) -> str:
    """Return what the confirmation showed about the winner, as a clause; empty if it is the
    reference.
    """
    first = comparison.runs[0]
    second = next(run for run in comparison.runs if run.name == winner)
    pair = next((each for each in comparison.against if each.a == winner), None)
    if pair is None:
        return ""
    if pair.cause:
        return f"no result on {counted(pair.n, 'unseen question')}, since {pair.cause}"
    scores = Scores.of(first.metric, Scale(0.0, 1.0, first.is_rate))
    gap, low, high = map(scores.gap, (pair.difference, *pair.interval))
    own, other = scores.value(second.score.value), scores.value(first.score.value)
    return (
        f"on {first.score.n:,} unseen questions {own}{' right' * scores.rate} against {other} "
        f"({gap} {scores.unit}, {low} to {high})"
    )
