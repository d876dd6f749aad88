"""What is asked: the text, choices and context of a question, checked, and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from ..base.errors import UserError

Kind = Literal["choice", "boolean", "number", "span", "open", "task"]
"""What a question asks for."""

MAX_CHOICES = 26


def require_text(value: object, needs: str) -> str:
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
    """The choices as labels and texts; a list of texts is labelled A, B, …. Raises UserError."""
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
    # A quick look, since every question passes here; the thorough one says what is wrong.
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
    """Texts labelled A, B, …."""
    # What goes beyond Z is refused by its number.
    return {chr(ord("A") + place): text for place, text in enumerate(texts)}


def check_context(context: object, name: str) -> str | list[str] | None:
    if context is None or isinstance(context, str):
        return context or None
    if not isinstance(context, list | tuple) or not all(isinstance(text, str) for text in context):
        raise UserError(
            f"{name} has a context of type {type_name(context)}; give text, a list of texts, or "
            "null"
        )
    return list(context) or None


def type_name(value: object) -> str:
    """What a value is, in an error."""
    return "missing" if value is None else type(value).__name__


def in_one_line(text: str) -> str:
    """`text` quoted for an error, cut so that the sentence stays one line."""
    if len(text) > 60:
        text = text[:60] + "…"
    return repr(text)


def choice_lines(choices: Mapping[str, str]) -> str:
    """Choices as text, a line each: `A. bank`."""
    return "\n".join(f"{label}. {text}" for label, text in choices.items())


def with_choices(question: str, choices: Mapping[str, str] | None) -> str:
    """A question with its choices below, unless they stand there already."""
    lines = choice_lines(choices or {})
    return question if question.endswith(lines) else f"{question}\n{lines}"
