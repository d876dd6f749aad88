"""What a study logs: its trials, scores, tables, plots and winner."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ..plots.tuning import front_plot, history_plot, importance_plot
from ..tracking.uploads import STOPPED_TAG, Child, TableUpload, Upload, Uploads, existing
from ..tracking.values import as_param, rounded, scrubbed

if TYPE_CHECKING:
    from .job import Job
    from .report import TrialEntry

_TAG, TRAINING_TAG = "folkmoot.trial", "folkmoot.training_run"
_ENDED = {"complete": "FINISHED", "pruned": "FINISHED", "failed": "FAILED"}
COLUMNS = ("trial", "place", "state", "replayed_from", "questions", "errors", "failed")


def trials_of(table: Iterable[TrialEntry], home: str) -> Upload:
    """Each trial of the folder `home` that has ended as a run of its own."""
    return Upload(
        children=[_trial(entry) for entry in table if entry["state"] in _ENDED and entry.get("home") == home]
    )


def _trial(entry: TrialEntry) -> Child:
    setting = {name: value for name, value in (entry["setting"] or {}).items() if value is not None}
    tags = {
        _TAG: str(entry["trial"]),
        "folkmoot.kind": "trial",
        "folkmoot.trial_state": entry["state"],
        **({TRAINING_TAG: entry["training"]} if "training" in entry else {}),
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
    tags = {"folkmoot.study": job.study, STOPPED_TAG: report["stopped"] or "no"}
    if best:
        tags["folkmoot.winner"] = json.dumps(best["setting"])
    return {
        "trials": lambda: trials_of(report["table"], job.home),
        "scores": lambda: Upload(metrics=rounded(study_metrics(report)), tags=tags, note=study_note(report)),
        "tables and plots": lambda: _tables(report, job),
    }


def _tables(report: Mapping[str, Any], job: Job) -> Upload:
    rows = []
    for entry in report["table"]:
        known, scores = {**entry, "replayed_from": entry.get("told_by")}, entry.get("scores", {})
        values = [scores[name]["value"] if name in scores else None for name in job.objectives]
        rows.append([*(known.get(name) for name in COLUMNS), json.dumps(entry["setting"]), *values])
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
    held = report["validation"]
    if held is not None:
        goal = report["objectives"][0]
        found |= _with_ends(goal, held["winner"]) | _with_ends(f"{goal}_default", held["default"])
        if "difference" in held:
            found |= {**_with_ends("difference", held["difference"]), "p": held["p"]}
    for name, score in (report["best"] or {"scores": {}})["scores"].items():
        found |= _with_ends(f"train_{name}", score)
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


def trial_name(entry: TrialEntry) -> str:
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


def trial_metrics(entry: TrialEntry) -> dict[str, float]:
    """A trial's scores with their ends, and the questions that they are of; what is not known is left out."""
    found: dict[str, float] = {}
    for name, score in entry.get("scores", {}).items():
        found |= _with_ends(name, score)
    if "questions" in entry:
        found |= {"questions": entry["questions"], "errors": entry["errors"]}
    return {name: value for name, value in found.items() if value == value}


def _with_ends(name: str, score: Mapping[str, float]) -> dict[str, float]:
    ends = {f"{name}_{end}": score[end] for end in ("low", "high") if end in score}
    return {name: score["value"], **ends}
