"""Logs a reproduced table to MLflow: one run a table and data set, with the runs of its rows under it."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..runs.manifest import git_commit, versions, write_json
from ..tracking.tracker import FINISH_SECONDS, MlflowTracker
from ..tracking.values import valid_name

if TYPE_CHECKING:
    from .plan import Plan, Run
    from .reproduce import Line, Reproduction

IDS = "mlflow.json"
COLUMNS = ("row", "figure", "published", "measured", "low", "high", "n", "difference", "inside", "lm", "why")


def start_tables(planned: Plan) -> dict[str, TableTracker]:
    """By data set, the MLflow run that those of the rows are shown under, begun or gone on with.

    MLflow shows children only beside a parent of the same experiment, and every data set has its own.
    """
    table = planned.selection.table
    folder = planned.out / table.paper / table.id
    known = _ids(folder)
    found = {}
    for source in dict.fromkeys(str(run.settings["data"]) for run in planned.runs):
        runs = [run for run in planned.runs if str(run.settings["data"]) == source]
        tracker = TableTracker(_described(planned, source, runs, known.get(source)))
        tracker.open()
        found[source] = tracker
    write_json(folder / IDS, {**known, **{name: one.run_id for name, one in found.items() if one.run_id}})
    return found


class TableTracker(MlflowTracker):
    """The MLflow run of a table. None of its methods raises."""

    def end(self, found: Reproduction, folder: Path, status: str) -> None:
        """Log the figures, the table and the plots, and end the run. Warns when that did not work."""
        left = ["figures", "table and plots", "the end of the run"]
        self._problem = None
        self._do(lambda: self._end(found, folder, status, left), FINISH_SECONDS)
        if left:
            why = " ".join(str(self._problem or "it does not answer in time").split())[:300]
            warnings.warn(
                f"MLflow did not take {', '.join(left)} ({why}): {folder} has everything, and the same "
                "command with the same folder logs it once the store is back",
                RuntimeWarning,
                stacklevel=3,
            )

    def _end(self, found: Reproduction, folder: Path, status: str, left: list[str]) -> None:
        self._log(metrics_of(found.lines), 0, {"mlflow.note.content": markdown(found)})
        left.remove("figures")
        client, run_id = self._opened(), str(self.run_id)
        data = [[getattr(line, name) for name in COLUMNS] for line in found.lines]
        client.log_dict(run_id, {"columns": list(COLUMNS), "data": data}, "side_by_side.json")
        client.set_tag(
            run_id, "mlflow.loggedArtifacts", json.dumps([{"path": "side_by_side.json", "type": "table"}])
        )
        client.log_artifact(run_id, str(folder / "table.json"))
        for picture in found.pictures:
            client.log_artifact(run_id, str(picture), "plots")
        left.remove("table and plots")
        client.set_terminated(run_id, status)
        left.remove("the end of the run")


def metrics_of(lines: list[Line]) -> dict[str, float]:
    """Measured figures with their interval's ends, published ones and differences, by row and figure."""
    metrics: dict[str, float] = {}
    for line in lines:
        name = valid_name(f"{line.row}/{line.figure}")
        told = {
            "measured": line.measured,
            "measured_low": line.low,
            "measured_high": line.high,
            "published": line.published,
            "difference": line.difference,
        }
        if line.measured is not None:
            metrics |= {f"{what}/{name}": float(f"{v:.6g}") for what, v in told.items() if v is not None}
    return metrics


def markdown(found: Reproduction) -> str:
    """The table side by side, for the run's description."""
    head = ["row", "figure", "published", "measured [95%]", "difference", "inside"]
    body = [
        [
            line.row,
            line.figure,
            "" if line.published is None else f"{line.published:.2f}",
            line.why or ""
            if line.measured is None
            else f"{line.measured:.1f} [{line.low:.1f}, {line.high:.1f}]",
            "" if line.difference is None else f"{line.difference:+.1f}",
            {True: "yes", False: "no", None: ""}[line.inside],
        ]
        for line in found.lines
    ]
    rows = [f"| {' | '.join(cells)} |" for cells in [head, ["---"] * len(head), *body]]
    return "\n".join([f"**{found.name}**, published and measured, in per cent", "", *rows, "", *found.notes])


def _described(planned: Plan, source: str, runs: list[Run], run_id: Any) -> dict[str, Any]:
    """A table as `MlflowTracker` wants a run described."""
    table = planned.selection.table
    lms = {
        model: {"name": planned.request.lms.name(model)}
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
        "versions": dict(versions()),
        "git_commit": git_commit(),
        "mlflow_run_id": run_id,
    }


def _ids(folder: Path) -> Mapping[str, Any]:
    try:
        found = json.loads((folder / IDS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
