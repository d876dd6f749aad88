"""Logs an evaluation to MLflow as one run; a store that is down, slow or full never stops the evaluation."""

from __future__ import annotations

import json
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .dialogues import dialogues_page, most_informative
from .manifest import MANIFEST, save_run, write_json
from .mlflow_store import artifact_location, open_client, quiet
from .plots import deliberation_plot
from .rows import RESULTS, read_rows
from .tracking_values import (
    LONGEST_TAG,
    experiment_name,
    headline,
    metrics_of,
    params_of,
    run_name,
    scrubbed,
    tags_of,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from .evaluate import Progress
    from .summary import Summary

START_SECONDS = 30.0
FINISH_SECONDS = 120.0
LIVE_SECONDS = 5.0
LONGEST_DIGEST = 36
TABLE = "rows.json"
TABLE_ROWS = 2_000
COLUMNS = ["id", "question", "answer", "gold", "correct", "decided_by", "rounds", "calls", "seconds", "error"]


class Tracker(Protocol):
    """What an evaluation tells as it goes. None of it raises, and `progress` does not wait."""

    run_id: str | None

    def progress(self, state: Progress) -> None: ...

    def finish(self, summary: Summary, folder: Path, status: str) -> None: ...

    def stop(self, status: str) -> None: ...


class NoTracker:
    """Logs nothing."""

    run_id: str | None = None

    def progress(self, state: Progress) -> None:
        return None

    def finish(self, summary: Summary, folder: Path, status: str) -> None:
        return None

    def stop(self, status: str) -> None:
        return None


def start_tracking(run: dict[str, Any]) -> Tracker:
    """Begin the MLflow run of an evaluation, or go on with the one in `run["mlflow_run_id"]`.

    Args:
        run: what `manifest.open_run` gives.

    Waits at most START_SECONDS. If the store cannot be reached, everything is tried again at the end.
    """
    tracker = MlflowTracker(run)
    tracker.open()
    return tracker


class MlflowTracker:
    """One MLflow run. At most one thread at a time talks to the store; nobody waits for it beyond a limit.

    `run_id` is the MLflow run's id, as soon as it has one.
    """

    def __init__(self, run: Mapping[str, Any]) -> None:
        self.run_id: str | None = run.get("mlflow_run_id")
        self._manifest = dict(run)
        self._run: dict[str, Any] = scrubbed(run)
        self._client: MlflowClient | None = None
        self._thread: threading.Thread | None = None
        self._problem: Exception | None = None
        self._next_live = time.monotonic() + LIVE_SECONDS

    def open(self) -> None:
        self._do(self._opened, START_SECONDS)

    def progress(self, state: Progress) -> None:
        """Log how it stands, every LIVE_SECONDS at most; while the store is busy this moment is skipped."""
        now = time.monotonic()
        if now < self._next_live or not state.done:
            return
        self._next_live = now + LIVE_SECONDS
        if self._thread is None or not self._thread.is_alive():
            step, errors = state.done, state.errors
            live = {"accuracy": state.correct / step, "errors": float(errors), "rows": float(step)}
            self._start(lambda: self._log(live, step))

    def finish(self, summary: Summary, folder: Path, status: str) -> None:
        """Log everything and end the run. Warns, once, when something could not be logged."""
        known = self.run_id
        left = ["scores", "tables and dialogues", "the end of the run", RESULTS]
        self._problem = None
        self._do(lambda: self._finish(summary, folder, status, left), FINISH_SECONDS)
        missing = list(left)
        if self.run_id != known and (folder / MANIFEST).exists():
            with suppress(OSError):  # only a later resumption would miss it
                save_run(folder, {**self._manifest, "mlflow_run_id": self.run_id})
        if missing:
            warnings.warn(
                f"MLflow did not take {', '.join(missing)} ({_reason(self._problem)}): {folder} has "
                "everything, and the same command with the same folder logs it once the store is back",
                RuntimeWarning,
                stacklevel=3,
            )

    def stop(self, status: str) -> None:
        """End the run without results, if it has begun."""
        if self._client is not None:
            self._do(lambda: self._opened().set_terminated(self.run_id or "", status), START_SECONDS)

    def _do(self, job: Callable[[], object], seconds: float) -> None:
        """Run a job after the one under way, and wait at most so long; a late one goes on unattended."""
        deadline = time.monotonic() + seconds
        if self._thread is not None:
            self._thread.join(seconds)
            if self._thread.is_alive():
                return
        self._start(job).join(max(0.0, deadline - time.monotonic()))

    def _start(self, job: Callable[[], object]) -> threading.Thread:
        # A daemon: a store that hangs must not keep the process from ending either.
        self._thread = threading.Thread(target=self._work, args=(job,), name="folkmoot-mlflow", daemon=True)
        self._thread.start()
        return self._thread

    def _work(self, job: Callable[[], object]) -> None:
        try:
            with quiet():
                job()
        except Exception as problem:  # of MLflow, a driver or the network: none may reach the evaluation
            self._problem = problem

    def _opened(self) -> MlflowClient:
        """The client, once the run exists and says what it is of; tried again as long as that fails."""
        if self._client is None:
            client = open_client()
            with quiet():
                logged = self._resumed(client)
                if logged is None:
                    self.run_id, logged = _create_run(client, self._run), {}
                _describe(client, str(self.run_id), self._run, logged)
            self._client = client
        return self._client

    def _resumed(self, client: MlflowClient) -> dict[str, str] | None:
        """The parameters that the earlier run has; None when there is none, or it is gone from this store."""
        from mlflow import MlflowException

        if self.run_id is None:
            return None
        try:
            run = client.get_run(self.run_id)
        except MlflowException as problem:
            if problem.error_code == "RESOURCE_DOES_NOT_EXIST":
                return None
            raise
        if run.info.lifecycle_stage != "active":
            return None
        client.update_run(self.run_id, status="RUNNING")
        return dict(run.data.params)

    def _log(self, metrics: Mapping[str, float], step: int, tags: Mapping[str, str] | None = None) -> None:
        from mlflow.entities import Metric, RunTag

        now = int(time.time() * 1000)
        self._opened().log_batch(
            str(self.run_id),
            metrics=[Metric(name, value, now, step) for name, value in metrics.items()],
            tags=[RunTag(name, value) for name, value in (tags or {}).items()],
        )

    def _finish(self, summary: Summary, folder: Path, status: str, left: list[str]) -> None:
        """What has been logged is struck off `left`, so that a caller who stops waiting knows the rest."""
        tags = {"mlflow.note.content": headline(summary)}
        self._log(metrics_of(summary), summary.counts["rows"], tags)
        left.remove("scores")
        client, run_id = self._opened(), str(self.run_id)
        # The run ends before its largest file is sent: that may take long, and is missed least.
        jobs: list[tuple[str, Callable[[], object]]] = [
            ("tables and dialogues", lambda: self._log_files(client, summary, folder)),
            ("the end of the run", lambda: client.set_terminated(run_id, status)),
            (RESULTS, lambda: client.log_artifact(run_id, str(folder / RESULTS))),
        ]
        for what, job in jobs:
            try:
                job()
                left.remove(what)
            except Exception as problem:
                self._problem = problem

    def _log_files(self, client: MlflowClient, summary: Summary, folder: Path) -> None:
        run_id = str(self.run_id)
        with tempfile.TemporaryDirectory(prefix="folkmoot-") as scratch:
            here = Path(scratch)
            write_json(here / MANIFEST, {**self._run, "mlflow_run_id": run_id})
            write_json(here / "summary.json", scrubbed(summary.to_dict()))
            table: list[list[Any]] = []
            best = most_informative(_tabled(read_rows(folder / RESULTS), table))
            write_json(here / TABLE, {"columns": COLUMNS, "data": table})
            total = summary.counts["rows"]
            if best:
                page = dialogues_page(best, run_name(self._run), total)
                (here / "dialogues.html").write_text(page, encoding="utf-8", errors="backslashreplace")
            if self._run["program"].get("program") == "deliberation":
                deliberation_plot(summary.report, here / "deliberation.png")
            client.log_artifacts(run_id, scratch)
        cut = f"the first {len(table):,} of {total:,}" if len(table) < total else f"all {total:,}"
        client.set_tag(run_id, "folkmoot.table_rows", cut)
        client.set_tag(run_id, "mlflow.loggedArtifacts", json.dumps([{"path": TABLE, "type": "table"}]))


def _create_run(client: MlflowClient, run: Mapping[str, Any]) -> str:
    created = client.create_run(
        _experiment(client, experiment_name(run)), tags=tags_of(run), run_name=run_name(run)
    )
    return str(created.info.run_id)


def _experiment(client: MlflowClient, name: str) -> str:
    """The id of the experiment of that name, made if it is missing, brought back if it was deleted."""
    from mlflow import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            # The kind makes MLflow's UI open on the table of runs.
            return client.create_experiment(
                name,
                artifact_location=artifact_location(client.tracking_uri, name),
                tags={"mlflow.experimentKind": "custom_model_development"},
            )
        except MlflowException as problem:
            if problem.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            found = client.get_experiment_by_name(name)  # made by another process just now
            assert found is not None
    if found.lifecycle_stage != "active":
        client.restore_experiment(found.experiment_id)
    return str(found.experiment_id)


def _describe(client: MlflowClient, run_id: str, run: Mapping[str, Any], logged: Mapping[str, str]) -> None:
    """Log parameters and data set. Parameters never change: what a resumed run does otherwise is a tag."""
    from mlflow.entities import Dataset, DatasetInput, InputTag, Param, RunTag

    params = params_of(run)
    changed = {name: value for name, value in params.items() if logged.get(name, value) != value}
    tags = {"folkmoot.changed_on_resuming": json.dumps(changed)[:LONGEST_TAG]} if changed else {}
    client.log_batch(
        run_id,
        params=[Param(name, value) for name, value in params.items() if name not in logged],
        tags=[RunTag(name, value) for name, value in tags.items()],
    )
    data = Dataset(
        name=experiment_name(run),
        digest=run["data_fingerprint"][:LONGEST_DIGEST],
        source_type="folkmoot",
        source=json.dumps({"data": run["settings"].get("data"), "split": run["settings"].get("split")}),
        profile=json.dumps({"num_rows": run["questions"]}),
    )
    client.log_inputs(run_id, [DatasetInput(data, [InputTag("mlflow.data.context", "evaluation")])])


def _tabled(rows: Iterable[Mapping[str, Any]], table: list[list[Any]]) -> Iterator[Mapping[str, Any]]:
    """Pass the rows on, and put the first TABLE_ROWS of them into the table."""
    for row in rows:
        if len(table) < TABLE_ROWS:
            flat = {**row, "calls": row["usage"].get("calls")}
            table.append([flat.get(name) for name in COLUMNS])
        yield row


def _reason(problem: Exception | None) -> str:
    if problem is None:
        return "it does not answer in time"
    text = " ".join(str(problem).split()) or type(problem).__name__
    return str(scrubbed(text))[:300]
