"""A checked answer from another tool's log, and the records of such logs."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from string import ascii_uppercase
from typing import IO, Any, NamedTuple

from ...modules.base.errors import UserError, system_errors
from ...modules.base.files import open_regular
from ..base.wording import shortened
from ..data.tables import DECODER, read
from ..data.unpacked import Unpacked, lines_of

MOST_NAME = 200
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_RIGHT = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}
_RIGHT |= {"yes": True, "no": False}  # of judges


class LogAnswer(NamedTuple):
    """An answer to a question in a log; `where` is its file and line. None means that the log has
    no value.

    `repeat` is which answer of the agent to the question this is: a number from 0 on, or a text by
    which the log tells its repeats apart. `task` tells questions with the same id in different
    tasks apart. `choices` are labelled. `turns` has the dialogue of several agents as (round,
    agent, answer, text). An answer that is neither right nor wrong has a `score`, given by
    `scorer`. `left_out` says why it is no answer: it is counted, and nothing else.
    """

    where: str
    question_id: str = ""
    agent: str = ""
    answer: str | None = None
    correct: bool | None = None
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
    scorer: str = "score"
    repeat: int | str = 0
    left_out: str | None = None
    outcome: bool = False
    """Whether the agent acted on a task: what is known is what became of it, not an answer."""
    cluster: str | None = None
    """Tasks of one cluster resemble one another, as those of one repository do."""
    calls: int | None = None
    read_as: str | None = None
    """No answer: what to say about how a log was read."""

    @property
    def graded(self) -> bool:
        return self.correct is None and self.score is not None


class Record:
    """An object of a log, and where it stands, as errors say it.

    A field is named by its path, such as `usage.cost`; of several paths the first whose value is
    not blank counts. An object on the way may be null. Where a path of its own names it, it may be
    a text in place of an object, as in other versions of a log. Every reader raises UserError for a
    value of another kind.
    """

    def __init__(self, where: str, fields: object, what: str = "the log") -> None:
        self.where = where
        if fields is not None and not isinstance(fields, Mapping):
            raise self.fault(f"{what!r} is not a JSON object; export the log again")
        self.fields: Mapping[str, Any] = fields or {}

    def fault(self, problem: str) -> UserError:
        return UserError(f"{self.where}: {problem}")

    def found(self, *paths: str) -> tuple[str, Any]:
        """Return the path of a field, and its value as it stands there."""
        for path in paths:
            # a name of the log's own may have a dot in it
            value = self.fields.get(path)
            if value is None and "." in path:
                value = self._below(path, paths)
            if not _is_blank(value):
                break
        return path, value

    def _below(self, path: str, paths: Sequence[str]) -> Any:
        *outer, name = path.split(".")
        fields = self.fields
        for part in outer:
            inner = fields.get(part)
            if isinstance(inner, str) and part in paths:
                return None
            fields = Record(self.where, inner, part).fields
        return fields.get(name)

    def value(self, *paths: str) -> Any:
        return self.found(*paths)[1]

    def inner(self, *paths: str) -> Record:
        """Return an object; an empty one for null."""
        path, value = self.found(*paths)
        return Record(self.where, value, path)

    def members(self, *paths: str) -> list[Any]:
        """Return a list; an empty one for null."""
        path, value = self.found(*paths)
        if value is not None and not isinstance(value, list):
            raise self.fault(f"{path!r} is not a list; export the log again")
        return value or []

    def objects(self, *paths: str) -> list[Record]:
        """Return the objects in a list."""
        return [Record(self.where, item, paths[0]) for item in self.members(*paths)]

    def text(self, *paths: str) -> str | None:
        return log_text(self.value(*paths))

    def name(self, *paths: str) -> str:
        path, value = self.found(*paths)
        return log_name(value, path, self.where)

    def name_if_any(self, *paths: str) -> str | None:
        """Return a name as `name` does, or None for null and blanks."""
        path, value = self.found(*paths)
        return None if _is_blank(value) else log_name(value, path, self.where)

    def amount(self, *paths: str) -> float | None:
        """Return a number of at least 0, or None."""
        path, value = self.found(*paths)
        text = log_text(value)
        if text is None:
            return None
        number = number_in(text)
        if number is None or number < 0:
            raise self.fault(f"{path!r} is {_shown(value)}; give a number of at least 0, or none")
        return number

    def count(self, *paths: str) -> int | None:
        number = self.amount(*paths)
        # A column of counts with gaps in it is one of floats.
        return None if number is None else int(number)

    def seconds(self, *paths: str) -> float | None:
        """Return the seconds of a number of milliseconds, or None."""
        number = self.amount(*paths)
        return None if number is None else round(number / 1000, 6)

    def right(self, *paths: str) -> bool | None:
        """Return whether an answer is right, said as true or false, 1 or 0; None where the log has
        no verdict.
        """
        path, value = self.found(*paths)
        if is_unscored(value):
            return None
        is_right = _RIGHT.get(str(value).strip().lower())
        if is_right is None:
            raise self.fault(
                f"{path!r} is {_shown(value)}, neither right nor wrong; give true or false, 1 or 0"
            )
        return is_right

    def repeat(self) -> int | str:
        """Return the number of a row's answer among repeats: its `repeat`, from 0 on, or the label
        in `epoch`, `sample` or `trial`.
        """
        number = self.count("repeat")
        if number is None:
            return self.text("epoch", "sample", "trial") or 0
        return number

    def prompt_tokens(self) -> int | None:
        """Return the tokens of the prompts in a usage of Inspect, or None. Some providers count
        those that a cache held apart from the others: then the total has them besides.
        """
        asked = self.count("input_tokens")
        said, total = self.count("output_tokens"), self.count("total_tokens")
        read, written = (self.count(f"input_tokens_cache_{kind}") for kind in ("read", "write"))
        cached = (read or 0) + (written or 0)
        # A total without room for them says that the prompts have them already.
        if asked is None or said is None or total is None or total < asked + said + cached:
            return asked
        return asked + cached

    def left_out(self, why: str) -> LogAnswer:
        """Return what stands in a log in place of an answer, and is left out."""
        return LogAnswer(self.where, left_out=why)


def is_unscored(grade: object) -> bool:
    """Return whether nothing stands where a grade should, or the NaN that pandas writes for a
    gap.
    """
    text = log_text(grade)
    return text is None or text.strip().casefold() == "nan"


def right_by(score: float | None) -> bool | None:
    """Return whether an answer with this score is right; None for a score between, and for none."""
    return score == 1 if score in (0, 1) else None


def _shown(value: object) -> str:
    return "missing" if value is None else shortened(repr(value), 60)


def log_name(value: object, what: str, where: str) -> str:
    """Return a name on one line, from a text or a whole number. Raises UserError for anything
    else.
    """
    named = isinstance(value, str | int) and not isinstance(value, bool)
    text = str(value).strip()
    if not named or not text:
        raise UserError(f"{where}: {what!r} is {_shown(value)}; give a text that is not blank")
    if len(text) > MOST_NAME or _CONTROL.search(text):
        raise UserError(
            f"{where}: {what!r} is longer than {MOST_NAME} letters or has control characters; "
            "shorten it"
        )
    return text


def log_text(value: object) -> str | None:
    """Return a text; of numbers their digits, of anything else its JSON; None for null and
    blanks.
    """
    if _is_blank(value):
        return None
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def _is_blank(value: object) -> bool:
    if isinstance(value, str):
        return not value.strip()
    # NaN is what pandas writes for a gap.
    return value is None or (isinstance(value, float) and math.isnan(value))


def number_in(value: Any) -> float | None:
    """Return the finite number that a cell holds, also as text; None for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def lettered(choices: object) -> dict[str, str] | None:
    """Return options as A, B, …; None where there are none to label."""
    if isinstance(choices, Mapping) and isinstance(choices.get("text"), Sequence):
        choices = choices["text"]
    # A text is a sequence of letters, too; beyond 26 options there are no letters left.
    if not isinstance(choices, Sequence) or isinstance(choices, str) or not 2 <= len(choices) <= 26:
        return None
    return dict(zip(ascii_uppercase, [log_text(text) or "" for text in choices], strict=False))


def json_value(raw: bytes, where: str) -> object:
    """Return the value of JSON. Raises UserError for bytes that are not JSON."""
    try:
        # Programs on Windows begin a file with a mark that JSON does not allow.
        return DECODER.decode(raw.decode("utf-8-sig").strip())
    except (ValueError, RecursionError) as problem:
        raise UserError(
            f"{where}: not readable as JSON ({shortened(str(problem))}); export the log again"
        ) from None


def json_record(raw: bytes, where: str) -> Record:
    """Return the object that bytes hold. Raises UserError for anything else."""
    value = json_value(raw, where)
    if not isinstance(value, dict):
        raise UserError(f"{where}: not a JSON object; export the log again")
    return Record(where, value)


def log_rows(path: Path) -> Iterator[Record]:
    """Yield the objects of a JSONL file. Raises UserError for a line that is not an object."""
    with _reading(path) as file:
        for where, line in lines_of(file, str(path)):
            if line.strip():
                yield json_record(line, where)


def table_rows(path: Path) -> Iterator[Record]:
    """Yield the rows of a table. Raises UserError for one that cannot be read."""
    try:
        for where, fields, fault in read(path).rows:
            row = Record(f"{path}, {where}", fields)
            if fault:
                raise row.fault(fault)
            yield row
    except UserError as problem:
        message = str(problem)
        raise UserError(message if str(path) in message else f"{path}, {message}") from None


def log_document(path: Path) -> Record:
    """Return the object in a JSON file. Raises UserError for anything else, and for one too large
    to be held.
    """
    with _reading(path) as file:
        return json_record(Unpacked(path).read_json(file), str(path))


@contextmanager
def _reading(path: Path) -> Iterator[IO[bytes]]:
    opening = system_errors(path, "name a log", "cannot be read")
    with opening, open(open_regular(path), "rb") as file:
        yield file
