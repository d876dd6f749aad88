"""A proxy before a real server: it fails as a test says, before or after the server acts."""

from collections.abc import Callable
from http.client import HTTPConnection
from typing import Any, Literal
from urllib.parse import urlsplit

from wire_server import Server

Fault = Literal["500", "reset"] | None
"""An error in place of the answer, or a connection cut once the server has done as asked."""

Rule = Callable[[str, str, int], Fault]
"""(method, path, number of the request from 1) → what goes wrong."""


class FaultyProxy(Server):
    """Listens on `origin`; `rule` can be changed at any time."""

    def __init__(self, upstream: str) -> None:
        super().__init__(self._forwarded)
        self.rule: Rule = lambda method, path, number: None
        self._upstream = urlsplit(upstream)

    def _forwarded(self, request: Any) -> Any:
        fault = self.rule(request.command, request.path, len(self.arrivals))
        if fault == "500":
            return 500, {"Content-Type": "text/plain"}, b"out of order"
        there = HTTPConnection(str(self._upstream.hostname), self._upstream.port, timeout=30)
        try:
            there.request(request.command, request.path, request.body, dict(request.headers))
            answer = there.getresponse()
            content = answer.read()
        finally:
            there.close()
        if fault == "reset":
            return b""
        kind = {"Content-Type": answer.headers.get("Content-Type", "text/plain")}
        return answer.status, kind, content
