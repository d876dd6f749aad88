"""One run in MLflow: found or created, and made equal to its entry, part by part."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

from mlflow import MlflowClient, MlflowException
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, Run, RunTag
from requests import HTTPError

from ...modules.base.errors import UserError
from ...modules.base.keyed import without
from ..base.cards import Content, Drawn, TableEntry
from .cursor import RunState
from .entry import Json, RunEntry
from .log_model import log_model
from .store import check_place, experiment_at
from .values import LONGEST_PARAM, LONGEST_TAG, valid_name

KEY_TAG = "folkmoot.key"
NOTE_TAG, PARENT_TAG = "mlflow.note.content", "mlflow.parentRunId"
TABLES_TAG = "mlflow.loggedArtifacts"
CHANGED_TAG = "folkmoot.changed_on_resuming"
LONGEST_DIGEST = 36
_COLUMNS = ("id", "question", "choices", "answer", "context", "kind")
SCHEMA = json.dumps({"mlflow_colspec": [{"name": name, "type": "string"} for name in _COLUMNS]})
"""The columns of questions, as MLflow shows them of a data set."""


class Part(NamedTuple):
    """A part of a run: its name, a digest of its content, and the function that sends it."""

    name: str
    digest: str
    send: Callable[[], object]


class StoredRun:
    """A run in the store. `above` is its parent run, in the same experiment, since MLflow nests
    runs only there. `asks`: an earlier push failed, so the store may hold more of the run than
    `state` says.
    """

    def __init__(
        self,
        client: MlflowClient,
        entry: RunEntry,
        state: RunState,
        above: Run | None,
        *,
        asks: bool,
    ) -> None:
        self.client, self.entry, self.state = client, entry, state
        self.above, self.asks = above, asks

    @cached_property
    def run(self) -> Run:
        """The run as first read from the store; created if there is none."""
        run = self._earlier() or self._create()
        check_place(run.info.artifact_uri)
        self.state.run_id = run.info.run_id
        return run

    @property
    def run_id(self) -> str:
        return self.state.run_id or str(self.run.info.run_id)

    def lacks(self) -> list[Part]:
        """Return the parts that the store lacks, in the order of sending."""
        return [part for part in self._parts if self.state.sent.get(part.name) != part.digest]

    def show(self) -> None:
        """Show that the run is going on, and its state."""
        self.send_figures()
        if self.run.info.status != "RUNNING":
            self.client.update_run(self.run_id, status="RUNNING")

    def _earlier(self) -> Run | None:
        """Return the run of an earlier push; None when it was deleted or belongs to another
        folder.
        """
        state = self.state
        run = run_in(self.client, state.run_id) if state.run_id else None
        if run is not None and run.data.tags.get(KEY_TAG) == self.entry.key:
            return run
        state.run_id, state.sent, state.traces = None, {}, 0
        return None

    def _create(self) -> Run:
        """Return a new run, or one that an earlier push created without receiving the reply."""
        entry, above = self.entry, self.above
        caller = entry.place["mlflow_parent_id"]
        if above is None and caller:
            above = run_in(self.client, caller)  # the user's, if it is still there
        if above is None:
            experiment = experiment_at(self.client, entry.place, entry.experiment)
        else:
            experiment = str(above.info.experiment_id)
        if self.asks:
            query = f"tags.`{KEY_TAG}` = '{entry.key}'"
            runs = self.client.search_runs([experiment], query)
            for other in runs[1:]:  # a repeated request has created two
                self.client.delete_run(other.info.run_id)
            if runs:
                return runs[0]
        tags = {**entry.tags, KEY_TAG: entry.key}
        if above is not None:
            tags[PARENT_TAG] = above.info.run_id
        created = self.client.create_run(
            experiment,
            start_time=entry.began,
            tags={name: value[:LONGEST_TAG] for name, value in tags.items()},
            run_name=entry.name,
        )
        # A trigger in a foreign database may have changed the location of its files.
        return self.client.get_run(created.info.run_id)

    @cached_property
    def _parts(self) -> list[Part]:
        """All parts in their order. A model, which may take long, is last."""
        entry = self.entry
        about = [entry.name, entry.params, entry.tags, entry.metrics, entry.step, entry.note]
        parts = [
            Part("figures", digest_of(about, entry.curve), self.send_figures),
            Part("end", digest_of(entry.status, entry.metrics), self._end),
        ]
        for name, content in entry.files.items():
            parts.append(Part(name, digest_of(content), partial(self._send_file, name, content)))
        if (model := entry.model) is not None:
            digest = digest_of(model.folder, model.lm, model.registered)
            log = partial(log_model, self.client, self.run, model, asks=self.asks)
            parts.append(Part(f"the {model.name}", digest, log))
        return parts

    def send_figures(self) -> None:
        """Name, parameters, data set, tags, description and metrics. MLflow's parameters cannot
        change, so values that differ on resuming are tags.
        """
        entry, run = self.entry, self.run
        params = {valid_name(name): text[:LONGEST_PARAM] for name, text in entry.params.items()}
        logged = run.data.params
        changed = {name: text for name, text in params.items() if logged.get(name, text) != text}
        tags = dict(entry.tags)
        if entry.note is not None:
            tags[NOTE_TAG] = entry.note
        if changed:
            tags[CHANGED_TAG] = json.dumps(changed)
        new = without(params, logged)
        points = metrics_of(entry.metrics, entry.step, entry.ended)
        for step, figures in entry.curve:
            # Always the same moment: a step that the store has is not added again.
            points += metrics_of(figures, step, (entry.began or 1) + step)
        self.client.log_batch(
            run.info.run_id,
            metrics=points,
            params=[Param(name, text) for name, text in new.items()],
            tags=[RunTag(name, value[:LONGEST_TAG]) for name, value in tags.items()],
        )
        if entry.dataset is not None and not logged:
            try:
                self._log_data(entry.dataset)
            except MlflowException:  # if two runs log the same data set at the same time, one fails
                self._log_data(entry.dataset)
        if run.info.run_name != entry.name:
            self.client.update_run(run.info.run_id, name=entry.name)

    def _log_data(self, dataset: Json) -> None:
        data = Dataset(
            name=self.entry.experiment,
            digest=dataset["digest"][:LONGEST_DIGEST],
            source_type="folkmoot",
            source=json.dumps(dataset["source"]),
            schema=SCHEMA,
            profile=json.dumps({"num_rows": dataset["rows"]}),
        )
        used = DatasetInput(data, [InputTag("mlflow.data.context", "evaluation")])
        self.client.log_inputs(self.run_id, [used])

    def _send_file(self, name: str, content: Content) -> None:
        """Log a file or folder from its path, and other contents as text, JSON or a table."""
        client, run_id, folder = self.client, str(self.run.info.run_id), name.rpartition("/")[0]
        if isinstance(content, str):
            # An LM may write half of a surrogate pair, which no file of UTF-8 can hold.
            text = content.encode("utf-8", "backslashreplace").decode()
            client.log_text(run_id, text, name)
        elif isinstance(content, TableEntry):
            client.log_dict(run_id, _document(content), name)
        elif isinstance(content, dict):
            client.log_dict(run_id, content, name)
        elif isinstance(content, Drawn):
            with tempfile.TemporaryDirectory(prefix="folkmoot-") as scratch:
                path = Path(scratch) / Path(name).name
                try:
                    content.write(path)
                except Exception as problem:
                    # Not as it is: an error of the disk here is no outage of the store.
                    raise UserError(str(problem) or type(problem).__name__) from problem
                if path.exists():
                    client.log_artifact(run_id, str(path), folder or None)
        elif content.is_dir():
            client.log_artifacts(run_id, str(content), name)
        else:
            client.log_artifact(run_id, str(content), folder or None)
        if isinstance(content, TableEntry) or (isinstance(content, Drawn) and content.table):
            tables = json.loads(self.run.data.tags.get(TABLES_TAG, "[]"))
            # MLflow's page shows only those artifacts as tables that this tag of the run names.
            table = {"path": name, "type": "table"}
            if table not in tables:
                self.run.data.tags[TABLES_TAG] = json.dumps([*tables, table])
                client.set_tag(run_id, TABLES_TAG, self.run.data.tags[TABLES_TAG])

    def _end(self) -> None:
        self.client.set_terminated(str(self.run.info.run_id), self.entry.status, self.entry.ended)


def _document(table: TableEntry) -> Json:
    """Return a table as MLflow reads it."""
    return {"columns": list(table.columns), "data": list(table.rows)}


def digest_of(*contents: object) -> str:
    """Return a digest of contents: the bytes of files and of all files in folders, and other
    contents as JSON.
    """
    text = json.dumps(contents, sort_keys=True, default=_to_digest)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _to_digest(content: object) -> object:
    """Return as JSON what stands for something in a digest."""
    if isinstance(content, Drawn):
        return list(content.sources)
    if isinstance(content, TableEntry):
        return _document(content)
    if not isinstance(content, Path):
        return str(content)
    digests: dict[str, str] = {}
    for path in (content, *content.rglob("*")):
        if path.is_file():
            with open(path, "rb") as file:
                # By name: a file may have been renamed.
                name = str(path.relative_to(content))
                digests[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return digests


def run_in(client: MlflowClient, run_id: str) -> Run | None:
    """Return the run of that id; None when it is not in this store. Raises UserError as
    `check_place` does.
    """
    try:
        run = client.get_run(run_id)
    except MlflowException as problem:
        if problem.error_code == "RESOURCE_DOES_NOT_EXIST":
            return None
        raise
    if run.info.lifecycle_stage != "active":
        return None
    check_place(run.info.artifact_uri)
    return run


def metrics_of(figures: Mapping[str, float], step: int, moment: int | None) -> list[Metric]:
    """Return figures as MLflow's metrics. With the same timestamp, sending them again adds nothing.
    They are rounded to six digits, since the UI shows all digits; counts stay whole.
    """
    moment = moment or int(time.time() * 1000)
    return [
        Metric(
            valid_name(name),
            float(value if isinstance(value, int) else f"{value:.6g}"),
            moment,
            step,
        )
        for name, value in figures.items()
    ]


def is_outage(problem: Exception) -> bool:
    """Return whether an error means that the store, or a proxy before it, fails, rather than
    refuses what it was sent.
    """
    if isinstance(problem, MlflowException):
        status: int = problem.get_http_status_code()  # type: ignore[no-untyped-call]
    elif isinstance(problem, HTTPError) and problem.response is not None:
        status = problem.response.status_code  # of what takes the artifacts
    else:
        return isinstance(problem, OSError)
    return status >= 500 or status in (408, 429)
