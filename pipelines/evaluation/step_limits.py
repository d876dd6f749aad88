"""The same team evaluated at several step limits: EM and F1 against the limit, as JSON and as a
plot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...modules.base.errors import UserError
from ...modules.protocols.team.team import SupervisedTeam
from ..base.journal import write_json
from ..base.request import split_items
from ..base.run_files import RunSettings
from ..base.wording import duration, percent
from ..plots.evaluation import step_limit_plot
from ..programs.resolve import parse_sets
from .earlier import Evaluation
from .plan import EvaluationPlan, plan_evaluation
from .request import EvaluateRequest

CURVE, PICTURE = "step_limits.json", "step_limits.png"


@dataclass
class LimitsPlan:
    """A team's evaluation at each step limit, the deepest first."""

    plans: list[tuple[int, EvaluationPlan]]

    @property
    def _deepest(self) -> EvaluationPlan:
        return self.plans[0][1]

    @property
    def title(self) -> str:
        return self._deepest.title

    @property
    def out(self) -> Path | None:
        return None if self._deepest.out is None else self._deepest.out.parent

    @property
    def warnings(self) -> list[str]:
        return self._deepest.warnings

    @property
    def cost(self) -> tuple[float, float] | None:
        return self._deepest.cost

    def lines(self) -> list[str]:
        return [f"{limit} steps: {line}" for limit, plan in self.plans for line in plan.lines()]

    def to_dict(self) -> dict[str, Any]:
        return {"step_limits": {str(limit): plan.to_dict() for limit, plan in self.plans}}


@dataclass
class StepLimits:
    """What came out: limits, ascending, with their evaluations, and the points of the curve."""

    out: Path
    evaluations: list[tuple[int, Evaluation]]
    points: list[dict[str, Any]]
    seconds: float

    @property
    def stopped(self) -> str | None:
        return next((one.stopped for _, one in self.evaluations if one.stopped), None)

    @property
    def empty(self) -> bool:
        return not self.points

    def in_words(self, *, quiet: bool = False) -> dict[str, str]:
        lines = {
            f"{point['limit']} steps": f"EM {percent(point['em'])}, F1 {percent(point['f1'])}"
            for point in self.points
        }
        return lines | {"time": duration(self.seconds), "curve": f"{self.out}/{PICTURE}"}

    def to_dict(self) -> dict[str, Any]:
        about = {"points": self.points, "seconds": self.seconds, "stopped": self.stopped}
        return {"out": str(self.out), **about}


def plan_step_limits(request: EvaluateRequest, *, stored: bool = False) -> LimitsPlan:
    """Plan the evaluation once for each limit; the call cache then answers the first steps of the
    lower ones. Their folders are in the one that the evaluation would have without limits.

    Raises UserError for limits that are not numbers and a program without steps.
    """
    try:
        numbers = [
            int(one) if isinstance(one, str) else one for one in split_items(request.step_limits)
        ]
    except ValueError:
        limits = ",".join(map(str, request.step_limits or ()))
        raise UserError(
            f"--step-limits {limits!r} are not numbers: write for example 5,8,10,15"
        ) from None
    if "max_steps" in parse_sets(request.sets):
        raise UserError("--step-limits sets max_steps itself: drop --set max_steps")
    first = plan_evaluation(replace(request, step_limits=None), stored=stored)
    if not isinstance(first.program, SupervisedTeam):
        raise UserError(f"{first.title} has no step limit: give a team, such as team:bold,cautious")
    plans = []
    for limit in deepest_first(numbers):
        settings: RunSettings = {**first.settings, "step_limit": limit}
        one = replace(first, program=first.program.with_max_steps(limit), settings=settings)
        plans.append(
            (limit, one.kept_in(None if first.out is None else first.out / f"steps-{limit}"))
        )
    return LimitsPlan(plans)


def deepest_first(limits: Sequence[int]) -> list[int]:
    """The different limits, the largest first. Raises UserError when there is none, or one is no
    limit.
    """
    for limit in limits:
        if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
            raise UserError(
                f"{limit!r} is not a step limit: give whole numbers of at least 1, such as "
                f"5,8,10,15"
            )
    if not limits:
        raise UserError(
            "there is not a step limit: give whole numbers of at least 1, such as 5,8,10,15"
        )
    return sorted(set(limits), reverse=True)


def write_curve(
    out: Path, summaries: Sequence[tuple[int, Mapping[str, Any]]]
) -> list[dict[str, Any]]:
    """Write `step_limits.json` and, if there is a point, `step_limits.png`; returns the points,
    ascending.

    `summaries` are limits with what is in `summary.json`. A point has `limit`, `em` and `f1` with
    `value`, `low` and `high` (where there is no F1, both are the score by the run's metric),
    `forced_rate` by worker, and the `usage`.
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
    step_limit_plot({"": points}, out / PICTURE)
    return points
