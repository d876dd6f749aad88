"""Traces go to an OTLP endpoint beside MLflow: what it gets, once, and what is said when it takes
nothing.
"""

from __future__ import annotations

import gzip
import json
import logging
import socketserver
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from children import in_child
from mortal import asks_collector, questions
from stores import new_store

import folkmoot as fm
from folkmoot.pipelines.testing.server import ScriptedServer
from folkmoot.pipelines.tracking import evaluation

pytest.importorskip(
    "opentelemetry.exporter.otlp.proto.http", reason="the OTLP exporter is not installed"
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

KEY = "key-canary-77aa01"


class Collector(ThreadingHTTPServer):
    """Takes traces as a collector does, or answers with `status` and rejects so many spans."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.rejects, self.first_status = 200, 0, 0
        self.got: list[tuple[str, dict[str, str], ExportTraceServiceRequest]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for _, _, request in self.got
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        body = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
        status, self.server.first_status = self.server.first_status or self.server.status, 0
        if status == 200:
            request = ExportTraceServiceRequest.FromString(body)
            self.server.got.append(
                (self.path, {k.lower(): v for k, v in self.headers.items()}, request)
            )
        answer = ExportTraceServiceResponse()
        if self.server.rejects:
            answer.partial_success.rejected_spans = self.server.rejects
            answer.partial_success.error_message = "too old"
        self.send_response(status)
        self.end_headers()
        self.wfile.write(answer.SerializeToString())

    def log_message(self, *said: Any) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module", autouse=True)
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("store")
    uri = new_store(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", uri)
        patch.setattr(evaluation, "drawings", lambda program, report: {})
        yield uri


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of waiting folders of its own."""
    monkeypatch.setenv("FOLKMOOT_CACHE", str(tmp_path / "cache"))


def traced(url: str, out: Path | None, n: int = 3) -> fm.Evaluation:
    team = fm.Deliberation(["intuitive", "reasoner"], max_rounds=1, tie_break="majority")
    lm = fm.lm("openai/scripted", api_base=url)
    return fm.evaluate(team, questions(n), lm=lm, out=out, traces=1.0, settings={"data": "otlp"})


def attributes(span: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def test_an_endpoint_gets_every_span_once_with_headers_that_nothing_shows(
    scripted: ScriptedServer,
    collector: Collector,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"x-api-key={KEY},broken {KEY}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    out = tmp_path / "run"
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        result = traced(scripted.url, out)
        assert result.wait_for_traces()
    path, headers, request = collector.got[0]
    assert (path, headers["x-api-key"]) == ("/v1/traces", KEY)
    (resource,) = request.resource_spans
    assert {one.key: one.value.string_value for one in resource.resource.attributes} == {
        "service.name": "folkmoot"
    }
    spans = collector.spans
    assert len(spans) == 3 * (1 + 2 + 2)  # a question, its turns, their calls
    assert len({span.span_id for span in spans}) == len(spans)
    by_id = {span.span_id: span for span in spans}
    chats = [span for span in spans if attributes(span).get("gen_ai.operation.name") == "chat"]
    assert len(chats) == 6
    said = attributes(chats[0])
    assert chats[0].name == "chat openai/scripted"
    assert (said["gen_ai.request.model"], said["gen_ai.provider.name"]) == (
        "openai/scripted",
        "openai",
    )
    assert said["gen_ai.usage.input_tokens"] > 0
    assert json.loads(said["gen_ai.input.messages"])[0]["role"] == "user"
    assert json.loads(said["gen_ai.output.messages"])[0]["role"] == "assistant"
    agent = by_id[chats[0].parent_span_id]
    assert attributes(agent)["gen_ai.agent.name"].startswith(("intuitive", "reasoner"))
    root = by_id[agent.parent_span_id]
    assert not root.parent_span_id
    assert attributes(root)["folkmoot.question"] == result.rows[0]["id"]
    assert attributes(root)["folkmoot.correct"] is result.rows[0]["correct"]
    assert attributes(root)["folkmoot.run"] == result.run_id
    assert not any(name.startswith("mlflow.") for span in spans for name in attributes(span))
    traced(scripted.url, out).wait_for_traces()
    assert len(collector.spans) == len(spans)
    assert KEY not in caplog.text
    assert not [one for one in out.rglob("*") if one.is_file() and KEY.encode() in one.read_bytes()]


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "it answered 401"), (302, "it answered 302"), (None, "no answer in time")],
)
def test_what_an_endpoint_does_not_take_is_counted_and_sent_by_the_same_command(
    status: int | None,
    said: str,
    scripted: ScriptedServer,
    collector: Collector,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.url}/in?token={KEY}")
    if status is None:  # nobody listens there
        monkeypatch.setenv(
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"http://127.0.0.1:9/in?token={KEY}"
        )
    collector.status = status or 200
    with pytest.warns(RuntimeWarning, match=f"did not take 15 of 15 spans.*({said})") as warned:
        result = traced(scripted.url, tmp_path / "run")
    assert not result.wait_for_traces()
    assert KEY not in str(warned[0].message)
    collector.status = 200
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.url}/in?token={KEY}")
    assert traced(scripted.url, tmp_path / "run").wait_for_traces()
    assert len(collector.spans) == 15
    assert collector.got[0][0] == f"/in?token={KEY}"


def test_a_batch_that_is_refused_does_not_keep_the_others_back(
    scripted: ScriptedServer, collector: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setattr("folkmoot.pipelines.tracking.traces.BATCH", 1)
    collector.first_status = 413
    with pytest.warns(RuntimeWarning, match=r"did not take 5 of 15 spans .*: it answered 413\)"):
        assert not traced(scripted.url, tmp_path / "run").wait_for_traces()
    assert len(collector.spans) == 10


OK = b"HTTP/1.1 200 OK\r\n"
REDIRECT = b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.2:{port}/\r\n\r\n"
HOSTILE = {
    "a huge reply": (OK + b"Content-Length: 9000000000\r\n\r\n", b"x" * 2**20, None),
    "a huge redirect": (REDIRECT, b"x" * 2**20, "it answered 302"),
    "a body by drops": (OK + b"\r\n", b".", "no answer in time"),
    "an error by drops": (
        b"HTTP/1.1 500 No\r\nContent-Length: 999\r\n\r\n",
        b".",
        "no answer in time",
    ),
    "headers by drops": (OK + b"X-Slow: ", b".", "no answer in time"),
    "answers to come": (b"", b"HTTP/1.1 100 Continue\r\n\r\n", "no answer in time"),
}
"""What a collector sends first, what it then sends again and again, and what is said of it."""


@pytest.mark.parametrize("how", HOSTILE)
def test_a_reply_without_end_takes_neither_memory_nor_time(how: str) -> None:
    first, again, said = HOSTILE[how]
    reached: list[str] = []

    class Endless(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            reached.append(self.server.server_address[0])
            self.request.recv(2**16)
            end = time.monotonic() + 8
            with suppress(OSError):  # the client has gone
                self.request.sendall(first.replace(b"{port}", str(port).encode()))
                while time.monotonic() < end:
                    self.request.sendall(again)
                    time.sleep(0.1 if len(again) < 2**20 else 0)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    with Server(("127.0.0.1", 0), Endless) as server:
        port = server.server_address[1]
        with Server(("127.0.0.2", port), Endless) as other:
            for one in (server, other):
                threading.Thread(target=one.serve_forever, daemon=True).start()
            answer, seconds = in_child(asks_collector, f"http://127.0.0.1:{port}", 0.5, 500)
            for one in (server, other):
                one.shutdown()
    assert answer is None if said is None else said in str(answer)
    assert seconds < 5
    assert reached == ["127.0.0.1"]


@pytest.mark.parametrize(
    "off",
    [
        {"OTEL_SDK_DISABLED": "true"},
        {"OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
    ],
)
def test_the_environment_can_say_not_to_send(
    off: dict[str, str],
    scripted: ScriptedServer,
    collector: Collector,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, **off}.items():
        monkeypatch.setenv(name, value)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert traced(scripted.url, tmp_path / "run", 1).wait_for_traces()
    assert not collector.got
    told = [str(one.message) for one in said if "http/protobuf" in str(one.message)]
    assert bool(told) == ("grpc" in off.values())
