"""What a contest logs: its outcome as the run's name, the standings as a table, the winner as a
model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..base.wording import counted
from ..data import load as data
from ..runs.describe import manifest_of
from ..tracking.uploads import STOPPED_TAG, TableUpload, Upload, Uploads, existing
from ..tracking.values import bill, rounded

if TYPE_CHECKING:
    from .outcome import Contest
    from .plan import ContestPlan

FILES = ("contest.json", "report.html")


def contest_run(about: Mapping[str, Any], plan: ContestPlan) -> dict[str, Any]:
    """What a contest is of, as trackers take it: the reference's program, and all questions."""
    reference = plan.field[0]
    described = manifest_of(reference.program, plan.race, reference.lm, {}, plan.metric)
    return {
        **described,
        "mlflow_run_id": about["mlflow_run_id"],
        "tracking_key": about["tracking_key"],
        "data_fingerprint": data.fingerprint(plan.race),
        "questions": len(plan.race),
        "settings": {
            "command": "contest",
            "label": f"contest of {counted(len(plan.field), 'program')}",
            "data": plan.source,
            "margin": plan.margin,
            "seed": plan.request.seed,
            "budget": plan.request.budget and str(plan.request.budget),
            "programs": ", ".join(one.name for one in plan.field),
        },
    }


def contest_uploads(found: Contest) -> Uploads:
    """The parts of a finished contest."""
    rows = [one.to_dict() for one in found.places]
    columns = list(rows[0]) if rows else []
    table = TableUpload(columns, [list(row.values()) for row in rows])
    winner = next((one for one in found.places if one.name == found.winner_name), None)
    metrics = bill(found.paid)
    if winner is not None:
        metrics |= {"accuracy": winner.right, "rows": float(winner.n)}
        if winner.difference is not None:
            metrics["difference"] = winner.difference
    return {
        "outcome": lambda: Upload(
            metrics=rounded(metrics),
            name=f"{found.outcome} · {found.winner_name}"[:40],
            note=" ".join(found.sentences()),
            tags={
                "folkmoot.outcome": found.outcome,
                "folkmoot.winner": found.winner_name,
                STOPPED_TAG: found.stopped or "no",
            },
        ),
        "standings": lambda: Upload(
            files={"standings.json": table, **existing(found.folder, FILES)}
        ),
    }
