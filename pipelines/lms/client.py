"""Direct client for OpenAI-compatible chat endpoints: one pooled HTTP connection set per event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import aiohttp

from ...modules.calls import CallError, FatalCallError

CONNECT_SECONDS = 10.0


class TransientError(Exception):
    """A failure worth another try: 429, 5xx, a time-out or a broken connection."""

    def __init__(self, reason: str, *, refused: bool = False, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.refused = refused
        self.retry_after = retry_after


@dataclass(frozen=True)
class Reply:
    """One chat completion: its text, why it ended, and the tokens as the endpoint counted them (or None)."""

    text: str
    finish_reason: str
    prompt_tokens: int | None
    completion_tokens: int | None


class HttpEndpoint:
    """An OpenAI-compatible `…/v1` endpoint.

    Args:
        base_url: up to and including `/v1`.
        model: the name the endpoint knows.
        api_key: sent as bearer token; None sends none. Never shown by repr or errors.
        key_hint: the environment variable to name when the key is refused.
        timeout: seconds that one attempt may take.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        key_hint: str = "OPENAI_API_KEY",
        timeout: float = 120.0,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.model = model
        self.timeout = timeout
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._key_hint = key_hint
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, _Held] = WeakKeyDictionary()
        self._takes_schema = True

    @property
    def name(self) -> str:
        """Where it is, without user info or query: safe to log, and part of the cache key."""
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{parts.hostname}{f':{parts.port}' if parts.port else ''}{parts.path}"

    async def send(self, payload: Mapping[str, Any]) -> Reply:
        """One attempt. Raises TransientError, CallError or FatalCallError."""
        body = {"model": self.model, **payload}
        if not self._takes_schema:
            body.pop("response_format", None)
        status, headers, text = await self._post("/chat/completions", body)
        if status == 400 and "response_format" in body and _about_schema(text):
            # The endpoint cannot hold answers to a schema: the prompt's own words must do from here on.
            self._takes_schema = False
            body.pop("response_format")
            status, headers, text = await self._post("/chat/completions", body)
        if status == 200:
            return _reply(text, self.name)
        raise self._failure(status, headers, text)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Another JSON request to the same server (relative to `/v1`'s parent)."""
        url = self.base_url.removesuffix("/v1") + path
        status, headers, text = await self._post(url, body)
        if status != 200:
            raise self._failure(status, headers, text)
        return json.loads(text)

    async def aclose(self) -> None:
        """Close this event loop's connections; a loop run by `asyncio.run` does so when it ends."""
        held = self._sessions.pop(asyncio.get_running_loop(), None)
        if held is not None:
            await held.aclose()

    async def _post(self, path: str, body: Mapping[str, Any]) -> tuple[int, Mapping[str, str], str]:
        url = path if path.startswith("http") else self.base_url + path
        try:
            session = await self._session()
            async with session.post(url, json=body, headers=self._headers, allow_redirects=False) as response:
                return response.status, response.headers, await response.text()
        except TimeoutError:
            raise TransientError(f"no answer from {self.name} within {self.timeout:g} s") from None
        except aiohttp.InvalidURL:
            raise FatalCallError(
                f"{self.name} is no address: give --api-base as http://HOST:PORT/v1"
            ) from None
        except (aiohttp.ClientError, OSError) as problem:
            raise TransientError(
                f"no connection to {self.name} ({type(problem).__name__}: {problem})"
            ) from None

    async def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        held = self._sessions.get(loop)
        if held is None:
            held = self._sessions[loop] = _Held(self.timeout)
        return await held.session()

    def _failure(self, status: int, headers: Mapping[str, str], text: str) -> Exception:
        said = _said(text)
        if status == 429 and "insufficient_quota" not in text:
            return TransientError(
                f"{self.name} answered 429 ({said})", refused=True, retry_after=_seconds(headers)
            )
        if status >= 500 or status == 408:
            return TransientError(f"{self.name} answered {status} ({said})", retry_after=_seconds(headers))
        if status in (401, 403):
            return FatalCallError(
                f"{self.name} refused the key ({status}: {said}): set {self._key_hint} to a valid key"
            )
        if status == 404:
            return FatalCallError(
                f"{self.name} does not know the model {self.model!r} ({said}): check --lm and --api-base"
            )
        if status == 429:
            return FatalCallError(
                f"{self.name} has no quota left for this key ({said}): top it up or use another"
            )
        return CallError(f"{self.name} refused the request ({status}: {said})")


class _Held:
    """A session inside an async generator, which the event loop closes when it shuts down its generators."""

    def __init__(self, timeout: float) -> None:
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_SECONDS)
        self._session: aiohttp.ClientSession | None = None
        self._generator = self._hold()

    async def session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=300)
            self._session = aiohttp.ClientSession(connector=connector, timeout=self._timeout)
            await anext(self._generator)
        return self._session

    async def aclose(self) -> None:
        await self._generator.aclose()

    async def _hold(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            if self._session is not None:
                await self._session.close()


def _reply(text: str, name: str) -> Reply:
    try:
        body = json.loads(text)
        choice = body["choices"][0]
        message = choice["message"]
        usage = body.get("usage") or {}
        content = message.get("content")
        if content is None:
            content = message.get("refusal") or ""
        return Reply(
            str(content),
            str(choice.get("finish_reason") or "stop"),
            usage.get("prompt_tokens"),
            usage.get("completion_tokens"),
        )
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        raise TransientError(
            f"{name} answered 200 with something that is no chat completion ({_said(text)})"
        ) from None


def _about_schema(text: str) -> bool:
    return any(word in text for word in ("response_format", "json_schema", "schema", "structured"))


def _said(text: str) -> str:
    """The endpoint's own words in one short line, for an error message."""
    try:
        body = json.loads(text)
        error = body.get("error", body)
        said = error.get("message", error) if isinstance(error, dict) else error
    except (ValueError, AttributeError):
        said = text
    line = " ".join(str(said).split())
    return line[:200] or "no message"


def _seconds(headers: Mapping[str, str]) -> float | None:
    """`Retry-After` in seconds; a date in it is answered with the time until then."""
    value = headers.get("Retry-After") or headers.get("retry-after")
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return None
