"""Sends the traces of a run to an OTLP endpoint, such as a collector's, beside what else
tracks it.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...modules.base.address import read_address
from ..base.journal import read_object, write_json
from ..runs.traces import TRACES, read_traces
from .otlp_session import bounded_session
from .send_traces import alone, few_traces, program_in
from .spans import otel_spans, span_count
from .uploads import ModelUpload, Tracker, Upload, Uploads
from .values import masked, problem_line

if TYPE_CHECKING:
    from collections.abc import Callable

    import requests
    from opentelemetry.sdk.trace import ReadableSpan

SENT = "traces_otlp.json"
_TAG = "mlflow.traceTag."
_AGAIN = "the same command with the same folder sends"
_REFUSALS = (400, 413, 422)  # of these very spans
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
    said = os.environ.get
    endpoint = said("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    if not endpoint and (base := said("OTEL_EXPORTER_OTLP_ENDPOINT")):
        endpoint = f"{base.removesuffix('/')}/v1/traces"
    off = said("OTEL_SDK_DISABLED", "").lower() == "true" or said("OTEL_TRACES_EXPORTER") == "none"
    if not endpoint or off:
        return None
    protocol = said("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or said("OTEL_EXPORTER_OTLP_PROTOCOL")
    if protocol not in (None, "", "http/protobuf"):
        warnings.warn(
            f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol}, and no traces are sent to "
            f"{masked(endpoint)}: set "
            "http/protobuf and the endpoint's port for it, which is 4318 by custom",
            RuntimeWarning,
            stacklevel=4,
        )
        return None
    read_address(endpoint, ("http", "https"), "OTEL_EXPORTER_OTLP_ENDPOINT as http://HOST:PORT")
    return endpoint


class OtlpTracker(Tracker):
    """What another tracker does, and the traces to an endpoint, by a thread once the run has ended.

    Each trace is sent once: the folder notes up to where the endpoint answered for them. The
    process waits for the thread; an endpoint that does not answer for a batch gets no further one,
    and how many spans it did not take is in a warning.

    Args:
        key: names the run's traces where the other tracker has no name for the run.
    """

    def __init__(
        self, inner: Tracker, endpoint: str, folder: Path, key: str, keep: Any = None
    ) -> None:
        self._inner, self._endpoint, self._folder = inner, endpoint, folder
        self._key, self._keep = key, keep
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._problem: str | None = None
        self._told = False

    @property
    def run_id(self) -> str | None:
        return self._inner.run_id

    def live(self, make: Callable[[], Upload]) -> None:
        self._inner.live(make)

    def end(
        self,
        uploads: Uploads,
        status: str,
        folder: Path,
        model: ModelUpload | None = None,
        *,
        warn: bool = True,
    ) -> list[str]:
        missing = self._inner.end(uploads, status, folder, model, warn=warn)
        if (self._folder / TRACES).exists():
            self._thread = threading.Thread(target=self._work, name="folkmoot-otlp", daemon=True)
            atexit.register(self.wait)
            self._thread.start()
        return missing

    def stop(self, status: str) -> None:
        self._inner.stop(status)

    def wait(self, seconds: float | None = None) -> bool:
        inner = self._inner.wait(seconds)
        if self._thread is None:
            return inner
        try:
            self._thread.join(seconds)
        except KeyboardInterrupt:
            self._stop.set()
            self._problem = f"not all traces went to {masked(self._endpoint)}: {_AGAIN} the others"
        if self._thread.is_alive() and not self._stop.is_set():
            return False
        atexit.unregister(self.wait)
        if self._problem and not self._told:
            self._told = True
            warnings.warn(self._problem, RuntimeWarning, stacklevel=2)
        return inner and not self._problem

    def _work(self) -> None:
        try:
            self._send()
        except Exception as problem:  # of a library, and none may reach the caller
            self._problem = (
                f"traces are not sent to {masked(self._endpoint)}: {problem_line(problem)}"
            )
        self._keep = None

    def _sent_to(self) -> int:
        """The place in the file up to which the endpoint has answered for its traces."""
        known = read_object(self._folder / SENT) or {}
        end = known.get("offset") if known.get("endpoint") == masked(self._endpoint) else 0
        return end if isinstance(end, int) else 0

    def _send(self) -> None:
        path, run_id, program = (
            self._folder / TRACES,
            self.run_id or self._key,
            program_in(self._folder),
        )
        end = taken = refused = 0
        with _exporting() as (export, said):
            while not self._stop.is_set():
                with alone(self._folder):
                    end = max(end, self._sent_to())
                    batch, after = few_traces(read_traces(path, end), end)
                    spans = [
                        span for one in batch for span in _genai(otel_spans(one, run_id, program))
                    ]
                    lost = export(spans) if spans else None
                    if lost is None:
                        break
                    taken, refused, end = taken + len(spans) - lost, refused + lost, after
                    with suppress(OSError):  # a full disk: these are sent again
                        write_json(
                            self._folder / SENT, {"endpoint": masked(self._endpoint), "offset": end}
                        )
        left = sum(span_count(record) for record, _ in read_traces(path, end))
        if left or refused:
            again = f", and {_AGAIN} those that it did not answer for" if left else ""
            self._problem = (
                f"{masked(self._endpoint)} did not take {left + refused:,} of "
                f"{taken + left + refused:,} "
                f"spans ({said[-1] if said else 'interrupted'}): {path} has them{again}"
            )


def otlp_problem(seconds: float) -> str | None:
    """What the endpoint says to a request without spans, in a line; None where it takes it."""
    with _exporting(seconds) as (export, said):
        export(())
        return said[-1] if said else None


@contextmanager
def _exporting(
    seconds: float | None = None,
) -> Iterator[tuple[Callable[[Sequence[ReadableSpan]], int | None], list[str]]]:
    """A function that sends spans and says how many are refused for good, or None where they may be
    sent again, and a list of what was said of them. A batch may take so long, or what the
    environment says.
    """
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
    from opentelemetry.sdk.trace.export import SpanExportResult

    said: list[str] = []
    answer: list[requests.Response] = []
    session = bounded_session()
    session.hooks["response"].append(lambda response, **_: answer.append(response))
    muted = _Noted(said)
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for logger in loggers:
        logger.addFilter(muted)
    try:
        exporter = OTLPSpanExporter(session=session, timeout=seconds)

        def export(spans: Sequence[ReadableSpan]) -> int | None:
            answer.clear()
            done = exporter.export(spans) is SpanExportResult.SUCCESS
            status = answer[-1].status_code if answer else 0
            if done and status < 300:  # which the exporter takes for done up to 399
                found = ExportTraceServiceResponse()
                with suppress(Exception):  # a body of another kind says nothing
                    found.ParseFromString(answer[-1].content)
                if found.partial_success.rejected_spans:
                    said.append(
                        problem_line(Exception(found.partial_success.error_message or "rejected"))
                    )
                return int(found.partial_success.rejected_spans)
            if status:
                said.append(f"it answered {status}")
            elif said and "due to timeout" in said[-1]:
                said.append("no answer in time")
            return len(spans) if status in _REFUSALS else None

        yield export, said
        exporter.shutdown()  # type: ignore[no-untyped-call]
    finally:
        for logger in loggers:
            logger.removeFilter(muted)


class _Noted(logging.Filter):
    """Keeps what this thread logs of an exporter from being shown, and notes what went
    wrong in it.
    """

    def __init__(self, said: list[str]) -> None:
        super().__init__()
        self._thread, self._said = threading.get_ident(), said

    def filter(self, record: logging.LogRecord) -> bool:
        if record.thread != self._thread:
            return True
        if record.name == _LOGGERS[0]:
            self._said.append(problem_line(Exception(record.getMessage())))
        return False


def _genai(spans: Sequence[ReadableSpan]) -> Iterator[ReadableSpan]:
    """The spans of a trace with the attributes of OpenTelemetry's conventions for generative AI."""
    from mlflow.tracing.export.genai_semconv.translator import translate_span_to_genai
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import SpanContext, TraceFlags

    resource = Resource({"service.name": "folkmoot"}).merge(OTELResourceDetector().detect())

    def context(given: Any) -> Any:
        """With an id that no span of another trace has."""
        number = (given.trace_id + given.span_id) % 2**64 or 1
        return SpanContext(given.trace_id, number, False, TraceFlags(1))

    for span in spans:
        own = {name: json.loads(str(value)) for name, value in (span.attributes or {}).items()}
        kind, root = own["mlflow.spanType"], span.parent is None
        made = span if root else translate_span_to_genai(span)
        attributes = {
            **{
                name.removeprefix(_TAG): value
                for name, value in own.items()
                if name.startswith(_TAG)
            },
            **{name: _plain(value) for name, value in own.items() if name.startswith("folkmoot.")},
            **{
                name: value
                for name, value in (made.attributes or {}).items()
                if name.startswith("gen_ai.")
            },
        }
        attributes.pop("mlflow.traceName", None)
        name = made.name
        if kind == "CHAT_MODEL":
            attributes["gen_ai.request.model"], name = span.name, f"chat {span.name}"
            if cost := own.get("mlflow.llm.cost"):
                attributes["folkmoot.cost_usd"] = cost["total_cost"]
        else:
            attributes |= {
                f"folkmoot.{of}": json.dumps(own[f"mlflow.span{of.title()}"], ensure_ascii=False)
                for of in ("inputs", "outputs")
                if f"mlflow.span{of.title()}" in own
            }
        if root:
            attributes["gen_ai.operation.name"] = "invoke_workflow"
        yield ReadableSpan(
            name=name,
            context=context(span.context),
            parent=None if span.parent is None else context(span.parent),
            resource=resource,
            attributes=attributes,
            kind=made.kind,
            status=span.status,
            start_time=span.start_time,
            end_time=span.end_time,
        )


def _plain(value: Any) -> Any:
    return (
        value
        if isinstance(value, str | bool | int | float)
        else json.dumps(value, ensure_ascii=False)
    )
