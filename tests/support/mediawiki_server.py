"""A stand-in for a MediaWiki with TextExtracts: HTTP on loopback, pages, faults to order."""

import asyncio
import json
import re
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from aiohttp import web

from folkmoot.modules.environment import mediawiki
from folkmoot.modules.environment.wikipedia import WikipediaEnvironment
from folkmoot.pipelines.testing.server import LoopbackServer

Fault = Callable[[web.Request], Awaitable[web.StreamResponse]]
NAMESPACES = {"special": -1, "talk": 1, "user": 2, "file": 6, "category": 14}
INTERWIKI = {"de", "wikt"}
REVISION = 7


class MediaWikiServer(LoopbackServer):
    """`host` is its `HOST:PORT`; `log` holds the query of every request, `headers` their headers.

    `faults` are used up one a request, before any page is served; None serves the request after
    all. `delay` is what every answer takes, in seconds.
    """

    def __init__(self, documents: Any, redirects: Any = None, disambiguations: Any = None) -> None:
        super().__init__(web.get("/w/api.php", self._answer))
        self.pages = {document["title"]: document["text"] for document in documents}
        self.redirects = dict(redirects or {})
        self.disambiguations = dict(disambiguations or {})
        self.faults: list[Fault | None] = []
        self.delay = 0.0
        self.log: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.in_flight = self.most_at_once = 0

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.log.append(dict(request.query))
        self.headers.append(dict(request.headers))
        fault = self.faults.pop(0) if self.faults else None
        if fault is not None:
            return await fault(request)
        self.in_flight += 1
        self.most_at_once = max(self.most_at_once, self.in_flight)
        try:
            await asyncio.sleep(self.delay)
        finally:
            self.in_flight -= 1
        return web.json_response(self.content(dict(request.query)))

    def content(self, query: Mapping[str, str]) -> dict[str, Any]:
        """What the API says, in its format version 2."""
        assert (query["action"], query["format"], query["formatversion"]) == ("query", "json", "2")
        if query.get("generator") == "search":
            found = self._found(query["gsrsearch"])[: int(query["gsrlimit"])]
            return self._pages(found, index=True)
        if query.get("generator") == "links":
            return self._pages(sorted(self.disambiguations.get(query["titles"], ()), key=hash))
        return self._pages(query["titles"].split("|"), query)

    def _pages(
        self, titles: list[str], query: Mapping[str, str] | None = None, *, index: bool = False
    ) -> dict[str, Any]:
        if not titles:
            return {"batchcomplete": True}
        pages, interwiki = [], []
        for place, title in enumerate(titles, 1):
            prefix = title.partition(":")[0].strip().casefold() if ":" in title else ""
            if prefix in INTERWIKI:
                interwiki.append({"title": title, "iw": prefix})
                continue
            page = self._page(title, prefix, query or {})
            pages.append(page | {"index": place} if index else page)
        found = {"pages": pages, "interwiki": interwiki}
        return {"batchcomplete": True, "query": {name: one for name, one in found.items() if one}}

    def _page(self, title: str, prefix: str, query: Mapping[str, str]) -> dict[str, Any]:
        if re.search(r"[#<>\[\]|{}\x00-\x1f]|%[0-9a-fA-F]{2}", title):
            return {"title": title, "invalidreason": "bad characters", "invalid": True}
        title = title[:1].upper() + title[1:]
        title = self.redirects.get(title, title)
        ns = NAMESPACES.get(prefix, 0)
        page: dict[str, Any] = {"ns": ns, "title": title}
        text = self.pages.get(title)
        if title in self.disambiguations:
            text = f"{title} may refer to: " + "; ".join(self.disambiguations[title])
            page["pageprops"] = {"disambiguation": ""}
        if ns < 0:
            return page | {"special": True}
        if text is None:
            return page | {"missing": True}
        if "extracts" in query.get("prop", ""):
            page["extract"] = text
        return page | {"pageid": 1, "lastrevid": REVISION}

    def _found(self, search: str) -> list[str]:
        """All words must be there, or any of those joined by OR; most hits first, then by title."""
        wanted = search.casefold().replace(" or ", " ").split()
        ranked = []
        for title, text in [*self.pages.items(), *((name, name) for name in self.disambiguations)]:
            words = set(re.findall(r"\w+", f"{title} {text}".casefold()))
            hits = sum(word in words for word in wanted)
            if hits and (hits == len(wanted) or " OR " in search):
                ranked.append((-hits, title))
        return [title for _, title in sorted(ranked)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Back-off in milliseconds, for every test of a module that imports this."""
    monkeypatch.setattr(mediawiki, "FIRST_WAIT", 0.001)


def wiki(server: MediaWikiServer, **options: Any) -> WikipediaEnvironment:
    options.setdefault("private_hosts", {server.host})
    return WikipediaEnvironment(f"http://{server.host}", **options)


def status(code: int, **headers: str) -> Fault:
    async def fault(request: web.Request) -> web.StreamResponse:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(status=code, headers=names, text="<html>trouble</html>")

    return fault


def redirect(location: str, code: int = 302) -> Fault:
    return status(code, Location=location)


def body(content: bytes, kind: str = "application/json", **headers: str) -> Fault:
    async def fault(request: web.Request) -> web.StreamResponse:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(body=content, headers={"Content-Type": kind, **names})

    return fault


def error(code: str, info: str = "so it is", **headers: str) -> Fault:
    """An error that the API reports with status 200."""
    return body(json.dumps({"error": {"code": code, "info": info}}).encode(), **headers)


def bomb(megabytes: int) -> Fault:
    """Zeros, packed to a two hundredth of their size without ever being in memory."""

    async def fault(request: web.Request) -> web.StreamResponse:
        packer, zeros = zlib.compressobj(1, wbits=31), bytes(1 << 20)
        packed = b"".join(packer.compress(zeros) for _ in range(megabytes)) + packer.flush()
        return await body(packed, Content_Encoding="gzip")(request)

    return fault


async def reset(request: web.Request) -> web.StreamResponse:
    """Hangs up without an answer."""
    request.transport.abort()
    return web.Response()


async def truncated(request: web.Request) -> web.StreamResponse:
    """Hangs up in the middle of an answer."""
    headers = {"Content-Type": "application/json", "Content-Length": "100"}
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    await response.write(b'{"query": ')
    request.transport.abort()
    return response
