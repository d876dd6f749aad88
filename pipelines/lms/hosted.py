"""All other providers, through LiteLLM. During folkmoot's calls, its HTTP clients follow no
redirects and read replies of limited size.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import httpx

from ...modules.base.calls import CallError, FatalCallError
from ...modules.base.context import GUARD, bound
from ...modules.base.errors import UserError, closest
from ...modules.base.fence import one_line
from ..base.settings import settings
from .client import HttpEndpoint, no_key, usable_key
from .endpoint import (
    Reply,
    body_text,
    hiding,
    not_connected,
    note_cost,
    origin,
    packed_otherwise,
    plain_address,
    read_completion,
    too_large,
)
from .failures import AskedEndpoint, TransientError, Trouble
from .prices import known_model, price_table
from .refusals import failure_of

ANTHROPIC, ANTHROPIC_VERSION = "https://api.anthropic.com/v1", "2023-06-01"
_NOT_IN_A_HEADER = "'ascii' codec can't encode"
"""What Python says, before anything is sent, of a key that cannot stand in a header."""
FIELDS = frozenset(
    {
        *("messages", "temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "n"),
        *("stop", "seed", "frequency_penalty", "presence_penalty", "logit_bias", "user"),
        *("response_format", "logprobs", "top_logprobs", "tools", "tool_choice", "functions"),
        *("function_call", "parallel_tool_calls", "reasoning_effort", "thinking", "verbosity"),
        *("service_tier", "extra_body", "modalities", "audio", "prediction", "web_search_options"),
    }
)
"""The fields that a request through LiteLLM may have."""


def litellm_quiet() -> Any:
    """Import LiteLLM, with guarded clients and so that it fetches no tables; returns the module."""
    # All three variables are read when LiteLLM is imported.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
    # Otherwise it would read addresses from a `.env` file in the working folder.
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    logging.getLogger("LiteLLM").setLevel(logging.ERROR)  # its warnings are about its own tables
    _guard_clients(litellm)
    return litellm


class LiteLLMEndpoint:
    """A model of any provider that LiteLLM knows; by default the key comes from the provider's
    environment variable.

    Raises UserError for an unknown provider, and for a name with an address in it (Hugging Face's
    may have one): a name may come from a stranger's file, and the key must not go to its address.
    """

    def __init__(
        self,
        model: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout: float = 120.0,
    ) -> None:
        if "://" in model or not model.isprintable():
            raise UserError(
                f"{model!r} has an address in the LM's name: give that with --api-base (api_base=…)"
            )
        self.model = model
        self.api_base = api_base
        self.timeout = timeout
        self.answered = False
        if api_key is not None:
            api_key = usable_key(api_key, model)
        self._key = api_key
        self._hide = hiding([api_key, *settings().provider_keys()], api_base)
        self._most_bytes = settings().reply_mb << 20
        close = spelled(model)
        meant = ""
        if close:
            meant = f" (did you mean {close!r}?)"
        unknown = UserError(
            f"there is no LM {model!r}{meant}: give PROVIDER/MODEL as LiteLLM does, such as "
            "openai/gpt-4o-mini or anthropic/claude-sonnet-4-5, or local/gemma-3-270m"
        )
        if close and known_model(close):  # LiteLLM, which knows all others, takes seconds to import
            raise unknown
        litellm = litellm_quiet()
        try:
            litellm.get_llm_provider(model, api_base=api_base)
        except litellm.exceptions.BadRequestError:
            raise unknown from None
        self.native = self._native(model, api_base, api_key or settings().anthropic_key())
        missing = litellm.validate_environment(model)
        if missing["missing_keys"] and not api_base and not api_key:
            raise UserError(f"{model} needs a key: set {' and '.join(missing['missing_keys'])}")

    def _native(self, model: str, api_base: str | None, api_key: str | None) -> HttpEndpoint | None:
        """Return the provider's own API, to which requests are passed on as a client wrote them;
        None if the meter does not know it.
        """
        provider, _, name = model.partition("/")
        if provider != "anthropic":
            return None
        base = (api_base or ANTHROPIC).rstrip("/")
        if not base.endswith("/v1"):
            base += "/v1"
        return HttpEndpoint(
            base,
            name,
            api_key=api_key,
            timeout=self.timeout,
            headers={"x-api-key": api_key or "", "anthropic-version": ANTHROPIC_VERSION},
            serves=("messages",),
            variable="ANTHROPIC_API_KEY",
        )

    def check_settings(self, settings: Iterable[str]) -> None:
        """Raise UserError for a setting that LiteLLM would silently drop."""
        # `drop_params` in `send` would drop it.
        supported = litellm_quiet().get_supported_openai_params(model=self.model) or ()
        for key in settings:
            if supported and key != "extra_body" and key not in supported:
                raise UserError(
                    f"{self.model} does not accept {key}: leave it out, or send it in extra_body"
                )

    @property
    def name(self) -> str:
        if not self.api_base:
            return "litellm"
        return plain_address(self.api_base)

    @property
    def address(self) -> str:
        if not self.api_base:
            return self.model.partition("/")[0]
        return origin(self.api_base)

    async def send(self, payload: Mapping[str, object]) -> Reply:
        """Make one attempt. Raises TransientError, CallError or FatalCallError."""
        if "messages" not in payload:
            raise CallError(
                f"{self.model} is not supported for embeddings: give an openai/… model with its "
                "address"
            )
        if unknown := sorted(payload.keys() - FIELDS):  # LiteLLM reads addresses from such fields
            raise CallError(
                f"{self.model} does not accept the field {unknown[0]!r} in a request: leave it out"
            )
        guard = CallGuard(self.model, self._most_bytes)
        errors = litellm_quiet().exceptions
        try:
            with bound(GUARD, guard):
                async with asyncio.timeout(self.timeout):
                    reply = await litellm_quiet().acompletion(
                        model=self.model,
                        api_base=self.api_base,
                        api_key=self._key,
                        # The engine retries: each attempt has to pass budget and ledger.
                        num_retries=0,
                        max_retries=0,
                        drop_params=True,
                        timeout=self.timeout,
                        **payload,
                    )
        except TimeoutError:
            raise self._unanswered() from None
        except errors.openai.OpenAIError as problem:  # the base of LiteLLM's own errors
            if guard.problem is not None or not guard.answered:
                raise guard.problem or self._failure(problem, guard, payload) from None
            # LiteLLM could not read the response; `read_completion` may, or say what it is.
            text = guard.text
        else:
            text = json.dumps(reply.model_dump(), default=str, ensure_ascii=False)
        about = replace(self._about, status=guard.status or 200)
        read = read_completion(self._hide(text), about)
        note_cost(read, guard.headers)
        self.answered = True
        return read

    @property
    def _about(self) -> AskedEndpoint:
        return AskedEndpoint(self.model, self.model, "the provider's key", self.answered)

    def _unanswered(self) -> TransientError:
        return TransientError(f"no answer from {self.model} within {self.timeout:g} s", "timed out")

    def _failure(
        self, problem: object, guard: CallGuard, payload: Mapping[str, object]
    ) -> Exception:
        """Return what an error of LiteLLM's means if there was no reply. The guard knows what
        really happened: LiteLLM reports broken connections as status 500.
        """
        errors, about = litellm_quiet().exceptions, replace(self._about, request=payload)
        reason = one_line(self._hide(str(problem)))
        if _NOT_IN_A_HEADER in reason:
            return FatalCallError(no_key(self.model))
        if guard.status >= 300:  # in the provider's words, not in LiteLLM's
            return failure_of(guard.status, self._hide(guard.text), guard.headers, about)
        if guard.connected and isinstance(problem, errors.Timeout):
            return self._unanswered()
        if guard.cut_off or isinstance(problem, errors.APIConnectionError):
            # Without a byte of a response nothing was billed.
            kind: Trouble = "cut off" if guard.begun else "reset"
            if not guard.connected:
                kind = "unreachable"
            return not_connected(self.model, reason[:200], kind)
        status = getattr(problem, "status_code", None) or 500
        headers = getattr(getattr(problem, "response", None), "headers", None) or {}
        return failure_of(status, reason, headers, about)

    async def aclose(self) -> None:
        return None


class CallGuard:
    """The limit on the reply of one call, and what the guarded client saw of its response."""

    def __init__(self, name: str, most_bytes: int) -> None:
        self.name = name
        self.most_bytes = most_bytes
        self.problem: Exception | None = None
        self.connected = True
        self.cut_off = False  # the request was sent, and the response is not complete
        self.begun = False  # a response has begun
        self.answered = False  # a response was complete, with a status of success
        self.status = 0
        self.text = ""
        self.headers: Mapping[str, str] = {}


class GuardedTransport(httpx.AsyncBaseTransport):
    """An httpx transport that reads responses up to the allowed size; a larger response, and a
    redirect, becomes a response with status 400.
    """

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        guard: CallGuard | None = GUARD.get()
        if guard is None:
            return await self.inner.handle_async_request(request)
        request.headers["Accept-Encoding"] = "gzip, deflate"
        try:
            for name, value in request.headers.items():  # one of them has the key
                request.headers[name] = usable_key(value, guard.name)
        except UserError as problem:
            guard.problem = FatalCallError(str(problem))
            return _refused("its key is none")
        # Stays so if anything below raises before the response is complete.
        guard.cut_off = True
        try:
            response = await self.inner.handle_async_request(request)
        except (httpx.ConnectError, httpx.ConnectTimeout):
            guard.connected = False
            raise
        guard.status, guard.headers = response.status_code, dict(response.headers)
        try:
            if 300 <= response.status_code < 400:
                return _refused("it redirects")
            guard.begun = True
            body = bytearray()
            async for chunk in response.aiter_bytes():  # after decompression
                body += chunk
                if len(body) > guard.most_bytes:
                    guard.problem = too_large(guard.name, guard.most_bytes)
                    return _refused(str(guard.problem))
        except httpx.DecodingError:
            packed = response.headers.get("Content-Encoding", "")
            guard.problem = packed_otherwise(guard.name, packed) if response.is_success else None
            return _refused("it is not packed as it says")
        finally:
            await response.aclose()
        guard.cut_off, guard.answered = False, response.is_success
        guard.text = body_text(body)
        headers = response.headers.copy()
        # The body is already decompressed; by these headers, httpx would do it once more.
        for name in ("content-encoding", "content-length", "transfer-encoding"):
            headers.pop(name, None)
        return httpx.Response(
            response.status_code,
            headers=headers,
            content=bytes(body),
            extensions=response.extensions,
        )

    async def aclose(self) -> None:
        await self.inner.aclose()


def _refused(reason: str) -> httpx.Response:
    """Return the response that LiteLLM gets instead of a redirect or an answer that is too
    large.
    """
    return httpx.Response(400, json={"error": {"message": reason}})


def _guard_clients(litellm: Any) -> None:
    """Make all of LiteLLM's asynchronous clients, including those for OpenAI's package, use a
    `GuardedTransport`.
    """
    from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

    handler: Any = AsyncHTTPHandler
    if getattr(handler.create_async_transport, "guarded", False):
        return
    create, mounts = handler.create_async_transport, handler.create_httpx_proxy_mounts

    def create_async_transport(*arguments: object, **options: object) -> GuardedTransport:
        return GuardedTransport(create(*arguments, **options) or httpx.AsyncHTTPTransport())

    def create_httpx_proxy_mounts(
        transport: object, *arguments: object, **options: object
    ) -> object:
        if isinstance(transport, GuardedTransport):
            transport = transport.inner
        mounted = mounts(transport, *arguments, **options) or {}
        # httpx takes None for addresses that need no proxy
        return {pattern: mount and GuardedTransport(mount) for pattern, mount in mounted.items()}

    create_async_transport.guarded = True  # type: ignore[attr-defined]
    handler.create_async_transport = staticmethod(create_async_transport)
    handler.create_httpx_proxy_mounts = staticmethod(create_httpx_proxy_mounts)
    litellm.in_memory_llm_clients_cache.flush_cache()  # clients that were made before
    # A client that LiteLLM keeps from its first use: one from before would not be guarded.
    vars(litellm).pop("module_level_aclient", None)


def full_names() -> dict[str, str]:
    """Name without provider → full LiteLLM name, for each chat model that the table lists so."""
    bare = {name: rates for name, rates in price_table().items() if "/" not in name}
    # The table may name a part of a provider, such as vertex_ai-language-models.
    return {
        name: f"{rates['litellm_provider'].partition('-')[0]}/{name}"
        for name, rates in bare.items()
        if rates.get("mode") == "chat"
    }


def spelled(model: str) -> str | None:
    """Return the name with its provider's spelling corrected; None if the provider is known, or
    like no other.
    """
    names = [*full_names().values(), *filter(lambda name: "/" in name, price_table())]
    known = {name.partition("/")[0] for name in names}
    provider, _, rest = model.partition("/")
    meant = None if provider in known else closest(provider, known)
    # Not if the lengths differ: LiteLLM knows more providers than its table, as vertex_ai_beta.
    if meant is None or abs(len(meant) - len(provider)) > 1:
        return None
    return f"{meant}/{rest}"
