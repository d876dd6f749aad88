"""A careful client for the API of one MediaWiki: fixed hosts, bounded answers, patient retries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from functools import partial
from urllib.parse import urlencode, urlsplit
from weakref import WeakKeyDictionary

import aiohttp

from ..base.calls import CallError, FatalCallError
from ..base.connections import (
    AnswerTooLargeError,
    LoopSessions,
    back_off,
    of_loop,
    read_body,
    seconds_to_wait,
)
from ..base.fence import cut, one_line
from .addresses import CheckedResolver, PrivateAddressError

ATTEMPT_SECONDS = 20.0
"""The time limit of one attempt, which a slow stream of bytes does not extend."""

WHOLE_SECONDS = 120.0
"""The time limit of a request with all its attempts and the waits between them."""

CONNECT_SECONDS = 10.0
READ_SECONDS = 15.0
"""The longest silence within an answer."""

MOST_BYTES = 8 * 2**20
"""The greatest size of a decompressed answer; Wikipedia's longest pages have a tenth of it."""

MOST_RETRIES = 5
FIRST_WAIT = 0.5
CONNECTIONS = 8
"""Requests in flight from one event loop: what a public wiki takes without complaint."""

# With `maxlag`, a wiki under load refuses programs rather than readers.
FORMAT = {"action": "query", "format": "json", "formatversion": "2", "maxlag": "5"}
# Error codes of temporary failures, which the API sends with status 200.
_PASSING = ("maxlag", "ratelimited", "readonly", "internal_api_error", "timeout")


class _PassingError(Exception):
    """A temporary failure that is worth another attempt."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class MediaWiki:
    """The API at `address` (up to and including `api.php`).

    Args:
        private: whether its host may be at a private address.
        user_agent: the header that says who asks.
    """

    def __init__(self, address: str, *, private: bool, user_agent: str) -> None:
        self.address = address
        self.name, self.path = urlsplit(address).netloc.casefold(), urlsplit(address).path
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            WeakKeyDictionary()
        )
        self._sessions = LoopSessions(partial(_session, private, user_agent))

    async def ask(self, parameters: Mapping[str, str]) -> dict[str, object]:
        """Return the JSON object that the API answers with.

        Raises CallError, naming host and reason, when this request fails for good, FatalCallError
        when every other one would fail, too.
        """
        url = f"{self.address}?{urlencode({**parameters, **FORMAT})}"
        async with of_loop(self._slots, lambda: asyncio.Semaphore(CONNECTIONS)):
            clock = asyncio.get_running_loop().time
            end = clock() + WHOLE_SECONDS
            attempt = 0
            while True:
                try:
                    return await self._get(url, min(ATTEMPT_SECONDS, end - clock()))
                except _PassingError as problem:
                    wait = back_off(attempt, problem.retry_after, first=FIRST_WAIT)
                    attempt += 1
                    if attempt > MOST_RETRIES or clock() + wait >= end:
                        asked = ""
                        if problem.retry_after:
                            asked = f" and asks to wait {problem.retry_after:.0f} s"
                        tries = "1 attempt" if attempt == 1 else f"{attempt} attempts"
                        raise CallError(
                            f"{self.name} {problem}{asked}; given up after {tries}"
                        ) from None
                await asyncio.sleep(wait)

    async def close(self) -> None:
        await self._sessions.close()

    async def _get(self, url: str, seconds: float) -> dict[str, object]:
        """Return the answer of one attempt, within `seconds`. Raises as `ask` does, or
        _PassingError.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._got(url)
        except TimeoutError:
            raise _PassingError(f"gave no complete answer within {seconds:.3g} s") from None
        except aiohttp.ClientConnectorCertificateError:
            raise FatalCallError(
                f"{self.name} shows a certificate that is not valid: "
                "check the host, and this machine's clock"
            ) from None
        except (aiohttp.ClientError, OSError) as problem:
            if isinstance(getattr(problem, "os_error", None), PrivateAddressError):
                raise FatalCallError(
                    f"{self.name} is refused: {problem.os_error}; "  # type: ignore[union-attr]
                    "list it in private_hosts if it is a wiki of your own"
                ) from None
            reason = cut(one_line(str(problem)), 200)
            raise _PassingError(f"cannot be reached ({type(problem).__name__}: {reason})") from None

    async def _got(self, url: str) -> dict[str, object]:
        """Return the answer with status 200. Raises _PassingError or CallError for any other
        status; a redirect, which the API of a wiki never needs, is not followed.
        """
        session = await self._sessions.session()
        async with session.get(url, allow_redirects=False) as response:
            status, headers = response.status, response.headers
            if 300 <= status < 400:
                raise CallError(
                    f"{self.name} redirects elsewhere ({status}), which is not followed: name the "
                    "host that answers"
                )
            if status in (408, 429) or status >= 500:
                raise _PassingError(f"answered {status}", seconds_to_wait(headers))
            if status in (401, 403, 404, 410):
                raise FatalCallError(
                    f"{self.name} refuses to answer at {self.path} ({status}): check host and "
                    "path; it may also be private, or not want requests from this network or with "
                    "this User-Agent"
                )
            if status != 200:
                raise CallError(f"{self.name} refused the request ({status})")
            if response.content_type != "application/json":
                kind = cut(one_line(response.content_type), 60)
                raise CallError(
                    f"{self.name} answered with {kind}, not JSON: is it a MediaWiki's API?"
                )
            try:
                body = await read_body(response, MOST_BYTES)
            except AnswerTooLargeError as problem:
                raise CallError(f"{self.name} answered with {problem}") from None
        return self._read(body, seconds_to_wait(headers))

    def _read(self, body: bytes, retry_after: float | None) -> dict[str, object]:
        """Return the JSON object of a body. Raises _PassingError or CallError if it is an error."""
        try:
            content = json.loads(body)
        except (ValueError, RecursionError):
            raise _PassingError("answered with something that is not JSON") from None
        if not isinstance(content, dict):
            raise CallError(
                f"{self.name} answered with JSON that is not MediaWiki's: check host and path"
            )
        error = content.get("error")
        if error is None:
            return content
        if not isinstance(error, dict):
            error = {"code": error}
        code = cut(one_line(str(error.get("code"))), 60)
        # By its beginning: the code of an internal error ends with the exception's name.
        if code.startswith(_PASSING):
            raise _PassingError(f"answered with the error {code}", retry_after)
        info = cut(one_line(str(error.get("info", ""))), 200)
        raise CallError(f"{self.name} refused the request ({code}: {info})")


def _session(private: bool, user_agent: str) -> aiohttp.ClientSession:
    resolver = CheckedResolver(aiohttp.ThreadedResolver(), private=private)
    return aiohttp.ClientSession(
        # No limit: the caller's semaphore counts the requests in flight.
        connector=aiohttp.TCPConnector(limit=0, resolver=resolver),
        # No total: the caller times the attempt.
        timeout=aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_SECONDS, sock_read=READ_SECONDS
        ),
        headers={
            "User-Agent": user_agent,
            "Accept": "application/json",
            "Accept-Encoding": "gzip, deflate",
        },
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,  # a proxy would look names up itself, past the check of addresses
    )
