"""The HTTP session of OpenTelemetry's exporter, with replies that end: after so many bytes, and in
time.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from io import BytesIO
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import requests

MOST_REPLY = 2**16
"""Bytes of a reply that are read: a collector says in a few what it rejects."""


def bounded_session() -> requests.Session:
    """A session without packed replies, whose time-outs hold for a whole exchange; for one request
    at a time.

    What `requests` calls a time-out is one for each piece of a reply, and it reads replies of any
    length.
    """
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.exceptions import HTTPError

    class Adapter(HTTPAdapter):
        socket: socket.socket | None = None

        def get_connection_with_tls_context(self, *of: Any, **options: Any) -> Any:
            pool: Any = super().get_connection_with_tls_context(*of, **options)
            make: Any = type(pool).ConnectionCls

            def connection(**settings: Any) -> Any:
                made = make(**settings)

                def connect() -> None:
                    type(made).connect(made)
                    self.socket = made.sock

                made.connect = connect
                return made

            pool.ConnectionCls = connection
            return pool

        def send(
            self, request: requests.PreparedRequest, *of: Any, **options: Any
        ) -> requests.Response:
            seconds, ended, late = options["timeout"], threading.Event(), threading.Event()
            threading.Thread(target=_cut, args=(self, seconds, ended, late), daemon=True).start()
            try:
                response = super().send(request, *of, **options | {"stream": True})
                body = response.raw.read(MOST_REPLY)
                response.raw.close()
            except HTTPError as problem:
                raise requests.ConnectionError(problem, request=request) from None
            finally:
                ended.set()
            if late.is_set():
                raise requests.ReadTimeout(f"no whole answer within {seconds:g} s", request=request)
            response.raw = BytesIO(body)
            return response

    session = requests.Session()
    session.headers["Accept-Encoding"] = "identity"
    for scheme in ("http://", "https://"):
        session.mount(scheme, Adapter())
    return session


def _cut(adapter: Any, seconds: float, ended: threading.Event, late: threading.Event) -> None:
    """End the connection once the time is over, and again until the request has ended."""
    while not ended.wait(seconds):
        seconds = 0.1
        late.set()
        if adapter.socket is not None:
            with suppress(OSError):  # it is closed already
                adapter.socket.shutdown(socket.SHUT_RDWR)
