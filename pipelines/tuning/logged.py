"""What a study logs: its trials, scores, tables, plots and winner."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ..plots.tuning import front_plot, history_plot, importance_plot
from ..runs.summary import score_words
from ..tracking.uploads import STOPPED_TAG, Child, TableUpload, Upload, Uploads, existing
from ..tracking.values import (
    as_param,
    begun_name,
    bill,
    ended_name,
    joined,
    rounded,
    scrubbed,
    with_ends,
)

if TYPE_CHECKING:
    from .job import Job
    from .report import TrialEntry

_TAG, TRAINING_TAG = "folkmoot.trial", "folkmoot.training_run"
_ENDED = {"complete": "FINISHED", "pruned": "FINISHED", "failed": "FAILED"}
MOST_FRONT = 10
COLUMNS = ("trial", "place", "front", "state", "replayed_from", "questions", "errors", "failed")


def trials_of(table: Iterable[TrialEntry], job: Job, run: Mapping[str, Any]) -> Upload:
    """Each trial of the job's folder that has ended as a run of its own; `run` is what the study is
    of.
    """
    mine = [entry for entry in table if entry["state"] in _ENDED and entry.get("home") == job.home]
    return Upload(children=[_trial(entry, job.objectives[0], run) for entry in mine])


def _trial(entry: TrialEntry, goal: str, run: Mapping[str, Any]) -> Child:
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
    return Child(trial_name(entry, goal, run), _TAG, holds, _ENDED[entry["state"]])


def study_uploads(report: Mapping[str, Any], job: Job, run: Mapping[str, Any]) -> Uploads:
    """The parts of a study, from what `study.json` says; `run` is what it is of."""
    best = report["best"]
    tags = {"folkmoot.study": job.study, STOPPED_TAG: report["stopped"] or "no"}
    if best:
        tags["folkmoot.winner"] = json.dumps(best["setting"])
    return {
        "trials": lambda: trials_of(report["table"], job, run),
        "scores": lambda: Upload(
            metrics=rounded(study_metrics(report)),
            tags=tags,
            note=study_note(report),
            name=_name(report, run),
        ),
        "tables and plots": lambda: _tables(report, job),
    }


def _tables(report: Mapping[str, Any], job: Job) -> Upload:
    rows = []
    front = {entry["trial"]: number for number, entry in enumerate(report["front"], 1)}
    for entry in report["table"]:
        known, scores = {**entry, "replayed_from": entry.get("told_by")}, entry.get("scores", {})
        known["front"] = front.get(entry["trial"])
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
    """The winner's scores on validation and in training, the difference, trials, calls and the
    bill.
    """
    found: dict[str, float] = {}
    held = report["validation"]
    if held is not None:
        goal = report["objectives"][0]
        found |= with_ends(goal, held["winner"]) | with_ends(f"{goal}_default", held["default"])
        if "difference" in held:
            found |= {**with_ends("difference", held["difference"]), "p": held["p"]}
    scores = report["best"]["scores"] if report["best"] else {}
    for name in report["objectives"]:
        found |= with_ends(f"train_{name}", scores[name]) if name in scores else {}
    found |= {
        f"trials_{name}": report["trials"][name]
        for name in ("complete", "pruned", "told", "failed")
    }
    found |= {f"calls_{name}": report["calls"][name] for name in ("made", "saved")}
    return found | bill(report["paid"])


def study_note(report: Mapping[str, Any]) -> str:
    """The note of a study's run, in Markdown: the verdict, the winner, the front, the bill."""
    trials, calls = report["trials"], report["calls"]
    parts = [f"**{report['verdict']}**"]
    if len(goals := report["objectives"]) > 1 and report["front"]:
        lines = [["the front in training, the winner first", *goals], ["---"] * (1 + len(goals))]
        for entry in report["front"][:MOST_FRONT]:
            said = [_within(entry["scores"][name]) for name in goals]
            lines.append([_setting(entry["setting"]).replace("|", "\\|"), *said])
        parts.append("\n".join(f"| {' | '.join(cells)} |" for cells in lines))
    elif report["best"]:
        scores = ", ".join(
            f"{name} {score['value']:,.4g}" for name, score in report["best"]["scores"].items()
        )
        parts.append(f"Winner: {_setting(report['best']['setting'])} (in training: {scores}).")
    parts.append(
        f"{trials['complete']:,} trials finished, {trials['pruned']:,} stopped early, "
        f"{trials['told']:,} "
        f"settings scored from the answers of others. {calls['made']:,} calls were made for "
        f"trials, "
        f"{calls['saved']:,} saved."
    )
    return "\n\n".join(parts)


def trial_name(entry: TrialEntry, goal: str, run: Mapping[str, Any]) -> str:
    """Such as `trial 4 · reasoner, critic · judge · deliberation · gpt-4o-mini · 62.0% right, … · 2
    calls`.

    With the state if not complete; the bill is per question.
    """
    state = "" if entry["state"] == "complete" else f" ({entry['state']})"
    parts = [f"trial {entry['place']}{state}", _setting(entry["setting"] or {})]
    named = begun_name({**run, "settings": {"label": " · ".join(filter(None, parts))}})
    if (scores := entry.get("scores")) is None:
        return named
    paid = (
        f"${scores['cost']['value']:,.4f}"
        if "cost" in scores
        else f"{scores['calls']['value']:.3g} calls"
    )
    return joined(named, ", ".join(score_words(goal, scores[goal])), f"{paid} per question")


def _name(report: Mapping[str, Any], run: Mapping[str, Any]) -> str | None:
    """By the winner's score on validation questions, else by that in training."""
    goal = report["objectives"][0]
    if held := report["validation"]:
        return ended_name(run, *score_words(goal, held["winner"]), report["paid"])
    if best := report["best"]:
        said, interval = score_words(goal, best["scores"][goal])
        return ended_name(run, f"{said} in training", interval, report["paid"])
    return None


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
    """A trial's scores with their ends, what a question took, and all calls, as runs beside it have
    them.

    What is not known is left out.
    """
    found: dict[str, float] = {}
    scores = entry.get("scores", {})
    for name, score in scores.items():
        found |= with_ends(
            f"{name}_per_question" if name in ("calls", "tokens", "cost") else name, score
        )
    if "questions" in entry:
        if "calls" in scores:
            found["calls"] = scores["calls"]["value"] * entry["questions"]
        found |= {"questions": entry["questions"], "errors": entry["errors"]}
    return {name: value for name, value in found.items() if value == value}


def _within(score: Mapping[str, float]) -> str:
    ends = f" [{score['low']:.4g}, {score['high']:.4g}]" if "low" in score else ""
    return f"{score['value']:.4g}{ends}"
