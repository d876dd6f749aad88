"""What a distillation logs: its settings, figures, verdict and programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..runs.manifest import made_with
from ..tracking.uploads import Upload, Uploads, existing

REPORT = "distil.json"


def distillation_run(about: Mapping[str, Any], named: str, described: Mapping[str, Any]) -> dict[str, Any]:
    """What a distillation is of, as trackers take it.

    `about` is what the report says from the start, `named` the team's name, and `described` the settings of
    its run, whose experiment this one joins.
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
    }


def distillation_uploads(report: Mapping[str, Any], folder: Path) -> Uploads:
    """The parts of a distillation."""
    return {
        "verdict": lambda: Upload(note="\n\n".join(report["sentences"])),
        "figures": lambda: Upload(metrics=distillation_metrics(report)),
        "programs": lambda: Upload(files=existing(folder, (REPORT, "single", "router"))),
    }


def distillation_metrics(report: Mapping[str, Any]) -> dict[str, float]:
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
