"""Logs an evaluation to MLflow as one run; a store that is down, slow or full never stops the evaluation."""

from __future__ import annotations

import json
import tempfile
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ...modules.base.errors import UserError
from ..plots.dialogues import dialogues_page, most_informative
from ..plots.protocols import plot_of
from ..runs.manifest import MANIFEST, save_run, write_json
from ..runs.rows import RESULTS, read_rows
from ..runs.traces import TRACES
from .begin import describe_run, experiment_of
from .send_traces import Sender, alone, send_traces
from .store import open_client, quiet, store_name
from .unsent import TRACES_LEFT, keep_copy, mark, unmark, waiting_beside
from .values import experiment_name, headline, masked, metrics_of, run_name, scrubbed, tags_of

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from ...modules.protocols.program import Program
    from ..runs.progress import Progress
    from ..runs.summary import Summary

START_SECONDS = 30.0
PROMPT_SECONDS = 3.0  # what an evaluation waits, which can begin without the store
FINISH_SECONDS = 120.0
LIVE_SECONDS = 5.0
MANY_TRACES = 50  # more are sent by a process of their own
KEY_TAG = "folkmoot.key"
PROGRAM_LEFT = "the program"
SAVED = "program"  # folder of a program that waits to be logged
TABLE = "rows.json"
TABLE_ROWS = 2_000
COLUMNS = ["id", "question", "answer", "gold", "correct", "decided_by", "rounds", "calls", "seconds", "error"]


class Tracker(Protocol):
    """What an evaluation tells as it goes. None of it raises, and `progress` does not wait."""

    run_id: str | None
    sender: Sender | None

    def progress(self, state: Progress) -> None: ...

    def finish(self, summary: Summary, folder: Path, status: str) -> None: ...

    def stop(self, status: str) -> None: ...


class NoTracker:
    """Logs nothing."""

    run_id: str | None = None
    sender: Sender | None = None

    def progress(self, state: Progress) -> None:
        return None

    def finish(self, summary: Summary, folder: Path, status: str) -> None:
        return None

    def stop(self, status: str) -> None:
        return None


def start_tracking(
    run: dict[str, Any],
    folder: Path | None = None,
    *,
    program: Program | None = None,
    lm: Any = None,
    traces: int = 0,
    keep: Any = None,
) -> Tracker:
    """Begin the MLflow run of an evaluation, or go on with the one in `run["mlflow_run_id"]`.

    Args:
        run: what `manifest.open_run` gives.
        folder: the run's, whose `run.json` is to name the MLflow run as soon as there is one.
        program: what is to be logged as a model, if it can be saved.
        lm: the LM of its seats that have none of their own.
        traces: how many traces are to come.
        keep: for a folder that is temporary, what it goes with.

    Waits at most PROMPT_SECONDS with a folder, else START_SECONDS; what fails is tried again at the end.
    """
    tracker = MlflowTracker(run, folder, program=program, lm=lm, traces=traces, keep=keep)
    tracker.open(START_SECONDS if folder is None else PROMPT_SECONDS)
    return tracker


class MlflowTracker:
    """One MLflow run. At most one thread at a time talks to the store; nobody waits for it beyond a limit.

    `run_id` is set as soon as there is one. What the store has not taken in the end is marked (`unsent`).
    """

    def __init__(
        self,
        run: Mapping[str, Any],
        folder: Path | None = None,
        *,
        program: Program | None = None,
        lm: Any = None,
        traces: int = 0,
        keep: Any = None,
        key: str | None = None,
    ) -> None:
        self.run_id: str | None = run.get("mlflow_run_id")
        self.sender: Sender | None = None
        self._manifest = dict(run)
        self._run: dict[str, Any] = scrubbed(run)
        self._folder = folder
        self._noted = self.run_id
        self._program, self._lm = program, lm
        self._traces = traces
        self._keep = keep
        self._key = key or uuid.uuid4().hex
        self._tried = key is not None
        self._client: MlflowClient | None = None
        self._thread: threading.Thread | None = None
        self._problem: Exception | None = None
        self._next_live = time.monotonic() + LIVE_SECONDS

    def open(self, seconds: float | None = None) -> None:
        self._do(self._opened, START_SECONDS if seconds is None else seconds)
        if self._program is not None and self._client and self._thread and not self._thread.is_alive():
            self._start(self._log_program)

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
        missing = self.log_all(summary, folder, status)
        sending = [TRACES_LEFT] if self.sender is not None and self.sender.at_work else []
        if not missing and not sending:
            unmark(folder)
        else:
            place = self._mark(folder, status, missing + sending, copied=bool(missing))
        if missing:
            warnings.warn(
                f"MLflow did not take {', '.join(missing)} ({_reason(self._problem)}): {place} has "
                f"everything, and `folkmoot push {place}` or the next run tracked there sends it once the "
                "store is back",
                RuntimeWarning,
                stacklevel=3,
            )
        else:
            self._push_others(folder)
        if sending and self.sender is not None and not self.sender.at_work and self.sender.wait():
            unmark(folder, TRACES_LEFT)  # done before there was a mark to take away

    def log_all(self, summary: Summary, folder: Path, status: str) -> list[str]:
        """Log everything and end the run; what the store did not take."""
        self._folder = folder
        left = ["scores", "tables and dialogues", "the end of the run", RESULTS]
        if (folder / TRACES).exists():
            left.append(TRACES_LEFT)
        if self._program is not None:
            left.append(PROGRAM_LEFT)
        self._problem = None

        def finish() -> None:
            self._opened()
            if self.sender is None:
                self._finish(summary, folder, status, left)
                return
            self.sender.close()  # it sends what is left
            left[:] = [what for what in left if what != TRACES_LEFT]
            with alone(folder):  # but lets the run's own end go first
                self._finish(summary, folder, status, left)

        self._do(finish, FINISH_SECONDS)
        self._note()
        if self.sender is not None:
            self.sender.close()
        return list(left)

    def stop(self, status: str) -> None:
        """End the run without results, if it has begun."""
        if self.sender is not None:
            self.sender.close()
        if self._client is not None or (self._thread is not None and self._thread.is_alive()):
            self._do(lambda: self._opened().set_terminated(self.run_id or "", status), START_SECONDS)

    def _mark(self, folder: Path, status: str, missing: list[str], *, copied: bool) -> Path:
        """Mark what is missing, in a copy if the folder goes when its run does; where everything is."""
        from mlflow import get_tracking_uri

        if self._keep is not None and copied:
            with suppress(OSError):
                folder = keep_copy(folder)
        if PROGRAM_LEFT in missing and self._program is not None:
            with suppress(UserError, OSError):
                self._program.save(folder / SAVED)
        store = store_name(str(get_tracking_uri()))
        mark(folder, {"missing": missing, "status": status, "store": store, "key": self._key})
        return folder

    def _push_others(self, folder: Path) -> None:
        """Send what this store could not take of earlier runs."""
        from mlflow import get_tracking_uri

        from .push import push

        others = waiting_beside(folder, store_name(str(get_tracking_uri())))

        def push_all() -> None:
            for one in others:
                with suppress(UserError):  # another process has it, or it is damaged
                    push(one)

        if others:
            self._do(push_all, FINISH_SECONDS)

    def _note(self) -> None:
        """Write into `run.json` which MLflow run this is."""
        if self._folder is None or self.run_id == self._noted or not (self._folder / MANIFEST).exists():
            return
        with suppress(OSError):  # only a later resumption would miss it
            save_run(self._folder, {**self._manifest, "mlflow_run_id": self.run_id})
            self._noted = self.run_id

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
                    self.run_id, logged = self._created(client)
                describe_run(client, str(self.run_id), self._run, logged)
            self._client = client
            self._note()
            if self._folder is not None and self._traces > MANY_TRACES:
                self.sender = Sender(self._folder, client.tracking_uri, self._keep)
        return self._client

    def _created(self, client: MlflowClient) -> tuple[str, dict[str, str]]:
        """The id and parameters of a new run, or of one that an attempt made whose answer never came."""
        experiment = experiment_of(client, experiment_name(self._run))
        if self._tried:
            for run in client.search_runs([experiment], f"tags.`{KEY_TAG}` = '{self._key}'", max_results=1):
                return str(run.info.run_id), dict(run.data.params)
        self._tried = True
        tags = {**tags_of(self._run), KEY_TAG: self._key}
        created = client.create_run(experiment, tags=tags, run_name=run_name(self._run))
        return str(created.info.run_id), {}

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
        client, run_id = self._opened(), str(self.run_id)
        tags = {"mlflow.note.content": headline(summary)}
        self._log(metrics_of(summary), summary.counts["rows"], tags)
        left.remove("scores")
        # The run ends before its largest file is sent: that may take long, and is missed least.
        jobs: list[tuple[str, Callable[[], object]]] = [
            ("tables and dialogues", lambda: self._log_files(client, summary, folder)),
            ("the end of the run", lambda: client.set_terminated(run_id, status)),
            (RESULTS, lambda: client.log_artifact(run_id, str(folder / RESULTS))),
        ]
        if PROGRAM_LEFT in left:
            jobs.append((PROGRAM_LEFT, self._log_program))
        if TRACES_LEFT in left:
            jobs.append((TRACES_LEFT, lambda: self._send_traces(client, run_id, folder)))
        for what, job in jobs:
            try:
                job()
                left.remove(what)
            except Exception as problem:
                self._problem = problem

    def _log_program(self) -> None:
        """Log the program as a model, once a run, where it can be saved."""
        if self._program is None:
            return
        from .models import log_program

        outputs = self._opened().get_run(str(self.run_id)).outputs
        if outputs is None or not outputs.model_outputs:
            with suppress(UserError):  # not every program of a user's own can be
                log_program(self._program, str(self.run_id), lm=self._lm)
        self._program = None

    def _send_traces(self, client: MlflowClient, run_id: str, folder: Path) -> None:
        if refused := send_traces(client, run_id, folder):
            raise RuntimeError(f"it refuses {refused} of them")

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
            kind = self._run["program"].get("program")
            if (plot := plot_of(kind)) is not None:
                plot.draw(summary.report, here / f"{kind}.png")
            client.log_artifacts(run_id, scratch)
        cut = f"the first {len(table):,} of {total:,}" if len(table) < total else f"all {total:,}"
        client.set_tag(run_id, "folkmoot.table_rows", cut)
        client.set_tag(run_id, "mlflow.loggedArtifacts", json.dumps([{"path": TABLE, "type": "table"}]))


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
    return masked(text)[:300]
