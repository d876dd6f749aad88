"""The parts of a question (text, choices, context): their checks, and choices as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from ..base.errors import UserError

Kind = Literal["choice", "boolean", "number", "span", "open", "task"]
"""What a question asks for."""

MAX_CHOICES = 26


def require_text(value: object, needs: str) -> str:
    """Return the value. Raises UserError, which begins with `needs` (such as "the question needs a
    text"), unless it is text that is not blank.
    """
    if not isinstance(value, str):
        raise UserError(f"{needs}, as text; it is {type_name(value)}")
    if not value.strip():
        raise UserError(f"{needs}; it is blank")
    try:
        value.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair can be read from JSON but never written again.
        raise UserError(f"{needs} that is valid Unicode; {in_one_line(value)} is not") from None
    return value


def check_choices(choices: object, name: str) -> dict[str, str] | None:
    """Return the choices as label → text; a list of texts is labelled A, B, …; None stays None.
    Raises UserError, which calls the question `name`.
    """
    if choices is None:
        return None
    if isinstance(choices, list | tuple):
        choices = by_letter(choices)
    if not isinstance(choices, Mapping):
        raise UserError(
            f"{name} has choices of type {type_name(choices)}; give a list of texts, or an "
            "object of labels and texts"
        )
    if not 2 <= len(choices) <= MAX_CHOICES:
        raise UserError(
            f"{name} has {len(choices)} choices; give 2 to {MAX_CHOICES}, or null for none"
        )
    texts = [*choices, *choices.values()]
    # A quick check first, since every question passes here; the thorough one says what is wrong.
    plain = set(map(type, texts)) == {str} and all(map(str.strip, texts))
    if not (plain and "".join(texts).isascii()):
        for label, text in choices.items():
            key = require_text(label, f"{name} needs a label for each choice").strip()
            require_text(text, f"{name} needs a text for choice {key!r}")
    stripped = list(map(str.strip, texts))
    checked = dict(zip(stripped[: len(choices)], stripped[len(choices) :], strict=True))
    if len(set(map(str.casefold, checked))) < len(choices):
        raise UserError(
            f"{name} has two choices with the same label; make the labels {list(choices)} differ"
        )
    return checked


def by_letter(texts: Sequence[object]) -> dict[str, object]:
    """Return texts labelled A, B, …."""
    # Labels beyond Z need no care: `check_choices` refuses more than 26 choices.
    return {chr(ord("A") + i): text for i, text in enumerate(texts)}


def check_context(context: object, name: str) -> str | list[str] | None:
    """Return the context as text or a list of texts, None if it is empty. Raises UserError for
    others.
    """
    if context is None or isinstance(context, str):
        return context or None
    if not isinstance(context, list | tuple) or not all(isinstance(text, str) for text in context):
        raise UserError(
            f"{name} has a context of type {type_name(context)}; give text, a list of texts, or "
            "null"
        )
    return list(context) or None


def type_name(value: object) -> str:
    """Return the type of a value in words for an error; None is "missing"."""
    return "missing" if value is None else type(value).__name__


def in_one_line(text: str | None) -> str:
    """Return `text` quoted for an error, cut so that the sentence stays one line."""
    if text and len(text) > 60:
        text = text[:60] + "…"
    return repr(text)


def choice_lines(choices: Mapping[str, str]) -> str:
    """Return choices as text, a line each: `A. bank`."""
    return "\n".join(f"{label}. {text}" for label, text in choices.items())


def with_choices(question: str, choices: Mapping[str, str] | None) -> str:
    """Return the question with its choices below, unless it ends in them already."""
    lines = choice_lines(choices or {})
    return question if question.endswith(lines) else f"{question}\n{lines}"
