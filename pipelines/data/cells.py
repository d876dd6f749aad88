"""Cells as plain values, and the shapes in which data sets keep options, passages and answers."""

from __future__ import annotations

import ast
import math
import re
import string
from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any

from ...modules.base.errors import UserError
from ...modules.reading.question import choices_by_label
from .tables import DECODER

_OWN_LABEL = re.compile(r"\(?([A-Za-z])[).:]\s*(\S.*)", re.S)


def plain_value(value: Any, column: str, *, padded: bool) -> Any:
    """`value` as JSON values: NaN cells are empty, dates are text.

    `padded` says that an object has every key that some row has, with null where it is absent.
    Raises UserError for any other type.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, dict):
        members = {key: plain_value(member, column, padded=padded) for key, member in value.items()}
        return {key: one for key, one in members.items() if one is not None or not padded}
    if isinstance(value, list | tuple):
        return [plain_value(member, column, padded=padded) for member in value]
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
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
    try:
        try:
            whole = DECODER.decode(value)
        except ValueError:
            whole = ast.literal_eval(value)  # how pandas writes a list into a cell
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        if field == "context":
            return value
        raise UserError(f"{field} is not readable as JSON ({value[:40]!r}); correct it") from None
    passages = isinstance(whole, list) and all(isinstance(one, str) for one in whole)
    return whole if field != "context" or passages else value


def options_in(choices: Any) -> Any:
    """Options in any shape that data sets use, as label → text; labels in their texts are cut off.

    Raises UserError for text, and for options without a text or a label.
    """
    if isinstance(choices, str):
        raise UserError(
            f"choices of type str ({choices[:40]!r}); give a list of texts, or a column for each "
            "option"
        )
    if isinstance(choices, list) and choices and all(isinstance(one, Mapping) for one in choices):
        if not all({"label", "text"} <= set(one) for one in choices):
            raise UserError("each of the choices needs a label and a text; correct them")
        choices = {key: [one[key] for one in choices] for key in ("label", "text")}
    if isinstance(choices, list):
        while choices and (choices[-1] is None or not str(choices[-1]).strip()):
            choices = choices[:-1]
        own = [match for one in choices if (match := _OWN_LABEL.fullmatch(str(one).strip()))]
        if [match[1].upper() for match in own] == list(string.ascii_uppercase[: len(choices)]):
            choices = [match[2] for match in own]
    return choices_by_label(choices)


def passages_in(context: Any) -> Any:
    """HotpotQA's titles and sentences as passages; anything else as it is."""
    if isinstance(context, Mapping) and {"title", "sentences"} <= set(context):
        context = list(zip(context["title"], context["sentences"], strict=False))
    if isinstance(context, list) and context and all(map(_is_titled, context)):
        return [f"{title}: {' '.join(map(str.strip, text))}" for title, text in context]
    return context


def _is_titled(one: Any) -> bool:
    return isinstance(one, list | tuple) and len(one) == 2 and isinstance(one[1], list)


def answer_in(answer: Any, column: str) -> tuple[Any, dict[str, object], str]:
    """The gold answer inside a data set's own shape, the rest for `meta`, and a remark.

    SQuAD's answers, lists of spellings, of which the first is taken, and GSM8K's `####`.
    """
    rest: Any = None
    if isinstance(answer, Mapping):
        rest, answer = answer, answer.get("text", answer.get("value"))
    if isinstance(answer, list):
        rest = rest or (answer if len(set(map(str, answer))) > 1 else None)
        answer = answer[0] if answer else None
    if rest is not None:
        return answer, {column: rest}, f"the first answer in `{column}`"
    if isinstance(answer, str) and "####" in answer:
        solution, _, answer = (part.strip() for part in answer.rpartition("####"))
        return answer, {"solution": solution} if solution else {}, "the answer after ####"
    return answer, {}, ""
