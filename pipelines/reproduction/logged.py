"""What a reproduced table logs: a run a table and data set, with the runs of its rows under it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..base.journal import read_object, write_json
from ..runs.manifest import made_with
from ..tracking.context import caller_place
from ..tracking.tracker import start_tracking
from ..tracking.uploads import TableUpload, Tracker, Upload, Uploads, existing
from ..tracking.values import rounded
from .lines import CELLS, Line, Reproduction
from .plan import PlannedRun, ReproductionPlan

IDS = "mlflow.json"
COLUMNS = (
    *(
        "row",
        "figure",
        "published",
        "measured",
        "low",
        "high",
        "n",
        "difference",
        "inside",
        "lm",
        "why",
    ),
    *("rows", "errors", "unreadable", "truncated"),
)


def start_tables(planned: ReproductionPlan) -> dict[str, Tracker]:
    """By data set, the run that those of the rows are shown under, begun or gone on with.

    Runs are shown only under one of the same experiment, and every data set has its own.
    """
    table = planned.selection.table
    folder = planned.out / table.paper / table.id
    known = read_object(folder / IDS) or {}
    found = {}
    for source in dict.fromkeys(str(run.settings["data"]) for run in planned.runs):
        runs = [run for run in planned.runs if str(run.settings["data"]) == source]
        found[source] = start_tracking(
            _described(planned, source, runs, known.get(source)) | caller_place()
        )
    write_json(
        folder / IDS, {**known, **{name: one.run_id for name, one in found.items() if one.run_id}}
    )
    return found


def table_uploads(found: Reproduction, folder: Path) -> Uploads:
    """The parts of a reproduced table."""
    return {
        "figures": lambda: Upload(
            metrics=rounded(table_metrics(found.lines)), note=table_note(found)
        ),
        "table and plots": lambda: Upload(
            files={
                "side_by_side.json": TableUpload(
                    COLUMNS, [[getattr(line, name) for name in COLUMNS] for line in found.lines]
                ),
                **existing(folder, ["table.json"]),
                **{f"plots/{picture.name}": picture for picture in found.pictures},
            }
        ),
    }


def table_metrics(lines: Sequence[Line]) -> dict[str, float]:
    """Measured figures with their interval's ends, published ones, differences and what was lost,
    by row and figure.
    """
    metrics: dict[str, float] = {}
    for line in lines:
        name = f"{line.row}/{line.figure}"
        lost = {"errors": line.errors, "unreadable": line.unreadable, "truncated": line.truncated}
        known = {
            "measured": line.measured,
            "measured_low": line.low,
            "measured_high": line.high,
            "published": line.published,
            "difference": line.difference,
        }
        shown = lost if line.measured is None else lost | known
        metrics |= {f"{what}/{name}": value for what, value in shown.items() if value is not None}
    return metrics


def table_note(found: Reproduction) -> str:
    """The table side by side, for the run's description."""
    head = ["row", "figure", *CELLS]
    body = [[line.row, line.figure, *line.cells] for line in found.lines]
    rows = [f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *body]]
    return "\n".join(
        [f"**{found.name}**, published and measured, in per cent", "", *rows, "", *found.notes]
    )


def _described(
    planned: ReproductionPlan, source: str, runs: list[PlannedRun], run_id: Any
) -> dict[str, Any]:
    """What a table is of, as trackers take it."""
    table = planned.selection.table
    lms = {
        model: {"name": planned.lms.name(model)}
        for run in runs
        for model in run.preset.models.values()
    }
    return {
        "program": {"program": "reproduction", "paper": table.paper, "table": table.id},
        "program_hash": "",
        "prompt_hash": "",
        "lms": lms,
        "data_fingerprint": "",
        "questions": max(len(run.questions) for run in runs),
        "settings": {
            "command": "reproduce",
            "run_name": f"reproduce {table.name}",
            "data": source,
            "split": runs[0].settings.get("split"),
            "limit": planned.request.limit,
            "environment": planned.request.environment,
        },
        **made_with(),
        "mlflow_run_id": run_id,
    }
