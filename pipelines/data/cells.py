"""Cells as plain values, and the shapes in which data sets keep options, passages and answers."""

from __future__ import annotations

import ast
import io
import math
import re
import string
import tokenize
import unicodedata
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from ...modules.base.errors import UserError
from ...modules.reading.question import choices_by_label
from .aliases import naming_all, squeezed
from .tables import DECODER

_HOLDS_TEXT = re.compile(r"\s*(?:\{\s*[\"']|\[\s*(?:[\"']|\]))")
_HOLDS_NESTED = re.compile(r"\s*(?:\{\s*[\"']|\[\s*[\"'{\[]|\{\s*\[)")
_ARRAY = re.compile(r"\barray\((\[[^\[\]]*\])(?:,\s*dtype=[^()]*)?\)")
_BLANKS = (tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT)
_HOLD_ANSWERS = ("text", "spans", "value", "number", "answer", "label")
_IN_DOLLARS = re.compile(r"\$\$?([^$]+)\$\$?")
_INVISIBLE = re.compile("[\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff\u00ad]")
_OWN_LABEL = re.compile(r"\(?([A-Za-z])[).:]\s*(\S.*)", re.S)


def plain_value(value: Any, column: str, *, padded: bool) -> Any:
    """`value` as JSON values: NaN cells are empty, dates are text.

    `padded` says that an object has every key that some row has, with null where it is absent.
    Raises UserError for any other type.
    """
    if isinstance(value, str):
        return _INVISIBLE.sub("", unicodedata.normalize("NFC", value))
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, dict):
        members = {key: plain_value(member, column, padded=padded) for key, member in value.items()}
        return {key: held for key, held in members.items() if held is not None or not padded}
    if isinstance(value, list | tuple):
        return [plain_value(member, column, padded=padded) for member in value]
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, datetime) and value.time() == time():
        value = value.date()  # a day in Excel and pandas
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if hasattr(value, "tolist"):  # NumPy's scalars and arrays
        return plain_value(value.tolist(), column, padded=padded)
    raise UserError(
        f"a value of type {type(value).__name__} in {column!r} cannot be used; leave that column "
        "out"
    )


def parsed_cell(value: Any, field: str) -> Any:
    """The object or list in a cell's text, as JSON or as Python prints it; else `value`. Raises
    UserError for unreadable text, except in a passage, which may begin with a bracket.
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
    passages = isinstance(whole, list) and all(isinstance(passage, str) for passage in whole)
    return whole if field != "context" or passages else value


def opened_cell(value: Any) -> Any:
    """The object or list of texts, objects or lists in a cell's text; any other cell as it is."""
    if not isinstance(value, str) or not _HOLDS_NESTED.match(value):
        return value
    try:
        return parsed_cell(value, "cell")
    except UserError:
        return value  # refused later, if it is used


def _with_commas(printed: str) -> str:
    """A list or object as Python prints it, with NumPy's arrays as lists: `['0' '30']` has no
    commas, and Python would join the two texts.
    """
    printed = _ARRAY.sub(r"\1", printed)
    words: list[str] = []
    after_text = False
    for token in tokenize.generate_tokens(io.StringIO(printed.strip()).readline):
        if token.type in _BLANKS:
            continue
        is_text = token.type == tokenize.STRING
        words += [",", token.string] if is_text and after_text else [token.string]
        after_text = is_text
    return " ".join(words)


def as_list(value: Any) -> list[Any]:
    """A list as it is, and anything else as the only member of one."""
    return list(value) if isinstance(value, list | tuple) else [value]


def without_gaps(fields: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The fields that have a value."""
    return {name: value for name, value in fields if value is not None}


def options_in(choices: Any) -> Any:
    """Options in any shape that data sets use, as label → text; labels in their texts are cut off.

    Raises UserError for text, and for options without a text or a label.
    """
    if isinstance(choices, str):
        raise UserError(
            f"choices of type str ({choices[:40]!r}); give a list of texts, or a column for each "
            "option"
        )
    objects = isinstance(choices, list) and all(isinstance(choice, Mapping) for choice in choices)
    if choices and objects:
        if not all({"label", "text"} <= set(choice) for choice in choices):
            raise UserError("each of the choices needs a label and a text; correct them")
        choices = {key: [choice[key] for choice in choices] for key in ("label", "text")}
    if isinstance(choices, Mapping) and set(choices) != {"label", "text"}:
        choices = without_gaps(choices.items())
    if isinstance(choices, list):
        # Tables pad the options of a row to those of the longest one.
        while choices and (choices[-1] is None or not str(choices[-1]).strip()):
            choices = choices[:-1]
        if None in choices:  # the others keep their places
            labelled = zip(string.ascii_uppercase, choices, strict=False)
            return choices_by_label(without_gaps(labelled))
        own = [match for choice in choices if (match := _OWN_LABEL.fullmatch(str(choice).strip()))]
        # only where all are labelled in order: else "A." may be a word of the text
        if [match[1].upper() for match in own] == list(string.ascii_uppercase[: len(choices)]):
            choices = [match[2] for match in own]
    return choices_by_label(choices)


def passages_in(context: Any) -> Any:
    """The passages of HotpotQA (titles and sentences) and PubMedQA (`contexts`) as a list; anything
    else as it is.
    """
    if isinstance(context, Mapping) and {"title", "sentences"} <= set(context):
        context = list(zip(context["title"], context["sentences"], strict=False))
    if isinstance(context, Mapping) and isinstance(context.get("contexts"), list):
        context = context["contexts"]
    if isinstance(context, list) and context and all(map(_is_titled, context)):
        return [f"{title}: {' '.join(map(str.strip, text))}" for title, text in context]
    return context


def _is_titled(passage: Any) -> bool:
    """Whether it is a title with a list of sentences."""
    return isinstance(passage, list | tuple) and len(passage) == 2 and isinstance(passage[1], list)


_OF_CLASSES, _NO_CLASS = ("label", "labels", "goldlabel", "classlabel"), ("-1", "-1.0", "-")
"""Columns of class labels, and what stands in one for a row without a label (GLUE, SNLI)."""


def answer_in(answer: Any, column: str, *, padded: bool) -> tuple[Any, dict[str, object], str]:
    """The gold answer inside a data set's own shape, the rest for `meta`, and a remark.

    An answer is a text, or a list of texts where several are accepted: the `text` of SQuAD, the
    aliases of TriviaQA, the `spans` of DROP, GSM8K's `####`. With `padded`, objects and lists may
    stand in cells as text.
    """
    if padded:
        answer = parsed_cell(answer, "answer")
    if str(answer).strip() in _NO_CLASS and squeezed(column) in _OF_CLASSES:
        return None, {}, f"{answer} in `{column}` as no answer"
    rest, words = dict[str, object](), ""
    if isinstance(answer, Mapping):
        rest = {column: answer}
        answer = _held(answer, column)
        words = f"`{column}` opened"
    if isinstance(answer, list):
        texts = [_held(text, column) if isinstance(text, Mapping) else text for text in answer]
        if any(isinstance(text, list | Mapping) for text in texts):
            raise UserError(
                f"the answers in {column!r} are lists inside a list, which cannot be compared; "
                "give one list of all texts that are right"
            )
        accepted = list(dict.fromkeys(text for text in texts if text is not None))
        if len(accepted) > 1:
            return accepted, rest, f"any of the answers in `{column}`"
        return next(iter(accepted), None), rest, words
    if isinstance(answer, str) and "####" in answer:
        return answer.rpartition("####")[2].strip(), {}, "the answer after ####"
    if isinstance(answer, str) and (match := _IN_DOLLARS.fullmatch(answer.strip())):
        return match[1].strip(), rest, words
    return answer, rest, words


def _held(answer: Mapping[str, Any], column: str) -> Any:
    """The gold answer in an object, with its aliases; None where all is empty. Raises UserError
    where something else stands in it.
    """
    filled = {key: held for key, held in answer.items() if _is_filled(held)}
    held = next((filled[key] for key in _HOLD_ANSWERS if key in filled), None)
    if held is None and filled:
        likely = {"answer": f"{column}.{next(iter(filled))}"}
        raise UserError(
            f"the answer in {column!r} is an object with {', '.join(filled)}; say which of them it "
            f"is {naming_all(likely)}"
        )
    aliases = answer.get("aliases")
    return [held, *aliases] if isinstance(held, str) and isinstance(aliases, list) else held


def _is_filled(held: Any) -> bool:
    members = held.values() if isinstance(held, Mapping) else held if isinstance(held, list) else ()
    return any(map(_is_filled, members)) if members else held not in (None, "", [], {})
