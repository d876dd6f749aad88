"""Sends the traces of a run's folder to MLflow, each exactly once; many of them in a thread of their own."""

from __future__ import annotations

import atexit
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...modules.base.files import locked
from ..base.journal import read_object, write_json
from ..runs.manifest import MANIFEST
from ..runs.traces import TRACES, read_traces
from .spans import spans_of, trace_id
from .store import quiet
from .unsent import TRACES_LEFT, keep_copy, note_sent, note_unsent, unsent_in

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Span

SENT = "traces_sent.json"
BATCH = 20  # a store of one file is locked meanwhile
BATCH_BYTES = 4_000_000
PATIENCE_SECONDS = 30.0
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0


class TraceSender:
    """A thread that sends the traces of a folder once its run has ended, and then notes them as sent.

    The process waits for it before it ends. A store that is away for PATIENCE_SECONDS, a second Ctrl-C or a
    kill leave the note of what is missing, which is pushed later.
    """

    def __init__(self, client: MlflowClient, run_id: str, folder: Path, keep: Any = None) -> None:
        self._folder = folder
        self._keep = keep  # a temporary folder stays as long as its traces are sent
        self._given_up = threading.Event()
        self._sent = False
        self._thread = threading.Thread(
            target=self._work, args=(client, run_id), name="folkmoot-traces", daemon=True
        )
        atexit.register(self.wait)
        self._thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended, and say whether everything was sent. At exit this happens by itself."""
        try:
            self._thread.join(seconds)
        except KeyboardInterrupt:
            self._given_up.set()
        if not self._thread.is_alive():
            atexit.unregister(self.wait)
        return self._sent

    def _work(self, client: MlflowClient, run_id: str) -> None:
        pause, good = FIRST_PAUSE, time.monotonic()
        while not self._given_up.is_set():
            try:
                for _ in sending(client, run_id, self._folder):
                    pause, good = FIRST_PAUSE, time.monotonic()
                    if self._given_up.is_set():
                        return
            except Exception:  # of MLflow, a driver or the network
                if time.monotonic() - good > PATIENCE_SECONDS:
                    break
                self._given_up.wait(pause)
                pause = min(LONGEST_PAUSE, 2 * pause)
            else:
                note_sent(self._folder, TRACES_LEFT)
                self._sent = True
                break
        about = unsent_in(self._folder)
        if about and self._keep is not None:
            with suppress(OSError):
                note_unsent(keep_copy(self._folder), about)
        self._keep = None


def send_traces(client: MlflowClient, run_id: str, folder: Path) -> int:
    """Send what the run does not have yet and attach it; how many of those traces MLflow refused for good.

    Raises whatever MLflow does when the store cannot be reached: what it took until then is noted.
    """
    return sum(sending(client, run_id, folder))


def sending(client: MlflowClient, run_id: str, folder: Path) -> Iterator[int]:
    """Do what `send_traces` does, a few traces for each item, which is how many of them were refused."""
    earlier, at = set[str](), -1
    experiment, program = "", _program(folder)
    while True:
        with alone(folder), quiet():
            sent = _state(folder)
            if sent["run_id"] != run_id:
                sent = {"run_id": run_id, "offset": 0}
            batch, end = _batch(folder / TRACES, sent["offset"])
            if not batch:
                return
            if at != sent["offset"]:
                earlier = _ids(folder, sent["offset"])
            experiment = experiment or str(client.get_run(run_id).info.experiment_id)
            refused = _send(client, experiment, run_id, program, batch, earlier)
            earlier |= {record["row"]["id"] for record in batch}
            at = end
            write_json(folder / SENT, {"run_id": run_id, "offset": end})
        yield refused


def _send(
    client: MlflowClient,
    experiment: str,
    run_id: str,
    program: str,
    batch: Sequence[Mapping[str, Any]],
    earlier: set[str],
) -> int:
    latest = {record["row"]["id"]: record for record in batch}
    again = [trace_id(run_id, name) for name in latest if name in earlier]
    if again:  # a question asked again: MLflow would keep the state of its first trace
        client.delete_traces(experiment, trace_ids=again)
    try:
        _log(client, experiment, run_id, [spans_of(record, run_id, program) for record in latest.values()])
        return 0
    except Exception:
        client.get_run(run_id)  # raises when it is the store that is away, not a trace that is bad
        if len(latest) == 1:
            return 1
    refused = 0
    for record in latest.values():
        refused += _send(client, experiment, run_id, program, [record], set())
    return refused


def _log(client: MlflowClient, experiment: str, run_id: str, traces: Sequence[Sequence[Span]]) -> None:
    from mlflow.tracing.client import TracingClient

    tracing = TracingClient(client.tracking_uri)
    try:
        tracing.log_spans(experiment, [span for spans in traces for span in spans])
    except NotImplementedError:  # a folder, or a server from before MLflow 3.4
        for spans in traces:
            _log_as_artifact(tracing, experiment, run_id, spans)
        return
    client.link_traces_to_run([spans[0].trace_id for spans in traces], run_id)


def _log_as_artifact(tracing: Any, experiment: str, run_id: str, spans: Sequence[Span]) -> None:
    from mlflow.entities import SpanStatusCode, TraceData, TraceInfo, TraceLocation, TraceState
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
    from mlflow.tracing.utils.artifact_utils import get_artifact_uri_for_trace

    root = spans[0]
    failed = root.status.status_code == SpanStatusCode.ERROR
    began, ended = root.start_time_ns, root.end_time_ns or root.start_time_ns
    tag = "mlflow.traceTag."
    info = TraceInfo(
        trace_id=root.trace_id,
        trace_location=TraceLocation.from_experiment_id(experiment),
        request_time=began // 1_000_000,
        execution_duration=(ended - began) // 1_000_000,
        state=TraceState.ERROR if failed else TraceState.OK,
        request_preview=json.dumps(root.inputs)[:1000],
        response_preview=json.dumps(root.outputs)[:1000],
        trace_metadata={"mlflow.sourceRun": run_id},
        tags={key[len(tag) :]: str(text) for key, text in root.attributes.items() if key.startswith(tag)},
    )
    place = get_artifact_uri_for_trace(tracing.start_trace(info))
    kept = json.dumps(TraceData(spans=list(spans)).to_dict(), ensure_ascii=False, default=str)
    get_artifact_repository(place, tracking_uri=tracing.tracking_uri).upload_trace_data(kept)


def _batch(path: Path, offset: int) -> tuple[list[dict[str, Any]], int]:
    """The next traces to send, and the place after them."""
    batch: list[dict[str, Any]] = []
    end = offset
    for record, end in read_traces(path, offset):
        batch.append(record)
        if len(batch) == BATCH or end - offset > BATCH_BYTES:
            break
    return batch, end


def _ids(folder: Path, before: int) -> set[str]:
    """The questions whose traces have been sent."""
    found = set()
    for record, after in read_traces(folder / TRACES) if before else ():
        if after > before:
            break
        found.add(record["row"]["id"])
    return found


def _program(folder: Path) -> str:
    """What the run's questions were asked of, which names the span of each."""
    described = (read_object(folder / MANIFEST) or {}).get("program")
    return str(described.get("program", "question")) if isinstance(described, dict) else "question"


def _state(folder: Path) -> dict[str, Any]:
    found = read_object(folder / SENT) or {}
    whole = isinstance(found.get("offset"), int) and "run_id" in found
    return found if whole else {"run_id": None, "offset": 0}


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Only one process at a time sends traces of a folder, a few at a time; others wait for their turn."""
    if not (folder / TRACES).exists():
        yield
        return
    with locked(folder / TRACES, needed=False):
        yield
