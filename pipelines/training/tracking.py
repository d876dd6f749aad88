"""Logs a training to MLflow as one run: parameters, figures while it learns, test scores, plots, network."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..tracking.tracker import FINISH_SECONDS, LIVE_SECONDS, MlflowTracker

if TYPE_CHECKING:
    from mlflow import MlflowClient

FIGURES = {
    "reward": "reward",
    "individual": "accuracy",
    "consensus": "consensus",
    "entropy": "entropy",
    "trust": "trust",
    "loss": "loss",
}
"""What a batch says of itself, and what MLflow calls it."""

_AT_ONCE = 900  # metrics in one request; MLflow takes 1,000
_NETWORK = (
    "network.json",
    "tensors.safetensors",
    "program.json",
    "training.json",
    "training_log.json",
    "scores.json",
)


class NoTrainingTracker:
    """Logs nothing."""

    run_id: str | None = None

    def step(self, figures: Mapping[str, Any]) -> None:
        return None

    def end(self, steps: Sequence[Mapping[str, Any]], scores: Mapping[str, Any] | None, folder: Path) -> None:
        return None

    def stop(self, status: str) -> None:
        return None


def start_training_run(about: Mapping[str, Any]) -> TrainingTracker:
    """Begin the MLflow run of a training, or go on with the one in `about["mlflow_run_id"]`.

    `about` is what `training.json` says. If the store cannot be reached, everything is tried again at the
    end.
    """
    run = {
        "program": {"program": "network training", **about["network"]},
        "program_hash": "",
        "prompt_hash": "",
        "lms": about["lms"],
        "data_fingerprint": about["data_fingerprint"],
        "questions": about["questions"],
        "settings": {
            "command": "train",
            "kind": about["kind"],
            "data": about["data"],
            "preset": about["preset"],
            **about["training"],
        },
        "versions": about["versions"],
        "git_commit": about["git_commit"],
        "mlflow_run_id": about["mlflow_run_id"],
    }
    tracker = TrainingTracker(run)
    tracker.open()
    return tracker


class TrainingTracker(MlflowTracker):
    """One MLflow run of a training. None of its methods raises, and `step` does not wait."""

    def __init__(self, run: Mapping[str, Any]) -> None:
        super().__init__(run)
        self._steps: list[Mapping[str, Any]] = []
        self._logged: int | None = None  # questions up to which the store has the figures

    def step(self, figures: Mapping[str, Any]) -> None:
        """Keep a batch's figures, and send what is kept every LIVE_SECONDS at most."""
        if "reward" not in figures:  # how many epochs there are to be is still being found out
            return
        self._steps.append(figures)
        now = time.monotonic()
        if now < self._next_live or (self._thread is not None and self._thread.is_alive()):
            return
        self._next_live = now + LIVE_SECONDS
        waiting = list(self._steps)
        self._start(lambda: self._send(waiting))

    def end(self, steps: Sequence[Mapping[str, Any]], scores: Mapping[str, Any] | None, folder: Path) -> None:
        """Send all that is missing and end the run. Warns, once, when something could not be logged."""
        left = ["figures", "scores", "network and plots", "the end of the run"]
        self._problem = None
        self._do(lambda: self._end(steps, scores, folder, left), FINISH_SECONDS)
        if left:
            why = self._problem or "it does not answer in time"
            warnings.warn(
                f"MLflow did not take {', '.join(left)} ({' '.join(str(why).split())[:300]}): {folder} has "
                "everything, and the same command with the same folder logs it once the store is back",
                RuntimeWarning,
                stacklevel=3,
            )

    def _end(
        self,
        steps: Sequence[Mapping[str, Any]],
        scores: Mapping[str, Any] | None,
        folder: Path,
        left: list[str],
    ) -> None:
        self._send(steps)
        left.remove("figures")
        self._log(metrics_of_scores(scores or {}), int(steps[-1]["questions"]) if steps else 0)
        left.remove("scores")
        client, run_id = self._opened(), str(self.run_id)
        _send_files(client, run_id, folder)
        left.remove("network and plots")
        client.set_terminated(run_id, "FINISHED")
        left.remove("the end of the run")

    def _send(self, steps: Sequence[Mapping[str, Any]]) -> None:
        """Log the figures of batches that the store does not have yet, by the questions seen so far."""
        from mlflow.entities import Metric

        client, run_id, now = self._opened(), str(self.run_id), int(time.time() * 1000)
        if self._logged is None:
            history = client.get_metric_history(run_id, "reward")
            self._logged = max((metric.step for metric in history), default=-1)
        new = [step for step in steps if int(step["questions"]) > self._logged]
        metrics = [
            Metric(name, float(step[key]), now, int(step["questions"]))
            for step in new
            for key, name in FIGURES.items()
            if step.get(key) is not None
        ]
        for start in range(0, len(metrics), _AT_ONCE):
            client.log_batch(run_id, metrics=metrics[start : start + _AT_ONCE])
        self._logged = max((int(step["questions"]) for step in new), default=self._logged)


def metrics_of_scores(scores: Mapping[str, Any]) -> dict[str, float]:
    """The test scores by names of MLflow: `test_consensus` with its ends and calls, differences and ties."""
    found: dict[str, float] = {}
    for name, score in scores.items():
        if isinstance(score, Mapping) and "value" in score:
            found[f"test_{name}"] = score["value"]
            found |= {f"test_{name}_{key}": score[key] for key in ("low", "high", "calls")}
    for team, rivals in scores.get("differences", {}).items():
        for rival, difference in rivals.items():
            found[f"difference/{team}_over_{rival}"] = difference["value"]
    if "ece" in scores:
        found["test_ece"] = scores["ece"]
    for name, value in scores.get("ties", {}).items():
        if value is not None:
            found[f"ties/{name}"] = value
    return found


def _send_files(client: MlflowClient, run_id: str, folder: Path) -> None:
    for name in _NETWORK:
        if (folder / name).is_file():
            client.log_artifact(run_id, str(folder / name), "network")
    for picture in sorted((folder / "plots").glob("*.png")):
        client.log_artifact(run_id, str(picture), "plots")
