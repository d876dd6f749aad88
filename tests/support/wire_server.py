"""A server that answers badly: raw bytes, broken connections, silence, and any status."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import pytest

from folkmoot.modules.base.connections import back_off
from folkmoot.pipelines.lms import engine as engine_module


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back-off in milliseconds."""
    monkeypatch.setattr(
        engine_module,
        "back_off",
        lambda attempt, after: back_off(attempt, after, first=0.004, longest=0.02),
    )


class Server:
    """Answers with (status, headers, body), raw bytes and a closed connection, or None."""

    def __init__(self, answer: Any) -> None:
        self.bodies: list[bytes] = []
        self.paths: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.arrivals: list[float] = []
        self.released = threading.Event()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.bodies.append(self.body)
                outer.arrivals.append(time.monotonic())
                outer.paths.append(self.path)
                outer.headers.append({name.lower(): value for name, value in self.headers.items()})
                said = answer(self)
                if said is None:
                    outer.released.wait(30)
                    self.close_connection = True
                    return
                if isinstance(said, bytes):
                    self.wfile.write(said)
                    self.close_connection = True
                    return
                status, headers, body = said
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:
                    self.close_connection = True

            do_GET = do_PUT = do_PATCH = do_DELETE = do_CONNECT = do_POST  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        class Listener(ThreadingHTTPServer):
            request_queue_size = 128
            daemon_threads = True

        self._server = Listener(("127.0.0.1", 0), Handler)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.url = f"{self.origin}/v1"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
