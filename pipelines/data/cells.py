"""Cells as plain values, and the forms that data sets use for options, passages and answers."""

from __future__ import annotations

import ast
import io
import math
import re
import string
import tokenize
import unicodedata
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any

from pydantic import BaseModel

from ...modules.base.errors import UserError, are_all
from ...modules.base.keyed import without_none
from ...modules.reading.mentions import BOXED
from ...modules.reading.question import choices_by_label
from ..base.request import naming_all
from .aliases import squeezed
from .tables import DECODER

_HOLDS_TEXT = re.compile(
    r"\s*(?:\{\s*(?:[\"']|\})|\[\s*(?:(?:[-+.\d]+|true|false|none|null)\s*,\s*)*(?:[\"']|\]))", re.I
)
_HOLDS_NESTED = re.compile(r"\s*(?:\{\s*[\"']|\[\s*[\"'{\[]|\{\s*\[)")
_BLANKS = (tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT)
_HOLD_ANSWERS = ("text", "spans", "value", "number", "answer", "label")
_IN_DOLLARS = re.compile(r"\$\$?([^$]+)\$\$?")
_INVISIBLE = re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\u00ad]")
_OWN_LABEL = re.compile(r"\(?([A-Za-z])[).:]\s*(\S.*)", re.S)


def plain_value(value: object, column: str, *, padded: bool) -> Any:
    """Return `value` as JSON values: NaN cells are empty, dates are text.

    `padded` says that an object has every key that some row has, with null where it is absent.
    Raises UserError for any other type.
    """
    if isinstance(value, str):
        return _INVISIBLE.sub("", unicodedata.normalize("NFC", value))
    if isinstance(value, float) and math.isnan(value):
        return None
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, dict):
        members = dict[str, Any]()
        for key, member in value.items():
            members[str(key)] = plain_value(member, column, padded=padded)
        return without_none(members) if padded else members
    if isinstance(value, list | tuple):
        return [plain_value(member, column, padded=padded) for member in value]
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    inside = value
    if isinstance(value, Enum):  # like the next two, in examples of DSPy
        inside = value.value
    elif isinstance(value, BaseModel):
        inside = value.model_dump()
    elif isinstance(value, set | frozenset):
        inside = sorted(value, key=str)  # a set has an order of its own in each process
    elif hasattr(value, "tolist"):  # NumPy's scalars and arrays
        inside = value.tolist()
    if inside is not value:
        return plain_value(inside, column, padded=padded)
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()  # a day in Excel and pandas
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise UserError(
        f"a value of type {type(value).__name__} in {column!r} cannot be used; leave that column "
        "out"
    )


def parsed_cell(value: object, field: str) -> object:
    """Return the object or list in a cell's text, as JSON or as Python prints it; else `value`.
    Raises UserError for unreadable text, except in a passage, which may begin with a bracket.
    """
    if not isinstance(value, str) or value.lstrip()[:1] not in ("{", "["):
        return value
    if field == "answer" and not _HOLDS_TEXT.match(value):
        return value  # such as [0, 1), an answer with a bracket
    try:
        try:
            whole = DECODER.decode(value)
        except ValueError:
            whole = ast.literal_eval(_with_commas(value))
    except (SyntaxError, ValueError, MemoryError, RecursionError, tokenize.TokenError):
        if field == "context":
            return value
        raise UserError(f"{field} is not readable as JSON ({value[:40]!r}); correct it") from None
    if field == "context" and not (isinstance(whole, list) and are_all(whole, str)):
        return value  # no list of passages
    return whole


def opened_cell(value: object) -> object:
    """Return the object, or the list of texts, objects or lists, in a cell's text; any other cell
    unchanged.
    """
    if not isinstance(value, str) or not _HOLDS_NESTED.match(value):
        return value
    try:
        return parsed_cell(value, "cell")
    except UserError:
        return value  # refused later, if it is used


def _with_commas(printed: str) -> str:
    """Return a list or object as Python prints it, with NumPy's arrays as lists: `['0' '30']` has
    no commas, and Python would join the two texts.
    """
    words: list[str] = []
    after_text = of_type = False
    for token in tokenize.generate_tokens(io.StringIO(printed.strip()).readline):
        if token.string == "dtype":
            words.pop()  # the comma before it
        of_type = token.string == "dtype" or (of_type and token.string != ")")
        # Without its name, an array is a list in parentheses.
        if of_type or token.string == "array" or token.type in _BLANKS:
            continue
        is_text = token.type == tokenize.STRING
        if is_text and after_text:
            words.append(",")
        words.append(token.string)
        after_text = is_text
    return " ".join(words)


def as_list(value: object) -> list[object]:
    """Return a list unchanged, and anything else as the only item of a list."""
    return list(value) if isinstance(value, list | tuple) else [value]


def labelled_texts(cell: str) -> dict[str, str]:
    """Return the texts after labels in their order (`A) … B) …`, `1. … 2. …`); empty where there
    are none.
    """
    # After a digit there has to be a blank: the 1. of 1.5 is no label.
    for labels, after in ((string.ascii_uppercase, ""), ("123456789", r"(?=\s)")):
        starts: list[re.Match[str]] = []
        place = 0
        for label in labels:
            written = re.compile(rf"(?<!\w)\(?{label}\s?[).:]{after}", re.I)
            found = written.search(cell, place)
            if found is None:
                break
            starts.append(found)
            place = found.end()
        if len(starts) > 1 and not cell[: starts[0].start()].strip():
            texts: dict[str, str] = {}
            ends = [start.start() for start in starts[1:]]
            for label, start, end in zip(labels, starts, [*ends, len(cell)], strict=False):
                texts[label] = cell[start.end() : end].strip(" \t\n,;|")
            return texts
    return {}


def separated(cell: str) -> list[str]:
    """Return the texts in one text: after labels, else between line breaks, bars or semicolons."""
    labelled = labelled_texts(cell)
    if labelled:
        return list(labelled.values())
    for mark in "\n|;":
        if mark in cell:
            return list(map(str.strip, cell.split(mark)))
    return [cell.strip()]


def _options_of_text(cell: str, answer: object) -> list[str] | dict[str, str]:
    """Return the options in one text. Raises UserError where it is not plain where each one ends: a
    comma may be part of one, unless the answer is a text between commas.
    """
    if own := labelled_texts(cell):
        return own
    texts = separated(cell)
    for mark in ",/":
        parts = list(map(str.strip, cell.split(mark)))
        if len(texts) < 2 and str(answer).strip().casefold() in map(str.casefold, parts):
            texts = parts
    if len(texts) < 2:
        raise UserError(
            f"the options {cell[:40]!r} are one text; put | between them, or give a column for "
            "each option"
        )
    return list(filter(None, texts))


_OPTION_LABELS = ("label", "key", "letter", "id")
OPTION_TEXTS = ("text", "value", "content", "option", "answer")
"""Names of an option's text, where options are objects."""


def options_in(choices: object, answer: object = None) -> object:
    """Return options in any shape that data sets use, as label → text; labels in their texts are
    cut off.

    Raises UserError for a text whose options cannot be told apart, and for options without a text
    or a label.
    """
    if isinstance(choices, str):
        choices = _options_of_text(choices, answer)
    if choices and isinstance(choices, list) and are_all(choices, Mapping):
        label = next((key for key in _OPTION_LABELS if key in choices[0]), "")
        text = next((key for key in OPTION_TEXTS if key in choices[0]), "")
        if not all(label in choice and text in choice for choice in choices):
            raise UserError("each of the choices needs a label and a text; correct them")
        choices = {
            "label": [choice[label] for choice in choices],
            "text": [choice[text] for choice in choices],
        }
    if isinstance(choices, Mapping) and not {"label", "text"} <= set(choices):
        choices = without_none(choices)
    if isinstance(choices, list):
        # Tables pad the options of a row to those of the longest one.
        while choices and (choices[-1] is None or not str(choices[-1]).strip()):
            choices = choices[:-1]
        labelled = dict(zip(string.ascii_uppercase, choices, strict=False))
        if None in choices:  # the others keep their places
            return choices_by_label(without_none(labelled))
        if len(choices) <= len(string.ascii_uppercase):  # more are refused, by their number
            return choices_by_label(without_labels(labelled))
    return choices_by_label(choices)


def without_labels(choices: dict[str, object]) -> dict[str, object]:
    """Return the options without labels in their texts, if each has its own (`A. …` under A):
    otherwise, "A." may be a word of the text.
    """
    texts: dict[str, object] = {}
    for label, text in choices.items():
        match = _OWN_LABEL.fullmatch(str(text).strip())
        if match is None or match[1].upper() != label:
            return choices
        texts[label] = match[2]
    return texts


_PASSAGE_TEXTS = (
    *("contexts", "paragraph_text", "passage_text", "text", "content", "passage"),
    *("page_content", "body", "chunk", "snippet"),
)


def passages_in(context: object) -> object:
    """Return the passages of HotpotQA (titles and sentences), PubMedQA (`contexts`) and MS MARCO
    (`passage_text`) as a list; anything else as it is.
    """
    if isinstance(context, Mapping) and {"title", "sentences"} <= set(context):
        context = list(zip(context["title"], context["sentences"], strict=False))
    if isinstance(context, Mapping) and (held := _passage_text(context)) is not None:
        context = held if isinstance(held, list) else [context]
    if isinstance(context, list) and are_all(context, Mapping):
        texts = list(map(_passage_text, context))
        if all(texts):
            titles = [part.get("title") for part in context]
            context = list(zip(titles, map(as_list, texts), strict=True))
    if not isinstance(context, list) or not all(map(_is_titled, context)):
        return context
    passages: list[str] = []
    for title, sentences in context:
        if title:
            passages.append(f"{title}: {' '.join(map(str.strip, sentences))}")
        else:
            passages.append(" ".join(sentences))
    return passages


def _passage_text(passage: Mapping[str, object]) -> object:
    """Return the text, or the list of texts, in an object; None where there is none."""
    for name in _PASSAGE_TEXTS:
        held = passage.get(name)
        if isinstance(held, str) or (isinstance(held, list) and are_all(held, str)):
            return held
    return None


def _is_titled(passage: object) -> bool:
    """Return whether it is a title with a list of sentences."""
    return isinstance(passage, list | tuple) and len(passage) == 2 and isinstance(passage[1], list)


OF_CLASSES, _NO_CLASS = ("label", "labels", "goldlabel", "classlabel"), ("-1", "-1.0", "-")
"""Columns of class labels, and what stands in one for a row without a label (GLUE, SNLI)."""
_NOTHING = (None, "", "No Answer Present.")
"""Members of a list of accepted answers that are none, the last of MS MARCO."""


def answer_in(
    answer: object, column: str, *, padded: bool
) -> tuple[object, dict[str, object], str]:
    """Return the gold answer inside a data set's own shape, the rest for `meta`, and a remark.

    An answer is a text, or a list of texts where several are accepted: the `text` of SQuAD, the
    aliases of TriviaQA, the `spans` of DROP, GSM8K's `####`. With `padded`, objects and lists may
    stand in cells as text.
    """
    if padded:
        answer = parsed_cell(answer, "answer")
    if str(answer).strip() in _NO_CLASS and squeezed(column) in OF_CLASSES:
        return None, {}, f"{answer} in `{column}` as no answer"
    rest, words = dict[str, object](), ""
    if isinstance(answer, Mapping):
        rest = {column: answer}
        answer = _find_gold(answer, column)
        words = f"`{column}` opened"
    if isinstance(answer, list):
        texts = [_find_gold(text, column) for text in answer]
        if any(isinstance(text, list | Mapping) for text in texts):
            raise UserError(
                f"the answers in {column!r} are lists inside a list, which cannot be compared; "
                "give one list of all texts that are right"
            )
        accepted = list(dict.fromkeys(_bare(text) for text in texts if text not in _NOTHING))
        if len(accepted) > 1:
            return accepted, rest, f"any of the answers in `{column}`"
        return next(iter(accepted), None), rest, words
    if not isinstance(answer, str):
        return answer, rest, words
    boxes = list(BOXED.finditer(answer))
    if boxes:
        return boxes[-1][1].strip(), rest, "the answer in \\boxed"
    if "####" in answer:
        words = "the answer after ####"
    return _bare(answer), rest, words


def _bare(answer: object) -> object:
    """Return an answer without introductory words, and without dollar signs around mathematics."""
    if not isinstance(answer, str):
        return answer
    if "####" in answer:
        answer = answer.rpartition("####")[2].strip()
    match = _IN_DOLLARS.fullmatch(answer.strip())
    if match:
        return match[1].strip()
    return answer


def _find_gold(answer: object, column: str) -> object:
    """Return the gold answer in an object, with its aliases, None where all is empty; anything else
    as it is. Raises UserError for an object of something else.
    """
    if not isinstance(answer, Mapping):
        return answer
    filled = {key: held for key, held in answer.items() if _is_filled(held)}
    named = {key.casefold(): held for key, held in filled.items()}
    held = next((named[key] for key in _HOLD_ANSWERS if key in named), None)
    if held is None and filled:
        raise not_opened("answer", column, filled)
    aliases = named.get("aliases")
    if isinstance(held, str) and isinstance(aliases, list):
        return [held, *aliases]
    return held


def not_opened(field: str, column: str, held: Mapping[str, object]) -> UserError:
    """Return the sentence that says that an object in a column is not opened, and how to name its
    parts.
    """
    likely = {field: f"{column}.{next(iter(held), 'NAME')}"}
    return UserError(
        f"the {field} in {column!r} is an object with {', '.join(held)}; say which of them it is "
        f"{naming_all(likely)}"
    )


def _is_filled(held: object) -> bool:
    if isinstance(held, Mapping):
        return any(map(_is_filled, held.values()))
    if isinstance(held, list):
        return any(map(_is_filled, held))
    return held not in (None, "")
