"""Sends the traces of a run's folder to MLflow, each exactly once; as a program, while the run goes on."""

from __future__ import annotations

import atexit
import fcntl
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..runs.manifest import MANIFEST, write_json
from ..runs.traces import TRACES, read_traces
from .spans import spans_of, trace_id
from .store import open_client, quiet
from .unsent import TRACES_LEFT, keep_copy, mark, marked, unmark

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Span

SENT = "traces_sent.json"
BATCH = 20  # a store of one file is locked meanwhile
BATCH_BYTES = 4_000_000
POLL_SECONDS = 0.5
PATIENCE_SECONDS = 30.0
LONGEST_PAUSE = 8.0


def send_traces(client: MlflowClient, run_id: str, folder: Path) -> int:
    """Send what the run does not have yet and attach it; how many of those traces MLflow refused for good.

    Raises whatever MLflow does when the store cannot be reached: what was taken until then is noted.
    """
    refused, earlier, at = 0, set[str](), -1
    experiment, program = "", _program(folder)
    while True:
        with alone(folder), quiet():
            sent = _state(folder)
            if sent["run_id"] != run_id:
                sent = {"run_id": run_id, "offset": 0}
            batch, end = _batch(folder / TRACES, sent["offset"])
            if not batch:
                return refused
            if at != sent["offset"]:
                earlier = _ids(folder, sent["offset"])
            experiment = experiment or str(client.get_run(run_id).info.experiment_id)
            refused += _send(client, experiment, run_id, program, batch, earlier)
            earlier |= {record["row"]["id"] for record in batch}
            at = end
            write_json(folder / SENT, {"run_id": run_id, "offset": end})


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
    from mlflow.entities import TraceData, TraceInfo, TraceLocation, TraceState

    root = spans[0]
    tags = {
        key.removeprefix("mlflow.traceTag."): str(value)
        for key, value in root.attributes.items()
        if key.startswith("mlflow.traceTag.")
    }
    info = TraceInfo(
        trace_id=root.trace_id,
        trace_location=TraceLocation.from_experiment_id(experiment),
        request_time=root.start_time_ns // 1_000_000,
        execution_duration=((root.end_time_ns or root.start_time_ns) - root.start_time_ns) // 1_000_000,
        state=TraceState.from_otel_status(root._span.status),
        request_preview=json.dumps(root.inputs)[:1000],
        response_preview=json.dumps(root.outputs)[:1000],
        trace_metadata={"mlflow.sourceRun": run_id},
        tags=tags,
    )
    tracing._upload_trace_data(tracing.start_trace(info), TraceData(spans=list(spans)))


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
    return str(_manifest(folder).get("program", {}).get("program", "question"))


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        return dict(json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def _state(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / SENT).read_text(encoding="utf-8"))
        return {"run_id": found["run_id"], "offset": int(found["offset"])}
    except (OSError, ValueError, KeyError, TypeError):
        return {"run_id": None, "offset": 0}


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Only one process at a time sends traces of a folder, a few at a time; others wait for their turn."""
    if not (folder / TRACES).exists():
        yield
        return
    with open(folder / TRACES, "ab") as file:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Sender:
    """A process of low priority that sends a folder's traces while the run goes on.

    It ends by itself once the run has ended, however that happens, and all is sent, or the store has been
    away for PATIENCE_SECONDS.
    """

    def __init__(self, folder: Path, uri: str, keep: Any = None) -> None:
        self._folder = folder
        self._keep = keep  # a temporary folder stays as long as its sender works
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(folder.absolute())],
            env={**os.environ, "MLFLOW_TRACKING_URI": uri},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C ends the run, not what is still to be sent of it
        )
        atexit.register(self.wait)

    @property
    def at_work(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """Tell it that no more traces come. Does not wait."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with suppress(OSError):
                self._process.stdin.close()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended, and say whether everything was sent. At exit this happens by itself."""
        self.close()
        try:
            code = self._process.wait(seconds)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            return False
        atexit.unregister(self.wait)
        about = marked(self._folder)
        if code and about and self._keep is not None:
            with suppress(OSError):
                mark(keep_copy(self._folder), about)
        self._keep = None
        return code == 0


def follow(folder: Path, more: Any) -> bool:
    """Send traces as they come until `more` ends; False when the store was away for too long after that."""
    ended, pause, good = False, POLL_SECONDS, time.monotonic()
    client = None
    while True:
        try:
            run_id = _manifest(folder).get("mlflow_run_id")
            if run_id is not None:
                client = client or open_client()
                send_traces(client, str(run_id), folder)
                if ended:
                    return True
                pause, good = POLL_SECONDS, time.monotonic()
        except Exception:  # of MLflow, a driver or the network
            pause = min(LONGEST_PAUSE, 2 * pause)
        if not ended:
            ready, _, _ = select.select([more], [], [], pause)
            if ready and not os.read(more.fileno(), 1024):
                ended, good, pause = True, time.monotonic(), POLL_SECONDS
        elif time.monotonic() - good > PATIENCE_SECONDS:
            return False
        else:
            time.sleep(pause)


def main() -> None:
    """`python -m folkmoot.pipelines.tracking.send_traces DIR`, until standard input ends."""
    with suppress(OSError):
        os.nice(5)
    folder = Path(sys.argv[1])
    if not follow(folder, sys.stdin.buffer):
        raise SystemExit(1)
    unmark(folder, TRACES_LEFT)


if __name__ == "__main__":
    main()
