"""What a study logs: its trials, scores, tables, plots and winner."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ..plots.tuning import front_plot, history_plot, importance_plot
from ..tracking.uploads import Child, TableUpload, Upload, Uploads, existing
from ..tracking.values import as_param, rounded, scrubbed

if TYPE_CHECKING:
    from .job import Job

_TAG = "folkmoot.trial"
_ENDED = {"complete": "FINISHED", "pruned": "FINISHED", "failed": "FAILED"}
COLUMNS = ["trial", "state", "questions"]


def trials_of(table: Iterable[Mapping[str, Any]], home: str) -> Upload:
    """Each trial of the folder `home` that has ended as a run of its own."""
    return Upload(
        children=[_trial(entry) for entry in table if entry["state"] in _ENDED and entry.get("home") == home]
    )


def _trial(entry: Mapping[str, Any]) -> Child:
    setting = {name: value for name, value in (entry["setting"] or {}).items() if value is not None}
    tags = {
        _TAG: str(entry["trial"]),
        "folkmoot.kind": "trial",
        "folkmoot.trial_state": entry["state"],
    }
    holds = Upload(
        metrics=rounded(trial_metrics(entry)),
        params={name: as_param(value) for name, value in scrubbed(setting).items()},
        tags=tags,
    )
    return Child(trial_name(entry), _TAG, holds, _ENDED[entry["state"]])


def study_uploads(report: Mapping[str, Any], job: Job) -> Uploads:
    """The parts of a study, from what `study.json` says."""
    best = report["best"]
    tags = {"folkmoot.study": job.study}
    if best:
        tags["folkmoot.winner"] = json.dumps(best["setting"])
    return {
        "trials": lambda: trials_of(report["table"], job.home),
        "scores": lambda: Upload(metrics=rounded(study_metrics(report)), tags=tags, note=study_note(report)),
        "tables and plots": lambda: _tables(report, job),
    }


def _tables(report: Mapping[str, Any], job: Job) -> Upload:
    rows = [
        [
            *(entry.get(name) for name in COLUMNS),
            json.dumps(entry["setting"]),
            *(entry["scores"][name]["value"] for name in job.objectives),
        ]
        for entry in report["table"]
        if "scores" in entry
    ]
    return Upload(
        files={
            "study.json": report,
            "trials.json": TableUpload([*COLUMNS, "setting", *job.objectives], rows),
            "history.png": partial(history_plot, report),
            "front.png": partial(front_plot, report),
            "importances.png": partial(importance_plot, job.open()),
            **existing(job.folder, ["winner"]),
        }
    )


def study_metrics(report: Mapping[str, Any]) -> dict[str, float]:
    """The winner's scores in training and on validation with their ends, the difference, trials and calls."""
    found: dict[str, float] = {}

    def add(name: str, score: Mapping[str, Any]) -> None:
        found[name] = score["value"]
        found.update({f"{name}_{end}": score[end] for end in ("low", "high") if end in score})

    held = report["validation"]
    if held is not None:
        goal = report["objectives"][0]
        add(goal, held["winner"])
        add(f"{goal}_default", held["default"])
        if "difference" in held:
            add("difference", held["difference"])
            found["p"] = held["p"]
    for name, score in ((report["best"] or {}).get("scores") or {}).items():
        add(f"train_{name}", score)
    found |= {f"trials_{name.replace(' ', '_')}": n for name, n in report["trials"].items()}
    found |= {f"calls_{name}": count for name, count in report["calls"].items()}
    found |= {f"paid_{name}": value for name, value in report["paid"].items() if value is not None}
    return found


def study_note(report: Mapping[str, Any]) -> str:
    """The note of a study's run, in Markdown: the verdict, the winner, the bill."""
    trials, calls = report["trials"], report["calls"]
    parts = [f"**{report['verdict']}**"]
    if report["best"]:
        scores = ", ".join(
            f"{name} {score['value']:,.4g}" for name, score in report["best"]["scores"].items()
        )
        parts.append(f"Winner: {_setting(report['best']['setting'])} (in training: {scores}).")
    parts.append(
        f"{trials['complete']:,} trials finished, {trials['pruned']:,} stopped early, {trials['told']:,} "
        f"settings scored from the answers of others. {calls['made']:,} calls were made for trials, "
        f"{calls['saved']:,} saved."
    )
    return "\n\n".join(parts)


def trial_name(entry: Mapping[str, Any]) -> str:
    """Such as `trial 4 · reasoner, critic · max_rounds 1 · judge`; with the state if not complete."""
    state = "" if entry["state"] == "complete" else f" ({entry['state']})"
    parts = [f"trial {entry['place']}{state}", _setting(entry["setting"] or {})]
    return " · ".join(part for part in parts if part)


def _setting(setting: Mapping[str, Any]) -> str:
    """A setting in a line: texts speak for themselves, other values follow their name."""
    shown = []
    for name, value in scrubbed(setting).items():
        if isinstance(value, str | list):
            shown.append(as_param(value))
        elif value is not None:
            shown.append(f"{name.rpartition('.')[2]} {value}")
    return " · ".join(shown)


def trial_metrics(entry: Mapping[str, Any]) -> dict[str, float]:
    """A trial's scores with their ends, and the questions that they are of."""
    found: dict[str, float] = {}
    for name, score in (entry.get("scores") or {}).items():
        found |= {name: score["value"]}
        found |= {f"{name}_{end}": score[end] for end in ("low", "high") if end in score}
    found |= {name: entry[name] for name in ("questions", "errors") if name in entry}
    return {name: value for name, value in found.items() if value == value}
