"""Sends the traces of a run's folder to MLflow, each once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from ...modules.reading.row import ResultRow
from ..base.journal import read_object
from ..runs.folder import MANIFEST
from ..runs.traces import TRACES, Trace, read_traces
from .spans import spans_of, trace_id
from .stored_run import StoredRun, is_outage
from .values import FOLKMOOT, scrubbed

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Span

BATCH = 20  # a store of one file is locked meanwhile
BATCH_BYTES = 4_000_000
PAGE = 500  # traces in one answer of MLflow's
MOST_ASSESSED = 50  # MLflow takes assessments one by one, each as long as a trace
LONGEST_REASON = 500


class TracesRefusedError(Exception):
    """The store answers, and does not take these traces."""


def send_traces(stored: StoredRun, folder: Path, saved: Callable[[], None]) -> None:
    """Send the traces that the run does not have; `saved` is called after each few.

    A question that was asked again has only the trace of its last answer. Raises what MLflow
    raises, and TracesRefusedError for traces that it does not take, after it has the others.
    """
    path, state = folder / TRACES, stored.state
    if not path.exists():
        return
    shown = _shown(stored) if stored.asks else None
    start = 0 if shown is not None else state["traces"]
    last: dict[str, int] = {}
    before = set[str]()
    for record, end in read_traces(path):
        question = record["row"]["id"]
        if end <= start:
            before.add(question)
        last[question] = end
    few = len(last) <= MOST_ASSESSED
    program, refused = program_in(folder), 0

    def missing() -> Iterator[tuple[Trace, int]]:
        for record, end in read_traces(path, start):
            row = record["row"]
            number = trace_id(stored.run_id, row["id"])
            if last[row["id"]] == end and (shown is None or shown.get(number) != _state(row)):
                yield record, end

    for batch, end in batches(missing(), start):
        again = [trace_id(stored.run_id, one["row"]["id"]) for one in batch]
        again = [number for number in again if number in (shown or ())] + [
            trace_id(stored.run_id, one["row"]["id"]) for one in batch if one["row"]["id"] in before
        ]
        if again:  # MLflow would keep the state of a question's first trace
            stored.client.delete_traces(stored.run.info.experiment_id, trace_ids=again)
        refused += _send(stored, program, batch)
        for answered in batch if few else ():
            _assess(stored, answered["row"])
        state["traces"] = end
        saved()
    if refused:
        state["traces"] = start
        raise TracesRefusedError(f"it refuses {refused} of them")


def _shown(stored: StoredRun) -> dict[str, str]:
    """The traces that the store shows on the run, with their states."""
    states: dict[str, str] = {}
    token: str | None = ""
    while token is not None:
        page = stored.client.search_traces(
            locations=[stored.run.info.experiment_id],
            run_id=stored.run_id,
            max_results=PAGE,
            include_spans=False,
            page_token=token or None,
        )
        states |= {trace.info.trace_id: str(trace.info.state.value) for trace in page}
        token = page.token or None
    return states


def _state(row: ResultRow) -> str:
    return "ERROR" if row["error"] else "OK"


def _send(stored: StoredRun, program: str, records: Sequence[Trace]) -> int:
    """Send traces together, or else one by one; returns how many the store refuses."""
    try:
        _log(stored, [spans_of(record, stored.run_id, program) for record in records])
    except Exception as problem:
        if is_outage(problem):
            raise
        if len(records) == 1:
            return 1
        return sum(_send(stored, program, [record]) for record in records)
    return 0


def _log(stored: StoredRun, traces: Sequence[Sequence[Span]]) -> None:
    from mlflow.store.tracking.rest_store import RestStore
    from mlflow.tracing.client import TracingClient

    client: MlflowClient = stored.client
    spans = [span for each in traces for span in each]
    try:
        TracingClient(client.tracking_uri).log_spans(stored.run.info.experiment_id, spans)
    except NotImplementedError:
        # MLflow takes a server that once did not answer for an old one, and remembers that.
        RestStore._get_server_version.cache_clear()
        raise OSError("the server does not say its version, or is from before MLflow 3.4") from None
    client.link_traces_to_run([each[0].trace_id for each in traces], stored.run_id)


def _assess(stored: StoredRun, row: ResultRow) -> None:
    """Log whether the answer is right, or its score, as a feedback, where the store has these."""
    from mlflow import MlflowException
    from mlflow.entities import AssessmentSource, Feedback
    from mlflow.tracing.client import TracingClient

    right = row["correct"]
    why = row["error"] or f"the answer is {row['answer']}, the gold answer {row['gold']}"
    feedback = Feedback(
        name="score" if right is None else "correct",
        value=row.get("score") if right is None else bool(right),
        source=AssessmentSource("CODE", FOLKMOOT),
        rationale=str(scrubbed(why))[:LONGEST_REASON].encode("utf-8", "backslashreplace").decode(),
    )
    try:
        TracingClient(stored.client.tracking_uri).log_assessment(
            trace_id(stored.run_id, row["id"]), feedback
        )
    except (MlflowException, NotImplementedError) as problem:
        if is_outage(problem):
            raise


def batches(records: Iterable[tuple[Trace, int]], start: int) -> Iterator[tuple[list[Trace], int]]:
    """A few traces at a time, each with the place in the file after the last of them."""
    source = iter(records)
    while True:
        batch: list[Trace] = []
        first = start
        for record, start in islice(source, BATCH):
            batch.append(record)
            if start - first > BATCH_BYTES:
                break
        if not batch:
            return
        yield batch, start


def program_in(folder: Path) -> str:
    """The name of the program that was asked, which names the span of each question."""
    described = (read_object(folder / MANIFEST) or {}).get("program")
    return str(described.get("program", "question")) if isinstance(described, dict) else "question"
