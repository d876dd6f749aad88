"""A report in a real browser: its table sorts, finds, opens, by keyboard too, asks nothing."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from dspy.utils import DummyLM

import folkmoot as fm

sys.path.insert(0, str(Path(__file__).parents[3] / "tools"))

from browser import Browser, find_browser

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.plots,
    pytest.mark.skipif(find_browser() is None, reason="there is no Chromium or Chrome on the path"),
]
HOSTILE = '<img src="http://127.0.0.1:1/x" onerror="alert(1)"><script>alert(2)</script></script>'
CHOICES = {"A": "bank", "B": "mall", "C": HOSTILE}
ROWS = ".grid .body .row"
STATUS = "document.querySelector('.tools output').textContent"


def written(folder: Path, name: str, n: int, right: int, texts: int = 1) -> Path:
    """A run of so many questions, each so-manieth right; question 7 has a word of its own."""
    asked = [fm.Question(id="0", question="Where?", choices=CHOICES, answer="A")]
    lm = DummyLM([{"answer": "A", "reasoning": "so"}] * 3)
    fm.evaluate(fm.SingleAgent("cot"), asked, lm=lm, out=folder / name, tracking=False, cache=False)
    path = folder / name / "results.jsonl"
    row = json.loads(path.read_text())
    turn = row["transcript"][0]

    def lines() -> Iterator[str]:
        for i in range(n):
            answer = "A" if i % right == 0 else "B"
            words = f"{HOSTILE} because of {i} " + " ".join(str(i * k) for k in range(40))
            said = {**turn, "answer": answer, "text": words + (" quokka" if i == 7 else "")}
            one = {"id": f"q{i}", "question": f"Where is number {i}? {HOSTILE}", "choices": CHOICES}
            good = answer == "A"
            two = {"answer": answer, "correct": good, "score": float(good), "meta": {}}
            yield json.dumps({**row, **one, **two, "transcript": [said] * texts}) + "\n"

    path.write_text("".join(lines()))
    about = json.loads((folder / name / "run.json").read_text())
    (folder / name / "run.json").write_text(json.dumps({**about, "questions": n}))
    return folder / name


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser(1200, 900, seconds=60) as found:
        yield found


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("runs")
    runs = [written(folder, "one", 60, 2), written(folder, "two", 60, 3)]
    runs.append(written(folder, "few", 30, 5))
    found = fm.report(runs, names=["one", "two", f"few {HOSTILE}"], tracking=False)
    return found.path.as_uri()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Browser]:
    browser.requests.clear()
    browser.problems.clear()
    browser.resize(1200, 900)
    browser.media()
    browser.open(address)
    show(browser, 0)
    yield browser
    assert [one for one in browser.requests if not one.startswith("data:image/")] == [address]
    assert browser.problems == []


def show(page: Browser, number: int) -> None:
    """Choose which questions are shown: 0 for all."""
    choose = f"e => {{ e.value = {number}; e.dispatchEvent(new Event('change')) }}"
    page.js(f"({choose})(document.querySelector('.tools select'))")


def cells(page: Browser, column: int) -> list[str]:
    """A column of the rows in view, from above."""
    found: list[str] = page.js(
        f"[...document.querySelectorAll('{ROWS}')].sort((a, b) => parseFloat(a.style.top) - "
        f"parseFloat(b.style.top)).map(row => row.children[{column}].textContent)"
    )
    return found


def head(column: int) -> str:
    return f".heads > :nth-child({column + 1}) button"


def test_heads_sort_both_ways(page: Browser) -> None:
    assert cells(page, 0)[:3] == ["1", "2", "3"]
    page.click(head(3))
    assert set(cells(page, 3)[:5]) == {"✗ B. mall (wrong)"}
    page.click(head(3))
    assert set(cells(page, 3)[:5]) == {"✓ A. bank (right)"}
    assert cells(page, 0)[:3] == ["1", "3", "5"]  # of equals the earlier
    heads = "[...document.querySelectorAll('.heads > *')]"
    sorted_by = f"{heads}.map(head => head.getAttribute('aria-sort'))"
    assert page.js(sorted_by) == ["none", "none", "none", "descending", "none", "none"]


def test_questions_and_dialogues_are_searched(page: Browser) -> None:
    page.press("/")
    page.type("number 23?")
    page.wait(f"{STATUS} === '1 of 60 questions'")
    assert cells(page, 0) == ["24"]
    page.press("Escape")
    page.wait(f"{STATUS} === '60 of 60 questions'")
    page.type("QUOKKA")  # in a dialogue, which lies packed
    page.wait(f"{STATUS} === '1 of 60 questions'")
    assert cells(page, 0) == ["8"]
    page.type(" wombat")
    page.wait(f"{STATUS} === '0 of 60 questions'")


def test_a_question_opens_with_its_dialogues_side_by_side(page: Browser) -> None:
    page.click(f"{ROWS}:nth-child(3)")
    page.wait("document.querySelector('.panel .turns')")
    heads = page.js("[...document.querySelectorAll('.panel .side h3')].map(e => e.textContent)")
    assert heads == ["one", "two", f"few {HOSTILE}"]
    said = page.js("document.querySelector('.panel .side .text').textContent")
    assert said.startswith(f"{HOSTILE} because of 2 ")  # to be read, not run
    sides = "[...document.querySelectorAll('.panel .side')]"
    tops = page.js(f"{sides}.map(e => e.getBoundingClientRect().top)")
    assert len(set(tops)) == 1
    page.click(f"{ROWS}:nth-child(3)")
    assert page.js("document.querySelector('.panel')") is None


def test_nothing_is_cut_off_on_a_phone_in_the_dark_and_on_paper(page: Browser) -> None:
    page.click(f"{ROWS}:nth-child(2)")
    page.wait("document.querySelector('.panel .turns')")
    wide = (
        "[...document.querySelectorAll('body *')].filter(e => !e.closest('.wide, .grid, svg') && "
    )
    wide += "e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 80))"
    page.resize(375, 800)
    assert page.js("document.documentElement.scrollWidth") == 375
    assert page.js(wide) == []
    page.wait("document.querySelector('.panel').getBoundingClientRect().right <= 375")
    colours = (
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    light = page.js(colours)
    page.media(dark=True)
    assert page.js(colours) != light
    page.media("print")
    assert page.js("[...document.querySelectorAll('.questions, nav')].every(e => !e.offsetHeight)")
    assert page.js("document.querySelector('.only-print').offsetHeight") > 0
    assert len(page.send("Page.printToPDF")["data"]) > 10_000
