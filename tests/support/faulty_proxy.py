"""A proxy before a real server: it fails as a test says, before or after the server has done its
part.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

Fault = Literal["500", "reset"] | None
"""An error in place of the answer, or a connection that is cut once the server has done what it was
asked.
"""

Rule = Callable[[str, str, int], Fault]
"""(method, path, number of the request from 1) → what goes wrong."""


class FaultyProxy:
    """Listens on `url`; `rule` can be changed at any time, and `paths` are those of all
    requests.
    """

    def __init__(self, upstream: str) -> None:
        self.rule: Rule = lambda method, path, number: None
        self.paths: list[tuple[str, str]] = []
        place = urlsplit(upstream)
        proxy, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with lock:
                    proxy.paths.append((self.command, self.path))
                    fault = proxy.rule(self.command, self.path, len(proxy.paths))
                if fault == "500":
                    self._say(500, [("Content-Type", "text/plain")], b"out of order")
                    return
                there = HTTPConnection(str(place.hostname), place.port, timeout=30)
                try:
                    there.request(self.command, self.path, body, dict(self.headers.items()))
                    answer = there.getresponse()
                    said = answer.read()
                finally:
                    there.close()
                if fault == "reset":
                    self.connection.shutdown(socket.SHUT_RDWR)
                    self.close_connection = True
                    return
                kept = [
                    pair for pair in answer.getheaders() if pair[0].casefold() == "content-type"
                ]
                self._say(answer.status, kept, said)

            def _say(self, status: int, headers: list[tuple[str, str]], said: bytes) -> None:
                self.send_response(status)
                for name, value in headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _any  # noqa: N815

            def log_message(self, format: str, *arguments: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def running(self) -> Iterator[FaultyProxy]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()
