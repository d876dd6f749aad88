"""A checked answer from another tool's log, and helpers for the JSON of such logs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any, NamedTuple

from ...modules.base.errors import UserError, system_errors
from ...modules.base.files import open_regular
from ..base.wording import shortened
from ..data.tables import DECODER
from ..data.unpacked import Unpacked, lines_of

MOST_NAME = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_RIGHT = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


class LogAnswer(NamedTuple):
    """An answer to a question in a log; `where` is its file and line. None means that the log has
    no value.

    `repeat` is which answer of the agent to the question this is: a number from 0 on, or a text by
    which the log tells its repeats apart. `task` tells questions with the same id in different
    tasks apart. `choices` are labelled. `turns` has the dialogue of several agents as (round,
    agent, answer, text). Of a log whose answers are neither right nor wrong, `metric` says what
    gives the `score`, and `correct` is None. `left_out` says why it is no answer: it is counted,
    and nothing else.
    """

    where: str
    question_id: str
    agent: str
    answer: str | None
    correct: bool | None
    question: str | None = None
    strategy: str | None = None
    gold: str | None = None
    choices: dict[str, str] | None = None
    group: str | None = None
    task: str | None = None
    text: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None
    error: str | None = None
    turns: tuple[tuple[int, str, str | None, str], ...] = ()
    score: float | None = None
    metric: Mapping[str, object] | None = None
    repeat: int | str = 0
    left_out: str | None = None
    outcome: bool = False
    """Whether the agent acted on a task: what is known is what became of it, not an answer."""
    cluster: str | None = None
    """Tasks of one cluster resemble one another, as those of one repository do."""
    calls: int | None = None
    read_as: str | None = None
    """No answer: what to say about how a log was read."""


def log_fault(where: str, problem: str) -> UserError:
    return UserError(f"{where}: {problem}")


def is_unscored(grade: object) -> bool:
    """Return whether nothing stands where a grade should, or the NaN that pandas writes for a
    gap.
    """
    text = log_text(grade)
    return text is None or text.strip().casefold() in ("", "nan")


def _shown(value: object) -> str:
    return "missing" if value is None else shortened(repr(value), 60)


def log_left_out(where: str, why: str) -> LogAnswer:
    """Return what stands in a log in place of an answer, and is left out."""
    return LogAnswer(where, "", "", None, None, left_out=why)


def log_name(value: object, what: str, where: str) -> str:
    """Return a name on one line, from a text or a whole number. Raises UserError for anything
    else.
    """
    named = isinstance(value, str | int) and not isinstance(value, bool)
    text = str(value).strip()
    if not named or not text:
        raise log_fault(where, f"{what!r} is {_shown(value)}; give a text that is not blank")
    if len(text) > MOST_NAME or _CONTROL.search(text):
        raise log_fault(
            where,
            f"{what!r} is longer than {MOST_NAME} letters or has control characters; shorten it",
        )
    return text


def log_name_if_any(value: object, what: str, where: str) -> str | None:
    """Return a name as `log_name` does, or None for null and blanks. Raises UserError for anything
    else.
    """
    return None if log_text(value) is None else log_name(value, what, where)


def log_text(value: object) -> str | None:
    """Return a text; of numbers their digits, of anything else its JSON; None for null and
    blanks.
    """
    # NaN is what pandas writes for a gap.
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, str):
        return value if value.strip() else None
    return json.dumps(value, ensure_ascii=False, default=str)


def right(value: Any, what: str, where: str) -> bool | None:
    """Return whether an answer is right, said as true or false, 1 or 0; None where the log has no
    verdict. Raises UserError for anything between.
    """
    if is_unscored(value):
        return None
    is_right = _RIGHT.get(str(value).strip().lower())
    if is_right is None:
        raise log_fault(
            where,
            f"{what!r} is {_shown(value)}, neither right nor wrong; give true or false, 1 or 0",
        )
    return is_right


def log_amount(fields: Mapping[str, object], what: str, where: str) -> float | None:
    """Return the field `what`: a number of at least 0, or None. Raises UserError for anything
    else.
    """
    text = log_text(fields.get(what))
    if text is None:
        return None
    number = number_in(text)
    if number is None or number < 0:
        shown = _shown(fields[what])
        raise log_fault(where, f"{what!r} is {shown}; give a number of at least 0, or none")
    return number


def number_in(value: Any) -> float | None:
    """Return the finite number that a cell holds, also as text; None for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def log_seconds(fields: Mapping[str, object], what: str, where: str) -> float | None:
    """Return the seconds of a number of milliseconds, or None. Raises UserError for anything
    else.
    """
    number = log_amount(fields, what, where)
    return None if number is None else round(number / 1000, 6)


def log_count(fields: Mapping[str, object], what: str, where: str) -> int | None:
    """Return a count, or None. Raises UserError for anything else."""
    number = log_amount(fields, what, where)
    # A column of counts with gaps in it is one of floats.
    return None if number is None else int(number)


def log_prompt_tokens(usage: Mapping[str, object], where: str) -> int | None:
    """Return the tokens of the prompts in a usage of Inspect, or None. Some providers count those
    that a cache held apart from the others: then the total has them besides.
    """
    counted = ("input_tokens", "output_tokens", "total_tokens")
    kept = ("input_tokens_cache_read", "input_tokens_cache_write")
    asked, said, total, read, written = (
        log_count(usage, name, where) for name in (*counted, *kept)
    )
    cached = (read or 0) + (written or 0)
    # A total without room for them says that the prompts have them already.
    if asked is None or said is None or total is None or total < asked + said + cached:
        return asked
    return asked + cached


def log_repeat(fields: Mapping[str, object], where: str) -> int | str:
    """Return the number of a row's answer among repeats: its `repeat`, from 0 on, or the label in
    `epoch`, `sample` or `trial`.
    """
    if (number := log_count(fields, "repeat", where)) is not None:
        return number
    for name in ("epoch", "sample", "trial"):
        label = log_text(fields.get(name))
        if label is not None:
            return label
    return 0


def log_object(value: object, what: str, where: str) -> Mapping[str, Any]:
    """Return an object; an empty one for null. Raises UserError for anything else."""
    if value is not None and not isinstance(value, Mapping):
        raise log_fault(where, f"{what!r} is not a JSON object; export the log again")
    return value or {}


def log_list(value: object, what: str, where: str) -> list[object]:
    """Return a list; an empty one for null. Raises UserError for anything else."""
    if value is not None and not isinstance(value, list):
        raise log_fault(where, f"{what!r} is not a list; export the log again")
    return value or []


def lettered(choices: object) -> dict[str, str] | None:
    """Return options as A, B, …; None where there are none to label."""
    if isinstance(choices, Mapping) and isinstance(choices.get("text"), Sequence):
        choices = choices["text"]
    # A text is a sequence of letters, too; beyond 26 options there are no letters left.
    if not isinstance(choices, Sequence) or isinstance(choices, str) or not 2 <= len(choices) <= 26:
        return None
    return dict(zip(ascii_uppercase, [log_text(text) or "" for text in choices], strict=False))


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a JSONL file, each with its file and line. Raises UserError for a line
    that is not an object.
    """
    with system_errors(path, "name a log", "cannot be read"):
        file = open(open_regular(path), "rb")  # noqa: SIM115
    with file:
        for where, line in lines_of(file, str(path)):
            if line.strip():
                yield where, json_object(line, where)


def json_value(raw: bytes, where: str) -> object:
    """Return the value of JSON. Raises UserError for bytes that are not JSON."""
    try:
        # Programs on Windows begin a file with a mark that JSON does not allow.
        return DECODER.decode(raw.decode("utf-8-sig").strip())
    except (ValueError, RecursionError) as problem:
        raise log_fault(
            where, f"not readable as JSON ({shortened(str(problem))}); export the log again"
        ) from None


def json_object(raw: bytes, where: str) -> dict[str, object]:
    """Return the object that bytes hold. Raises UserError for anything else."""
    value = json_value(raw, where)
    if not isinstance(value, dict):
        raise log_fault(where, "not a JSON object; export the log again")
    return value


def json_document(path: Path) -> dict[str, object]:
    """Return the object in a JSON file. Raises UserError for anything else, and for one too large
    to be held.
    """
    with (
        system_errors(path, "name a log", "cannot be read"),
        open(open_regular(path), "rb") as file,
    ):
        raw = Unpacked(path).read_json(file)
    return json_object(raw, str(path))
