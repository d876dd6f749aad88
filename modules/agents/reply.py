"""Parses a reply into the output fields of a signature, whatever form it has."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import json_repair

from ..reading.thoughts import without_thoughts
from .fields import fields_of
from .profile import Profile

MAX_PROSE_CHARS = 20_000  # a longer reply that is not a JSON object is not searched for an answer

_BLOCK = re.compile(r"\{.*\}", re.DOTALL)
_HEADING = r"^[ \t*_#>-]{0,8}%s(?:[ \t]{1,4}\d{1,3})?[ \t*_]{0,4}:[*_]{0,4}"
_CUT_IN_ANSWER = re.compile(r'"answer"\s*:\s*"(?:[^"\\]|\\.)*\Z', re.IGNORECASE | re.DOTALL)
_MARKER = re.compile(r"^\[\[ ## (\w+) ## \]\]", re.MULTILINE)


def parse_reply(
    signature: object, text: str, profile: Profile, kind: object = None
) -> dict[str, str]:
    """Return the output fields of a reply, each as text; those that the reply lacks are empty.

    It may be a JSON object, have DSPy's `[[ ## name ## ]]` headings, or lines such as `Action: …`.
    Otherwise every field is the whole reply: `reading.answers` then decides whether an answer
    stands in it. If a JSON reply is cut off within its answer, the answer is empty, unless the
    `kind` of the question has long answers.
    """
    names = fields_of(signature).outputs
    text = without_thoughts(text).text
    if profile.layout == "plain":
        return _parse_plain(names, text)
    fields = _named(_json_object(text), names) or _marked_fields(text)
    fields = fields or _headed_fields(names, text)
    if not fields and len(text) > MAX_PROSE_CHARS:
        return dict.fromkeys(names, "")
    if not fields:
        return dict.fromkeys(names, text.strip())
    # A short answer that was cut off (`New` of New York) is another answer; most of a long text is
    # better than nothing.
    if kind not in ("open", "task") and _CUT_IN_ANSWER.search(text):
        fields["answer"] = ""
    return {name: _as_text(fields.get(name)) for name in names}


def _parse_plain(names: Sequence[str], text: str) -> dict[str, str]:
    """Return the fields of a plain reply, which begins with the first and names each of the
    others.
    """
    fields = dict.fromkeys(names, "")
    rest = text
    for index, name in enumerate(names):
        following = names[index + 1 :]
        if following:
            value, _, rest = rest.partition(f"\n{following[0].capitalize()}:")
        else:
            value = rest
        fields[name] = value.strip()
    return fields


def _named(named: Mapping[str, object] | None, names: Sequence[str]) -> dict[str, object]:
    """Return the output fields in a JSON object, whose keys may be in any case."""
    alike = {str(key).strip().casefold(): value for key, value in (named or {}).items()}
    return {name: alike[name.casefold()] for name in names if name.casefold() in alike}


def _headed_fields(names: Sequence[str], text: str) -> dict[str, object]:
    """Return the fields of a reply in lines such as `Action: …`; text before a heading belongs to
    the field before it. Empty for signatures with an answer, which is read from the whole reply.
    """
    if "answer" in names or len(text) > MAX_PROSE_CHARS:
        return {}
    fields: dict[str, object] = {}
    rest = text
    for name in reversed(names[1:]):
        heading = re.search(_HEADING % re.escape(name), rest, re.IGNORECASE | re.MULTILINE)
        if heading is not None:
            fields[name] = rest[heading.end() :].strip()
            rest = rest[: heading.start()]
    if fields:
        heading = re.match(_HEADING % re.escape(names[0]), rest.lstrip(), re.IGNORECASE)
        if heading is not None:
            rest = rest.lstrip()[heading.end() :]
        fields[names[0]] = rest.strip()
    return fields


def _json_object(text: str) -> dict[str, object] | None:
    """Return the JSON object that a reply is or contains, repaired if need be; None if there is
    none.
    """
    block = _BLOCK.search(text)
    for candidate in (text, block[0]) if block else (text,):
        try:
            value = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    # Only if it begins like an object: a repair of prose could invent one that nobody wrote.
    if text.lstrip().startswith("{") and len(text) <= MAX_PROSE_CHARS:
        try:
            repaired = json_repair.loads(text)
        except (ValueError, RecursionError):
            return None
        if isinstance(repaired, dict):
            return repaired
    return None


def _marked_fields(text: str) -> dict[str, object]:
    """Return the fields under DSPy's `[[ ## name ## ]]` headings, which the demos of a program
    compiled elsewhere, and LMs that imitate them, use.
    """
    pieces = _MARKER.split(text)[1:]
    return {name: value.strip() for name, value in zip(pieces[::2], pieces[1::2], strict=True)}


def _as_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
