"""Lists inside free text: the parts an LM names, and the steps that a chain of reasoning takes."""

from __future__ import annotations

import json
import re
from itertools import pairwise

from .mentions import pattern
from .sentences import sentences

# These match at the start of a text with single spaces, so that no minus sign or number within a
# part is taken for the mark of a list.
_NUMBER = r"(?:[#*_]{1,4} ?)?(?:(?:step|part|task|question) )?\(?\d{1,2}[.):](?!\d)[*_]{0,4} ?"
_BULLET = r"[-*•–] "
_NUMBERED = pattern(_NUMBER, re.IGNORECASE)
_BULLETED = pattern(_BULLET)
_MARKS = pattern(rf"\A(?:{_NUMBER}|{_BULLET})+", re.IGNORECASE)
_INLINE = pattern(r"(?<!\S)\(?(\d{1,2})[.)] ")


def parts_of(text: str, most: int) -> list[str]:
    """Return the first `most` parts that a text lists, without numbers and bullets, each on one
    line.

    The parts of a JSON list are its items. If two lines or more begin with a number, or else with a
    bullet, each of them is a part, together with the lines that continue it; text before the first
    is dropped. Otherwise every line is a part. A single line is split at the numbers 1., 2., …, or
    else into sentences. Parts without a letter or digit are dropped, and equal parts count once.
    """
    items = _json_items(text)
    if items is None:
        lines = _lines(text)
        items = _between_numbers(lines[0]) if len(lines) == 1 else _listed(lines)
    parts = (_MARKS.sub("", item).strip() for item in items)
    return list(dict.fromkeys(part for part in parts if any(map(str.isalnum, part))))[:most]


def reasoning_steps(text: str) -> int:
    """Return the number of steps in a chain of reasoning: its lines, or its sentences when it is
    all on one line.

    Source: complexity-based prompting, which counts the lines of a chain.
    """
    lines = _lines(text)
    return len(lines) if len(lines) > 1 else len(sentences(text))


def _lines(text: str) -> list[str]:
    return list(filter(None, (" ".join(line.split()) for line in text.splitlines())))


def _listed(lines: list[str]) -> list[str]:
    """Return the items of a list over several lines; without numbers or bullets, the lines."""
    for mark in (_NUMBERED, _BULLETED):
        heads = [i for i, line in enumerate(lines) if mark.match(line)]
        if len(heads) > 1:
            return [" ".join(lines[start:end]) for start, end in pairwise([*heads, len(lines)])]
    return lines


def _between_numbers(line: str) -> list[str]:
    """Return the parts of a line from each of 1., 2., 3. … to the next; its sentences without
    a 2.
    """
    starts: list[int] = []
    for number in _INLINE.finditer(line):
        # Only the number that is next: in "1. those in 3. grade", 3. begins no part.
        if int(number[1]) == len(starts) + 1:
            starts.append(number.start())
    if len(starts) < 2:
        return sentences(line)
    return [line[start:end].strip() for start, end in pairwise([*starts, len(line)])]


def _json_items(text: str) -> list[str] | None:
    """Return the items of a JSON list, or the values of an object; None if the text is neither."""
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        whole = json.loads(text)
        items = list(whole.values()) if isinstance(whole, dict) else whole
        return [_as_line(item) for item in items]
    except (ValueError, RecursionError):
        return None


def _as_line(item: object) -> str:
    if item is None:
        return ""
    text = " ".join(map(str, item.values())) if isinstance(item, dict) else str(item)
    return " ".join(text.split())
