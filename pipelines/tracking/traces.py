"""Traces: makes spans of each traced question (the question, each agent's turns, each LM call), and
sends those of a run's folder to MLflow, each once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from copy import copy
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from mlflow import MlflowException
from mlflow.entities import (
    Assessment,
    AssessmentSource,
    AssessmentSourceType,
    Expectation,
    Feedback,
    Span,
    TraceData,
    TraceInfo,
    TraceLocation,
    TraceState,
)
from mlflow.store.tracking.rest_store import RestStore
from mlflow.tracing.client import TracingClient
from mlflow.tracing.constant import TraceMetadataKey
from mlflow.tracing.utils import aggregate_cost_from_spans, aggregate_usage_from_spans
from mlflow.tracing.utils.truncation import set_request_response_preview
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from ...modules.base.errors import UserError
from ...modules.base.keyed import without, without_none
from ...modules.base.usage import UsageFields
from ...modules.protocols.short_names import short_name
from ...modules.reading.row import ResultRow, TurnFields
from ..base.journal import read_object
from ..base.run_files import books_of
from ..base.wording import shortened
from ..runs.folder import MANIFEST
from ..runs.traces import TRACES, Trace, TracedCall, read_traces
from .stored_run import StoredRun, is_outage
from .values import problem_line, scrubbed, trace_id, trace_number

LONGEST_NAME = 200
LONGEST_TITLE = 60
BATCH = 20  # an SQLite store is locked meanwhile
BATCH_BYTES = 4_000_000
PAGE = 500  # traces in one answer of MLflow's
NANOSECONDS = 1_000_000  # of a millisecond, in which MLflow has the times of traces

CALL = "call"
"""The step of a turn that is one call of a command or function."""

_NOT_SHOWN = ("agent", "round", "usage", "step")


def otel_spans(record: Trace, run_id: str, program: str) -> list[ReadableSpan]:
    """Return the spans of a traced question with MLflow's attributes, the root first."""
    record = Trace.of(scrubbed(record))
    row, times = record.row, (record.began, record.ended)
    trace = _Trace(trace_number(run_id, row.id))
    about: Mapping[str, object] = row
    fields = ("kind", "gold", "correct", "em", "f1", "decided_by", "rounds")
    asked: dict[str, object] = {"question": row.question}
    if row.choices:
        asked["choices"] = row.choices
    trace.add(
        program,
        None,
        "CHAIN",
        times,
        asked,
        # Only the answer: an LM of MLflow's that judges traces must not read the gold one here.
        {"answer": _with_text(row.answer, row)},
        row.error,
        {f"folkmoot.{name}": about[name] for name in fields if about.get(name) is not None},
    )
    calls, turns = record.calls, row.transcript or []
    names = [_turn_name(turn) for turn in turns]
    for place, (turn, name) in enumerate(zip(turns, names, strict=True)):
        of_turn = [call for call in calls if call.transcript_turn == place]
        own = [call for call in of_turn if call.step is None]
        outputs = without(turn, _NOT_SHOWN)
        if turn.step == CALL:
            name = _call_name(turn, own)
        elif names.count(name) > 1:
            name = f"{name}, sample {names[: place + 1].count(name)}"
        trace.add_agent(name, own, times, {"round": turn.round}, outputs)
    places: list[int] = []  # of the spans of the steps
    for step in record.steps or []:
        above = 0 if step.above is None else places[step.above]
        when = (step.began, step.ended)
        shown = (step.inputs, step.outputs, step.error)
        places.append(trace.add(step.name, above, step.kind, when, *shown, {}))
    others: dict[int, list[TracedCall]] = {}  # calls that led to no turn
    for call in calls:
        if (made_by := call.step) is not None:
            trace.add_call(places[made_by], call)
        elif call.transcript_turn is None:
            others.setdefault(call.turn, []).append(call)
    for own in others.values():
        trace.add_agent(own[0].seat or "agent", own, times)
    return trace.spans


def _call_name(turn: TurnFields, calls: Sequence[TracedCall]) -> str:
    """Return a call of a command by the last message that it sent."""
    last: object = ""
    with suppress(IndexError, KeyError, TypeError):  # no call, or a request in another form
        last = calls[0].request["messages"][-1]["content"]
    words = last if isinstance(last, str) else ""
    return shortened(words, LONGEST_TITLE) or _turn_name(turn)


def _turn_name(turn: TurnFields) -> str:
    step = f", {turn.step}" if turn.step else ""
    return f"{turn.agent}, round {turn.round}{step}"


def _with_text(answer: object, row: ResultRow) -> object:
    """Return an answer; for a label, with the option's text."""
    choices = row.choices or {}
    return f"{answer}: {choices[answer]}" if answer in choices else answer


def _name(text: str) -> str:
    """Return a text that databases accept: without lone surrogates, and not too long."""
    return text.encode("utf-8", "backslashreplace").decode()[:LONGEST_NAME]


class _Trace:
    """Collects the spans of one question; the first is the root."""

    def __init__(self, number: int) -> None:
        self.spans: list[ReadableSpan] = []
        self._number = number

    def add(
        self,
        name: str,
        parent: int | None,
        kind: str,
        times: tuple[int, int],
        inputs: object,
        outputs: object,
        error: str | None,
        attributes: Mapping[str, object],
    ) -> int:
        """Add a span and return its index, which its children use as `parent`."""
        shown = {"mlflow.spanInputs": inputs, "mlflow.spanOutputs": outputs}
        own = {
            "mlflow.traceRequestId": f"tr-{self._number:032x}",
            "mlflow.spanType": kind,
            **without_none(shown),
            **attributes,
        }
        span = ReadableSpan(
            name=_name(name),
            context=self._context(len(self.spans)),
            parent=None if parent is None else self._context(parent),
            attributes={key: json.dumps(value) for key, value in own.items()},
            start_time=times[0],
            # Clocks may be set back while a question is answered.
            end_time=max(times),
            status=Status(StatusCode.ERROR, error) if error else Status(StatusCode.OK),
            resource=Resource({}),
        )
        self.spans.append(span)
        return len(self.spans) - 1

    def add_agent(
        self,
        name: str,
        calls: Sequence[TracedCall],
        times: tuple[int, int],
        inputs: object = None,
        outputs: object = None,
    ) -> None:
        """Add a turn with its LM calls, or calls that led to no turn."""
        if calls:
            times = min(call.began for call in calls), max(call.ended for call in calls)
        error = next((call.error for call in reversed(calls) if call.error), None)
        agent = self.add(name, 0, "AGENT", times, inputs, outputs, error, {})
        for call in calls:
            self.add_call(agent, call)

    def add_call(self, agent: int, call: TracedCall) -> None:
        usage = UsageFields.of(call.usage or {})
        text = call.text
        attributes: dict[str, object] = {
            "mlflow.message.format": "openai",
            "mlflow.llm.provider": call.model.partition("/")[0],
            "folkmoot.from_record": bool(usage.get("cached_calls")),
        }
        read, written = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
        if read or written:
            attributes["mlflow.chat.tokenUsage"] = {
                "input_tokens": read,
                "output_tokens": written,
                "total_tokens": read + written,
            }
        # For a model and tokens without a cost, MLflow computes a cost from its own prices.
        if usage.get("cost_usd") is not None:
            attributes["mlflow.llm.model"] = call.model
            attributes["mlflow.llm.cost"] = {"total_cost": usage["cost_usd"]}
        message = {"role": "assistant", "content": text}
        reply = None if text is None else {"choices": [{"index": 0, "message": message}]}
        times, error = (call.began, call.ended), call.error
        name = call.model
        self.add(name, agent, "CHAT_MODEL", times, call.request, reply, error, attributes)

    def _context(self, place: int) -> SpanContext:
        # OpenTelemetry takes 0 for no span, and exports only what the flag marks as sampled.
        return SpanContext(self._number, place + 1, False, TraceFlags(1))


def assessments(record: Trace) -> list[Assessment]:
    """Return what is known of an answer: whether it is right, as the metric found, and what was
    right.
    """
    row, judged = record.row, list[Assessment]()
    source = AssessmentSource(AssessmentSourceType.CODE, "folkmoot")
    if row.correct is not None and not row.error:
        judged.append(Feedback("correct", bool(row.correct), source=source))
    elif row.score is not None:
        judged.append(Feedback("score", row.score, source=source))
    if row.gold is not None:
        gold = scrubbed(_with_text(row.gold, row))
        judged.append(Expectation("expected_response", gold, source=source))
    return judged


def send_traces(stored: StoredRun, folder: Path, saved: Callable[[], None]) -> None:
    """Send the traces that the run lacks; `saved` is called after each batch. A question that was
    asked again has only the trace of its last answer. Raises whatever MLflow raises, and
    UserError for traces that it does not accept, after the others were sent.
    """
    path, state = books_of(folder) / TRACES, stored.state
    if not path.exists():
        return
    if urlsplit(stored.client.tracking_uri).scheme in ("", "file"):
        raise UserError("MLflow takes none into a folder, but into a database or a server")
    shown: dict[str, str] | None = None
    start = state.traces
    if stored.asks:
        shown, start = _find_shown(stored), 0
    last: dict[str, int] = {}
    before = set[str]()
    for record, end in read_traces(path):
        question = record.row.id
        if end <= start:
            before.add(question)
        last[question] = end
    program, refused = program_in(folder), list[str]()

    def missing() -> Iterator[tuple[Trace, int]]:
        for record, end in read_traces(path, start):
            row = record.row
            status = "ERROR" if row.error else "OK"
            number = trace_id(stored.run_id, row.id)
            if last[row.id] == end and (shown is None or shown.get(number) != status):
                yield record, end

    for batch, end in batches(missing(), start):
        again = [record for record in batch if stored.asks or record.row.id in before]
        if again:  # otherwise MLflow would add to a question's first trace
            _delete(stored, again)
        refused += _send(stored, program, batch)
        state.traces = end
        saved()
    if refused:
        state.traces = start
        raise UserError(f"it refuses {len(refused)} of them: {refused[0]}")


def _find_shown(stored: StoredRun) -> dict[str, str]:
    """Return the traces that the store shows on the run, with their states."""
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


def _send(stored: StoredRun, program: str, records: Sequence[Trace]) -> list[str]:
    """Send traces together, or one by one if that fails; returns why the store refuses some."""
    try:
        _log(stored, program, records)
    except Exception as problem:
        with suppress(Exception):  # what was sent of them, if the store is there
            _delete(stored, records)
        if is_outage(problem):
            raise
        # One trace that the store refuses fails its whole batch: the others are sent alone.
        if len(records) == 1:
            return [problem_line(problem)]
        return list(chain.from_iterable(_send(stored, program, [record]) for record in records))
    return []


def _ids(stored: StoredRun, records: Sequence[Trace]) -> list[str]:
    return [trace_id(stored.run_id, record.row.id) for record in records]


def _delete(stored: StoredRun, records: Sequence[Trace]) -> None:
    experiment = stored.run.info.experiment_id
    stored.client.delete_traces(experiment, trace_ids=_ids(stored, records))


def _log(stored: StoredRun, program: str, records: Sequence[Trace]) -> None:
    uri, experiment = stored.client.tracking_uri, stored.run.info.experiment_id
    traces = [list(map(Span, otel_spans(record, stored.run_id, program))) for record in records]
    with at_once(TracingClient(uri).store, experiment) as store:
        for record, spans in zip(records, traces, strict=True):
            store.start_trace(_info(record, spans, experiment))
        try:
            store.log_spans(experiment, list(chain.from_iterable(traces)), uri)
        except NotImplementedError:
            # If a server once did not answer, MLflow treats it as an old one, and remembers that.
            RestStore._get_server_version.cache_clear()
            reason = "the server does not say its version, or is from before MLflow 3.4"
            raise OSError(reason) from None
        # Last: those of the run are whole.
        store.link_traces_to_run(_ids(stored, records), stored.run_id)


def _info(record: Trace, spans: list[Any], experiment: str) -> TraceInfo:
    """Return what a list of traces shows of one. MLflow would look for what is not said here in the
    spans, in queries for each trace.
    """
    row, root = record.row, spans[0]
    began, ended = root.start_time_ns, root.end_time_ns or 0
    tags = {
        "mlflow.traceName": shortened(str(row.question or row.id), LONGEST_TITLE),
        "folkmoot.question": row.id,
    }
    totals = {
        TraceMetadataKey.TOKEN_USAGE: aggregate_usage_from_spans(spans),
        TraceMetadataKey.COST: aggregate_cost_from_spans(spans),
    }
    info = TraceInfo(
        root.trace_id,
        TraceLocation.from_experiment_id(experiment),
        request_time=began // NANOSECONDS,
        execution_duration=(ended - began) // NANOSECONDS,
        state=TraceState.ERROR if row.error else TraceState.OK,
        trace_metadata={name: json.dumps(total) for name, total in totals.items() if total},
        tags={name: _name(value) for name, value in tags.items()},
        assessments=assessments(record),  # later, each would be a transaction of its own
    )
    set_request_response_preview(info, TraceData(spans))
    return info


@contextmanager
def at_once(store: Any, experiment: str) -> Iterator[Any]:
    """A copy of a database's store that does all of the block in one transaction, and has read the
    experiment; MLflow itself takes a transaction for each trace, and reads it for each. A server
    is handed on as it is.

    Raises MlflowException if a trace is there already, since MLflow then gives up the transaction
    with the traces before it, and begins a new one.
    """
    transaction = getattr(store, "ManagedSessionMaker", None)
    if transaction is None:
        yield store
        return
    store, known = copy(store), store.get_experiment(experiment)
    with transaction(read_only=False) as session:
        session.connection()
        begun = session.get_transaction()
        store.ManagedSessionMaker = lambda read_only=True: nullcontext(session)
        store.get_experiment = lambda experiment_id: known
        yield store
        if session.get_transaction() is not begun:
            raise MlflowException.invalid_parameter_value("a trace is there already")


def batches(records: Iterable[tuple[Trace, int]], start: int) -> Iterator[tuple[list[Trace], int]]:
    """Yield batches of traces, each with the offset in the file after the last of them."""
    batch: list[Trace] = []
    first = end = start
    for record, end in records:
        batch.append(record)
        if len(batch) == BATCH or end - first > BATCH_BYTES:
            yield batch, end
            batch, first = [], end
    if batch:
        yield batch, end


def program_in(folder: Path) -> str:
    """Return the short name of the program that was asked, which names the span of each
    question.
    """
    program: Any = (read_object(folder / MANIFEST) or {}).get("program")
    try:
        return short_name(program)
    except (LookupError, TypeError, ValueError, AttributeError):  # of a damaged file
        return "question"
