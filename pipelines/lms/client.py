"""Direct client for OpenAI-compatible chat endpoints: one pooled HTTP connection set per event loop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from ...modules.base.calls import CallError, FatalCallError
from ...modules.base.connections import LoopSessions, seconds_to_wait
from ...modules.base.errors import UserError
from ..base.jsonl import to_json
from ..base.settings import settings
from .secrets import hiding

CONNECT_SECONDS = 10.0
_NO_MODEL = ("model_not_found", "model not exist", "invalid model")  # said with a 400 by some providers


class TransientError(Exception):
    """A failure worth another try: 429 (`refused`), 5xx, a time-out or a broken connection.

    `paid` marks an answer that was given, and so billed, but is none that can be read.
    """

    def __init__(
        self, reason: str, *, refused: bool = False, paid: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(reason)
        self.refused = refused
        self.paid = paid
        self.retry_after = retry_after


@dataclass(frozen=True)
class Reply:
    """One chat completion: its text, why it ended, and the tokens as the endpoint counted them (or None).

    `finish_reason` is the endpoint's own, or `refusal` for a text with which the model declined to answer.
    """

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

    Raises UserError when `base_url` is no http or https address.
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
        self.name = plain_address(self.base_url)
        self._hide = hiding([api_key], base_url)
        self._keyed = bool(api_key)
        self._headers = {"Content-Type": "application/json"}
        if api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._key_hint = key_hint
        self._sessions = LoopSessions(partial(_session, timeout))
        self._takes_schema = True

    def __reduce__(self) -> tuple[Any, ...]:
        """For another process, which finds the key in its own environment: it does not travel."""
        if "@" in urlsplit(self.base_url).netloc:
            raise UserError(
                f"the address of {self.name} holds a password, which is not sent to other machines"
            )
        return _made_again, (self.base_url, self.model, self._keyed, self._key_hint, self.timeout)

    async def send(self, payload: Mapping[str, Any]) -> Reply:
        """One attempt. Raises TransientError, CallError or FatalCallError."""
        body = {"model": self.model, **payload}
        if not self._takes_schema:
            body.pop("response_format", None)
        status, headers, text = await self._post("/chat/completions", body)
        if status == 400 and "response_format" in body and _about_schema(text):
            # Perhaps the endpoint cannot hold answers to a schema; if it answers without one, the prompt's
            # own words must do from here on.
            body.pop("response_format")
            status, headers, text = await self._post("/chat/completions", body)
            self._takes_schema = status != 200
        if status == 200:
            return read_completion(text, self.name)
        raise self._failure(status, headers, text)

    async def aclose(self) -> None:
        """Close this event loop's connections; a loop run by `asyncio.run` does so when it ends."""
        await self._sessions.close()

    async def _post(self, path: str, body: Mapping[str, Any]) -> tuple[int, Mapping[str, str], str]:
        try:
            session = await self._sessions.session()
            async with session.post(
                self.base_url + path, data=to_json(body), headers=self._headers, allow_redirects=False
            ) as response:
                said = (await response.read()).decode("utf-8", "replace")
                return response.status, response.headers, self._hide(said)
        except TimeoutError:
            raise TransientError(f"no answer from {self.name} within {self.timeout:g} s") from None
        except ValueError:  # what aiohttp says of a host or user info that cannot stand in an address
            raise FatalCallError(
                f"{self.name} is no address: give --api-base as http://HOST:PORT/v1"
            ) from None
        except (aiohttp.ClientError, OSError) as problem:
            raise TransientError(
                f"no connection to {self.name} ({type(problem).__name__}: {problem})"
            ) from None

    def _failure(self, status: int, headers: Mapping[str, str], text: str) -> Exception:
        said = _said(text)
        if status == 429 and "insufficient_quota" not in text:
            return TransientError(
                f"{self.name} answered 429 ({said})", refused=True, retry_after=seconds_to_wait(headers)
            )
        if status >= 500 or status == 408:
            return TransientError(
                f"{self.name} answered {status} ({said})", retry_after=seconds_to_wait(headers)
            )
        if status in (401, 403):
            return FatalCallError(
                f"{self.name} refused the key ({status}: {said}): set {self._key_hint} to a valid key"
            )
        if status == 404 or (status == 400 and any(mark in text.casefold() for mark in _NO_MODEL)):
            return FatalCallError(
                f"{self.name} does not know the model {self.model!r} ({said}): check --lm and --api-base"
            )
        if status == 429:
            return FatalCallError(
                f"{self.name} has no quota left for this key ({said}): top it up or use another"
            )
        return CallError(f"{self.name} refused the request ({status}: {said})")


def _made_again(base_url: str, model: str, keyed: bool, key_hint: str, timeout: float) -> HttpEndpoint:
    """The endpoint in another process. Raises UserError when its environment lacks the key."""
    key = settings().openai_key() if keyed else None
    if keyed and key is None:
        raise UserError(
            f"{plain_address(base_url)} needs a key: set {key_hint} on every machine of the cluster"
        )
    return HttpEndpoint(base_url, model, api_key=key, key_hint=key_hint, timeout=timeout)


def _session(timeout: float) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
        timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_SECONDS),
    )


def read_completion(text: str, name: str) -> Reply:
    """A chat completion in OpenAI's JSON form. Raises TransientError when `text` is none."""
    try:
        body = json.loads(text)
        choice = body["choices"][0]
        message = choice["message"]
        said = _text(message.get("content"))
        reason = str(choice.get("finish_reason") or "stop")
        if not said and message.get("refusal"):
            said, reason = _text(message["refusal"]), "refusal"
        usage = body.get("usage")
        prompt, completion = (_tokens(usage, name) for name in ("prompt_tokens", "completion_tokens"))
        return Reply(said, reason, prompt, completion)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        raise TransientError(
            f"{name} answered 200 with something that is no chat completion ({_said(text)})", paid=True
        ) from None


def _text(content: Any) -> str:
    """The text of a message, whole or in parts, as valid Unicode. Raises TypeError for anything else."""
    if isinstance(content, list):
        content = "".join(part["text"] for part in content if part.get("type") == "text")
    if content is None:
        return ""
    if not isinstance(content, str):
        raise TypeError(f"the content of a message is text, not {type(content).__name__}")
    try:
        content.encode()
    except UnicodeEncodeError:  # halves of surrogate pairs, which JSON's escapes can spell
        return content.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return content


def _tokens(usage: Any, name: str) -> int | None:
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if isinstance(count, int) and count >= 0 else None


def plain_address(base_url: str) -> str:
    """Where it is, without user info or query: safe to log, and part of the cache key."""
    parts = urlsplit(base_url)
    try:
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    if not usable:
        raise UserError(f"{place} is no address of an endpoint: give --api-base as http://HOST:PORT/v1")
    return place


def _about_schema(text: str) -> bool:
    return any(word in text for word in ("response_format", "json_schema", "schema", "structured"))


def _said(text: str) -> str:
    """The endpoint's own words in one short line, for an error message."""
    try:
        body = json.loads(text)
        error = body.get("error", body)
        said = error.get("message", error) if isinstance(error, dict) else error
    except (ValueError, AttributeError, RecursionError):
        said = text
    line = " ".join(str(said).split())
    return line[:200] or "no message"
