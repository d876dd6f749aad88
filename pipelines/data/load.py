"""`load`: reads questions from a data set's name, a file or an object, and says what it guessed."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import median_high
from typing import Any

from ...modules.base.errors import UserError, checked_whole
from ...modules.reading.answers import golds_of
from ...modules.reading.column_kind import ColumnKind
from ...modules.reading.question import (
    KINDS,
    NAMELESS,
    Question,
    answer_texts,
    from_row,
    settle_kinds,
)
from ..base.wording import counted
from . import tables
from .aliases import ColumnNames
from .catalogue import DatasetSpec
from .columns import Columns, check_columns
from .places import rows_of_source
from .sampling import sample
from .tables import TableRow

_LOG = logging.getLogger("folkmoot")
MOST_FAULTS = 20
_SOLUTIONS = ("answer_raw", "solution", "rationale", "lecture")
"""Columns of known data sets that explain the answer; they are left out of questions."""

_LOOK_AHEAD = 10_000
_LIKE_NUMBER = re.compile(r"[-+−–]?[$€£¥]?\s?\d[\d.,'’\s]*(?:[$€£¥%])?(?:\s?\(?[^\W\d]{1,12}\)?)?")
_EMPTY = ("nan", "none", "null", "n/a", "<na>")
"""What programs write into empty cells."""
_LONG = 10
"""The number of words from which a gold answer counts as a sentence."""
_WORD, _SENTENCE = re.compile(r"[^\W\d_]{2,}"), 4
"""The number of words from which a column's text may be a context."""
_OF_THE_END = re.compile(
    r"answer|meta|explan|rational|reason|solution|proof|feedback|comment|note|source|fact|cot|respon"
    r"|output|predict|gold|correct|title|url|link|lecture|decompos|step|formatted|evidence|test",
    re.I,
)
"""Names of columns that are about the answer or the data, and so no context."""
_ENOUGH = 8
"""The number of questions from which equal answers are not by chance."""


def load(
    name_or_path: object,
    split: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
    columns: ColumnNames | None = None,
    kind: str | None = None,
    data_dir: str | Path | None = None,
) -> list[Question]:
    """Return the questions of a known data set, of a file, or of an object in Python.

    Args:
        name_or_path: a data set's name; the path of a file or a `datasets` folder; or an open file,
            a DataFrame, a `datasets.Dataset`, or a list of dicts, `dspy.Example`s or questions.
        split: by default the one that is evaluated; of a workbook, the sheet.
        limit: keeps the first questions, or with a `seed` a random sample. Samples of one seed are
            nested.
        seed: draws the sample.
        columns: columns by field, such as {"question": "text", "choices": "first,second", "answer":
            "gold:from0"}.
        kind: the kind of every row.
        data_dir: by default FOLKMOOT_DATA.

    A question without an id gets a hash of its content, and `meta.row`, its row.

    Raises UserError, naming the source and each line (the first 20), for anything that is not
    right.
    """
    reading = understand(name_or_path, split, limit, seed, columns, kind, data_dir)
    return drawn_from(reading, limit, seed)


def drawn_from(reading: DataReading, limit: int | None, seed: int | None) -> list[Question]:
    """Return the questions of a reading, or a sample of them; its guesses are logged. Raises
    UserError for faults, and if there is no question.
    """
    if reading.guesses:
        _LOG.warning("%s: %s", reading.name, reading.guesses)
    if reading.count:
        raise DataError(reading.name, reading.faults, reading.count)
    if not reading.questions:
        raise UserError(f"{reading.name} has no questions; give one with at least one row")
    if limit is None or seed is None:
        return reading.questions
    return sample(reading.questions, limit, seed, getattr(reading.spec, "balance", None))


class DataError(UserError):
    """The faults of a source of questions: `faults` are the first of `count`, each with its place;
    `lines` is the message for a terminal.
    """

    def __init__(self, name: str, faults: Sequence[str], count: int) -> None:
        self.name, self.faults, self.count = name, list(faults), count
        self.lines = [f"{name}, {faults[0]}"]
        if count > 1:
            self.lines = [f"{name} has {count} faults", *faults]
        if count > len(faults):
            self.lines.append(f"and {count - len(faults)} more")
        first, *others = self.lines
        super().__init__(": ".join(filter(None, [first, "; ".join(others)])))

    def __reduce__(self) -> tuple[object, ...]:
        return DataError, (self.name, self.faults, self.count)


@dataclass
class DataReading:
    """What was read from a source: the questions, its guesses, and the first 20 faults."""

    name: str
    spec: DatasetSpec | None = None
    questions: list[Question] = field(default_factory=list)
    guesses: str = ""
    faults: list[str] = field(default_factory=list)
    count: int = 0
    """The number of all faults."""
    made_ids: int = 0
    """The number of questions without an id of their own."""
    origin: str | None = None
    """The name or path that was given."""

    def fault(self, where: str, why: str) -> None:
        """Add a fault."""
        self.count += 1
        if self.count <= MOST_FAULTS:
            self.faults.append(": ".join(filter(None, [where, why])))


def understand(
    source: Any,
    split: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
    columns: ColumnNames | None = None,
    kind: str | None = None,
    data_dir: str | Path | None = None,
    *,
    called: str | None = None,
) -> DataReading:
    """Read a source as `load` does, but return the faults of rows instead of raising them.

    `called` is how errors call an object in Python. Raises UserError if there are no rows to read,
    for an unknown name, an unreadable file or unclear columns.
    """
    if limit is not None:
        checked_whole("limit", limit)
    if seed is not None and not isinstance(seed, int):
        raise UserError(f"seed is {seed!r}; give a whole number")
    if kind is not None and kind not in KINDS:
        raise UserError(f"kind is {kind!r}; the kinds are {', '.join(KINDS)}")
    names, spec, own_kind = check_columns(columns), None, kind
    origin = None
    if isinstance(source, str | Path):
        origin = str(source)
        table, spec = rows_of_source(source, split, data_dir)
    elif hasattr(source, "read"):
        table = tables.read_stream(source)
    else:
        table = tables.read_held(source, split, called)
    reading = DataReading(table.name, spec, origin=origin)
    if spec is not None:
        # The user's kind overrides that of the data set.
        kind = kind or spec.kind
    mapper = Columns(names, kind=kind, cells=table.cells)
    rows = mapper.read(tables.unfolded(table.rows, mapper.remark))
    questions = _questions(mapper, rows, kind, reading)
    if seed is None:  # so that of a large file nothing beyond the limit is read
        questions = islice(questions, limit)
    try:
        reading.questions.extend(questions)
        mapper.check_options(reading.questions)
    except UserError as error:
        # Reading ends here, as at a line that is too long.
        problem = str(error).removeprefix(f"{table.name}, ")
        if not reading.questions and not reading.count:
            if not problem.startswith(table.name):
                problem = f"{table.name}, {problem}"
            raise UserError(problem) from None
        reading.fault("", problem)
    settled = settle_kinds(reading.questions, _golds_ahead(rows))
    words = [
        mapper.guesses(),
        _one_kind(settled),
        *_one_letter(reading.questions),
        *_long_golds(reading.questions, own_kind),
        *_odd_golds(reading.questions, own_kind),
        *_warn_of_context(reading.questions, names),
    ]
    if any(words):
        reading.guesses = f"read {', '.join(filter(None, words))}"
    return reading


def _golds_ahead(rows: Iterator[TableRow]) -> Iterator[str]:
    """Yield the gold answers of the rows behind the limit, since the kind is decided for the whole
    file; only of the first ones, so that a large file costs no time.
    """
    try:
        for row in islice(rows, _LOOK_AHEAD):
            if not row.fault and row.fields.get("choices") is None:
                yield from map(str, golds_of(answer_texts(row.fields.get("answer"))))
    except UserError:
        return  # these rows are not asked, so it does not matter that one cannot be read


def _one_kind(settled: ColumnKind | None) -> str:
    """Return a clause on the kind that was chosen for answers that look like several kinds; else
    empty.
    """
    if settled is None or len(settled.seen) < 2:
        return ""
    if settled.options is not None:
        return f"the answers as a choice of {' / '.join(settled.options.values())}"
    looks = ", ".join(f"{count} {kind}" for kind, count in settled.seen.items())
    return f"all answers as {settled.kind} since they are mixed ({looks}; else say --kind)"


def _one_letter(questions: Sequence[Question]) -> Iterator[str]:
    """Return a warning if the right option always has the same label."""
    labels = [question.answer for question in questions if question.choices is not None]
    if len(labels) >= _ENOUGH and len(set(labels)) == 1 and labels[0] is not None:
        yield (
            f"every answer as {labels[0]}, so an LM that always says so is always right (put "
            "the options in another order)"
        )


def _long_golds(questions: Sequence[Question], kind: str | None) -> Iterator[str]:
    """Return a warning if gold answers are sentences, which no reply repeats word for word."""
    lengths: list[int] = []
    for question in questions:
        if question.kind == "span" and question.answer:
            lengths.append(len(str(question.answer).split()))
    middle = median_high(lengths or [0])
    if kind is None and middle >= _LONG:
        yield (
            f"answers of {middle} words (in the middle), which no reply repeats word for word: "
            "give --kind open --metric judge, or --metric f1"
        )


def _odd_golds(questions: Sequence[Question], kind: str | None) -> Iterator[str]:
    """Return warnings if gold answers that are read as one text may be numbers, empty, or several
    answers.
    """
    answers = [question.answer for question in questions if question.kind == "span"]
    golds = list(filter(None, answers))
    if kind is not None or not golds:
        return
    if all(map(_LIKE_NUMBER.fullmatch, golds)):
        yield (
            f"answers such as `{golds[0]}` as texts (numbers written as 1,250.5 are compared by "
            "their value)"
        )
    empty = [gold for gold in golds if gold.strip().casefold() in _EMPTY]
    if empty:
        yield (
            f"`{empty[0]}` as the answer in {counted(len(empty), 'row')} (if it stands for none, "
            "leave the cell empty)"
        )
    for mark in "|;":
        if 2 * sum(mark in gold for gold in golds) > len(golds):
            yield f"answers with `{mark}` as one text each (where several are right, write a list)"


def _warn_of_context(questions: Sequence[Question], names: Mapping[str, str]) -> Iterator[str]:
    """Return a warning if questions have no context, but a column may be the context."""
    if not questions or "context" in names or any(question.context for question in questions):
        return
    texts: dict[str, list[str]] = {}
    for question in questions:
        for name, text in question.meta.items():
            if isinstance(text, Mapping):
                text = list(text.values())
            if isinstance(text, list):  # of passages
                text = " ".join(map(str, text))
            is_again = text == question.question  # AIME's `problem` beside `question`
            if isinstance(text, str) and not is_again and len(_WORD.findall(text)) >= _SENTENCE:
                texts.setdefault(name, []).append(text)
    # Several questions may have the same passage, but not nearly all.
    enough = max(min(2, len(questions)), len(questions) / 20)
    found: list[str] = []
    for name, held in texts.items():
        if len(set(held)) >= enough and not _OF_THE_END.search(name):
            found.append(name)
    if found:
        columns = ", ".join(f"`{name}`" for name in found)
        yield (
            f"no context (programs are not shown {columns}; else say --columns context={found[0]})"
        )


def _questions(
    mapper: Columns, rows: Iterable[TableRow], kind: str | None, reading: DataReading
) -> Iterator[Question]:
    """Yield the questions in mapped rows; faults of rows are added to the reading."""
    spec, places, repeats = reading.spec, dict[str, str](), Counter[str]()
    for number, (where, fields, fault) in enumerate(rows, 1):
        if fault:
            reading.fault(where, fault)
            continue
        if spec is not None and spec.closed_book:
            fields["context"] = None
        if spec is not None and spec.evidence and isinstance(fields.get("context"), list):
            fields["context_ids"] = fields.pop("context")  # by another name, it goes to `meta`
        is_nameless = fields.get("id") is None or fields["id"] == ""
        try:
            if is_nameless:
                # For now: its id will be a hash of the question, which has to be read first.
                fields = fields | {"id": NAMELESS}
            question = from_row(fields, where, kind)
        except UserError as error:
            reading.fault(where, str(error).removeprefix(f"{where}: "))
            continue
        if is_nameless:
            reading.made_ids += 1
            question.id = content_id(question)
            # Also the row's number, since nobody could find a hash in the file.
            question.meta.setdefault("row", number)
        elif question.id in places and mapper.guessed("id"):  # perhaps the id of something else
            mapper.remark("ids that repeat as numbered")
        if question.id in places and (is_nameless or mapper.guessed("id")):
            repeats[question.id] += 1
            question.id += f"-{repeats[question.id] + 1}"
        if question.id in places:
            before = places[question.id]
            reading.fault(
                where, f"the id {question.id!r} already stands at {before}; make ids unique"
            )
            continue
        if spec is not None:
            for name in _SOLUTIONS:
                question.meta.pop(name, None)
        places[question.id] = where
        question._where, question._origin = f"{reading.name}, {where}", reading.origin
        yield question


def content_id(question: Question) -> str:
    """Return an id made of a question and its answer: 12 hex digits of a hash, the same in any
    file, format, order and version.

    Questions that differ only in `meta` have the same; `load` numbers the second and later ones
    (`…-2`).
    """
    choices = None if question.choices is None else list(question.choices.items())
    content = [question.question, choices, question.context, question.answer]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]
