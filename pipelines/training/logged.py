"""What a training logs: figures while it learns, test scores, plots and the network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..tracking.uploads import Upload, Uploads, existing
from ..tracking.values import with_ends

FIGURES = {
    "reward": "reward",
    "individual": "accuracy",
    "consensus": "consensus",
    "entropy": "entropy",
    "trust": "trust",
    "edges_changed": "edges_changed",
    "loss": "loss",
}
"""What a batch says of itself, and what it is logged as."""

_NETWORK = (
    "network.json",
    "tensors.safetensors",
    "program.json",
    "training.json",
    "training_log.json",
    "scores.json",
)


def training_run(about: Mapping[str, Any]) -> dict[str, Any]:
    """What a training is of, as trackers take it, from what `training.json` says."""
    same = (
        "lms",
        "data_fingerprint",
        "questions",
        "versions",
        "git_commit",
        "mlflow_run_id",
        "tracking_key",
    )
    return {
        **{key: about[key] for key in same},
        "program": {"program": "network training", **about["network"]},
        "program_hash": "",
        "prompt_hash": "",
        "settings": {
            "command": "train",
            **{key: about[key] for key in ("kind", "data", "preset")},
            **about["training"],
        },
    }


def curve_of(steps: Sequence[Mapping[str, Any]]) -> Upload:
    """The figures of the batches, by the questions seen so far."""
    return Upload(
        curve=[
            (
                int(step["questions"]),
                {
                    name: float(step[key])
                    for key, name in FIGURES.items()
                    if step.get(key) is not None
                }
                | {f"strategy/{name}": share for name, share in step.get("strategies", {}).items()},
            )
            for step in steps
        ]
    )


def training_uploads(
    steps: Sequence[Mapping[str, Any]], scores: Mapping[str, Any] | None, folder: Path
) -> Uploads:
    """The parts of a finished training."""
    last = int(steps[-1]["questions"]) if steps else 0
    plots = [path.name for path in sorted((folder / "plots").glob("*.png"))]
    return {
        "figures": lambda: curve_of(steps),
        "scores": lambda: Upload(metrics=training_metrics(scores or {}), step=last),
        "network and plots": lambda: Upload(
            files={
                **existing(folder, _NETWORK, "network/"),
                **existing(folder / "plots", plots, "plots/"),
            }
        ),
    }


def training_metrics(scores: Mapping[str, Any]) -> dict[str, float]:
    """The test scores by name: `test_consensus` with its ends and calls, differences and ties."""
    found: dict[str, float] = {}
    for name, score in scores.items():
        if isinstance(score, Mapping) and "value" in score:
            found |= with_ends(f"test_{name}", score) | {f"test_{name}_calls": score["calls"]}
    for team, rivals in scores.get("differences", {}).items():
        for rival, difference in rivals.items():
            found[f"difference/{team}_over_{rival}"] = difference["value"]
    if "ece" in scores:
        found["test_ece"] = scores["ece"]
    for name, value in scores.get("ties", {}).items():
        if value is not None:
            found[f"ties/{name}"] = value
    return found
