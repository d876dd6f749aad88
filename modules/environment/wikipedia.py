"""Pages of the live Wikipedia, or of any other MediaWiki that can give them as plain text."""

from __future__ import annotations

import asyncio
import json
import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from functools import cached_property, partial
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any, TypeVar

from ..base.calls import CallError, FatalCallError
from ..base.connections import SingleFlight
from ..base.fence import cut, one_line
from ..base.keyvalue import KeyValue, key_of_texts
from .addresses import may_be_private
from .base import Environment, Page
from .mediawiki import MediaWiki

T = TypeVar("T")

PAGE_CHARS = 200_000
"""Characters kept of a page; few articles are longer."""

TITLE_BYTES = 255
QUERY_CHARS = 280
"""CirrusSearch, Wikipedia's search, takes no more than 300."""

# Without `exlimit` the API warns that whole pages come one at a time.
PAGE = {
    "prop": "extracts|pageprops|info",
    "explaintext": "1",
    "exsectionformat": "plain",
    "exlimit": "1",
    "ppprop": "disambiguation",
    "redirects": "1",
}
_TITLES = {"prop": "pageprops", "ppprop": "disambiguation"}
SEARCH = {"generator": "search", "gsrnamespace": "0", **_TITLES}
LINKS = {"generator": "links", "gplnamespace": "0", "gpllimit": "max", "redirects": "1", **_TITLES}
SPARE = 5
"""Additional search results to ask for, since disambiguation pages among them do not count."""

READING = 1
"""The version of the functions below, for the cache: increase it when they change."""

_NOT_IN_TITLES = re.compile(r"[|<>\[\]{}]")
_WORDS = re.compile(r"\w+(?:[-'’.]\w+)*")
_PARENTHETICAL = re.compile(r"\s*\([^()]*\)$")


class WikipediaEnvironment(Environment):
    """The articles of a MediaWiki with the extension TextExtracts.

    A disambiguation page counts as no page. `closest` searches for words only, never for operators.

    Args:
        host: `HOST` or `HOST:PORT`, reached by https; `http://HOST:PORT` only if it is a private
            host.
        path: the path of its API.
        private_hosts: hosts that may be at a private address.
        cache_dir: the folder that keeps every answer.
        user_agent: who asks, for public wikis.

    `fetch` and `closest` raise CallError when the wiki cannot be asked, FatalCallError when it
    never can.

    Raises UserError for a text that is no host, or a private host that is not listed.
    """

    def __init__(
        self,
        host: str = "en.wikipedia.org",
        *,
        path: str = "/w/api.php",
        private_hosts: Collection[str] = (),
        cache_dir: str | Path | None = None,
        user_agent: str | None = None,
    ) -> None:
        self._settings: dict[str, Any] = {
            "path": path,
            "private_hosts": tuple(private_hosts),
            "cache_dir": cache_dir,
            "user_agent": user_agent,
        }
        self._host = host
        scheme, _, name = host.rpartition("://")
        scheme = scheme or "https"
        private = may_be_private(scheme, name, private_hosts)
        self._client = MediaWiki(
            f"{scheme}://{name}/{path.removeprefix('/')}",
            private=private,
            user_agent=user_agent or default_user_agent(),
        )
        self.source = f"wikipedia:{self._client.name}"
        self._flights = SingleFlight()

    def __reduce__(self) -> tuple[object, ...]:
        """In another process, the copy has connections of its own."""
        return partial(WikipediaEnvironment, **self._settings), (self._host,)

    @property
    def fingerprint(self) -> str:
        """The wiki and the parameters of its requests; pages may still change from day to day."""
        asked = "&".join(f"{name}={value}" for name, value in PAGE.items())
        return f"{self.source}{self._client.path}?{asked} ({PAGE_CHARS} characters)"

    @property
    def text_form(self) -> str | None:
        own = self._settings["private_hosts"] or self._settings["user_agent"]
        if "://" in self._host or own:
            return None
        return f"wikipedia:{self._host}{self._client.path}"

    async def fetch(self, title: str) -> Page | None:
        """Return the article with this title, after redirects, or None."""
        page = await self._page(title)
        if page is None or page["ambiguous"] or not page["text"]:
            return None
        return Page(page["title"], page["text"], f"{self._client.name} revision {page['revision']}")

    async def closest(self, query: str, n: int) -> list[str]:
        """Return the titles on a disambiguation page of this name, then those that search finds.

        Of the listed titles, those that begin with the name come first, both parts in alphabetical
        order.
        """
        if n < 1:
            return []
        # At the same time, although only the page says whether the name is ambiguous.
        page, titles = await asyncio.gather(self._page(query), self._search(query, n))
        if page is not None and page["ambiguous"]:
            name = _PARENTHETICAL.sub("", page["title"]).casefold()
            found = await self._ask({**LINKS, "titles": page["title"]}, self._read_articles)
            listed = [title for _, title in found]
            listed.sort(key=lambda title: (not title.casefold().startswith(name), title))
            titles = [*listed, *titles]
        return list(dict.fromkeys(titles))[:n]

    async def close(self) -> None:
        """Close connections and cache."""
        await self._client.close()
        if (pages := vars(self).pop("_pages", None)) is not None:
            pages.close()

    @cached_property
    def _pages(self) -> KeyValue | None:
        """The cache of what was read from the wiki, as JSON; processes may share it. None without a
        folder.
        """
        folder = self._settings["cache_dir"]
        if folder is None:
            return None
        return KeyValue(
            Path(folder) / "pages.sqlite", "page cache", "pages will be asked for again"
        )

    async def _page(self, title: str) -> dict[str, Any] | None:
        name = article_title(title)
        if name is None:
            return None
        return await self._ask({**PAGE, "titles": name}, self._read_page)

    async def _search(self, query: str, n: int) -> list[str]:
        """Return titles of pages that have all words of `query`, or else any of them."""
        words = search_words(query)
        # Both texts are the same for a single word, and blank without a word.
        for text in filter(None, dict.fromkeys((" ".join(words), " OR ".join(words)))):
            limit = str(min(n + SPARE, 50))
            asked = {**SEARCH, "gsrsearch": cut_words(text), "gsrlimit": limit}
            articles = await self._ask(asked, self._read_articles)
            if articles:
                return [title for _, title in sorted(articles)]
        return []

    async def _ask(
        self, parameters: Mapping[str, str], read: Callable[[dict[str, object]], T]
    ) -> T:
        """Return the answer as `read` returns it, if possible from the cache or from an equal
        request under way.
        """
        key = json.dumps([READING, parameters], sort_keys=True)
        cache_key = key_of_texts(self._client.address, key)
        kept = None if self._pages is None else self._pages.get(cache_key)
        if kept is not None:
            return json.loads(kept)  # type: ignore[no-any-return]

        async def ask() -> T:
            answer = read(await self._client.ask(parameters))
            if self._pages is not None:
                self._pages.put(cache_key, json.dumps(answer).encode())
            return answer

        return (await self._flights(key, ask))[0]

    def _read_page(self, answer: dict[str, object]) -> dict[str, object] | None:
        """Return title, text and revision of an article, and whether it is a disambiguation page;
        None if there is no such article. Raises FatalCallError if the wiki gives no plain text.
        """
        query = answer.get("query")
        if isinstance(query, dict) and query.get("interwiki") and not query.get("pages"):
            return None  # a title of another wiki
        pages = self._listed_pages(answer)
        if len(pages) != 1:
            raise self._strange()
        page = pages[0]
        if page.get("missing") or page.get("invalid") or page.get("special") or page.get("ns") != 0:
            return None
        text, title = page.get("extract"), page.get("title")
        # A wiki without the extension only warns that it does not know the parameter.
        if text is None and "extracts" in json.dumps(answer.get("warnings")):
            raise FatalCallError(
                f"{self._client.name} gives no plain text of its pages: "
                "it needs the extension TextExtracts"
            )
        if not isinstance(text, str) or not isinstance(title, str):
            raise self._strange()
        revision = page.get("lastrevid")
        return {
            "title": title,
            "text": cut(text, PAGE_CHARS).strip(),
            "revision": revision if isinstance(revision, int) else 0,
            "ambiguous": _ambiguous(page),
        }

    def _read_articles(self, answer: dict[str, object]) -> list[tuple[int, str]]:
        """Return rank and title of the articles in an answer; none without a `query`."""
        articles: list[tuple[int, str]] = []
        if "query" not in answer:
            return articles
        for page in self._listed_pages(answer):
            title, rank = page.get("title"), page.get("index", 0)
            if not isinstance(title, str) or not isinstance(rank, int):
                raise self._strange()
            if page.get("ns") == 0 and not page.get("missing") and not _ambiguous(page):
                articles.append((rank, title))
        return articles

    def _listed_pages(self, answer: dict[str, object]) -> list[dict[str, object]]:
        query = answer.get("query")
        pages = query.get("pages") if isinstance(query, dict) else None
        if not isinstance(pages, list) or not all(isinstance(page, dict) for page in pages):
            raise self._strange()
        return pages

    def _strange(self) -> CallError:
        return CallError(
            f"{self._client.name} answered with JSON that is not MediaWiki's: check host and path"
        )


def article_title(title: str) -> str | None:
    """Return the title to ask a wiki for, in Unicode's composed form, on one line, without
    `#section`; None for a text that cannot be a title.

    That is one with a leading colon, with a vertical bar, which would make it several titles, or
    with another character that no title has.
    """
    name = one_line(
        unicodedata.normalize("NFC", one_line(title)).partition("#")[0].replace("_", " ")
    )
    if not name or name.startswith(":") or _NOT_IN_TITLES.search(name):
        return None
    return name if len(name.encode()) <= TITLE_BYTES else None


def search_words(query: str) -> list[str]:
    """Return the words of `query`, without anything that a search engine takes for an operator."""
    words = _WORDS.findall(one_line(unicodedata.normalize("NFC", one_line(query))))
    return [word.lower() if word in ("AND", "OR", "NOT") else word for word in words]


def cut_words(text: str) -> str:
    """Return `text` up to the last whole word within `QUERY_CHARS`."""
    if len(text) <= QUERY_CHARS:
        return text
    return text[: QUERY_CHARS + 1].rpartition(" ")[0].removesuffix(" OR") or text[:QUERY_CHARS]


def default_user_agent() -> str:
    """Return the name, version and, if the installed package names one, address of this project."""
    try:
        about = metadata("folkmoot")
    except PackageNotFoundError:
        return "folkmoot"
    addresses = [line.partition(",")[2].strip() for line in about.get_all("Project-URL") or ()]
    return f"folkmoot/{about['Version']}" + (f" ({addresses[0]})" if addresses else "")


def _ambiguous(page: Mapping[str, object]) -> bool:
    properties = page.get("pageprops")
    return isinstance(properties, dict) and "disambiguation" in properties
