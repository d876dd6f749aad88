"""Parts that an LM lists and steps of a chain: from any text, in bounded time, none made up."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from folkmoot.modules.reading.steps import parts_of, reasoning_steps

MOST = 4
WORDS = st.lists(
    st.sampled_from(["count", "rolls", "72", "-", "9", "3.5", "x=1", "sun"]), min_size=1, max_size=5
)
FOUND = WORDS.map(lambda words: f"find {' '.join(words)}")
PARTS = st.lists(FOUND, min_size=2, max_size=6, unique=True)
LISTS = ["{i}. {part}", "{i}) {part}", "({i}) {part}", "- {part}", "* {part}"]
LISTS += ["• {part}", "Step {i}: {part}"]
LISTS += ["  {i}.\t{part}", "**{i}.** {part}", "### {i}. {part}", "Part {i}. {part}"]
LISTS += ["- {i}. {part}", "{part}"]
HOSTILE_PIECES = ["1. ", "(1", "[", "{", '"', "- ", "step ", "**", ".", "\n", " ", "\t"]
HOSTILE_PIECES += ["x", "9", "\x85", "∑", ">>>"]
HOSTILE = st.lists(st.sampled_from(HOSTILE_PIECES), max_size=60).map("".join)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("one task\nanother task", ["one task", "another task"]),
        ("1. one\n2. two\n\n3. three", ["one", "two", "three"]),
        ("These are the tasks:\n1. one\n2. two", ["one", "two"]),
        ("1. one,\n   and more of it\n2. two", ["one, and more of it", "two"]),
        ("Steps to take: 1. one 2. two", ["one", "two"]),
        ("(1) one (2) two (3) three", ["one", "two", "three"]),
        ("First one. Then the other.", ["First one.", "Then the other."]),
        ('["one", "two"]', ["one", "two"]),
        ('[{"task": "one"}, {"task": "two", "why": "so"}]', ["one", "two so"]),
        ("[1] one\n[2] two", ["[1] one", "[2] two"]),
        ("one\n---\n```\n-\n...\n2.\ntwo", ["one", "two"]),
        ("a\nb\nc\nd\ne", ["a", "b", "c", "d"]),
        ("1. a\n2. b\n3. a\n4. b\n5. c", ["a", "b", "c"]),
        ("", []),
        ("[]", []),
        ("null", ["null"]),
    ],
)
def test_what_counts_as_a_part(text: str, parts: list[str]) -> None:
    assert parts_of(text, MOST) == parts


@given(PARTS, st.sampled_from(LISTS))
def test_every_way_of_listing_gives_the_same_parts(parts: list[str], form: str) -> None:
    text = "\n".join(form.format(i=i, part=part) for i, part in enumerate(parts, 1))
    assert parts_of(text, MOST) == parts[:MOST]


@given(st.text() | HOSTILE, st.integers(0, 6))
def test_parts_of_any_text_are_few_full_and_on_one_line(text: str, most: int) -> None:
    parts = parts_of(text, most)
    assert len(set(parts)) == len(parts) <= most
    for part in parts:
        assert part == " ".join(part.split())
        assert any(map(str.isalnum, part))
    assert parts == parts_of(text, most + 1)[:most]


@pytest.mark.parametrize(
    ("text", "steps"),
    [("", 0), ("one\ntwo\n\nthree", 3), ("There are 3.5 of them. So it is 7. Done.", 3)],
)
def test_the_steps_of_a_chain(text: str, steps: int) -> None:
    assert reasoning_steps(text) == steps


HUGE: list[Callable[[int], str]] = [
    lambda n: "x" + " " * n + "x",
    lambda n: "1. " * (n // 3),
    lambda n: "**" * (n // 2) + "1",
    lambda n: "[" * n,
    lambda n: "1. x\n" * (n // 5),
    lambda n: "[" + '"x",' * (n // 4) + '"x"]',
    lambda n: "[" + "9" * n + "]",
]


@pytest.mark.parametrize("make", HUGE)
def test_hostile_text_costs_time_in_proportion(make: Callable[[int], str]) -> None:
    """200,000 characters; what takes quadratic time needs minutes."""
    text = make(200_000)
    began = time.process_time()
    assert len(parts_of(text, MOST)) <= MOST
    assert reasoning_steps(text) >= 0
    assert time.process_time() - began < 5
