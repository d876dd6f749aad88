"""Places to look things up: one interface over pages, and the session that holds an agent's
page.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from ..base.fence import clean, cut, one_line
from ..base.together import together
from ..reading.sentences import sentences

MAX_CHARS = 1500
"""The most characters of an observation, unless said otherwise."""

OPENING_SENTENCES = 5
CLOSEST_TITLES = 5
NAME_CHARS = 200
"""The most characters of a title, a keyword or a source."""

# Status marks, not instructions: an observation is quoted material, and the prompts in
# `signatures/` say what to do with it.
NO_PAGE = "(No page: {query})"
CLOSEST = " Closest: {titles}"
NO_PAGE_YET = "(No page yet)"
RESULT = "(Result {place} / {count}) {sentence}"
NO_RESULT = "(No result: {query})"
NO_MORE_RESULTS = "(No more results: {query})"


@dataclass(frozen=True)
class Page:
    """A page of an environment: untrusted text, and in `source` where it was read."""

    title: str
    text: str
    source: str

    @cached_property
    def sentences(self) -> list[str]:
        """The sentences of the cleaned text."""
        return sentences(clean(self.text))


@dataclass(frozen=True)
class Observation:
    """One line of cleaned, still untrusted text for an agent; fence it before it enters
    a prompt.

    `found` says whether it quotes a page, `title` names that page (for a lookup without a result,
    the current page), and `source` says where it was read, or which environment answered.
    """

    text: str
    found: bool
    title: str | None
    source: str


class Environment(ABC):
    """A collection of pages. One object serves any number of concurrent questions, each with its
    own session.

    An implementation supplies `source`, `fetch` and `closest`, and `close` if it holds anything
    open.
    """

    source: str
    """The name of the collection, for observations that quote no page."""

    @property
    def fingerprint(self) -> str:
        """The collection's identity in the record of a run; equal pages have equal fingerprints."""
        return self.source

    @property
    def text_form(self) -> str | None:
        """The YAML value of `environment`, such as `corpus:PATH`; None if only Python makes it."""
        return None

    @abstractmethod
    async def fetch(self, title: str) -> Page | None:
        """Return the page with this title; None if there is none or the title is ambiguous."""

    @abstractmethod
    async def closest(self, query: str, n: int) -> list[str]:
        """Return at most `n` titles that `fetch` finds, best first, for a title or a free-text
        question.
        """

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self  # indexes, connections and requests in flight are shared by copies of a program

    async def close(self) -> None:  # noqa: B027 (most environments hold nothing open)
        """Close files and connections; calling it again does nothing."""

    def open(self, *, max_chars: int = MAX_CHARS) -> "Session":
        """Return a new session, without a page, whose observations have at most `max_chars`
        characters.
        """
        return Session(self, max_chars=max_chars)

    async def evidence(
        self, query: str, *, passages: int = 3, max_chars: int = MAX_CHARS
    ) -> list[Observation]:
        """Return the beginnings of at most `passages` pages that fit a free-text question best,
        best first, each cut to `max_chars`.
        """
        pages = await together(map(self.fetch, await self.closest(one_line(query), passages)))
        return [_quote(page.text, page, max_chars) for page in pages if page is not None]


class Session:
    """One agent's view of an environment: the current page, and how far each keyword was followed
    on it.

    The actions are those of ReAct (Yao et al. 2023, section 3.1) as "Reasoning as a Team" uses
    them.
    """

    def __init__(self, environment: Environment, *, max_chars: int = MAX_CHARS) -> None:
        self._environment = environment
        self._max_chars = max_chars
        self.reset()

    def reset(self) -> None:
        """Leave the current page, as if the session had just been opened."""
        self._page: Page | None = None
        self._followed: dict[str, int] = {}

    async def search(self, title: str) -> Observation:
        """Return the opening sentences of the page with a title, which becomes the current page.

        If there is no such page, the observation names the closest titles, and the current page
        stays.
        """
        query = _name(title)
        page = await self._environment.fetch(query) if query else None
        if page is not None:
            self._page, self._followed = page, {}
            return _quote(" ".join(page.sentences[:OPENING_SENTENCES]), page, self._max_chars)
        text = NO_PAGE.format(query=query)
        titles = await self._environment.closest(query, CLOSEST_TITLES) if query else []
        if titles:
            text += CLOSEST.format(titles="; ".join(map(_name, titles)))
        return Observation(cut(text, self._max_chars), False, None, self._environment.source)

    async def lookup(self, keyword: str) -> Observation:
        """Return the next sentence of the current page with `keyword` (in any case), and its number
        among all such sentences.

        Each repetition returns the next one, also when other keywords were looked up in between,
        until a search finds a new page.
        """
        page = self._page
        if page is None:
            return Observation(
                cut(NO_PAGE_YET, self._max_chars), False, None, self._environment.source
            )
        query = _name(keyword)
        key = query.casefold()
        # Every sentence contains a blank keyword.
        hits = [sentence for sentence in page.sentences if key and key in sentence.casefold()]
        place = self._followed[key] = self._followed.get(key, 0) + 1
        if place <= len(hits):
            result = RESULT.format(place=place, count=len(hits), sentence=hits[place - 1])
            return _quote(result, page, self._max_chars)
        text = (NO_MORE_RESULTS if hits else NO_RESULT).format(query=query)
        return _quote(text, page, self._max_chars, found=False)


def _name(text: str) -> str:
    return cut(one_line(text), NAME_CHARS)


def _quote(text: str, page: Page, max_chars: int, *, found: bool = True) -> Observation:
    return Observation(cut(one_line(text), max_chars), found, _name(page.title), _name(page.source))
