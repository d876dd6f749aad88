"""The Wikipedia environment over real HTTP: pages, titles, retries, cache, event loops."""

import asyncio
from asyncio import run
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mediawiki_server import MediaWikiServer, body, error, reset, status, truncated, wiki
from mediawiki_server import quick as quick

from folkmoot.modules.base.calls import CallError, FatalCallError
from folkmoot.modules.base.fence import one_line
from folkmoot.modules.environment import Page, mediawiki
from folkmoot.modules.environment.wikipedia import article_title, cut_words, search_words

ADA = "Ada Lovelace was a mathematician.\nShe wrote about the engine.\n\n\nLife\nShe met Babbage."
TEXTS = {
    "Ada Lovelace": ADA,
    "Charles Babbage": "He designed the analytical engine in England.",
    "Mercury (planet)": "The planet nearest to the Sun.",
    "Mercury Records": "A record label.",
    "Freddie Mercury": "A singer of Queen.",
    "2001: A Space Odyssey": "A film of 1968.",
    "Café": "A place for coffee.",
    "File:Ada.jpg": "A picture of Ada Lovelace with the engine.",
    "Empty": "",
}
DOCUMENTS = [{"title": title, "text": text} for title, text in TEXTS.items()]
LISTED = ["Freddie Mercury", "Mercury (planet)", "Mercury Records"]
LISTED += ["Mercury (unwritten)", "File:Ada.jpg"]


@pytest.fixture
def server() -> Iterator[MediaWikiServer]:
    redirects = {"Countess of Lovelace": "Ada Lovelace", "Secret": "Special:Export"}
    with MediaWikiServer(DOCUMENTS, redirects, {"Mercury": LISTED}) as running:
        yield running


def test_search_and_lookup_read_the_article(server: MediaWikiServer) -> None:
    async def work() -> None:
        session = wiki(server).open()
        page = await session.search("ada Lovelace")
        first = "Ada Lovelace was a mathematician. She wrote about the engine. Life"
        assert page.text.startswith(first)
        assert (page.title, page.source) == ("Ada Lovelace", f"{server.host} revision 7")
        assert (await session.lookup("babbage")).text == "(Result 1 / 1) She met Babbage."

    run(work())
    (query,) = server.log
    assert query["maxlag"] == "5"
    assert query["explaintext"] == query["redirects"] == query["exlimit"] == "1"


def test_redirects_are_followed_by_the_wiki(server: MediaWikiServer) -> None:
    page = run(wiki(server).fetch("Countess of Lovelace"))
    assert page.title == "Ada Lovelace"


def test_a_disambiguation_is_no_page_and_lists_what_it_could_mean(server: MediaWikiServer) -> None:
    async def work() -> None:
        environment = wiki(server)
        assert await environment.fetch("Mercury") is None
        titles = await environment.closest("Mercury", 3)
        assert titles == ["Mercury (planet)", "Mercury Records", "Freddie Mercury"]
        for title in await environment.closest("Mercury", 50):
            assert await environment.fetch(title) is not None
        shown = await environment.open().search("Mercury")
        closest = "Mercury (planet); Mercury Records; Freddie Mercury"
        assert shown.text == f"(No page: Mercury) Closest: {closest}"
        assert shown.source == f"wikipedia:{server.host}"

    run(work())


def test_closest_finds_articles_that_have_all_words_else_any(server: MediaWikiServer) -> None:
    async def work() -> None:
        environment = wiki(server)
        assert await environment.closest("analytical engine", 5) == ["Charles Babbage"]
        found = await environment.closest("Who designed the engine for the Sun?", 3)
        assert found == ["Charles Babbage", "Ada Lovelace", "Mercury (planet)"]
        asked = "Who designed the engine for the Sun?"
        assert await environment.closest(asked, 1) == ["Charles Babbage"]
        assert await environment.closest("picture", 5) == []  # only a file's page has it
        assert await environment.closest("qqqq wwww", 5) == []
        assert await environment.closest("?!", 5) == await environment.closest("engine", 0) == []

    run(work())


@pytest.mark.parametrize(
    "title",
    [
        *("Ada Lovelace|Charles Babbage", "", "#Life", "[[Ada Lovelace]]", "{{Ada}}", "é" * 128),
        *("de:Ada Lovelace", "File:Ada.jpg", "Secret", "Nobody", "Empty"),
        "&action=edit&titles=Ada Lovelace",
    ],
)
def test_no_article_is_no_page_and_changes_no_request(server: MediaWikiServer, title: str) -> None:
    assert run(wiki(server).fetch(title)) is None
    for query in server.log:
        words = "action format formatversion maxlag titles prop explaintext exsectionformat exlimit"
        assert set(query) == {*words.split(), "ppprop", "redirects"}
        assert "|" not in query["titles"]


@given(st.text(max_size=300))
def test_any_text_is_a_safe_title_or_none_and_safe_words(text: str) -> None:
    name = article_title(text)
    if name is not None:
        assert name == name.strip()
        assert name == one_line(name)
        assert 0 < len(name.encode()) <= 255
        assert not set(name) & set("|#<>[]{}\n")
    for words in (" ".join(search_words(text)), " OR ".join(search_words(text))):
        assert len(cut_words(words)) <= 280
        assert not set(words) & set('"~*:!/\\()<>|?{}+')


PASSING = [status(429), status(503, Retry_After="0"), reset, truncated, error("ratelimited")]
PASSING += [error("maxlag", Retry_After="0"), body(b"[" * 100_000)]


@pytest.mark.parametrize("fault", [*PASSING, body(b"no gzip", Content_Encoding="gzip")])
def test_what_passes_is_tried_again(server: MediaWikiServer, fault: Any) -> None:
    server.faults = [fault, fault]
    cafe = Page("Café", "A place for coffee.", f"{server.host} revision 7")
    assert run(wiki(server).fetch("Café")) == cafe
    assert len(server.log) == 3


ODD_PAGE = b'{"query": {"pages": [{"ns": 0, "title": 3, "extract": "x"}]}}'


@pytest.mark.parametrize(
    ("faults", "says", "tries"),
    [
        ([status(503)] * 9, "answered 503; given up after 6 attempts", 6),
        ([reset] * 19, "cannot be reached .*; given up after 6 attempts", 12),
        ([status(429, Retry_After="3600")], "answered 429 and asks to wait 3600 s", 1),
        ([status(400)], "refused the request", 1),
        ([error("badtoken", "no\n\x1b[31mway")], r"refused the request \(badtoken: no .31mway.", 1),
        ([body(b"{}", "text/html")], "answered with text/html, not JSON", 1),
        ([body(b'{"query": {"pages": [1]}}')], "not MediaWiki's", 1),
        ([body(ODD_PAGE)], "not MediaWiki's", 1),
        ([body(b'{"error": "oops"}')], "oops", 1),
    ],
)
def test_what_does_not_pass_is_an_error_in_one_sentence(server, faults, says, tries):
    server.faults = faults
    with pytest.raises(CallError, match=says) as caught:
        run(wiki(server).fetch("Café"))
    assert str(caught.value).startswith(server.host)
    assert not isinstance(caught.value, FatalCallError)
    assert str(caught.value).isprintable()
    assert len(server.log) == tries


def test_equal_requests_are_made_once_and_few_at_a_time(server: MediaWikiServer) -> None:
    server.delay = 0.05
    environment = wiki(server)

    async def work() -> None:
        pages = await asyncio.gather(*(environment.fetch("Café") for _ in range(20)))
        assert len(server.log) == 1
        assert all(page == pages[0] for page in pages)
        await asyncio.gather(*(environment.fetch(f"Page {i}") for i in range(40)))

    run(work())
    assert 2 <= server.most_at_once <= mediawiki.CONNECTIONS


def test_answers_are_kept_and_that_a_page_is_not(server: MediaWikiServer, tmp_path: Path) -> None:
    async def work() -> list[object]:
        environment = wiki(server, cache_dir=tmp_path)
        return [
            await environment.fetch("Ada Lovelace"),
            await environment.fetch("Nobody"),
            await environment.closest("Mercury", 5),
            await environment.closest("engine sun", 2),
        ]

    first = run(work())
    asked = len(server.log)
    assert run(work()) == first
    assert len(server.log) == asked
    with MediaWikiServer([{"title": "Ada Lovelace", "text": "Another wiki."}]) as other:
        page = run(wiki(other, cache_dir=tmp_path).fetch("Ada Lovelace"))
        assert page.text == "Another wiki."
