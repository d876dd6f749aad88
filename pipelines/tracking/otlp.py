"""Sends finished spans to an OTLP endpoint, such as a collector's, beside MLflow."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...modules.base.address import read_address
from ...modules.base.errors import UserError
from ..runs.traces import TRACES, read_traces
from .cursor import Cursor
from .spans import genai_spans, otel_spans
from .traces import batches, program_in
from .values import masked, problem_line

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

MOST_REPLY = 2**16
"""Bytes of a reply that are read: a collector says in a few what it rejects."""
SECONDS = 10.0  # the exporter's own time-out
REFUSALS = (400, 413, 422)  # of these very spans: sending them again would not help
_LOGGERS = (
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.http._common",
    "opentelemetry.util.re",  # shows headers that it cannot read, and so keys
    "urllib3.connectionpool",  # shows paths, when it shows all
)


def otlp_endpoint() -> str | None:
    """Where traces go by OpenTelemetry's own variables; None where they name no endpoint, or say
    not to send.

    Warns of a protocol other than http/protobuf, which is not spoken here. Raises UserError for
    what is not an address.
    """
    variable = os.environ.get
    endpoint = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    if not endpoint and (base := variable("OTEL_EXPORTER_OTLP_ENDPOINT")):
        endpoint = f"{base.removesuffix('/')}/v1/traces"
    off = variable("OTEL_SDK_DISABLED", "").lower() == "true"
    if not endpoint or off or variable("OTEL_TRACES_EXPORTER") == "none":
        return None
    protocol = variable("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or variable(
        "OTEL_EXPORTER_OTLP_PROTOCOL"
    )
    if protocol not in (None, "", "http/protobuf"):
        warnings.warn(
            f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol}, and no traces are sent to "
            f"{masked(endpoint)}: set http/protobuf and the endpoint's port for it, which is 4318 "
            f"by custom",
            RuntimeWarning,
            stacklevel=4,
        )
        return None
    read_address(endpoint, ("http", "https"), "OTEL_EXPORTER_OTLP_ENDPOINT as http://HOST:PORT")
    return endpoint


def send_spans(folder: Path, cursor: Cursor, run_id: str) -> dict[str, str]:
    """Send the spans that the endpoint has not answered for; what it did not take, with the reason.

    An endpoint that does not answer for a batch gets no further one: the next push goes on there.
    """
    try:
        endpoint = otlp_endpoint()
    except UserError as problem:
        return {"spans": problem_line(problem)}
    path, place = folder / TRACES, masked(endpoint or "")
    if endpoint is None or not path.exists():
        return {}
    noted = cursor.fields.get("otlp") or {}
    start = noted.get("offset") if noted.get("endpoint") == place else 0
    start = start if isinstance(start, int) else 0
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
        cursor.fields["otlp"] = {"endpoint": place, "offset": end}
        cursor.save(clean=cursor.fields.get("clean") is True)
    records = [record for record, _ in read_traces(path, start)]
    left = sum(len(otel_spans(record, run_id, program)) for record in records)
    if not left and not refused:
        return {}
    total = taken + refused + left
    return {f"{refused + left:,} of {total:,} spans": f"{place}: {exporter.problem}"}


def otlp_problem(seconds: float) -> str | None:
    """What the endpoint says to a request without spans, in a line; None where it takes it."""
    exporter = Exporter(seconds)
    exporter.export(())
    return exporter.problem


class Exporter:
    """OpenTelemetry's exporter, whose replies cost neither memory nor more than its time-out.

    `problem` is what the endpoint said last of spans that it did not take.
    """

    def __init__(self, seconds: float | None = None) -> None:
        import requests
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from requests.adapters import HTTPAdapter

        answers: list[requests.Response] = []

        class Adapter(HTTPAdapter):
            """Reads the beginning of a reply, however long it is."""

            def send(self, *request: Any, **options: Any) -> requests.Response:
                response = super().send(*request, **{**options, "stream": True})
                body = response.raw.read(MOST_REPLY)
                response.raw.close()
                response.raw = BytesIO(body)
                answers.append(response)
                return response

        session = requests.Session()
        session.headers["Accept-Encoding"] = "identity"  # a packed reply has no limit
        for scheme in ("http://", "https://"):
            session.mount(scheme, Adapter())
        self.problem: str | None = None
        self._answers = answers
        with self._muted():
            self._exporter = OTLPSpanExporter(session=session, timeout=seconds)
        variable = os.environ.get
        named = variable("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT") or variable(
            "OTEL_EXPORTER_OTLP_TIMEOUT"
        )
        self._seconds = seconds or float(named or SECONDS)

    def export(self, spans: Sequence[ReadableSpan]) -> int | None:
        """Send spans: how many are refused for good, or None where they may be sent again.

        A thread that waits for a reply without an end is left behind when the time is over.
        """
        from opentelemetry.sdk.trace.export import SpanExportResult

        self._answers.clear()
        results: list[SpanExportResult] = []

        def send() -> None:
            with self._muted():
                results.append(self._exporter.export(spans))

        thread = threading.Thread(target=send, name="folkmoot-otlp", daemon=True)
        thread.start()
        thread.join(self._seconds + 1)
        if not results:
            self.problem = "no answer in time"
            return None
        status = self._answers[-1].status_code if self._answers else 0
        if results[0] is SpanExportResult.SUCCESS and status < 300:
            return self._rejected()
        if status:
            self.problem = f"it answered {status}"
        return len(spans) if status in REFUSALS else None

    @contextmanager
    def _muted(self) -> Iterator[None]:
        """Keep what this thread logs of an exporter from being shown; note what goes wrong."""
        muted = _Noted(self)
        loggers = [logging.getLogger(name) for name in _LOGGERS]
        for logger in loggers:
            logger.addFilter(muted)
        try:
            yield
        finally:
            for logger in loggers:
                logger.removeFilter(muted)

    def _rejected(self) -> int:
        """How many spans of a request that was taken the endpoint has rejected."""
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
            ExportTraceServiceResponse,
        )

        reply = ExportTraceServiceResponse()
        with suppress(Exception):  # a body of another kind says nothing
            reply.ParseFromString(self._answers[-1].content)
        partial = reply.partial_success
        if partial.rejected_spans:
            self.problem = problem_line(Exception(partial.error_message or "rejected"))
        return int(partial.rejected_spans)


class _Noted(logging.Filter):
    """Keeps what this thread logs of an exporter from being shown, and notes what went wrong."""

    def __init__(self, exporter: Exporter) -> None:
        super().__init__()
        self._thread, self._exporter = threading.get_ident(), exporter

    def filter(self, record: logging.LogRecord) -> bool:
        if record.thread != self._thread:
            return True
        if record.name == _LOGGERS[0]:
            text = record.getMessage()
            timed_out = "due to timeout" in text
            self._exporter.problem = (
                "no answer in time" if timed_out else problem_line(Exception(text))
            )
        return False
