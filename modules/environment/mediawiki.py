"""A careful client for the API of one MediaWiki: fixed hosts, bounded answers, patient retries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple
from weakref import WeakKeyDictionary

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

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
from .addresses import CheckedResolver, Hosts, PrivateAddressError

CONNECT_SECONDS = 10.0
READ_SECONDS = 15.0
"""The longest silence within an answer."""

MOST_BYTES = 8 * 2**20
"""The size of an answer once it is unpacked; the longest pages of Wikipedia have a tenth of it."""

MOST_REDIRECTS = 3
MOST_RETRIES = 5
FIRST_WAIT = 0.5
CONNECTIONS = 8
"""Requests in flight from one event loop: what a public wiki takes without complaint."""

FORMAT = {"action": "query", "format": "json", "formatversion": "2", "maxlag": "5"}
# error codes of temporary troubles, which the API sends with status 200
_PASSING = ("maxlag", "ratelimited", "readonly", "internal_api_error", "timeout")
_REDIRECTS = (301, 302, 303, 307, 308)


class _PassingError(Exception):
    """A temporary failure that is worth another attempt."""

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class _Answer(NamedTuple):
    body: bytes
    retry_after: float | None


class MediaWiki:
    """The API at `address` (up to and including `api.php`).

    Args:
        hosts: where requests may go, after any HTTP redirect.
        user_agent: the header that says who asks.
        timeout: seconds that one attempt may take, however slowly it drips.
        deadline: seconds that a request may take with all its attempts and the waits between them.
        resolver: makes a DNS resolver, one for each event loop; its answers are checked.
    """

    def __init__(
        self,
        address: URL,
        hosts: Hosts,
        *,
        user_agent: str,
        timeout: float,
        deadline: float,
        resolver: Callable[[], AbstractResolver] = aiohttp.ThreadedResolver,
    ) -> None:
        self.address = address
        self.name = address.host_port_subcomponent or ""
        self.timeout = timeout
        self.deadline = deadline
        self._hosts = hosts
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            WeakKeyDictionary()
        )
        self._sessions = LoopSessions(partial(_session, hosts, user_agent, resolver))

    async def ask(self, parameters: Mapping[str, str]) -> dict[str, object]:
        """The JSON object that the API answers with.

        Raises CallError, naming host and reason, when this request fails for good, FatalCallError
        when every other would, too.
        """
        async with of_loop(self._slots, lambda: asyncio.Semaphore(CONNECTIONS)):
            return await self._persist(parameters)

    async def close(self) -> None:
        await self._sessions.close()

    async def _persist(self, parameters: Mapping[str, str]) -> dict[str, object]:
        url = self.address.with_query({**parameters, **FORMAT})
        clock = asyncio.get_running_loop().time
        end = clock() + self.deadline
        attempt = 0
        while True:
            try:
                return self._read(await self._follow(url, min(self.timeout, end - clock())))
            except _PassingError as problem:
                wait = back_off(attempt, problem.retry_after, first=FIRST_WAIT)
                attempt += 1
                if attempt > MOST_RETRIES or clock() + wait >= end:
                    asked = (
                        f" and asks to wait {problem.retry_after:.0f} s"
                        if problem.retry_after
                        else ""
                    )
                    tries = "1 attempt" if attempt == 1 else f"{attempt} attempts"
                    raise CallError(
                        f"{self.name} {problem}{asked}; given up after {tries}"
                    ) from None
            await asyncio.sleep(wait)

    async def _follow(self, url: URL, seconds: float) -> _Answer:
        """The answer after at most `MOST_REDIRECTS` redirects, each checked like the first
        address.
        """
        try:
            async with asyncio.timeout(seconds):
                for _ in range(MOST_REDIRECTS + 1):
                    refusal = self._hosts.refusal(url)
                    if refusal is not None:
                        raise CallError(
                            f"{self.name} redirects to {_shown(url)}, which is refused: {refusal}"
                        )
                    answer = await self._get(url)
                    if isinstance(answer, _Answer):
                        return answer
                    url = answer
        except TimeoutError:
            raise _PassingError(f"gave no complete answer within {seconds:.3g} s") from None
        except aiohttp.ClientConnectorCertificateError:
            raise FatalCallError(
                f"{self.name} shows a certificate that is not valid: check the host, and this "
                f"machine's clock"
            ) from None
        except (aiohttp.ClientError, OSError) as problem:
            if isinstance(getattr(problem, "os_error", None), PrivateAddressError):
                raise FatalCallError(
                    f"{self.name} is refused: {problem.os_error}; "  # type: ignore[union-attr]
                    "list it in private_hosts if it is a wiki of your own"
                ) from None
            reason = cut(one_line(str(problem)), 200)
            raise _PassingError(f"cannot be reached ({type(problem).__name__}: {reason})") from None
        raise CallError(f"{self.name} redirects more than {MOST_REDIRECTS} times")

    async def _get(self, url: URL) -> _Answer | URL:
        """One answer, or where a redirect leads. Raises _PassingError or CallError for any other
        status.
        """
        session = await self._sessions.session()
        async with session.get(url, allow_redirects=False) as response:
            status, headers = response.status, response.headers
            if status in _REDIRECTS:
                try:
                    return url.join(_address(headers.get("Location", "")))
                except ValueError:
                    raise CallError(
                        f"{self.name} redirects to something that is not an address"
                    ) from None
            if status in (408, 429) or status >= 500:
                raise _PassingError(f"answered {status}", seconds_to_wait(headers))
            if status in (401, 403, 404, 410):
                raise FatalCallError(
                    f"{self.name} refuses to answer at {url.path} ({status}): check host and path; "
                    "it may also be private, or not want requests from this network or with this "
                    "User-Agent"
                )
            if status != 200:
                raise CallError(f"{self.name} refused the request ({status})")
            if response.content_type != "application/json":
                kind = cut(one_line(response.content_type), 60)
                raise CallError(
                    f"{self.name} answered with {kind}, not JSON: is it a MediaWiki's API?"
                )
            try:
                return _Answer(await read_body(response, MOST_BYTES), seconds_to_wait(headers))
            except AnswerTooLargeError as problem:
                raise CallError(f"{self.name} answered with {problem}") from None

    def _read(self, answer: _Answer) -> dict[str, object]:
        try:
            content = json.loads(answer.body)
        except (ValueError, RecursionError):
            raise _PassingError("answered with something that is not JSON") from None
        if not isinstance(content, dict):
            raise CallError(f"{self.name} answered with JSON that is none of MediaWiki's")
        error = content.get("error")
        if error is None:
            return content
        code = cut(one_line(str(error.get("code") if isinstance(error, dict) else error)), 60)
        if code.startswith(_PASSING):
            raise _PassingError(f"answered with the error {code}", answer.retry_after)
        info = cut(one_line(str(error.get("info", "") if isinstance(error, dict) else "")), 200)
        raise CallError(f"{self.name} refused the request ({code}: {info})")


def _session(
    hosts: Hosts, user_agent: str, resolver: Callable[[], AbstractResolver]
) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, resolver=CheckedResolver(hosts, resolver())),
        # The whole is timed by the caller, redirects included.
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


def _address(location: str) -> URL:
    if not location:
        raise ValueError("no address")
    return URL(location)


def _shown(url: URL) -> str:
    return cut(one_line(f"{url.scheme}://{url.raw_host}"), 100)
