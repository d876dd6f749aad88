"""Direct client for OpenAI-compatible chat endpoints: one pooled HTTP connection set per event
loop.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit

import aiohttp

from ...modules.base.calls import FatalCallError
from ...modules.base.connections import (
    AnswerTooLargeError,
    LoopSessions,
    read_body,
    seconds_to_wait,
)
from ...modules.base.fence import one_line
from ..base.journal import to_json
from ..base.settings import settings
from .endpoint import (
    OUR_SCHEMA,
    Reply,
    TransientError,
    Trouble,
    failure_of,
    hiding,
    origin,
    plain_address,
    read_completion,
    read_embeddings,
    too_large,
)

CONNECT_SECONDS = 10.0


class HttpEndpoint:
    """An OpenAI-compatible `…/v1` endpoint.

    Args:
        base_url: up to and including `/v1`.
        model: the name the endpoint knows.
        api_key: sent as bearer token; None sends none. Never shown by repr or errors.
        timeout: seconds that one attempt may take.

    Raises UserError when `base_url` is not an http or https address.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        timeout: float = 120.0,
    ) -> None:
        self.model = model
        self.timeout = timeout
        self.name = plain_address(base_url)
        self.address = origin(base_url)
        self._hide = hiding([api_key], base_url)
        self._headers = {"Content-Type": "application/json"}
        parts = urlsplit(base_url)
        self._query = f"?{parts.query}" if parts.query else ""
        # credentials in the address are meant for this server; a key may be for another one
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
        elif api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._most_bytes = settings().reply_mb << 20
        self._sessions = LoopSessions(partial(_session, timeout))
        self._takes_schema = True

    async def send(self, payload: Mapping[str, Any]) -> Reply:
        """Make one attempt, at `/embeddings` for a payload without messages. Raises TransientError,
        CallError or FatalCallError.
        """
        if "messages" not in payload:
            status, headers, text = await self._post({"model": self.model, **payload}, "embeddings")
            if status != 200:
                raise self._failure(status, headers, text)
            return read_embeddings(text, self.name)
        body = {"model": self.model, **payload, **payload.get("extra_body", {})}
        body.pop("extra_body", None)
        asked = body.get("response_format") or {}
        ours = asked.get("json_schema", {}).get("name") == OUR_SCHEMA
        if ours and not self._takes_schema:
            del body["response_format"]
        status, headers, text = await self._post(body)
        if status == 400 and ours and self._takes_schema and ("schema" in text or "format" in text):
            # Perhaps the endpoint cannot hold answers to a schema. If it answers without one, the
            # words of the prompt must do from here on.
            del body["response_format"]
            status, headers, text = await self._post(body)
            self._takes_schema = status != 200
        if status == 200:
            return read_completion(text, self.name)
        if status == 404 and "model" not in text.casefold() and (meant := self._meant()):
            raise FatalCallError(f"404 at /chat/completions: did you mean {meant}?")
        raise self._failure(status, headers, text)

    def _failure(self, status: int, headers: Mapping[str, str], text: str) -> Exception:
        return failure_of(
            status,
            text,
            name=self.name,
            model=self.model,
            key="OPENAI_API_KEY",
            retry_after=seconds_to_wait(headers),
        )

    def _meant(self) -> str | None:
        """A likely correction of the address; None for an address that looks right."""
        if self.name.endswith("/chat/completions"):
            return self.name.removesuffix("/chat/completions")
        return None if re.search(r"/v\d", self.name) else f"{self.name}/v1"

    async def aclose(self) -> None:
        """Close this event loop's connections; a loop run by `asyncio.run` does so when it ends."""
        await self._sessions.close()

    async def _post(
        self, body: Mapping[str, object], path: str = "chat/completions"
    ) -> tuple[int, Mapping[str, str], str]:
        url = f"{self.name}/{path}{self._query}"
        try:
            session = await self._sessions.session()
            async with session.post(
                url, data=to_json(body), headers=self._headers, allow_redirects=False
            ) as response:
                content = await read_body(response, self._most_bytes)
                return (
                    response.status,
                    response.headers,
                    self._hide(content.decode("utf-8", "replace")),
                )
        except (aiohttp.ConnectionTimeoutError, aiohttp.ClientConnectorError) as problem:
            raise self._broken(problem, "unreachable") from None
        except TimeoutError:
            raise TransientError(
                f"no answer from {self.name} within {self.timeout:g} s", "timed out"
            ) from None
        except AnswerTooLargeError:
            raise too_large(self.name, self._most_bytes) from None
        except ValueError:  # aiohttp's error for an invalid host or user info in an address
            raise FatalCallError(
                f"{self.name} is not an address: give --api-base as http://HOST:PORT/v1"
            ) from None
        except (aiohttp.ClientError, OSError) as problem:
            raise self._broken(problem, "cut off") from None

    def _broken(self, problem: Exception, kind: Trouble) -> TransientError:
        number = getattr(problem, "errno", None) or 0
        reason = (
            os.strerror(number) if number > 0 else one_line(f"{type(problem).__name__}: {problem}")
        )
        return TransientError(f"no connection to {self.name} ({reason})", kind)


def _session(timeout: float) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ttl_dns_cache=300),
        timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_SECONDS),
    )
