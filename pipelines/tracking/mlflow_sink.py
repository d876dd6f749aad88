"""Logs runs to MLflow; a store that is down, slow or full never stops the run."""

from __future__ import annotations

import json
import re
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ...modules.base.errors import UserError, said_by
from ..base.journal import write_json
from ..base.run_files import Manifest
from ..runs.manifest import MANIFEST, save_run
from ..runs.traces import TRACES
from .send_traces import TraceSender, is_outage, send_traces
from .store import (
    ForeignStore,
    artifact_location,
    check_place,
    current_store,
    missing_store,
    open_client,
    quiet,
)
from .unsent import SAVED, TRACES_LEFT, keep_copy, note_sent, note_unsent
from .uploads import END, Child, Content, ModelUpload, TableUpload, Tracker, Upload, Uploads
from .values import (
    LONGEST_NAME,
    LONGEST_PARAM,
    LONGEST_TAG,
    begun_name,
    experiment_name,
    named,
    params_of,
    problem_line,
    scrubbed,
    tags_of,
    valid_name,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

START_SECONDS = 30.0
FINISH_SECONDS = 120.0
LIVE_SECONDS = 5.0
MANY_TRACES = 50  # more are sent after the run's result is known
KEY_TAG = "folkmoot.key"
PROMPTS_TAG = "mlflow.linkedPrompts"
NOTE_TAG, PARENT_TAG, TABLES_TAG = (
    "mlflow.note.content",
    "mlflow.parentRunId",
    "mlflow.loggedArtifacts",
)
LONGEST_DIGEST = 36
AT_ONCE = 900  # metrics in one request; MLflow takes 1,000


class MlflowTracker(Tracker):
    """One MLflow run. At most one thread at a time talks to the store; nobody waits for it beyond a
    limit.

    See `start_tracking` for the arguments.
    """

    run_id: str | None = None

    def __init__(
        self,
        run: Mapping[str, Any],
        folder: Path | None = None,
        *,
        traces: int = 0,
        keep: Any = None,
        key: str | None = None,
    ) -> None:
        self.run_id = run.get("mlflow_run_id")
        self._manifest = dict(run)
        self._run: dict[str, Any] = scrubbed(run)
        self._folder = folder
        self._noted = self.run_id
        self._traces = traces
        self._keep = keep
        key = key or run.get("tracking_key")
        self._key = key or uuid.uuid4().hex
        self._tried = key is not None
        self._client: MlflowClient | None = None
        self._thread: threading.Thread | None = None
        self._sender: TraceSender | None = None
        self._problem: Exception | None = None
        self._faults: dict[str, Exception] = {}
        self._next_live = time.monotonic() + LIVE_SECONDS
        self._sent_to: int | None = None  # the step up to which the store has the curve
        # tags of the children that the store has whole
        self._children: set[tuple[str, str]] = set()
        self._marked = False  # whether the folder notes what is to be sent
        self._ending = threading.Event()

    def open(self) -> None:
        if self._folder is None:
            self._do(self._opened, START_SECONDS)
        else:
            self._start(self._later)

    def live(self, make: Callable[[], Upload]) -> None:
        """While the store is busy this moment is skipped."""
        now = time.monotonic()
        if now < self._next_live or (self._thread is not None and self._thread.is_alive()):
            return
        self._next_live = now + LIVE_SECONDS
        upload = make()
        self._start(lambda: self._log(upload))

    def end(
        self,
        uploads: Uploads,
        status: str,
        folder: Path,
        model: ModelUpload | None = None,
        *,
        warn: bool = True,
    ) -> list[str]:
        self._ending.set()
        missing = self._sent(uploads, status, model)
        place = folder if self._folder is None else self._settle(missing, status, model)
        how = "the same command with the same folder logs it"
        if self._marked:
            how = f"`folkmoot push {place}` or the next run tracked there sends it"
        if warn and missing:
            reason = problem_line(self._problem) if self._problem else "it does not answer in time"
            text = (
                f"MLflow did not take {', '.join(missing)} ({reason}): {place} has everything, "
                f"and {how} "
                "once the store is back"
            )
            if isinstance(self._problem, ForeignStore):
                text = f"the run stays in {place}: {self._problem}"
            warnings.warn(text, RuntimeWarning, stacklevel=3)
        for name, problem in self._faults.items() if warn else ():
            warnings.warn(
                f"the {name} of {place} are not in MLflow because of a fault in folkmoot "
                f"({type(problem).__name__}: {said_by(problem)}): please report it; the folder "
                f"has them all",
                RuntimeWarning,
                stacklevel=3,
            )
        return missing

    def stop(self, status: str) -> None:
        going = self._client is not None or (self._thread is not None and self._thread.is_alive())
        self._ending.set()
        if going:
            self._do(
                lambda: self._opened().set_terminated(self.run_id or "", status), START_SECONDS
            )

    def wait(self, seconds: float | None = None) -> bool:
        return self._sender is None or self._sender.wait(seconds)

    # What runs in a thread of its own
    # ---------------------------------------------------------------------

    def _do(self, job: Callable[[], object], seconds: float) -> None:
        """Run a job after the one under way, and wait at most so long; a longer job goes on
        alone.
        """
        deadline = time.monotonic() + seconds
        if self._thread is not None:
            self._thread.join(seconds)
            if self._thread.is_alive():
                return
        self._start(job).join(max(0.0, deadline - time.monotonic()))

    def _start(self, job: Callable[[], object]) -> threading.Thread:
        def work() -> None:
            try:
                with quiet():
                    job()
            except (
                Exception
            ) as problem:  # of MLflow, a driver or the network: none may reach the caller
                self._problem = problem

        # A daemon: a store that hangs must not keep the process from ending either.
        self._thread = threading.Thread(target=work, name="folkmoot-mlflow", daemon=True)
        self._thread.start()
        return self._thread

    # How a run begins
    # -------------------------------------------------------------------------------------

    def _later(self) -> None:
        """Begin an evaluation that lasts. MLflow takes seconds to import, which a short one's
        answers would share with it: that is logged when it has ended.
        """
        if not self._ending.wait(LIVE_SECONDS):
            self._opened()

    def _opened(self) -> MlflowClient:
        """The client, once the run exists and says what it is of; tried again as long as that
        fails.
        """
        if self._client is None:
            client = open_client()
            with quiet():
                logged = self._resumed(client)
                if logged is None:
                    self.run_id, logged = self._created(client)
                self._describe(client, logged)
            self._client = client
            self._note()
        return self._client

    def _created(self, client: MlflowClient) -> tuple[str, dict[str, str]]:
        """The id and parameters of a new run, or of one that an attempt made whose answer never
        came.
        """
        experiment = self._experiment(client)
        query = f"tags.`{KEY_TAG}` = '{self._key}'"
        found = list(_runs(client, experiment, query)) if self._tried else []
        if not found:
            self._tried = True
            tags = {**tags_of(self._run), KEY_TAG: self._key}
            created = client.create_run(experiment, tags=tags, run_name=begun_name(self._run))
            found = list(_runs(client, experiment, query)) or [created]
        run, *others = found
        check_place(run.info.artifact_uri)
        for other in others:  # MLflow repeats a request whose answer was lost, and so makes two
            client.delete_run(other.info.run_id)
        return str(run.info.run_id), dict(run.data.params)

    def _experiment(self, client: MlflowClient) -> str:
        """That of the run that this one is shown under, since no other shows it; else the user's,
        or else one that is named after the data.
        """
        parent = self._run.get("mlflow_parent_id")
        known = _run_in(client, parent) if parent else None
        if known:
            return str(known.info.experiment_id)
        given = self._run.get("mlflow_experiment_id")
        if given:
            experiment = client.get_experiment(given)
            check_place(experiment.artifact_location)
            return str(experiment.experiment_id)
        return experiment_of(
            client, self._run.get("mlflow_experiment") or experiment_name(self._run)
        )

    def _resumed(self, client: MlflowClient) -> dict[str, str] | None:
        """The parameters that the earlier run has; None when there is none, or it is gone from this
        store.
        """
        run = _run_in(client, self.run_id) if self.run_id else None
        if run is None:
            return None
        client.update_run(str(self.run_id), status="RUNNING")
        return dict(run.data.params)

    def _describe(self, client: MlflowClient, logged: Mapping[str, str]) -> None:
        """Log parameters and data set. Parameters never change: what differs on resuming is
        a tag.
        """
        from mlflow.entities import Dataset, DatasetInput, InputTag

        run, params = self._run, params_of(self._run)
        changed = {
            name: value for name, value in params.items() if logged.get(name, value) != value
        }
        tags = {"folkmoot.changed_on_resuming": json.dumps(changed)} if changed else {}
        new = {name: value for name, value in params.items() if name not in logged}
        _batch(client, str(self.run_id), params=new, tags=tags)
        data = Dataset(
            name=experiment_name(run),
            digest=run["data_fingerprint"][:LONGEST_DIGEST],
            source_type="folkmoot",
            source=json.dumps({name: run["settings"].get(name) for name in ("data", "split")}),
            profile=json.dumps({"num_rows": run["questions"]}),
        )
        context = InputTag("mlflow.data.context", "evaluation")
        client.log_inputs(str(self.run_id), [DatasetInput(data, [context])])

    def _note(self) -> None:
        """Write into `run.json` which MLflow run this is."""
        if (
            self._folder is None
            or self.run_id == self._noted
            or not (self._folder / MANIFEST).exists()
        ):
            return
        with suppress(OSError):  # only a later resumption would miss it
            save_run(self._folder, cast(Manifest, {**self._manifest, "mlflow_run_id": self.run_id}))
            self._noted = self.run_id

    # How it ends
    # ------------------------------------------------------------------------------------------

    def _sent(self, uploads: Uploads, status: str, model: ModelUpload | None) -> list[str]:
        """Send everything; what the store did not take, which is all of it where the first part
        failed.
        """
        jobs: dict[str, Callable[[], object]] = {
            name: partial(self._make, name, make) for name, make in uploads.items()
        }
        # In its place among the uploads, else after all of them.
        jobs[END] = lambda: self._opened().set_terminated(str(self.run_id), status)
        if model is not None:
            jobs[model.title] = partial(self._model, model)
        if self._folder is not None and (self._folder / TRACES).exists():
            jobs[TRACES_LEFT] = self._send_traces
        left = list(jobs)
        untried = self._client is None and self._problem is None
        self._problem, self._faults = None, {}
        # first, since a process can be killed and a disk be full later
        if self._folder is not None:
            self._mark(self._folder, left, status)

        def send() -> None:
            if untried:  # answers are lost, and of two runs that log one data set at once one fails
                with suppress(Exception):
                    self._opened()
            self._opened()
            for place, (name, job) in enumerate(jobs.items()):
                try:
                    job()
                    left.remove(name)
                except Exception as problem:
                    self._problem = problem
                    if place == 0:
                        return

        self._do(send, FINISH_SECONDS)
        self._note()
        return list(left)

    def _make(self, name: str, make: Callable[[], Upload] | None) -> None:
        assert make is not None
        try:
            upload = make()
        except OSError:
            raise
        except Exception as problem:  # of ours, and no reason to leave the run open
            self._faults[name] = problem
        else:
            self._log(upload)

    def _send_traces(self) -> None:
        assert self._folder is not None
        if self._traces > MANY_TRACES:
            return  # after all the rest, see `_settle`
        send_traces(self._opened(), str(self.run_id), self._folder)

    def _mark(self, folder: Path, missing: list[str], status: str) -> None:
        about = {"missing": missing, "status": status, "store": current_store(), "key": self._key}
        self._marked = note_unsent(folder, about)

    def _settle(self, missing: list[str], status: str, model: ModelUpload | None) -> Path:
        """Note what is missing, in a copy of a temporary folder; return the folder that has
        everything.

        Many traces are missing until their own thread has sent them.
        """
        folder = self._folder
        assert folder is not None
        many = self._traces > MANY_TRACES
        left = [*missing, *([TRACES_LEFT] if many and TRACES_LEFT not in missing else [])]
        if not left:
            note_sent(folder)
            return folder
        if missing and self._keep is not None:
            with suppress(OSError):
                copy = keep_copy(folder)
                note_sent(folder)
                folder = copy
        if model is not None and model.title in missing:
            with suppress(UserError, OSError):
                model.program.save(folder / SAVED)
        self._mark(folder, left, status)
        if not missing:
            self._sender = TraceSender(self._opened(), str(self.run_id), folder, self._keep)
        return folder

    # What is sent
    # -----------------------------------------------------------------------------------------

    def _log(self, upload: Upload) -> None:
        client, run_id = self._opened(), str(self.run_id)
        tags = dict(upload.tags) | ({} if upload.note is None else {NOTE_TAG: upload.note})
        points = _metrics(upload.metrics, upload.step)
        if upload.curve:  # as far as the store does not have it yet
            if self._sent_to is None:
                history = client.get_metric_history(run_id, next(iter(upload.curve[0][1])))
                self._sent_to = max((metric.step for metric in history), default=-1)
            new = [(step, figures) for step, figures in upload.curve if step > self._sent_to]
            points += [point for step, figures in new for point in _metrics(figures, step)]
        _batch(client, run_id, points, upload.params, tags)
        if upload.name is not None:
            client.update_run(run_id, name=upload.name)
        self._sent_to = upload.curve[-1][0] if upload.curve else self._sent_to
        _log_files(client, run_id, upload.files)
        self._log_children(client, run_id, upload.children)
        _register(client, run_id, upload.prompts)

    def _log_children(self, client: MlflowClient, parent: str, children: Sequence[Child]) -> None:
        """Make the runs that there are not yet, and finish those that an earlier attempt left half
        made.
        """
        waiting = [child for child in children if child.tag not in self._children]
        if not waiting:
            return
        experiment = client.get_run(parent).info.experiment_id
        query = f"tags.`{PARENT_TAG}` = '{parent}'"
        begun = {
            tag: run for run in _runs(client, experiment, query) for tag in run.data.tags.items()
        }
        made = {}
        for child in waiting:
            holds, known = child.holds, begun.get(child.tag)
            if known is None:
                note = {} if holds.note is None else {NOTE_TAG: holds.note}
                tags = {PARENT_TAG: parent, **holds.tags, **note}
                known = client.create_run(experiment, tags=tags, run_name=child.name[:LONGEST_NAME])
                made[child.tag] = known.info.run_id
            check_place(known.info.artifact_uri)
            if known.info.status == "RUNNING":
                _batch(client, known.info.run_id, _metrics(holds.metrics, holds.step), holds.params)
                _log_files(client, known.info.run_id, holds.files)
                client.set_terminated(known.info.run_id, child.status)
        for run in _runs(client, experiment, query) if made else ():
            if any(
                made.get(tag, run.info.run_id) != run.info.run_id for tag in run.data.tags.items()
            ):
                client.delete_run(run.info.run_id)
        self._children.update(child.tag for child in waiting)

    def _model(self, model: ModelUpload) -> None:
        """Log a program as a model, where it can be saved."""
        from .models import log_program

        # Not every program of a user's own can be saved; what is to be registered must be.
        with suppress(*(() if model.registered else (UserError,))):
            log_program(
                model.program,
                str(self.run_id),
                name=model.name,
                lm=model.lm,
                registered=model.registered,
            )


def _register(client: MlflowClient, run_id: str, prompts: Mapping[str, str]) -> None:
    """Make each text a version of its prompt, once a run; what a store in order does not take is
    left out.
    """
    from mlflow import MlflowException
    from mlflow.prompt.constants import PROMPT_EXPERIMENT_IDS_TAG_KEY

    if not prompts:
        return
    run = client.get_run(run_id)
    linked = {one["name"] for one in json.loads(run.data.tags.get(PROMPTS_TAG, "[]"))}
    # MLflow itself would show it in the active experiment alone.
    tags = {"folkmoot.run": run_id, PROMPT_EXPERIMENT_IDS_TAG_KEY: f",{run.info.experiment_id},"}
    for name, text in prompts.items():
        name = re.sub(r"[^a-zA-Z0-9_.-]+", "-", name)[:LONGEST_NAME]
        try:
            if name not in linked:
                version = client.register_prompt(name, text, run.info.run_name, tags)
                client.link_prompt_version_to_run(run_id, version)
        except (MlflowException, NotImplementedError) as problem:
            if is_outage(problem):
                raise


def _run_in(client: MlflowClient, run_id: str) -> Run | None:
    """The run of that id; None when it is gone from this store. Raises ForeignStore."""
    from mlflow import MlflowException

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


def _runs(client: MlflowClient, experiment: str, query: str) -> Iterator[Run]:
    token: str | None = ""
    while token is not None:
        page = client.search_runs([experiment], query, max_results=1000, page_token=token or None)
        yield from page
        token = page.token or None


def attach(run_ids: Sequence[str], path: Path, seconds: float = 60.0) -> str | None:
    """Add a file to runs as an artifact. Returns what went wrong, in a line, or None.

    A run that this store does not have is passed over if another one was found. Waits at most so
    long.
    """

    def add(client: MlflowClient, run_id: str) -> None:
        check_place(client.get_run(run_id).info.artifact_uri)
        client.log_artifact(run_id, str(path))

    done, problem = _each(run_ids, add, seconds)
    return problem if not done else None


def experiments_of(run_ids: Sequence[str], seconds: float = 10.0) -> dict[str, str]:
    """The experiment that each run is in; a run that the store does not show in time is
    left out.
    """
    done, _ = _each(
        run_ids, lambda client, run_id: str(client.get_run(run_id).info.experiment_id), seconds
    )
    return done


_T = TypeVar("_T")


def _each(
    run_ids: Sequence[str], work: Callable[[MlflowClient, str], _T], seconds: float
) -> tuple[dict[str, _T], str | None]:
    """What something gives for each run that this store has, and what went wrong first, in a line.

    A store that is not there is not made. Waits at most so long.
    """
    problems: list[str] = []
    done: dict[str, _T] = {}

    def do() -> None:
        try:
            with quiet():
                if missing := missing_store():  # runs of another store are no reason to make one
                    problems.append(f"there is no store {missing}")
                    return
                client = open_client()
                for run_id in run_ids:
                    try:
                        done[run_id] = work(client, run_id)
                    except Exception as problem:
                        problems.append(problem_line(problem))
        except Exception as problem:  # of MLflow, a driver or the network
            problems.append(problem_line(problem))

    thread = threading.Thread(target=do, name="folkmoot-mlflow", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        return {}, "it does not answer in time"
    return done, problems[0] if problems else None


def experiment_of(client: MlflowClient, name: str) -> str:
    """The id of the experiment of that name, made if it is missing, brought back if it was deleted.

    Raises ForeignStore for one whose files would leave a folder that nobody vouches for.
    """
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
    check_place(found.artifact_location)
    if found.lifecycle_stage != "active":
        client.restore_experiment(found.experiment_id)
    return str(found.experiment_id)


def _batch(
    client: MlflowClient,
    run_id: str,
    metrics: Sequence[Any] = (),
    params: Mapping[str, str] | None = None,
    tags: Mapping[str, str] | None = None,
) -> None:
    """Log metrics, parameters and tags in as many requests as they need."""
    from mlflow.entities import Param, RunTag

    wanted = [
        Param(valid_name(name), text[:LONGEST_PARAM]) for name, text in (params or {}).items()
    ]
    wanted_tags = [RunTag(name, value[:LONGEST_TAG]) for name, value in (tags or {}).items()]
    for start in range(0, max(len(metrics), len(wanted), len(wanted_tags)), AT_ONCE):
        now = slice(start, start + AT_ONCE)
        client.log_batch(run_id, metrics=metrics[now], params=wanted[now], tags=wanted_tags[now])


def _metrics(figures: Mapping[str, float], step: int) -> list[Any]:
    from mlflow.entities import Metric

    now = int(time.time() * 1000)
    return [Metric(name, value, now, step) for name, value in named(figures).items()]


def _log_files(client: MlflowClient, run_id: str, files: Mapping[str, Content]) -> None:
    """Log files and folders on disk from where they are, and others by way of a temporary
    folder.
    """
    tables = []
    with tempfile.TemporaryDirectory(prefix="folkmoot-") as scratch:
        for name, content in files.items():
            path = Path(scratch) / name
            folder = None if "/" not in name else name.rpartition("/")[0]
            if isinstance(content, Path) and content.is_dir():
                client.log_artifacts(run_id, str(content), name)
                continue
            if isinstance(content, Path):
                client.log_artifact(run_id, str(content), folder)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, str):
                path.write_text(content, encoding="utf-8", errors="backslashreplace")
            elif isinstance(content, TableUpload):
                write_json(path, {"columns": content.columns, "data": content.rows})
                tables.append({"path": name, "type": "table"})
            elif callable(content):
                content(path)
            else:
                write_json(path, scrubbed(content))
        if any(Path(scratch).iterdir()):
            client.log_artifacts(run_id, scratch)
    if tables:
        client.set_tag(run_id, TABLES_TAG, json.dumps(tables))
