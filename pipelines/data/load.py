"""Questions by name or from a file, checked before any money is spent: `load`, samples, overlap."""

from __future__ import annotations

import hashlib
import json
import logging
import random
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import median_high
from typing import Any

import dspy

from ...modules.agents.prompt import check_passage
from ...modules.base.errors import UserError, checked_whole
from ...modules.reading.answers import golds_of
from ...modules.reading.column_kind import ColumnKind
from ...modules.reading.question import (
    KINDS,
    TASK_FILES,
    Question,
    answer_texts,
    from_row,
    settle_kinds,
    with_one_kind,
)
from ..base.wording import counted
from . import catalogue, tables
from .aliases import naming
from .catalogue import DatasetSpec
from .columns import Columns, check_columns
from .places import rows_of_source
from .tables import TableRow

_WHERE = "_where"  # attribute, not a field: where a question stands in its file
_NAMELESS = "?"  # stands for an id until there is one
_LOG = logging.getLogger("folkmoot")
MOST_FAULTS = 20
_SOLUTIONS = ("answer_raw", "solution", "rationale", "lecture")
"""What known data sets say of the way to the answer; it does not travel with a question."""

_QUOTES = re.compile(r"['’`]")
_PUNCTUATION = re.compile(r"[^\w\s+*/=<>^%-]|_|-(?!\s?\d)")
_LOOK_AHEAD = 10_000
_LONG = 10
"""Words of a gold answer that is a sentence."""
_ENOUGH = 8
"""Questions from which on equal answers are no accident."""

ColumnNames = Mapping[str, str | Sequence[str]]
"""Field → the column that holds it; several for options in columns of their own."""


def load(
    name_or_path: Any,
    split: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
    columns: ColumnNames | None = None,
    kind: str | None = None,
    data_dir: str | Path | None = None,
) -> list[Question]:
    """The questions of a known data set, of a file, or of an object in Python.

    Args:
        name_or_path: a name, searched for among the shipped samples, as NAME-SPLIT.jsonl in
            `data_dir` and on the Hugging Face hub; a path to delimited text, JSON (lines, or an
            array), Parquet, Excel, or a `datasets` folder; or an open file, a DataFrame, a
            `datasets.Dataset`, or a list of dicts, `dspy.Example`s or questions.
        split: by default the one that is evaluated; of a workbook, the sheet.
        limit: keeps the first questions, or with a `seed` a random sample in the order of the file.
            Samples of one seed are nested.
        seed: draws the sample.
        columns: columns by field, such as {"question": "text", "choices": "first,second", "answer":
            "gold:from0"}, where positions of options are counted from 0.
        kind: the kind of every row.
        data_dir: by default FOLKMOOT_DATA.

    What was guessed is logged to `folkmoot`. A question without an id gets a hash of its content,
    and `meta.row`, its row.

    Raises UserError, naming the source and each line (the first 20), for anything that is not
    right.
    """
    reading = understand(name_or_path, split, limit, seed, columns, kind, data_dir)
    questions, spec = _checked(reading), reading.spec
    if isinstance(name_or_path, str | Path):
        for question in questions:
            question._origin = str(name_or_path)
    if limit is None or seed is None:
        return questions
    return sample(questions, limit, seed, balance=getattr(spec, "balance", None))


def _checked(reading: DataReading) -> list[Question]:
    """The questions; guesses are logged. Raises UserError for faults, or without a question."""
    if reading.guesses:
        _LOG.warning("%s: %s", reading.name, reading.guesses)
    if reading.count:
        raise DataError(reading.name, reading.faults, reading.count)
    if not reading.questions:
        raise UserError(f"{reading.name} has no questions; give one with at least one row")
    return reading.questions


def listed(
    questions: Any,
    name: str = "questions",
    *,
    split: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
    columns: ColumnNames | None = None,
    kind: str | None = None,
    show: Sequence[str] = (),
) -> list[Question]:
    """The questions of a list or a generator, unchanged; anything else is read by `load`. An empty
    list stays empty. `show` names the columns of `meta` that programs are shown. Raises UserError,
    in which `name` stands for an object in Python.
    """
    if isinstance(questions, str | Path):
        return showing(load(questions, split, limit, seed, columns, kind), show)
    if isinstance(questions, Question):
        raise UserError(f"{name} is one question: give a list, [question]")
    # A generator can be read only once, and is counted before it is asked.
    if isinstance(questions, Iterator):
        questions = list(questions)
    ready = isinstance(questions, Sequence) and all(isinstance(q, Question) for q in questions)
    if ready:
        questions = with_one_kind(questions)
    else:
        reading = understand(questions, split, None, seed, columns, kind, called=name)
        questions = _checked(reading)
    if limit is not None:
        questions = questions[:limit] if seed is None else sample(questions, limit, seed)
    return showing(list(questions), show)


def showing(questions: list[Question], show: Sequence[str]) -> list[Question]:
    """The questions, of whose `meta` programs are shown these columns and no other. Raises
    UserError for a column that no question has, and for one that holds the gold answer.
    """
    names = tuple(dict.fromkeys(map(str.strip, ",".join(show).split(",")))) if show else ()
    for name in names:
        texts = {q.id: str(q.meta[name]).casefold() for q in questions if name in q.meta}
        if not texts:
            raise UserError(f"--show {name!r}: no question has such a column; correct the name")
        tells = sum(q.id in texts and _tells(texts[q.id], q) for q in questions)
        # Some texts hold the gold answer by chance; in more than half of them it is the column's
        # meaning.
        if 2 * tells > len(texts):
            raise UserError(
                f"--show {name!r}: the column holds the gold answer of {tells} of "
                f"{counted(len(texts), 'question')}, so programs would see it; leave it out"
            )
    for question in questions:
        question._shown = names
    return questions


def _tells(text: str, question: Question) -> bool:
    """Whether a text holds the gold answer as a word of its own, or the text of the right
    option.
    """
    golds = list(map(str, golds_of(question.gold)))
    if question.choices is not None and question.answer in question.choices:
        golds.append(question.choices[question.answer])
    return any(
        re.search(rf"(?<!\w){re.escape(gold.strip().casefold())}(?!\w)", text) for gold in golds
    )


class DataError(UserError):
    """The faults of a source of questions: `faults` has the first of `count`, each with its place.
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

    def __reduce__(self) -> tuple[Any, ...]:
        return DataError, (self.name, self.faults, self.count)


@dataclass
class DataReading:
    """The questions of a source, the guesses, and its first 20 faults."""

    name: str
    spec: DatasetSpec | None = None
    questions: list[Question] = field(default_factory=list)
    guesses: str = ""
    faults: list[str] = field(default_factory=list)
    count: int = 0
    """The number of all faults."""
    made_ids: int = 0
    """The number of questions without an id of their own."""

    def fault(self, where: str, why: str) -> None:
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
    """Read a source as `load` does, but return the faults of rows instead of raising them. Raises
    UserError if there are no rows to read: an unknown name, an unreadable file, unclear columns.
    `called` is the name of an object in Python in errors.
    """
    if limit is not None:
        checked_whole("limit", limit)
    if seed is not None and not isinstance(seed, int):
        raise UserError(f"seed is {seed!r}; give a whole number")
    if kind is not None and kind not in KINDS:
        raise UserError(f"kind is {kind!r}; the kinds are {', '.join(KINDS)}")
    names, spec, own_kind = check_columns(columns), None, kind
    if isinstance(source, str | Path):
        table, spec = rows_of_source(source, split, data_dir)
    elif hasattr(source, "read"):
        table = tables.read_stream(source)
    else:
        table = tables.read_held(source, split, called)
    reading = DataReading(table.name, spec)
    if spec is not None:
        kind = kind or spec.kind
    mapper = Columns(names, kind=kind, cells=table.cells)
    rows = mapper.read(table.rows)
    questions = _questions(rows, kind, reading)
    if seed is None:  # nothing beyond the limit is read, so a large file costs no time
        questions = islice(questions, limit)
    try:
        reading.questions.extend(questions)
        mapper.check_options(reading.questions)
    except UserError as error:
        # Such as a line too long to read, where the reading ends.
        problem = str(error).removeprefix(f"{table.name}, ")
        if not reading.questions and not reading.count:
            if not problem.startswith(table.name):
                problem = f"{table.name}, {problem}"
            raise UserError(problem) from None
        reading.fault("", problem)
    settled = settle_kinds(reading.questions, _golds_ahead(rows))
    words = [mapper.guesses(), _one_kind(settled)]
    words += [*_one_letter(reading.questions), *_long_golds(reading.questions, own_kind)]
    if any(words):
        reading.guesses = f"read {', '.join(filter(None, words))}"
    return reading


def _golds_ahead(rows: Iterator[TableRow]) -> Iterator[str]:
    """The gold answers of rows that are not taken, since the kind is that of the file; at most so
    many that a large file costs no time.
    """
    try:
        for row in islice(rows, _LOOK_AHEAD):
            if not row.fault and row.fields.get("choices") is None:
                yield from map(str, golds_of(answer_texts(row.fields.get("answer"))))
    except UserError:
        return  # what cannot be read is not asked for


def _one_kind(settled: ColumnKind | None) -> str:
    """Words on answers that look like several kinds, of which one was made."""
    if settled is None or len(settled.seen) < 2:
        return ""
    if settled.options is not None:
        return f"the answers as a choice of {' / '.join(settled.options.values())}"
    looks = ", ".join(f"{count} {kind}" for kind, count in settled.seen.items())
    return f"all answers as {settled.kind} since they are mixed ({looks}; else say --kind)"


def _one_letter(questions: Sequence[Question]) -> Iterator[str]:
    """A warning where the right option always stands in one place."""
    labels = {question.answer for question in questions if question.choices is not None}
    if len(questions) >= _ENOUGH and len(labels) == 1 and None not in labels:
        yield (
            f"every answer as {labels.pop()}, so an LM that always says so is always right (put "
            "the options in another order)"
        )


def _long_golds(questions: Sequence[Question], kind: str | None) -> Iterator[str]:
    """A warning where gold answers are sentences, which no reply repeats word for word."""
    spans = [question for question in questions if question.kind == "span" and question.answer]
    lengths = [len(str(question.answer).split()) for question in spans]
    middle = median_high(lengths or [0])
    if kind is None and middle >= _LONG:
        yield (
            f"answers of {middle} words (in the middle), which no reply repeats word for word: "
            "give --kind open --metric judge, or --metric f1"
        )


def load_part(
    source: Any,
    part: str,
    split: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
    *,
    columns: ColumnNames | None = None,
    kind: str | None = None,
    show: Sequence[str] = (),
) -> tuple[list[Question], str | None]:
    """The questions of a part ("train", "validation") as `load` gives them, and their split.

    A known data set is read from the split with the part's name if none is named; `columns` are
    those of a file.
    """
    if limit is None:
        seed = None
    if not isinstance(source, str | Path):
        how: Any = {"columns": columns, "kind": kind, "show": show}
        return listed(source, part, limit=limit, seed=seed, **how), split
    if catalogue.find(str(source)) or not Path(source).expanduser().exists():
        split, columns = split or part, None
    return showing(load(source, split, limit, seed, columns=columns, kind=kind), show), split


def sample(
    questions: Sequence[Question],
    limit: int,
    seed: int,
    balance: str | None = None,
) -> list[Question]:
    """At most `limit` questions drawn at random, in their old order.

    `balance` names a `meta` field of whose values there are equally many. The sample of one seed
    and a smaller limit is part of that of a larger one. When `limit` does not divide evenly, the
    values first in the alphabet get one more. Raises UserError if there are too few of a value.
    """
    # The whole order is drawn, whatever the limit, so that samples of one seed are nested.
    order = list(range(len(questions)))
    random.Random(seed).shuffle(order)
    if balance is None:
        return [questions[index] for index in sorted(order[:limit])]
    groups: dict[str, list[int]] = defaultdict(list)
    for index in order:
        groups[str(questions[index].meta.get(balance))].append(index)
    chosen: list[int] = []
    for number, value in enumerate(sorted(groups)):
        share = limit // len(groups) + (number < limit % len(groups))
        if share > len(groups[value]):
            raise UserError(
                f"a balanced sample of {limit} needs {share} questions with {balance} {value}, "
                f"but there are {len(groups[value])}; ask for at most "
                f"{len(groups) * min(map(len, groups.values()))}"
            )
        chosen += groups[value][:share]
    return [questions[index] for index in sorted(chosen)]


def recorded(
    questions: Sequence[Question],
    source: str | None,
    split: str | None,
    limit: int | None,
    seed: int | None,
) -> dict[str, object]:
    """The record of a load in a run: its arguments, its sampling, and the kinds of questions."""
    spec, sampling = catalogue.find(source or ""), "random"
    if spec is not None:
        source, split = spec.name, spec.split(split)
        if spec.balance:
            sampling = f"balanced by {spec.balance}"
    if limit is None:
        sampling = "all"
    elif seed is None:
        sampling = "first"
    types = Counter(question.meta["type"] for question in questions if "type" in question.meta)
    return {
        "data": source,
        "split": split,
        "limit": limit,
        "seed": seed,
        "sampling": sampling,
        "kinds": dict(Counter(question.kind for question in questions)),
        "types": dict(types),
    }


def origin_of(questions: Any) -> str | None:
    """The name or file that all of these questions were loaded from; None where that is not known,
    or they come from several.
    """
    if isinstance(questions, str | Path) or not isinstance(questions, Sequence):
        return None
    origins = {getattr(question, "_origin", None) for question in questions}
    return origins.pop() if len(origins) == 1 else None


def fingerprint(questions: Iterable[Question]) -> str:
    """SHA-256 (hex) of every field of every question, in order; the order of the options counts."""
    digest, encoder = hashlib.sha256(), json.JSONEncoder(sort_keys=True, default=_plain)
    for question in questions:
        row = dict(question.items(include_dspy=True))
        # As a list, since sorting the keys would lose their order.
        row["choices"] = row["choices"] and list(row["choices"].items())
        try:
            digest.update(encoder.encode(row).encode() + b"\n")
        except (TypeError, ValueError) as error:
            raise UserError(
                f"question {question.id!r} cannot be written as JSON ({error}); correct its meta"
            ) from None
    return digest.hexdigest()


def _plain(held: object) -> object:
    """An object in a question's `meta` as DSPy writes it."""
    plain = dspy.Example(held=held).toDict()["held"]
    if plain is held:
        raise TypeError(f"Object of type {type(held).__name__} is not JSON serializable")
    return plain


def called(question: Question) -> str:
    """The words that name a question in an error: its id, and its row where the id was made."""
    name = f"question {question.id!r}"
    if (row := question.meta.get("row")) is None:
        return name
    return f"{name} (row {row})"


def stands_at(question: Question) -> str:
    """The place of a question in its source ("line 7")."""
    return str(getattr(question, _WHERE, called(question))).rpartition(", ")[2]


def check_labelled(questions: Iterable[Question]) -> None:
    """Raises UserError if a question has no gold answer, before it could be scored."""
    unlabelled = [q for q in questions if q.answer is None and q.kind != "task"]
    if unlabelled:
        first = f"question {unlabelled[0].id!r}"
        if where := getattr(unlabelled[0], _WHERE, None):
            first = f"at {where}, {first}"
        has = "has" if len(unlabelled) == 1 else "have"
        for part in TASK_FILES:
            if part in unlabelled[0].meta:
                raise UserError(
                    f"{first} has {part} that are not an object of paths and texts, so it is no "
                    "task: correct them"
                )
        raise UserError(
            f"{counted(len(unlabelled), 'question')} {has} no answer (the first {first}); add the "
            f"answers, or name the column that holds them, {naming('answer')}"
        )


def overlap(train: Iterable[Question], test: Iterable[Question]) -> list[tuple[str, str]]:
    """(train id, test id) of each test question whose text is in `train`, but for case and
    punctuation.

    Of several training questions with that text, the first with the same options, else the first.
    """
    same_text: dict[str, str] = {}
    same_options: dict[tuple[str, frozenset[str]], str] = {}
    for question in train:
        same_text.setdefault(_normalised(question.question), question.id)
        same_options.setdefault(_with_options(question), question.id)
    pairs = []
    for question in test:
        text = same_text.get(_normalised(question.question))
        if text is not None:
            pairs.append((same_options.get(_with_options(question), text), question.id))
    return pairs


def apart(
    questions: Sequence[Question], earlier: Sequence[Question] = ()
) -> tuple[list[Question], str | None]:
    """The questions without those that are asked before, in the list itself or in an `earlier`
    split, and one sentence on what was left out; None where nothing was. Questions are equal if
    their texts, options and contexts are, whatever their ids.
    """
    keys = _told_apart([*earlier, *questions])
    known = set(islice(keys, len(earlier)))
    kept, again, before = [], 0, 0
    seen: set[Hashable] = set()
    for question, key in zip(questions, keys, strict=True):
        if key in known:
            before += 1
        elif key in seen:
            again += 1
        else:
            kept.append(question)
        seen.add(key)
    whole, parts = counted(len(questions), "question"), []
    if again:
        parts.append(f"{again:,} of {whole} are asked twice")
    if before:
        parts.append(f"{before:,} of {whole} are training questions, too")
    return kept, f"{' and '.join(parts)}: each is asked once" if parts else None


def _told_apart(questions: Sequence[Question]) -> Iterator[Hashable]:
    """A key for each question: its text, and its options and context where others have that text,
    too.
    """
    texts = [_normalised(question.question) for question in questions]
    times = Counter(texts)
    for question, text in zip(questions, texts, strict=True):
        if times[text] == 1:
            yield text
            continue
        context = question.context or ""
        passage = context if isinstance(context, str) else " ".join(context)
        yield *_with_options(question), _normalised(passage)


def check_overlap(train: Sequence[Question], test: Sequence[Question]) -> str | None:
    """One sentence on the test questions whose text is in `train`, or None."""
    pairs = overlap(train, test)
    if not pairs:
        return None
    trained = set(map(_with_options, train))
    same = sum(_with_options(question) in trained for question in test)
    return (
        f"{len(pairs)} of {len(test)} test questions have the text of a training question, "
        f"{same} the same options too (the first is {pairs[0][1]!r}, in training "
        f"{pairs[0][0]!r}); take them out of one"
    )


def _with_options(question: Question) -> tuple[str, frozenset[str]]:
    options = (question.choices or {}).values()
    return _normalised(question.question), frozenset(map(_normalised, options))


def _normalised(text: str) -> str:
    """Without case, punctuation and spacing; signs of arithmetic stay, as `3 - 4` is not `3
    + 4`.
    """
    without_quotes = _QUOTES.sub("", text.casefold())
    return " ".join(_PUNCTUATION.sub(" ", without_quotes).split()) or text


def _questions(
    rows: Iterable[TableRow], kind: str | None, reading: DataReading
) -> Iterator[Question]:
    """Questions from mapped rows; the faults of rows go to the reading."""
    spec, places, repeats = reading.spec, dict[str, str](), Counter[str]()
    for number, (where, fields, fault) in enumerate(rows, 1):
        if fault:
            reading.fault(where, fault)
            continue
        if spec is not None and spec.closed_book:
            fields["context"] = None
        if spec is not None and spec.evidence and isinstance(fields.get("context"), list):
            fields["context_ids"] = fields.pop("context")  # a field of another name goes to meta
        is_nameless = fields.get("id") is None or fields["id"] == ""
        try:
            # The id is a hash of the question, which has to be read first.
            named = fields | {"id": _NAMELESS} if is_nameless else fields
            question = from_row(named, where, kind)
        except UserError as error:
            why = str(error).removeprefix(f"{where}: ")
            reading.fault(where, why.replace(f"question {_NAMELESS!r}", "the question"))
            continue
        if is_nameless:
            reading.made_ids += 1
            content = content_id(question)
            repeats[content] += 1
            question.id = content
            if repeats[content] > 1:
                question.id += f"-{repeats[content]}"
            # Nobody finds a hash in a file; the number of the row they do.
            question.meta.setdefault("row", number)
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
        setattr(question, _WHERE, f"{reading.name}, {where}")
        yield question


def content_id(question: Question) -> str:
    """12 hex digits of a hash of question and answer: the same in any file, format, order and
    version.

    Questions that differ in `meta` alone share it; `load` numbers the second and later ones
    (`…-2`).
    """
    choices = None if question.choices is None else list(question.choices.items())
    content = [question.question, choices, question.context, question.answer]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]


def check_ids(questions: Sequence[Question]) -> None:
    """Raises UserError for an id that two questions share, since their rows would be mixed up."""
    [(most, times)] = Counter(question.id for question in questions).most_common(1) or [("", 1)]
    if times > 1:
        raise UserError(f"the question id {most!r} appears twice: give every question its own id")


def check_asked(questions: Sequence[Question]) -> None:
    """Raises UserError for questions that cannot be scored, or not be shown whole."""
    check_labelled(questions)
    check_contexts(questions)


def check_contexts(questions: Sequence[Question]) -> None:
    """The same, but for tasks, whose files a program may find in its folder."""
    check_passages([question for question in questions if question.kind != "task"])


def check_passages(questions: Sequence[Question]) -> None:
    """Raises UserError for a passage that is too long for a prompt, which would be cut."""
    for question in questions:
        if context := question.context:
            passages = [context] if isinstance(context, str) else context
            check_passage("\n\n".join(passages), called(question))
