"""The HTTP client for OpenAI-compatible endpoints, with a pool of connections per event loop."""

from __future__ import annotations

import base64
import logging
import os
import re
import ssl
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import cache, partial
from importlib import import_module
from ipaddress import ip_address, ip_network
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from ...modules.base.calls import FatalCallError
from ...modules.base.connections import AnswerTooLargeError, LoopSessions, read_body
from ...modules.base.errors import UserError
from ...modules.base.fence import one_line
from ..base.journal import to_json
from ..base.settings import settings
from .endpoint import (
    Reply,
    body_text,
    hiding,
    is_stream,
    not_connected,
    note_cost,
    origin,
    packed_otherwise,
    plain_address,
    read_answer_body,
    read_completion,
    read_embeddings,
    read_events,
    too_large,
)
from .failures import AskedEndpoint, TransientError, Trouble

if TYPE_CHECKING:
    import aiohttp

# aiohttp reads the certificates of all authorities twice when it is imported (0.1 s), without
# Python's lock: whoever makes an LM goes on meanwhile. A fork waits for it, since the import would
# never end in the child.
_loading = Thread(target=import_module, args=("aiohttp",))
_loading.start()
os.register_at_fork(before=_loading.join)

_LOG = logging.getLogger("folkmoot")

CONNECT_SECONDS = 10.0
MOST_HEAD = 65536  # bytes of one header of an answer
# OpenSSL's numbers for certificates that are those of other hosts, or not valid now
_OTHER_HOST, _OTHER_TIME = (62, 64), (9, 10)

Sink = Callable[[bytes], Awaitable[None]]
"""A function that gets the bytes of a stream as they arrive."""


class NoSuchPathError(Exception):
    """An endpoint does not serve a path."""


class HttpEndpoint:
    """An OpenAI-compatible `…/v1` endpoint.

    Args:
        base_url: up to and including `/v1`.
        model: the name the endpoint knows.
        api_key: sent as bearer token; None sends none. Never shown by repr or errors.
        timeout: seconds that one attempt may take.
        proxied: whether the environment's proxy is used.
        headers: sent with every request in place of the bearer token.
        serves: the only paths below `base_url` that it serves; None if that is not known.
        variable: the environment variable of the key, for errors.

    `answered` says whether any call has been answered yet. Raises UserError when `base_url` is not
    an http or https address.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        timeout: float = 120.0,
        proxied: bool = True,
        headers: Mapping[str, str] | None = None,
        serves: Collection[str] | None = None,
        variable: str = "OPENAI_API_KEY",
    ) -> None:
        if api_key is not None:
            api_key = usable_key(api_key, model)
        self.model = model
        self.timeout = timeout
        self.name = plain_address(base_url)
        self.address = origin(base_url)
        self._hide = hiding([api_key], base_url)
        self._headers = {"Content-Type": "application/json"}
        parts = urlsplit(base_url)
        self._query = f"?{parts.query}" if parts.query else ""
        # Credentials in the address win: they are meant for this server, a key perhaps for another.
        if parts.username is not None:
            user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"
        elif headers is not None:
            self._headers |= headers
        elif api_key:
            self._headers["Authorization"] = f"Bearer {api_key}"
        self._serves, self._variable = serves, variable
        self._most_bytes = settings().reply_mb << 20
        self._proxy = _proxy_to(base_url) if proxied else None
        secure = any(to.startswith("https:") for to in (base_url, self._proxy or ""))
        self._sessions = LoopSessions(partial(_session, timeout, secure, False))
        self._fresh = LoopSessions(partial(_session, timeout, secure, True))
        self.answered = False
        self.paths: dict[str, bool] = {}
        """Paths that were asked for → whether the endpoint serves them."""

    async def send(self, payload: Mapping[str, Any]) -> Reply:
        """Make one attempt; a payload without messages asks for embeddings. Raises TransientError
        or CallError.
        """
        path, read = "chat/completions", read_completion
        if "messages" not in payload:
            path, read = "embeddings", read_embeddings
        # `extra_body` holds fields of the body itself, as in OpenAI's own client library.
        body = {"model": self.model, **payload, **payload.get("extra_body", {})}
        body.pop("extra_body", None)
        status, headers, text = await self._post(body, path)
        about = AskedEndpoint(self.name, self.model, self._variable, self.answered, status, body)
        if status < 300:
            reply = read(text, about)
            note_cost(reply, headers)
            self.answered = True
            return reply
        from .refusals import failure_of

        raise failure_of(status, text, headers, about)

    async def forward(
        self,
        path: str,
        payload: Mapping[str, object],
        read: Callable[[str | dict[str, object]], Reply],
        sink: Sink | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Pass on a client's own request to a path below `/v1/`, with these headers.

        `read` makes the Reply of the JSON object, or of the text of a stream, that comes back. The
        bytes of a stream go to `sink` as they arrive. Raises as `send` does, and NoSuchPathError.
        """
        body = {"model": self.model, **payload}
        status, answer_headers, text = await self._post(body, path, sink, headers)
        about = AskedEndpoint(self.name, self.model, self._variable, self.answered, status, body)
        if not self.has_path(path):
            from .refusals import lacks_path

            if lacks_path(status, text):
                raise NoSuchPathError(path)
        if status < 300:
            streams = is_stream(text)
            reply = read(read_events(text, about) if streams else read_answer_body(text, about))
            note_cost(reply, answer_headers)
            self.answered = self.paths[path] = True
            return reply
        from .refusals import failure_of

        raise failure_of(status, text, answer_headers, about)

    def has_path(self, path: str) -> bool | None:
        """Return whether the endpoint serves a path; None if that is not known yet."""
        if self._serves is not None:
            return path in self._serves
        if path in ("chat/completions", "embeddings"):
            return True
        if self.name == settings().default_openai_base_url:
            return path in ("responses", "completions")
        return self.paths.get(path)

    async def aclose(self) -> None:
        """Close this event loop's connections; a loop run by `asyncio.run` does so when it ends."""
        await self._sessions.close()
        await self._fresh.close()

    async def _post(
        self,
        body: Mapping[str, object],
        path: str,
        sink: Sink | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Mapping[str, str], str]:
        """Return the status, headers and text of a response.

        A server may close a pooled connection just when it is used again. So a request that got no
        byte of a response is sent once more, on a fresh connection.
        """
        try:
            return await self._exchange(self._sessions, body, path, sink, headers)
        except TransientError as problem:
            if problem.kind != "reset":
                raise
        return await self._exchange(self._fresh, body, path, sink, headers)

    async def _exchange(
        self,
        sessions: LoopSessions,
        body: Mapping[str, object],
        path: str,
        sink: Sink | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, Mapping[str, str], str]:
        """Return the status, headers and text of a response. Raises the CallError or TransientError
        that each way in which aiohttp can fail means for the user.
        """
        import aiohttp

        url = f"{self.name}/{path}{self._query}"
        answer: aiohttp.ClientResponse | None = None
        try:
            session = await sessions.session()
            async with session.post(
                url,
                data=to_json(body),
                # Not as headers of the session, which aiohttp sends to a proxy, too.
                headers={**self._headers, **(headers or {})},
                # A redirect would take key and prompt to a host that nobody named.
                allow_redirects=False,
                proxy=self._proxy,
            ) as response:
                answer = response
                streams = response.content_type == "text/event-stream"
                # An error is not passed on: the caller may still make another attempt.
                passed = sink if response.status < 300 and streams else None
                content = await read_body(response, self._most_bytes, passed)
                return response.status, response.headers, self._hide(body_text(content))
        # In this order, since the first classes derive from the later ones.
        except aiohttp.ClientConnectorCertificateError as problem:
            raise not_trusted(self.name, problem.certificate_error) from None
        except aiohttp.ClientConnectorSSLError as problem:
            # What OpenSSL says if the server answers in plain HTTP.
            if "WRONG_VERSION_NUMBER" in str(problem):
                raise FatalCallError(f"{self.name} speaks no TLS: write http://") from None
            raise self._broken(problem, "unreachable") from None
        except (aiohttp.ConnectionTimeoutError, aiohttp.ClientConnectorError) as problem:
            raise self._broken(problem, "unreachable") from None
        except TimeoutError:
            raise TransientError(
                f"no answer from {self.name} within {self.timeout:g} s", "timed out"
            ) from None
        except AnswerTooLargeError:
            raise too_large(self.name, self._most_bytes) from None
        except FatalCallError:  # which is a ValueError, too
            raise
        except ValueError:  # aiohttp's error for an invalid host or user info in an address
            raise FatalCallError(
                f"{self.name} is not an address: give --api-base as http://HOST:PORT/v1"
            ) from None
        except aiohttp.ClientHttpProxyError as problem:
            raise self._refused_by_proxy(problem.status, problem.message) from None
        except (aiohttp.ClientError, OSError) as problem:
            # If the body of a refusal cannot be read, its status still says enough.
            if answer is not None and answer.status >= 300:
                return answer.status, answer.headers, ""
            raise self._unreadable(problem, answer is not None) from None

    def _refused_by_proxy(self, status: int, message: str) -> FatalCallError | TransientError:
        from .refusals import proxy_refuses

        said = f"{status}: {one_line(message)[:100]}"
        if status >= 500:  # it does not reach the host behind it
            return not_connected(self.name, f"its proxy says {said}", "unreachable")
        return FatalCallError(proxy_refuses(f"the proxy before {self.name}", said))

    def _unreadable(self, problem: Exception, began: bool) -> FatalCallError | TransientError:
        """Return the failure of a connection whose response is no HTTP, or ended early."""
        from aiohttp import ClientResponseError

        # aiohttp names the encoding only in its message.
        if packed := re.search(r"content-encoding: (\w+)", str(problem)):
            return packed_otherwise(self.name, packed[1])
        if isinstance(problem, ClientResponseError):
            if _is_tls(problem):
                from .refusals import speaks_tls

                return speaks_tls(self.name)
            reason = one_line(problem.message)[:200]
            return TransientError(
                f"{self.name} answered with something that is not HTTP ({reason})", "unreadable"
            )
        cut_off = began or _began(problem)
        return self._broken(problem, "cut off" if cut_off else "reset")

    def _broken(self, problem: Exception, kind: Trouble) -> TransientError:
        """Return the failure of a connection, with the operating system's reason if there is
        one.
        """
        reason = type(problem).__name__
        if not _began(problem):
            reason = one_line(f"{reason}: {problem}")
        number = getattr(problem, "errno", None) or 0
        # a host that is not found has a negative number, which strerror does not know; those of
        # OpenSSL mean something else
        if number > 0 and "SSL" not in reason:
            reason = os.strerror(number)
        return not_connected(self.name, reason, kind)


def usable_key(key: str, model: str) -> str:
    """Return the key without white space around it. Raises UserError if it cannot stand in a
    header.
    """
    if key != key.strip():
        _say_blanks(model)
        key = key.strip()
    if not (key.isascii() and key.isprintable()):
        raise UserError(no_key(model))
    return key


def no_key(model: str) -> str:
    """Return the error about a key that cannot stand in a header."""
    return (
        f"the key for {model} has a line break or another character that no key has: copy it once "
        "more"
    )


@cache  # so that it is said once
def _say_blanks(model: str) -> None:
    _LOG.warning("the key for %s has blanks around it, which are left out", model)


def _began(problem: Exception) -> bool:
    """Return whether a connection broke after a part of the response's head had come: aiohttp's
    error then has the head as its `message`.
    """
    return not isinstance(getattr(problem, "message", ""), str)


def _is_tls(problem: aiohttp.ClientResponseError) -> bool:
    """Return whether a server answered plain HTTP with a TLS alert, because it wants TLS."""
    # An alert is a record of type 0x15 and version 3; aiohttp quotes its bytes raw or escaped.
    return re.search(r"\\x15\\x03|\x15\x03", problem.message) is not None


def _needs_none(parts: SplitResult) -> bool:
    """Return whether NO_PROXY has an address: by its host, its host and port, or its network."""
    host = parts.hostname or ""
    if proxy_bypass(host) or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return True
    networks = [name.strip() for name in getproxies().get("no", "").split(",") if "/" in name]
    try:
        address = ip_address(host)
        return any(address in ip_network(network, strict=False) for network in networks)
    except ValueError:  # a name, or a network that is none
        return False


def _proxy_to(base_url: str) -> str | None:
    """Return the proxy that the environment names for an address; None for a direct connection.
    Raises UserError for a proxy that does not speak HTTP.
    """
    parts = urlsplit(base_url)
    if _needs_none(parts):
        return None
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if proxy and "://" not in proxy:  # curl and requests accept this, too
        proxy = f"http://{proxy}"
    if proxy and urlsplit(proxy).scheme not in ("http", "https"):
        raise UserError(
            f"the proxy for {parts.hostname} speaks {urlsplit(proxy).scheme}, and folkmoot speaks "
            "HTTP with proxies: set HTTPS_PROXY to an http:// address, or name the host in NO_PROXY"
        )
    return proxy


def not_trusted(name: str, problem: Exception) -> FatalCallError:
    """Return the failure of a call to a server whose certificate is not accepted."""
    advice = "name its authority in SSL_CERT_FILE"
    code = getattr(problem, "verify_code", 0)
    if code in _OTHER_HOST:
        advice = "give --api-base with the name that is in it"
    elif code in _OTHER_TIME:
        advice = "it needs a new one, unless the clock of this machine is wrong"
    reason = one_line(str(problem))[:160]
    return FatalCallError(f"the certificate of {name} is not trusted ({reason}): {advice}")


@cache
def _trusting(authorities: str) -> ssl.SSLContext:
    """Return the TLS context for a file or folder of certificate authorities; cached, as reading a
    file takes 60 ms. Raises FatalCallError.
    """
    try:
        if os.path.isdir(authorities):  # as requests takes it
            return ssl.create_default_context(capath=authorities)
        return ssl.create_default_context(cafile=authorities)
    except OSError as problem:
        raise FatalCallError(
            f"{authorities} holds no certificates that can be read "
            f"({one_line(str(problem))[:100]}): correct SSL_CERT_FILE or REQUESTS_CA_BUNDLE"
        ) from None


def _session(timeout: float, secure: bool, fresh: bool) -> aiohttp.ClientSession:
    """Return an HTTP session; if `fresh`, it opens a connection for each request."""
    import aiohttp

    authorities = os.environ.get("SSL_CERT_FILE") or os.environ.get("REQUESTS_CA_BUNDLE")
    trusted: ssl.SSLContext | bool = True
    if secure and authorities:
        trusted = _trusting(authorities)
    # No limit here, because `limits` decides how many calls to an address are in flight.
    connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=300, ssl=trusted, force_close=fresh)
    return aiohttp.ClientSession(
        connector=connector,
        timeout=aiohttp.ClientTimeout(total=timeout, sock_connect=CONNECT_SECONDS),
        # Gateways add long headers, and aiohttp's default limits are lower than other clients'.
        max_field_size=MOST_HEAD,
        max_headers=1000,
    )
