"""What a distillation logs: its settings, figures, verdict and programs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..runs.manifest import made_with
from ..tracking.uploads import STOPPED_TAG, Upload, Uploads, existing
from ..tracking.values import with_ends

REPORT = "distil.json"


def distillation_run(
    about: Mapping[str, Any], named: str, described: Mapping[str, Any]
) -> dict[str, Any]:
    """What a distillation is of, as trackers take it.

    `about` is what the report says from the start, `named` the team's name, and `described` the
    settings of its run, whose experiment this one joins.
    """
    return {
        "program": {"program": "distil", "team": about["team"]},
        "program_hash": about["program_hash"],
        "prompt_hash": "",
        "lms": {"*": about["lm"]},
        "data_fingerprint": about["data_fingerprint"],
        "questions": about["questions"],
        "settings": {
            **{key: described.get(key) for key in ("data", "split")},
            "command": "distil",
            "run_name": f"distil {named}",
            **{key: about[key] for key in ("run", "margin", "seed", "parts")},
        },
        **made_with(),
        "mlflow_run_id": about.get("mlflow_run_id"),
        "tracking_key": about.get("tracking_key"),
    }


def distillation_uploads(report: Mapping[str, Any], folder: Path) -> Uploads:
    """The parts of a distillation."""
    return {
        "verdict": lambda: Upload(
            tags={STOPPED_TAG: report["stopped"] or "no"}, note="\n\n".join(report["sentences"])
        ),
        "figures": lambda: Upload(metrics=distillation_metrics(report)),
        "programs": lambda: Upload(files=existing(folder, (REPORT, "single", "router"))),
    }


def distillation_metrics(report: Mapping[str, Any]) -> dict[str, float]:
    """The figures of the last test by program, such as `single/accuracy`, and the `share_routed`.

    A program that there is not (`single` where all were inferior, `cheap` of a router that always
    asks the team) has none.
    """
    found: dict[str, float] = {}
    for program, figures in (report["programs"] or {}).items():
        if figures is None:
            continue
        figures_of = with_ends("accuracy", figures["accuracy"])
        if (test := figures["against_team"]) is not None:
            figures_of |= with_ends("difference", {**test, "value": test["difference"]})
            figures_of["non_inferior"] = float(test["verdict"] == "non-inferior")
        figures_of |= {
            key: float(value) for key, value in figures.items() if isinstance(value, int | float)
        }
        found |= {f"{program}/{key}": value for key, value in figures_of.items()}
    if report["router"] is not None and report["router"]["share_routed"] is not None:
        found["share_routed"] = report["router"]["share_routed"]["value"]
    return found
