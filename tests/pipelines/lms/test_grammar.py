"""The grammars that bound the embedded LM's replies, checked by a small reader of the same
notation.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from folkmoot.pipelines.lms.grammar import choice_rule, reply_grammar, text_rule

SEQUENCES = st.lists(
    st.lists(st.integers(0, 260_000), min_size=1, max_size=6), min_size=1, max_size=8
)
PIECE = re.compile(r'"(?:[^"\\]|\\.)*"|\[[^\]]*\]|<\[\d+\]>|\{\d+,\d+\}|[()|?]')


def as_regex(grammar: str) -> re.Pattern[str]:
    """A one-rule grammar as a regular expression, for text in which token 7 is written `<[7]>`."""
    rest, out = grammar.removeprefix("root ::= "), ""
    while rest := rest.lstrip(" "):
        piece = PIECE.match(rest)
        assert piece, f"unknown notation: {rest}"
        rest = rest[piece.end() :]
        token = piece.group()
        if token[0] in '"<':
            out += "(?:" + re.escape(token.strip('"').replace(r"\n", "\n")) + ")"
        else:
            out += token
    return re.compile(out)


def written(ids: list[int]) -> str:
    return "".join(f"<[{one}]>" for one in ids)


def accepts(grammar: str, text: str) -> bool:
    return as_regex(grammar).fullmatch(text) is not None


def option(*texts: str) -> dict[str, Any]:
    return {"name": "answer", "type": "option", "options": list(texts)}


@given(SEQUENCES)
def test_a_choice_takes_each_sequence_and_nothing_else(sequences: list[list[int]]) -> None:
    rule = choice_rule(sequences)
    for one in sequences:
        assert accepts(rule, written(one))
        assert accepts(rule, written([*one, 1])) == ([*one, 1] in sequences)
        assert accepts(rule, written(one[:-1])) == (one[:-1] in sequences)


def test_an_option_may_begin_another_one() -> None:
    grammar = reply_grammar([option("bank", "bank account")], {"bank": [5], "bank account": [5, 6]})
    assert accepts(grammar, "<[5]>\n")
    assert accepts(grammar, "<[5]><[6]>\n")
    assert not accepts(grammar, "<[5]>")
    assert not accepts(grammar, "<[6]>\n")


@given(st.integers(1, 1000), st.text(max_size=40))
def test_text_is_one_line_of_bounded_length_and_never_empty(most: int, text: str) -> None:
    good = 1 <= len(text) <= most and not set(text) & set("\t\r\n<") and not text.startswith(" ")
    assert accepts(text_rule(most), " " + text) == good


def test_several_fields_follow_each_other_under_their_names() -> None:
    fields = [{"name": "hunch", "type": "text"}, option("mat", "hat")]
    grammar = reply_grammar(fields, {"mat": [8], "hat": [9]}, max_text_chars=20)
    assert accepts(grammar, " Cats like warmth.\nAnswer:<[8]>\n")
    assert not accepts(grammar, " Cats like warmth.\nAnswer:<[7]>\n")
    assert not accepts(grammar, "\nAnswer:<[8]>\n")
    assert not accepts(grammar, " Cats like warmth.<[8]>\n")
    assert not accepts(grammar, " " + 21 * "x" + "\nAnswer:<[8]>\n")


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("boolean", [" yes\n", " no\n"], ["yes\n", " maybe\n", " yes no\n", " \n"]),
        (
            "number",
            [" 7\n", " -12\n", " 3.25\n", " 0\n"],
            [" \n", " -\n", " 3.\n", " 1,5\n", " seven\n", "7\n"],
        ),
        ("span", [" Lake Orrin\n", " 1976\n\n"], [" \n", "\n", "  two\n", " a\nb\n"]),
    ],
)
def test_other_kinds_of_answer(kind: str, good: list[str], bad: list[str]) -> None:
    grammar = reply_grammar([{"name": "answer", "type": kind}], {})
    assert [text for text in good if not accepts(grammar, text)] == []
    assert [text for text in bad if accepts(grammar, text)] == []
