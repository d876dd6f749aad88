"""Sends the traces of a run's folder to MLflow, each exactly once; many of them in a thread of
their own.
"""

from __future__ import annotations

import atexit
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...modules.base.files import locked
from ..base.journal import read_object, write_json
from ..runs.manifest import MANIFEST
from ..runs.traces import TRACES, read_traces
from .spans import spans_of, trace_id
from .store import quiet
from .unsent import TRACES_LEFT, keep_copy, note_sent, note_unsent, unsent_in
from .values import FOLKMOOT, problem_line, scrubbed

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Span

SENT = "traces_sent.json"
BATCH = 20  # a store of one file is locked meanwhile
BATCH_BYTES = 4_000_000
PAGE = 500  # traces in one answer of MLflow's
MOST_ASSESSED = 50  # an assessment takes MLflow as long as a trace, and cannot be sent with others
LONGEST_REASON = 500
OUTAGE = 3  # traces in a row that fail by themselves, after which it is the store
PATIENCE_SECONDS = 10.0
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 8.0

Record = Mapping[str, Any]
"""A line of `traces.jsonl`."""


class TracesRefused(Exception):  # noqa: N818
    """The store answers, and does not take these traces."""


class TraceSender:
    """A thread that sends the traces of a folder once its run has ended, and then notes them as
    sent.

    The process waits for it before it ends. A store that is away for PATIENCE_SECONDS, a second
    Ctrl-C or a kill leave the note of what is missing, which is pushed later.
    """

    def __init__(self, client: MlflowClient, run_id: str, folder: Path, keep: Any = None) -> None:
        self._folder = folder
        self._keep = keep  # a temporary folder stays as long as its traces are sent
        self._given_up = threading.Event()
        self._problem: Exception | None = None
        self._sent = False
        self._thread = threading.Thread(
            target=self._work, args=(client, run_id), name="folkmoot-traces", daemon=True
        )
        atexit.register(self.wait)
        self._thread.start()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended, and say whether everything was sent. At exit this happens by
        itself.

        Warns once when it has ended and was not.
        """
        try:
            self._thread.join(seconds)
        except KeyboardInterrupt:
            self._given_up.set()
        if not self._thread.is_alive():
            atexit.unregister(self.wait)
            if (problem := self._problem) is not None:
                self._problem = None
                warnings.warn(
                    f"MLflow did not take all traces ({problem_line(problem)}): {self._folder} "
                    f"has them, and "
                    f"`folkmoot push {self._folder}` sends them once the store is back",
                    RuntimeWarning,
                    stacklevel=2,
                )
        return self._sent

    def _work(self, client: MlflowClient, run_id: str) -> None:
        pause, good = FIRST_PAUSE, time.monotonic()
        while not self._given_up.is_set():
            try:
                for _ in sending(client, run_id, self._folder):
                    pause, good = FIRST_PAUSE, time.monotonic()
                    if self._given_up.is_set():
                        return
            except Exception as problem:  # of MLflow, a driver or the network
                if isinstance(problem, TracesRefused) or time.monotonic() - good > PATIENCE_SECONDS:
                    self._problem = problem
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
                kept = keep_copy(self._folder)
                note_unsent(kept, about)
                note_sent(self._folder)
                self._folder = kept
        self._keep = None


def send_traces(client: MlflowClient, run_id: str, folder: Path) -> None:
    """Send what the run does not have yet, until the store shows all of it on the run.

    Raises TracesRefused for traces that a store in order does not take, and whatever MLflow does
    when the store cannot be reached or fails: what it took until then is not sent again.
    """
    for _ in sending(client, run_id, folder):
        pass


def sending(client: MlflowClient, run_id: str, folder: Path) -> Iterator[None]:
    """Do what `send_traces` does, a few traces for each item."""
    path, end, seen = folder / TRACES, 0, set[str]()
    experiment, program = "", program_in(folder)
    while True:
        with alone(folder), quiet():
            start = max(end, _offset(folder, run_id))
            batch, end = few_traces(read_traces(path, start), start)
            if not batch:
                break
            experiment = experiment or str(client.get_run(run_id).info.experiment_id)
            seen = seen or _ids(path, start)
            again = seen & {record["row"]["id"] for record in batch}
            if again:  # a question asked again: MLflow would keep the state of its first trace
                client.delete_traces(
                    experiment, trace_ids=[trace_id(run_id, name) for name in again]
                )
            _send(client, experiment, run_id, program, _latest(batch))
            seen |= {record["row"]["id"] for record in batch}
            with suppress(OSError):  # a full disk: what is sent again is there once
                write_json(folder / SENT, {"run_id": run_id, "offset": end})
        yield
    # What the store does not show on the run, whatever it answered, is sent once more.
    experiment = experiment or str(client.get_run(run_id).info.experiment_id)
    left, bare = _left(client, experiment, run_id, path)
    late = (record for record, after in read_traces(path) if after in left)
    while records := list(islice(late, BATCH if left else 0)):
        with alone(folder), quiet():
            _send(client, experiment, run_id, program, records)
        yield
    if left:
        still, bare = _left(client, experiment, run_id, path)
        if still:
            raise TracesRefused(f"it refuses {len(still)} of them")
    for record, after in read_traces(path) if bare else ():
        if after in bare:
            with alone(folder), quiet():
                if not _assess(client, run_id, record["row"]):
                    return
            yield


def _send(
    client: MlflowClient, experiment: str, run_id: str, program: str, records: Sequence[Record]
) -> None:
    """Send traces together, or those one by one that a store takes; raises when it takes none of a
    few.
    """
    try:
        _log(client, experiment, run_id, [spans_of(record, run_id, program) for record in records])
        return
    except Exception as problem:
        if len(records) == 1 and is_outage(problem):
            raise
    failed = 0
    for record in records if len(records) > 1 else ():
        try:
            _log(client, experiment, run_id, [spans_of(record, run_id, program)])
            failed = 0
        except Exception as problem:
            failed += is_outage(problem)
            if failed == OUTAGE:
                raise


def is_outage(problem: Exception) -> bool:
    """Whether it is the store that fails, by its own fault or by what lies before it, and not a
    trace.
    """
    from mlflow import MlflowException

    if isinstance(problem, MlflowException):
        status: int = problem.get_http_status_code()  # type: ignore[no-untyped-call]
        return status >= 500 or status in (408, 429)
    return isinstance(problem, OSError)


def _log(
    client: MlflowClient, experiment: str, run_id: str, traces: Sequence[Sequence[Span]]
) -> None:
    from mlflow.store.tracking.rest_store import RestStore
    from mlflow.tracing.client import TracingClient

    tracing = TracingClient(client.tracking_uri)
    try:
        tracing.log_spans(experiment, [span for spans in traces for span in spans])
    except (
        NotImplementedError
    ):  # MLflow takes one that once did not answer for an old one, and remembers it
        RestStore._get_server_version.cache_clear()
        raise OSError("the server does not say its version, or is from before MLflow 3.4") from None
    client.link_traces_to_run([spans[0].trace_id for spans in traces], run_id)


def _assess(client: MlflowClient, run_id: str, row: Mapping[str, Any]) -> bool:
    """Log whether the answer is right, or its score, as a feedback; False from a store that has
    none.
    """
    from mlflow import MlflowException
    from mlflow.entities import AssessmentSource, Feedback
    from mlflow.tracing.client import TracingClient

    value = row.get("score") if row["correct"] is None else bool(row["correct"])
    why = str(
        scrubbed(row["error"] or f"the answer is {row['answer']}, the gold answer {row['gold']}")
    )
    said = Feedback(
        name="score" if row["correct"] is None else "correct",
        value=value,
        source=AssessmentSource("CODE", FOLKMOOT),
        rationale=why[:LONGEST_REASON].encode("utf-8", "backslashreplace").decode(),
    )
    try:
        TracingClient(client.tracking_uri).log_assessment(trace_id(run_id, row["id"]), said)
    except (MlflowException, NotImplementedError) as problem:
        if is_outage(problem):
            raise
        return False
    return True


def few_traces(known: Iterable[tuple[Record, int]], start: int) -> tuple[list[Record], int]:
    """The first traces of those given with the place after each, and the place after the last of
    them.
    """
    batch: list[Record] = []
    end = start
    for record, end in islice(known, BATCH):
        batch.append(record)
        if end - start > BATCH_BYTES:
            break
    return batch, end


def _latest(records: Iterable[Record]) -> list[Record]:
    """The last trace of each question."""
    return list({record["row"]["id"]: record for record in records}.values())


def _ids(path: Path, before: int) -> set[str]:
    """The questions whose traces stand before a place in the file."""
    return {
        record["row"]["id"]
        for record, _ in takewhile(lambda known: known[1] <= before, read_traces(path))
    }


def _left(
    client: MlflowClient, experiment: str, run_id: str, path: Path
) -> tuple[set[int], set[int]]:
    """The places in the file after the last traces of questions that the store does not show on the
    run.

    And after those that it shows without an assessment, where there are few enough to be assessed.
    """
    wanted = {trace_id(run_id, record["row"]["id"]): after for record, after in read_traces(path)}
    few, bare = len(wanted) <= MOST_ASSESSED, set[int]()
    token: str | None = ""
    while wanted and token is not None:
        page = client.search_traces(
            locations=[experiment],
            run_id=run_id,
            max_results=PAGE,
            include_spans=False,
            page_token=token or None,
        )
        for trace in page:
            after = wanted.pop(trace.info.trace_id, None)
            if few and after is not None and not trace.info.assessments:
                bare.add(after)
        token = page.token or None
    return set(wanted.values()), bare


def program_in(folder: Path) -> str:
    """What the run's questions were asked of, which names the span of each."""
    described = (read_object(folder / MANIFEST) or {}).get("program")
    return str(described.get("program", "question")) if isinstance(described, dict) else "question"


def _offset(folder: Path, run_id: str) -> int:
    """The place in the file up to which its traces were sent to the run."""
    found = read_object(folder / SENT) or {}
    known = found.get("offset")
    return known if isinstance(known, int) and found.get("run_id") == run_id else 0


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Only one process at a time sends traces of a folder, a few at a time; others wait for their
    turn.
    """
    if not (folder / TRACES).exists():
        yield
        return
    with locked(folder / TRACES, needed=False):
        yield
