"""The embedded LM as an endpoint: its profile, and the grammar that bounds its replies."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

from ...modules.agents.profile import Profile
from ..base.settings import settings
from .client import HttpEndpoint
from .embedded import EmbeddedServer
from .endpoint import Reply
from .grammar import reply_grammar

MODEL = "gemma-3-270m"
DEFAULT_LM = f"local/{MODEL}"
WEIGHTS = "q4_k_m a5fd3b62230a"  # quantisation and the start of the weights' SHA-256
LOCAL_PROFILE = Profile(layout="plain", answer_form="text", list_options=False, constrain="grammar")

_SERVERS: dict[int, EmbeddedServer] = {}
_LOCK = threading.Lock()


class LocalEndpoint:
    """Gemma 3 270M in this process, a server for each number of threads. It starts with the first request."""

    address = ""
    timeout = 120.0
    quiet_until = 0.0

    def __init__(self, threads: int) -> None:
        self._threads = threads
        with _LOCK:
            if threads not in _SERVERS:
                _SERVERS[threads] = EmbeddedServer(threads=threads, cache_dir=settings().cache)
            self._server = _SERVERS[threads]
        self._http: HttpEndpoint | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process, which gets a server of its own and its own machine's cache."""
        return LocalEndpoint, (self._threads,)

    @property
    def name(self) -> str:
        return f"embedded llama.cpp ({WEIGHTS})"

    async def send(self, payload: Mapping[str, Any]) -> Reply:
        """One attempt. Raises TransientError or CallError."""
        http = await self._started()
        body = dict(payload)
        fields = body.pop("fields", None)
        if fields:
            options = [option for field in fields for option in field.get("options", ())]
            # As the LM would write them after "Answer:"; asks the server only for options not seen before.
            tokens = await asyncio.to_thread(self._server.tokenize, [f" {option}" for option in options])
            body["grammar"] = reply_grammar(fields, dict(zip(options, tokens, strict=True)))
        return await http.send({**body, "cache_prompt": True})

    async def aclose(self) -> None:
        if self._http is not None:
            await self._http.aclose()

    async def _started(self) -> HttpEndpoint:
        if self._http is None or not self._server.running:
            # Loading takes a second or two: not on the event loop.
            await asyncio.to_thread(self._server.start)
            self._http = HttpEndpoint(self._server.base_url, MODEL, api_key=self._server.api_key)
        return self._http
