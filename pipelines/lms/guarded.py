"""What LiteLLM's HTTP clients may do in a call of ours: no redirects, and replies of
limited size.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import httpx

from ...modules.base.calls import CallError
from ...modules.base.fence import one_line
from .endpoint import TooLargeError


class CallGuard:
    """What is held against one call: the largest reply, and afterwards what was wrong with the
    answer.
    """

    def __init__(self, name: str, most_bytes: int) -> None:
        self.name = name
        self.most_bytes = most_bytes
        self.problem: CallError | None = None
        self.connected = True
        self.cut_off = False  # after the request was sent
        self.answered = False  # with a status of success


GUARD: ContextVar[CallGuard | None] = ContextVar("folkmoot_litellm_guard", default=None)
"""The guard of the call in progress; LiteLLM's calls for others pass as they are."""


class GuardedTransport(httpx.AsyncBaseTransport):
    """Reads an answer up to the size allowed; what must not be followed or read on becomes an error
    400.
    """

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        guard = GUARD.get()
        if guard is None:
            return await self.inner.handle_async_request(request)
        request.headers["Accept-Encoding"] = "gzip, deflate"
        guard.cut_off = True
        try:
            response = await self.inner.handle_async_request(request)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            guard.connected = False
            raise
        try:
            if 300 <= response.status_code < 400:
                target = _origin(response.headers.get("Location", ""))
                guard.problem = CallError(
                    f"{guard.name} redirects to {target} ({response.status_code}), which is "
                    f"refused, since "
                    "key and prompt would go there: give that address as --api-base if you trust it"
                )
            elif (body := await _body(response, guard.most_bytes)) is None:
                guard.problem = TooLargeError(
                    f"the reply of {guard.name} has more than {guard.most_bytes >> 20} MB: lower "
                    f"max_tokens, "
                    "or raise FOLKMOOT_REPLY_MB"
                )
            else:
                guard.cut_off, guard.answered = False, response.is_success
                headers = response.headers.copy()
                for name in ("content-encoding", "content-length", "transfer-encoding"):
                    headers.pop(name, None)
                return httpx.Response(
                    response.status_code,
                    headers=headers,
                    content=body,
                    extensions=response.extensions,
                )
        finally:
            await response.aclose()
        return httpx.Response(400, json={"error": {"message": str(guard.problem)}})

    async def aclose(self) -> None:
        await self.inner.aclose()


def _origin(location: str) -> str:
    try:
        parts = httpx.URL(location)
    except httpx.InvalidURL:
        return "something that is not an address"
    return (
        one_line(f"{parts.scheme}://{parts.netloc.decode('ascii', 'replace')}")[:100]
        if parts.host
        else "itself"
    )


async def _body(response: httpx.Response, most_bytes: int) -> bytes | None:
    """The body, unpacked chunk by chunk; None when it is too large."""
    body = bytearray()
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > most_bytes:
            return None
    return bytes(body)


def guard_clients(litellm: Any) -> None:
    """Let all of LiteLLM's asynchronous clients, those that it makes for OpenAI's package too, be
    guarded.
    """
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

    handler: Any = AsyncHTTPHandler
    if getattr(handler.create_async_transport, "guarded", False):
        return
    create, mounts = handler.create_async_transport, handler.create_httpx_proxy_mounts

    def create_async_transport(*arguments: Any, **options: Any) -> GuardedTransport:
        return GuardedTransport(create(*arguments, **options) or httpx.AsyncHTTPTransport())

    def create_httpx_proxy_mounts(transport: Any, *arguments: Any, **options: Any) -> Any:
        inner = transport.inner if isinstance(transport, GuardedTransport) else transport
        mounted = mounts(inner, *arguments, **options)
        return mounted and {place: one and GuardedTransport(one) for place, one in mounted.items()}

    create_async_transport.guarded = True  # type: ignore[attr-defined]
    handler.create_async_transport = staticmethod(create_async_transport)
    handler.create_httpx_proxy_mounts = staticmethod(create_httpx_proxy_mounts)
    litellm.in_memory_llm_clients_cache.flush_cache()  # clients that were made before
    vars(litellm).pop("module_level_aclient", None)
