"""Sends finished spans to an OTLP endpoint, such as a collector, in addition to MLflow."""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import Any

import requests
from mlflow.tracing.export.genai_semconv.translator import translate_span_to_genai
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext, TraceFlags
from requests.adapters import HTTPAdapter

from ...modules.base.errors import UserError
from ..runs.traces import TRACES, read_traces
from .cursor import Cursor, Spans
from .store import otlp_endpoint
from .traces import batches, otel_spans, program_in
from .values import masked, problem_line

MOST_REPLY = 2**16
"""How many bytes of a reply are read; a collector reports rejected spans in a few."""
SECONDS = 10.0  # the exporter's own time-out
# statuses that refuse these spans for good: sending them again would not help
REFUSALS = (400, 413, 422)
_LOGGERS = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.http._common",
    "opentelemetry.util.re",  # logs headers that it cannot parse, which may hold keys
    "urllib3.connectionpool",  # logs the paths of files at debug level
)


def send_spans(folder: Path, cursor: Cursor, run_id: str) -> dict[str, str]:
    """Send the spans that the endpoint has not confirmed; returns what it did not accept, with the
    reason. If the endpoint does not answer for a batch, no further one is sent, and the next push
    resumes there.
    """
    try:
        endpoint = otlp_endpoint()
    except UserError as problem:
        return {"spans": problem_line(problem)}
    path, place = folder / TRACES, masked(endpoint or "")
    if endpoint is None or not path.exists():
        return {}
    start = cursor.otlp.offset if cursor.otlp and cursor.otlp.endpoint == place else 0
    program, taken, refused = program_in(folder), 0, 0
    exporter = Exporter()
    for batch, end in batches(read_traces(path, start), start):
        spans = [
            span for record in batch for span in genai_spans(otel_spans(record, run_id, program))
        ]
        rejected = exporter.export(spans)
        if rejected is None:
            break
        taken, refused, start = taken + len(spans) - rejected, refused + rejected, end
        cursor.otlp = Spans(endpoint=place, offset=end)
        cursor.save(clean=cursor.clean)
    left = sum(len(otel_spans(record, run_id, program)) for record, _ in read_traces(path, start))
    if not left and not refused:
        return {}
    total = taken + refused + left
    return {f"{refused + left:,} of {total:,} spans": f"{place}: {exporter.problem}"}


def genai_spans(spans: Sequence[ReadableSpan]) -> Iterator[ReadableSpan]:
    """The spans of a trace with the attributes of OpenTelemetry's conventions for generative AI."""

    resource = Resource({"service.name": "folkmoot"}).merge(OTELResourceDetector().detect())

    def unique(context: Any) -> Any:
        """The context with a span id that no span of another trace has."""
        number = (context.trace_id + context.span_id) % 2**64 or 1
        return SpanContext(context.trace_id, number, False, TraceFlags(1))

    for span in spans:
        own = {name: json.loads(str(value)) for name, value in (span.attributes or {}).items()}
        kind, cost = own["mlflow.spanType"], own.get("mlflow.llm.cost")
        shown = span if span.parent is None else translate_span_to_genai(span)
        attributes = {
            name: value
            for name, value in (shown.attributes or {}).items()
            if name.startswith("gen_ai.")
        }
        for name, value in own.items():
            name = name.removeprefix("mlflow.traceTag.")
            if name.startswith("folkmoot."):
                attributes.setdefault(name, _plain(value))  # overrides a tag of that name
            elif name in ("mlflow.spanInputs", "mlflow.spanOutputs") and kind != "CHAT_MODEL":
                attributes[f"folkmoot.{name[len('mlflow.span') :].lower()}"] = _plain(value)
        if span.parent is None:
            attributes["gen_ai.operation.name"] = "invoke_workflow"
        if kind == "CHAT_MODEL":
            attributes["gen_ai.request.model"] = span.name
        if cost:
            attributes["folkmoot.cost_usd"] = cost["total_cost"]
        yield ReadableSpan(
            name=f"chat {span.name}" if kind == "CHAT_MODEL" else shown.name,
            context=unique(span.context),
            parent=None if span.parent is None else unique(span.parent),
            resource=resource,
            attributes=attributes,
            kind=shown.kind,
            status=span.status,
            start_time=span.start_time,
            end_time=span.end_time,
        )


def _plain(value: Any) -> str | bool | int | float:
    plain = isinstance(value, str | bool | int | float)
    return value if plain else json.dumps(value, ensure_ascii=False)


class Exporter:
    """OpenTelemetry's exporter with limits on the size and time of replies. `problem` is the
    endpoint's last message about spans that it did not accept.
    """

    def __init__(self) -> None:

        answers: list[requests.Response] = []

        class Adapter(HTTPAdapter):
            """Read only the beginning of a reply of any length."""

            def send(self, *request: Any, **options: Any) -> requests.Response:
                response = super().send(*request, **{**options, "stream": True})
                body = response.raw.read(MOST_REPLY)
                response.raw.close()
                response.raw = BytesIO(body)
                answers.append(response)
                return response

        session = requests.Session()
        # a compressed reply could expand without limit
        session.headers["Accept-Encoding"] = "identity"
        for scheme in ("http://", "https://"):
            session.mount(scheme, Adapter())
        self.problem: str | None = None
        self._answers = answers
        with self._muted():
            self._exporter = OTLPSpanExporter(session=session)
        variable = os.environ.get
        limit = variable("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT") or variable(
            "OTEL_EXPORTER_OTLP_TIMEOUT"
        )
        self._seconds = float(limit or SECONDS)

    def export(self, spans: Sequence[ReadableSpan]) -> int | None:
        """Send spans; returns how many are refused for good, or None where they may be sent again.
        A thread that waits for an endless reply is abandoned after the time-out.
        """
        self._answers.clear()
        ended: list[bool] = []

        def send() -> None:
            with self._muted():
                ended.append(self._exporter.export(spans).name == "SUCCESS")

        thread = threading.Thread(target=send, name="folkmoot-otlp", daemon=True)
        thread.start()
        thread.join(self._seconds + 1)
        if not ended:
            self.problem = "no answer in time"
            return None
        status = self._answers[-1].status_code if self._answers else 0
        if ended[0] and status < 300:
            return self._rejected()
        if status:
            self.problem = f"it answered {status}"
        return len(spans) if status in REFUSALS else None

    @contextmanager
    def _muted(self) -> Iterator[None]:
        """Hide an exporter's log messages in this thread, and note its errors."""
        thread = threading.get_ident()

        def note(record: logging.LogRecord) -> bool:
            if record.thread == thread and record.name == _LOGGERS[0]:
                text = record.getMessage()
                late = "due to timeout" in text
                self.problem = "no answer in time" if late else problem_line(Exception(text))
            return record.thread != thread

        loggers = [logging.getLogger(name) for name in _LOGGERS]
        for logger in loggers:
            logger.addFilter(note)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeFilter(note)

    def _rejected(self) -> int:
        """How many spans of an accepted request the endpoint has rejected."""
        reply = ExportTraceServiceResponse()
        with suppress(Exception):  # another kind of body has no count
            reply.ParseFromString(self._answers[-1].content)
        partial = reply.partial_success
        if partial.rejected_spans:
            self.problem = problem_line(Exception(partial.error_message or "rejected"))
        return int(partial.rejected_spans)
