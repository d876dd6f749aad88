"""All other providers, through LiteLLM. Its HTTP clients are guarded during folkmoot's calls: no
redirects, and replies of limited size.
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
"""Python's words for a key that no header can hold, before anything is sent."""
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
    """Import LiteLLM with its shipped tables (none are fetched) and guarded clients."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # read when it is imported
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
    # otherwise it takes addresses from a `.env` file in this folder
    os.environ.setdefault("LITELLM_MODE", "PRODUCTION")
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    logging.getLogger("LiteLLM").setLevel(logging.ERROR)  # its warnings are about its own tables
    _guard_clients(litellm)
    return litellm


class LiteLLMEndpoint:
    """A model of any provider that LiteLLM knows; by default the key comes from the provider's
    variable. Raises UserError for an unknown provider, and for a name that contains an address, as
    Hugging Face's may: a name may come from a foreign file.
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
        """The provider's own API, for requests that are passed on as a client wrote them; None for
        a provider without one that the meter knows.
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
        # `drop_params` below would leave it out without a word.
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
        """One attempt. Raises TransientError, CallError or FatalCallError."""
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
                raise guard.problem or self._failure(problem, guard) from None
            # What LiteLLM cannot read may be a reply nevertheless, or else an error, or a web page.
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

    def _failure(self, problem: object, guard: CallGuard) -> Exception:
        """The meaning of a LiteLLM error without an answer; LiteLLM reports broken connections as
        500.
        """
        errors = litellm_quiet().exceptions
        reason = one_line(self._hide(str(problem)))
        if _NOT_IN_A_HEADER in reason:
            return FatalCallError(no_key(self.model))
        if guard.status >= 300:  # as the provider sent it, and not as LiteLLM words it
            return failure_of(guard.status, self._hide(guard.text), guard.headers, self._about)
        if guard.connected and isinstance(problem, errors.Timeout):
            return self._unanswered()
        if guard.cut_off or isinstance(problem, errors.APIConnectionError):
            # Without a byte of an answer nothing was billed, so another attempt costs nothing.
            kind: Trouble = "cut off" if guard.begun else "reset"
            if not guard.connected:
                kind = "unreachable"
            return not_connected(self.model, reason[:200], kind)
        status = getattr(problem, "status_code", None) or 500
        headers = getattr(getattr(problem, "response", None), "headers", None) or {}
        return failure_of(status, reason, headers, self._about)

    async def aclose(self) -> None:
        return None


class CallGuard:
    """The limits of one call (the largest reply), and afterwards the problem with its answer."""

    def __init__(self, name: str, most_bytes: int) -> None:
        self.name = name
        self.most_bytes = most_bytes
        self.problem: Exception | None = None
        self.connected = True
        self.cut_off = False  # after the request was sent
        self.begun = False  # an answer
        self.answered = False  # with a status of success
        self.status = 0  # of an answer
        self.text = ""  # of an answer, as the provider sent it
        self.headers: Mapping[str, str] = {}


class GuardedTransport(httpx.AsyncBaseTransport):
    """Read an answer up to the allowed size; a redirect or a larger answer becomes an error 400."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        guard: CallGuard | None = GUARD.get()
        if guard is None:
            return await self.inner.handle_async_request(request)
        request.headers["Accept-Encoding"] = "gzip, deflate"
        try:
            for name, value in request.headers.items():  # of which one is the key
                request.headers[name] = usable_key(value, guard.name)
        except UserError as problem:
            guard.problem = FatalCallError(str(problem))
            return _refused("its key is none")
        # Until the whole answer is here: whoever raises meanwhile leaves it so.
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
        # The body is already decoded; httpx would decode it once more by these headers.
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
    """The response that LiteLLM gets instead of a redirect or an answer that is too large."""
    return httpx.Response(400, json={"error": {"message": reason}})


def _guard_clients(litellm: Any) -> None:
    """Guard all of LiteLLM's asynchronous clients, including those that it makes for OpenAI's
    package.
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
    # LiteLLM makes this client on first use and keeps it; one from before is not guarded.
    vars(litellm).pop("module_level_aclient", None)


def full_names() -> dict[str, str]:
    """The full LiteLLM name of each chat model that the table lists without its provider."""
    bare = {name: rates for name, rates in price_table().items() if "/" not in name}
    # the table may name a provider's part, such as vertex_ai-language-models
    return {
        name: f"{rates['litellm_provider'].partition('-')[0]}/{name}"
        for name, rates in bare.items()
        if rates.get("mode") == "chat"
    }


def spelled(model: str) -> str | None:
    """The name with the provider that is most likely meant; None for a known provider, or one that
    is like no other.
    """
    names = [*full_names().values(), *filter(lambda name: "/" in name, price_table())]
    known = {name.partition("/")[0] for name in names}
    provider, _, rest = model.partition("/")
    meant = None if provider in known else closest(provider, known)
    # LiteLLM has providers without prices, whose names are longer: vertex_ai_beta
    if meant is None or abs(len(meant) - len(provider)) > 1:
        return None
    return f"{meant}/{rest}"
