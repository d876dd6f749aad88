"""The same team evaluated at several step limits: EM and F1 against the limit, as JSON and as a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ...modules.protocols.program import Program
from ...modules.protocols.team.team import SupervisedTeam
from ...modules.reading.question import Question
from ..base.journal import write_json
from ..plots.evaluation import step_limit_plot
from .earlier import Evaluation
from .evaluate import evaluate

LIMITS = (5, 8, 10, 15)
"""The step limits of Reasoning as a Team, section 5.4."""

CURVE, PICTURE = "step_limits.json", "step_limits.png"


def step_limits(
    program: Program,
    questions: Sequence[Question],
    limits: Sequence[int] = LIMITS,
    *,
    lm: Any = None,
    out: str | Path,
    settings: Mapping[str, Any] | None = None,
    **options: Any,
) -> list[tuple[int, Evaluation]]:
    """Evaluate a team once for each step limit, and write the curve.

    Args:
        program: a team, or a worker alone; its own limit does not count.
        questions: as for `evaluate`.
        limits: step limits, each at least 1.
        lm: the LM of every seat that has none of its own.
        out: folder that gets `steps-LIMIT/` for each, `step_limits.json` and `step_limits.png`. The same call
            with the same folder resumes.
        settings: what to note beside each run.
        options: more arguments of `evaluate`; a budget holds for each limit by itself.

    The deepest limit comes first, as the call cache then answers the first steps of all others. Returns the
    limits, ascending, with their evaluations; one that a budget stopped is the last and not in the curve.

    Raises UserError for a program without steps, for limits that are none, and as `evaluate`.
    """
    if not isinstance(program, SupervisedTeam):
        raise UserError(
            f"a {type(program).__name__} has no step limit: give a team, such as team:bold,cautious"
        )
    found: list[tuple[int, Evaluation]] = []
    for limit in deepest_first(limits):
        evaluation = evaluate(
            program.with_max_steps(limit),
            questions,
            lm=lm,
            out=folder_of(Path(out), limit),
            settings={**(settings or {}), "step_limit": limit},
            **options,
        )
        found.insert(0, (limit, evaluation))
        if evaluation.summary.stopped:
            break
    finished = [(limit, one.summary.to_dict()) for limit, one in found if not one.summary.stopped]
    write_curve(Path(out), finished)
    return found


def deepest_first(limits: Sequence[int]) -> list[int]:
    """The different limits, the largest first. Raises UserError when there is none, or one is no limit."""
    for limit in limits:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise UserError(
                f"{limit!r} is no step limit: give whole numbers of at least 1, such as 5,8,10,15"
            )
    if not limits:
        raise UserError("there is no step limit: give whole numbers of at least 1, such as 5,8,10,15")
    return sorted(set(limits), reverse=True)


def folder_of(out: Path, limit: int) -> Path:
    return out / f"steps-{limit}"


def write_curve(out: Path, summaries: Sequence[tuple[int, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Write `step_limits.json` and, if there is a point, `step_limits.png`; returns the points, ascending.

    `summaries` are limits with what is in `summary.json`. A point has `limit`, `em` and `f1` with `value`,
    `low` and `high` (where there is no F1, both are the score by the run's metric), `forced_rate` by worker,
    and the `usage`.
    """
    points = []
    for limit, summary in sorted(summaries, key=lambda pair: pair[0]):
        scores, workers = summary["scores"], summary["report"].get("worker", {})
        first = next(iter(scores.values()))
        points.append(
            {
                "limit": limit,
                "em": scores.get("em", first),
                "f1": scores.get("f1", first),
                "forced_rate": {name: figures["forced_rate"] for name, figures in workers.items()},
                "questions": summary["counts"]["rows"],
                "usage": summary["usage"],
            }
        )
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / CURVE, points)
    step_limit_plot(points, out / PICTURE)
    return points
