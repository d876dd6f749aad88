"""Logs a study to MLflow: a run with plots, front and winner; its trials and evaluations are children."""

from __future__ import annotations

import json
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..plots.tuning import front_plot, history_plot, importance_plot
from ..runs.manifest import write_json
from ..tracking.tracker import FINISH_SECONDS, LIVE_SECONDS, MlflowTracker
from ..tracking.values import LONGEST_NAME, LONGEST_PARAM, LONGEST_TAG, rounded, scrubbed

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from .job import Job
    from .tune import Study

_TAG = "folkmoot.trial"
_ENDED = {"complete": "FINISHED", "pruned": "FINISHED", "failed": "FAILED"}
COLUMNS = ["trial", "state", "questions", "setting"]


class NoStudyTracker:
    """Logs nothing."""

    run_id: str | None = None

    def trials(self, table: Sequence[Mapping[str, Any]]) -> None:
        return None

    def end(self, study: Study, job: Job, register: str | None) -> None:
        return None


def start_study(run: dict[str, Any]) -> StudyTracker:
    """Begin the MLflow run of a study, or go on with the one in `run["mlflow_run_id"]`."""
    tracker = StudyTracker(run)
    tracker.open()
    return tracker


class StudyTracker(MlflowTracker):
    """One MLflow run of a study. None of its methods raises, and `trials` does not wait."""

    def __init__(self, run: Mapping[str, Any]) -> None:
        super().__init__(run)
        self._table: list[Mapping[str, Any]] = []
        self._sent: set[str] | None = None

    def trials(self, table: Sequence[Mapping[str, Any]]) -> None:
        """Take the trials as they stand, and send those that have ended every LIVE_SECONDS at most."""
        self._table = list(table)
        now = time.monotonic()
        if now < self._next_live or (self._thread is not None and self._thread.is_alive()):
            return
        self._next_live = now + LIVE_SECONDS
        self._start(self._send)

    def end(self, study: Study, job: Job, register: str | None) -> None:
        """Send all that is missing and end the run. Warns, once, when something could not be logged."""
        left = ["trials", "scores", "tables and plots", "the winner", "the end of the run"]
        self._problem = None
        self._table = list(study.trials)
        self._do(lambda: self._end(study, job, register, left), FINISH_SECONDS)
        if left:
            why = self._problem or "it does not answer in time"
            warnings.warn(
                f"MLflow did not take {', '.join(left)} ({' '.join(str(why).split())[:300]}): {study.folder} "
                "has everything, and the same command with the same folder logs it once the store is back",
                RuntimeWarning,
                stacklevel=4,
            )

    def _end(self, study: Study, job: Job, register: str | None, left: list[str]) -> None:
        self._send()
        left.remove("trials")
        report = study.report
        tags = {"mlflow.note.content": description(report)[:LONGEST_TAG], "folkmoot.study": job.study}
        if report["best"]:
            tags["folkmoot.winner"] = json.dumps(report["best"]["setting"])[:LONGEST_TAG]
        self._log(metrics_of(report), 0, tags)
        left.remove("scores")
        client, run_id = self._opened(), str(self.run_id)
        self._files(client, study, job)
        left.remove("tables and plots")
        if study.winner is not None:
            from ..tracking.models import log_program

            if "winner" not in {model.name for model in _models(client, run_id)}:
                log_program(study.winner, run_id, name="winner", lm=job.lm, registered=register)
        left.remove("the winner")
        client.set_terminated(run_id, "KILLED" if report["stopped"] else "FINISHED")
        left.remove("the end of the run")

    def _files(self, client: MlflowClient, study: Study, job: Job) -> None:
        run_id, report = str(self.run_id), study.report
        rows = [
            [*(entry.get(name) for name in COLUMNS[:3]), json.dumps(entry["setting"]), *_values(entry, job)]
            for entry in report["table"]
            if "scores" in entry
        ]
        with tempfile.TemporaryDirectory(prefix="folkmoot-") as scratch:
            here = Path(scratch)
            write_json(here / "study.json", scrubbed(report))
            write_json(here / "trials.json", {"columns": [*COLUMNS, *job.objectives], "data": rows})
            history_plot(report, here / "history.png")
            front_plot(report, here / "front.png")
            importance_plot(job.open(), here / "importances.png")
            client.log_artifacts(run_id, scratch)
        if (study.folder / "winner").is_dir():
            client.log_artifacts(run_id, str(study.folder / "winner"), "winner")
        shown = json.dumps([{"path": "trials.json", "type": "table"}])
        client.set_tag(run_id, "mlflow.loggedArtifacts", shown)

    def _send(self) -> None:
        """A child run for every trial of this folder that has ended and has none yet."""
        client, parent = self._opened(), str(self.run_id)
        if self._sent is None:
            self._sent = set(_children(client, parent))
        home = self._run["settings"]["home"]
        for entry in list(self._table):
            ended = entry["state"] in _ENDED and entry.get("home") == home
            if ended and str(entry["trial"]) not in self._sent:
                self._child(client, parent, entry)
                self._sent.add(str(entry["trial"]))

    def _child(self, client: MlflowClient, parent: str, entry: Mapping[str, Any]) -> None:
        from mlflow.entities import Metric, Param

        experiment = client.get_run(parent).info.experiment_id
        tags = {
            "mlflow.parentRunId": parent,
            _TAG: str(entry["trial"]),
            "folkmoot.kind": "trial",
            "folkmoot.trial_state": entry["state"],
        }
        run_id = client.create_run(experiment, tags=tags, run_name=trial_name(entry)).info.run_id
        now = int(time.time() * 1000)
        setting = {name: value for name, value in (entry["setting"] or {}).items() if value is not None}
        client.log_batch(
            run_id,
            metrics=[Metric(name, value, now, 0) for name, value in trial_metrics(entry).items()],
            params=[Param(_name(name), _text(value)) for name, value in scrubbed(setting).items()],
        )
        client.set_terminated(run_id, _ENDED[entry["state"]])


def metrics_of(report: Mapping[str, Any]) -> dict[str, float]:
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
    return rounded(found)


def description(report: Mapping[str, Any]) -> str:
    """The study's description in MLflow's UI, in Markdown: the verdict, the winner, the bill."""
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
    """Such as `trial 4 · reasoner, critic · max_rounds 1 · judge`; what was not completed is named so."""
    state = "" if entry["state"] == "complete" else f" ({entry['state']})"
    parts = [f"trial {entry['place']}{state}", _setting(entry["setting"] or {})]
    return " · ".join(part for part in parts if part)[:LONGEST_NAME]


def _setting(setting: Mapping[str, Any]) -> str:
    """A setting in a line: texts speak for themselves, other values follow their name."""
    shown = []
    for name, value in scrubbed(setting).items():
        if isinstance(value, str | list):
            shown.append(_text(value))
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
    return rounded({name: value for name, value in found.items() if value == value})


def _values(entry: Mapping[str, Any], job: Job) -> list[float]:
    return [entry["scores"][name]["value"] for name in job.objectives]


def _children(client: MlflowClient, parent: str) -> Iterator[str]:
    """The trials that an earlier attempt has logged."""
    experiment, token = client.get_run(parent).info.experiment_id, None
    while True:
        page = client.search_runs(
            [experiment], f"tags.`mlflow.parentRunId` = '{parent}'", max_results=1000, page_token=token
        )
        yield from (run.data.tags[_TAG] for run in page if _TAG in run.data.tags)
        token = page.token
        if not token:
            return


def _models(client: MlflowClient, run_id: str) -> list[Any]:
    """The models that an earlier attempt has logged to the run."""
    experiment = client.get_run(run_id).info.experiment_id
    found = client.search_logged_models([experiment], filter_string=f"source_run_id = '{run_id}'")
    return list(found)


def _name(parameter: str) -> str:
    return "".join(char if char.isalnum() or char in "_-. :/" else "_" for char in parameter)


def _text(value: Any) -> str:
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text[:LONGEST_PARAM]
