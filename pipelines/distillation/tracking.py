"""Logs a distillation to MLflow as one run, the parent of its evaluations: parameters, figures, programs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...modules.base.errors import said_by
from ..runs.manifest import git_commit, versions
from ..tracking.tracker import FINISH_SECONDS, MlflowTracker

REPORT = "distil.json"


def start_distil_run(about: Mapping[str, Any], named: str, described: Mapping[str, Any]) -> DistilTracker:
    """Begin the MLflow run of a distillation, or go on with the one in `about["mlflow_run_id"]`.

    `about` is what the report says from the start, `named` the team's name, and `described` the settings of
    its run, whose experiment this one joins. If the store cannot be reached, everything is tried again at the
    end.
    """
    run = {
        "program": {"program": "distil", "team": about["team"]},
        "program_hash": about["program_hash"],
        "prompt_hash": "",
        "lms": {"*": about["lm"]},
        "data_fingerprint": about["data_fingerprint"],
        "questions": about["questions"],
        "settings": {
            "data": described.get("data"),
            "split": described.get("split"),
            "command": "distil",
            "run_name": f"distil {named}",
            "run": about["run"],
            "margin": about["margin"],
            "seed": about["seed"],
            "parts": about["parts"],
        },
        "versions": dict(versions()),
        "git_commit": git_commit(),
        "mlflow_run_id": about.get("mlflow_run_id"),
    }
    tracker = DistilTracker(run)
    tracker.open()
    return tracker


class DistilTracker(MlflowTracker):
    """One MLflow run of a distillation. None of its methods raises."""

    def end(self, report: Mapping[str, Any], folder: Path) -> None:
        """Log figures, verdicts and programs, and end the run. Warns when something could not be logged."""
        left = ["figures", "programs", "the end of the run"]
        figures: dict[str, float] = {}
        try:
            figures = metrics_of(report)
        except Exception as problem:  # of ours, and no reason to leave the run open
            warnings.warn(
                f"the figures of {folder / REPORT} are not in MLflow because of a fault in folkmoot "
                f"({type(problem).__name__}: {said_by(problem)}): please report it; the file has them all",
                RuntimeWarning,
                stacklevel=3,
            )
        self._problem = None
        self._do(lambda: self._end(report, figures, folder, left), FINISH_SECONDS)
        if left:
            why = " ".join(str(self._problem or "it does not answer in time").split())[:300]
            warnings.warn(
                f"MLflow did not take {', '.join(left)} ({why}): {folder} has everything, and the same "
                "command with the same folder logs it once the store is back",
                RuntimeWarning,
                stacklevel=3,
            )

    def _end(
        self, report: Mapping[str, Any], figures: Mapping[str, float], folder: Path, left: list[str]
    ) -> None:
        self._log(figures, 0, {"mlflow.note.content": "\n\n".join(report["sentences"])})
        left.remove("figures")
        client, run_id = self._opened(), str(self.run_id)
        client.log_artifact(run_id, str(folder / REPORT))
        for name in ("single", "router"):
            if (folder / name).is_dir():
                client.log_artifacts(run_id, str(folder / name), name)
        left.remove("programs")
        client.set_terminated(run_id, "KILLED" if report["stopped"] else "FINISHED")
        left.remove("the end of the run")


def metrics_of(report: Mapping[str, Any]) -> dict[str, float]:
    """The figures of the last test by program, such as `single/accuracy`, and the `share_routed`.

    A program that there is not (`single` where all were inferior, `cheap` of a router that always asks the
    team) has none.
    """
    found: dict[str, float] = {}
    for name, figures in (report["programs"] or {}).items():
        if figures is not None:
            found |= {f"{name}/{key}": value for key, value in _numbers(figures)}
    if report["router"] is not None and report["router"]["share_routed"] is not None:
        found["share_routed"] = report["router"]["share_routed"]["value"]
    return found


def _numbers(figures: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for key, value in figures.items():
        if key == "accuracy":
            yield key, value["value"]
            yield from ((f"{key}_{end}", value[end]) for end in ("low", "high"))
        elif key == "against_team" and value is not None:
            yield "difference", value["difference"]
            yield "difference_low", value["low"]
            yield "difference_high", value["high"]
            yield "non_inferior", float(value["verdict"] == "non-inferior")
        elif isinstance(value, int | float):
            yield key, float(value)
