"""Maps the columns of a table to the fields of questions, by their names, and checks answers."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, starmap
from typing import Any, NamedTuple

from ...modules.base.errors import UserError, are_all, closest
from ...modules.reading.question import FIELDS, KINDS, Question
from ..base.request import naming, naming_all
from ..base.wording import counted
from .aliases import LIKE_OPTIONS, column_of, columns_of, option_columns, squeezed
from .answers import (
    READINGS,
    UNANSWERABLE,
    AnswerReader,
    numbered_columns,
    option_columns_missed,
    same_gold,
)
from .cells import (
    OF_CLASSES,
    answer_in,
    as_list,
    not_opened,
    opened_cell,
    options_in,
    parsed_cell,
    passages_in,
    plain_value,
    without_labels,
)
from .shapes import Shapes, options_inside
from .tables import IN_ONE_ROW, TableRow

_IMAGE = re.compile(r"data:image/|<image(?: ?\d+)?>")
_PICTURE = re.compile(r"data:image/.*|\S+\.(?:png|jpe?g|gif|webp|bmp|svg)", re.I | re.S)
_MAY_BE_CHOICE = (None, "choice")
_SEVERAL = ("questions", "qas")
_LONG_NAME = 8
"""A column's name with more words than this is taken for a question."""
_ERRORS = ("#REF!", "#N/A", "#VALUE!", "#DIV/0!", "#NAME?", "#NUM!", "#NULL!")


def check_columns(columns: object) -> dict[str, str]:
    """Field → column, with a list of option columns as one text, "COLUMN,COLUMN,…". Raises
    UserError for anything but names of columns by field.
    """
    if columns is None:
        return {}
    if not isinstance(columns, Mapping):
        example = naming_all({"question": "q_text"})
        raise UserError(f"columns is {columns!r}: give the name of each field's column {example}")
    joined = {field: ",".join(map(str, as_list(column))) for field, column in columns.items()}
    turned = {column: field for field, column in joined.items() if field not in FIELDS}
    if not turned:
        return joined
    problem = f"columns names the unknown field {next(iter(turned.values()))!r}"
    if set(turned) <= set(FIELDS):
        raise UserError(f"{problem}: fields stand first, so turn it round {naming_all(turned)}")
    raise UserError(f"{problem}; the fields are {', '.join(FIELDS)}")


class _Plan(NamedTuple):
    """The columns of each field, for rows with the same columns."""

    sources: dict[str, str]
    """Field → column."""
    options: dict[str, str]
    """Column of an option → its label."""
    rivals: Sequence[str] = ()
    """Other columns that may hold the gold answer."""


class _UnreadError(UserError):
    """A column was probably misread, which is an error of the whole table."""


class Columns:
    """Turns raw rows into rows with the fields of `Question`; other columns keep their names.

    A field is taken from the column that `columns` names ({"question": "q_text"}; for the choices
    also "COLUMN,COLUMN,…", for the answer "COLUMN:from0" and the like), else from that of its own
    name, else from one of ALIASES. Options in columns of their own become `choices`. `kind` is that
    of all rows, if it is known. With `cells`, nested values may be written as text, and objects
    have the keys of all rows.
    """

    def __init__(
        self, columns: Mapping[str, str], *, kind: str | None = None, cells: bool = False
    ) -> None:
        self._columns, self._kind, self._cells = columns, kind, cells
        self._shapes = Shapes(columns, kind)
        self._answers = AnswerReader(kind)
        self._plans: dict[tuple[str, ...], _Plan] = {}
        self._guesses: dict[str, str] = {}  # field → how it is read, if that is a guess
        # remark on how cells were read → number of rows
        self._opened: Counter[str] = Counter()
        self._answer_column = "answer"

    def read(self, rows: Iterable[TableRow]) -> Iterator[TableRow]:
        """Yield the mapped rows. First, as many are read as are needed to decide how answers are
        read. Raises UserError if the meaning of columns is not clear.
        """
        mapped = map(self._map_row, rows)
        seen: list[TableRow] = []
        for row in mapped:
            seen.append(row)
            if not row.fault and self._answers.see(*_answer_of(row)):
                break
        try:
            self._answers.decide(self._answer_column)
        except UserError:
            yield from (row for row in seen if row.fault)  # so that all problems are reported
            raise
        for row in chain(seen, mapped):
            try:
                answer = None if row.fault else self._answers.read(*_answer_of(row))
                yield row._replace(fields=row.fields | {"answer": answer})
            except UserError as error:
                yield TableRow(row.where, {}, str(error))

    def check_options(self, questions: Sequence[Question]) -> None:
        """Raise UserError if unused columns seem to be the options."""
        if self._kind not in _MAY_BE_CHOICE:
            return
        said, kind, named = "the answer always stands in one of", "span", dict(self._columns)
        numbered = numbered_columns(questions)
        if numbered is None:
            options = option_columns_missed(questions)
        else:
            said, kind = "the answers seem to be places of", "number"
            options, reading = numbered
            named["answer"] = f"{self._answer_column}{reading}"
        if options:
            naming_them = naming_all({**named, "choices": ",".join(options)})
            raise UserError(
                f"{said} `{options[0]}` … `{options[-1]}`: are these the options? If so, say it "
                f"{naming_them}, with every column that holds an option; else give the kind, such "
                f"as --kind {kind}"
            )

    def guessed(self, field: str) -> bool:
        """Return whether the field's column was found by another name."""
        return field in self._guesses

    def remark(self, words: str) -> None:
        """Count a row to which a remark applies."""
        self._opened[words] += 1

    def guesses(self) -> str:
        """Return a clause on how columns were read if that is a guess; else an empty text."""
        parts = {field: self._guesses[field] for field in FIELDS if field in self._guesses}
        if self._answers.note:
            words = parts.get("answer", f"`{self._answer_column}` as answer")
            parts["answer"] = f"{words} ({self._answers.note})"
        remarks = self._shapes.notes + self._opened
        opened = (f"{words} ({counted(n, 'row')})" for words, n in remarks.items())
        return ", ".join([*parts.values(), *opened])

    def _map_row(self, row: TableRow) -> TableRow:
        """Return the row with `Question`'s fields, or with its fault."""
        if row.fault:
            return row
        try:
            held: dict[str, Any] = {}
            for name, cell in row.fields.items():
                if self._cells:  # a table of texts may have printed lists and objects in its cells
                    cell = opened_cell(cell)
                held[name] = plain_value(cell, name, padded=self._cells)
            cells = self._shapes.plain(held)
            # A plan for each set of names, since rows of JSON may have different columns.
            names = tuple(cells)
            if names not in self._plans:
                self._plans[names] = self._plan(names)
            return TableRow(row.where, self._fields(cells, self._plans[names], row.fields))
        except UserError as error:
            # A fault of the first row or of a column concerns the whole table.
            if not self._plans or isinstance(error, _UnreadError):
                raise UserError(f"{row.where}: {error}") from None
            return TableRow(row.where, {}, str(error))

    def _plan(self, names: tuple[str, ...]) -> _Plan:
        """Return the plan for rows with these columns. Raises UserError if columns are missing or
        their meaning is not clear.
        """
        sources, options, _ = self._named(names)
        if not options and "choices" not in sources and self._kind in _MAY_BE_CHOICE:
            unused = _unused(names, sources.values())
            whole = column_of("choices", unused)
            options = option_columns(_unused(unused, [whole]), strict=whole is None)
            if options:
                first, *_, last = options
                self._guesses.setdefault("choices", f"`{first}`–`{last}` as choices")
        for field in FIELDS:
            if field in self._columns:
                continue
            column = column_of(field, _unused(names, [*sources.values(), *options]))
            if column is not None:
                sources[field] = column
                if column.strip().casefold() != field:
                    self._guesses.setdefault(field, f"`{column}` as {field}")
        if options and "choices" in sources:
            raise UserError(
                f"the options may be in {sources['choices']} or in {', '.join(options)}; say which "
                f"{naming('choices')}, or drop one"
            )
        if "question" not in sources:
            raise self._without_question(names)
        if "answer" not in sources:
            self._find_answer(names, sources, options)
        self._answer_column = sources.get("answer", "answer")
        self._answers.of_classes = squeezed(self._answer_column) in OF_CLASSES
        if "answer" in self._columns:
            return _Plan(sources, options, [])
        others = _unused(names, [*sources.values(), *options])
        return _Plan(sources, options, columns_of("answer", others))

    def _find_answer(
        self, names: Sequence[str], sources: dict[str, str], options: Mapping[str, str]
    ) -> None:
        """Find the column of answers, if none is called so. Raises UserError for columns that may
        hold one right answer each.
        """
        for name in _unused(names, options):
            # Not beside a question of another name, where it is an ordinary column.
            if squeezed(name) == "a" and squeezed(sources["question"]) == "q":
                sources["answer"] = name
                self._guesses["answer"] = f"`{name}` as answer"
        of_answers = [name for name in options if squeezed(name).startswith("ans")]
        if of_answers and "choices" not in self._columns:
            raise _UnreadError(
                f"the columns {', '.join(of_answers)} may be options or several right answers: "
                "write right answers as a list in one column `answer`, or name the options "
                f"{naming_all({**self._columns, 'choices': ','.join(of_answers)})}"
            )

    def _without_question(self, names: Sequence[str]) -> UserError:
        """Return the error about a table without a column of questions."""
        for name in names:
            if squeezed(name) in _SEVERAL:
                return UserError(IN_ONE_ROW.format(name))
            if self._cells and (name.endswith("?") or len(name.split()) > _LONG_NAME):
                return UserError(
                    f"the columns have no names, since the first line seems to be a row "
                    f"({name[:40]!r}): put a line such as question,A,B,C,D,answer above it"
                )
        return UserError(
            f"no question; the columns are {', '.join(names) or 'none'}, so add one named "
            f"'question' or say which {naming('question')}"
        )

    def _named(self, names: Sequence[str]) -> _Plan:
        """Return the plan in `columns`. Raises UserError, which names all columns that are
        missing.
        """
        plan, missing = _Plan({}, {}), list[tuple[str, str]]()
        for field, column in self._columns.items():
            if column not in names and f"{column}.{field}" in names:  # the object that holds it
                column = f"{column}.{field}"
            stem, _, reading = column.rpartition(":")
            if field == "answer" and column not in names and reading in READINGS:
                self._answers.reading, column = reading, stem
            elif field == "answer" and column not in names and reading == UNANSWERABLE:
                self._answers.empty, column = reading, stem
            wanted = [column]
            if field == "choices" and column not in names and "," in column:
                wanted = list(map(str.strip, column.split(",")))
                plan.options.update(zip(wanted, string.ascii_uppercase, strict=False))
            else:
                plan.sources[field] = column
            missing += [(field, name) for name in wanted if name not in names]
        if not missing:
            return plan
        absent, likely = list[str](), dict(self._columns)
        for field, name in missing:
            absent.append(f"{name!r} for {field}")
            likely[field] = closest(name, names) or closest(field, names) or "NAME"
        raise UserError(
            f"no column {', '.join(absent)}; the columns are {', '.join(names)}, so name them "
            f"{naming_all(likely)}"
        )

    def _fields(
        self, cells: Mapping[str, object], plan: _Plan, written: Mapping[str, object]
    ) -> dict[str, object]:
        """Return the fields of a row; `written` are its cells as they were before any was parsed.
        Raises UserError for a cell that cannot be used.
        """
        for column in (*plan.sources.values(), *plan.options):
            if cells[column] in _ERRORS:
                raise UserError(
                    f"{column!r} holds {cells[column]}, an error of the spreadsheet; correct it"
                )
        fields = self._parse(cells, plan, written)
        answer, left = self._read_answer(fields, cells, plan)
        left |= self._set_aside(fields, plan)
        used = {*plan.sources.values(), *plan.options}
        for name, cell in cells.items():
            if name in used:
                continue
            if fields["choices"] is None and self._kind in _MAY_BE_CHOICE:
                _check_unread(name, cell, answer)
            if name not in FIELDS:
                fields[name] = cell
            elif cell is not None:  # this field is taken from another column
                left[name] = cell
        if left:
            fields["meta"] = left | (fields.get("meta") or {})
        _check_images(fields, cells)
        return fields

    def _parse(
        self, cells: Mapping[str, object], plan: _Plan, written: Mapping[str, object]
    ) -> dict[str, Any]:
        """Return the fields as their columns have them, with lists, objects and options read."""
        fields: dict[str, Any] = {field: cells[column] for field, column in plan.sources.items()}
        for field in ("choices", "context", "meta"):
            if field in fields and (self._cells or field == "choices"):
                fields[field] = parsed_cell(fields[field], field) or None
        self._answers.own_labels |= isinstance(fields.get("choices"), Mapping)
        fields["choices"] = options_in(fields.get("choices"), fields.get("answer"))
        fields["context"] = passages_in(fields.get("context"))
        for field in ("question", "context"):  # a text that only looks like an object stays text
            text = written.get(plan.sources.get(field, ""))
            if isinstance(text, str) and not _is_text(fields[field], field):
                fields[field] = plain_value(text, field, padded=False)
        held = fields["context"]
        if isinstance(held, Mapping):
            raise not_opened("context", plan.sources["context"], held)
        if held and isinstance(held, list) and are_all(held, Mapping):
            raise UserError(
                f"the passages in {plan.sources['context']!r} are objects with "
                f"{', '.join(held[0])}: call the text of each `text`"
            )
        if plan.options:
            texts = dict[str, object]()
            for option, label in plan.options.items():
                if cells[option] is not None and str(cells[option]).strip():
                    texts[label] = cells[option]
            fields["choices"] = without_labels(texts) or None
            if fields["choices"] is None and (self._kind or fields.get("kind")) in _MAY_BE_CHOICE:
                raise UserError(
                    f"no option in {', '.join(plan.options)}; add them, or say the row's kind"
                )
        return fields

    def _read_answer(
        self, fields: dict[str, Any], cells: Mapping[str, object], plan: _Plan
    ) -> tuple[object, dict[str, object]]:
        """Read the answer, and options that the question holds, into the fields. Returns what the
        answer's column holds: the answer, and the rest. Raises UserError if another column seems to
        hold the answer and differs.
        """
        column = plan.sources.get("answer", "answer")
        answer, left, opened = answer_in(fields.get("answer"), column, padded=self._cells)
        if opened:
            self._opened[opened] += 1
        known = (*plan.options.values(), *(fields["choices"] or {}).values())
        if isinstance(answer, str) and answer in plan.options and answer not in known:
            answer = plan.options[answer]
            self._opened[f"the column that `{column}` names as the right option"] += 1
        if fields["choices"] is None and self._kind in _MAY_BE_CHOICE:
            inside = options_inside(fields.get("question"), answer)
            if inside is not None:
                fields["question"], fields["choices"] = inside
                self._opened["the options inside the question as choices"] += 1
        fields["answer"] = answer
        for rival in plan.rivals:
            value, *_ = answer_in(cells[rival], rival, padded=self._cells)
            if fields["answer"] is None and value is not None and not isinstance(value, bool):
                fields["answer"] = value  # as in MGSM, where only worked examples have both columns
                self._opened[f"`{rival}` as answer where `{column}` is empty"] += 1
            _check_rival(rival, value, column, fields)
        return answer, left

    def _set_aside(self, fields: dict[str, Any], plan: _Plan) -> dict[str, object]:
        """Take out what has the name of a field but is a column of the user's own; returns it."""
        left: dict[str, object] = {}
        own_kind = fields.get("kind")
        if own_kind is not None and own_kind not in KINDS and not closest(str(own_kind), KINDS):
            left[plan.sources["kind"]] = fields.pop("kind")
        if isinstance(fields.get("id"), Mapping | list):  # as SuperGLUE numbers its passages
            left[plan.sources["id"]] = fields.pop("id")
            self._guesses.pop("id", None)
        own_meta = fields.get("meta")
        if own_meta is not None and not isinstance(own_meta, Mapping):
            left[plan.sources["meta"]] = fields.pop("meta")
        return left


def _unused(names: Sequence[str], used: Iterable[str | None]) -> list[str]:
    """Return the unused names, in order."""
    without = set(used)
    return [name for name in names if name not in without]


def _is_text(value: object, field: str) -> bool:
    """Return whether a value can be a question, or a context, which may be a list of passages."""
    passages = value if field == "context" and isinstance(value, list) else [value]
    return value is None or are_all(passages, str)


def _answer_of(row: TableRow) -> tuple[object, object, object]:
    return row.fields.get("choices"), row.fields.get("answer"), row.fields.get("kind")


def _check_rival(rival: str, value: object, column: str, fields: Mapping[str, object]) -> None:
    """Raise UserError if another column seems to be the gold answer, too, and differs."""
    answer = fields["answer"]
    if isinstance(value, bool) or value is None or answer is None:
        return
    if not same_gold(answer, value, fields.get("choices")):
        raise _UnreadError(
            f"the columns {column!r} and {rival!r} may both hold the right answer and differ "
            f"({str(answer)[:40]!r} and {str(value)[:40]!r}); say which one does "
            f"{naming_all({'answer': rival})}"
        )


def _check_images(fields: Mapping[str, Any], cells: Mapping[str, object]) -> None:
    """Raise UserError for an image in the question or in another cell."""
    shown = (fields.get("question"), *(fields.get("choices") or {}).values(), fields.get("context"))
    inside = any(isinstance(text, str) and _IMAGE.search(text) for text in shown)
    if inside or any(starmap(_is_picture, cells.items())):
        raise UserError("the row holds an image, which questions cannot; leave the row out")


def _is_picture(name: str, cell: object) -> bool:
    """Return whether a cell is an image, as `datasets` holds it, in a data URL, or by its file's
    name.
    """
    if isinstance(cell, str):
        return "image" in name.casefold() and bool(_PICTURE.fullmatch(cell))
    return isinstance(cell, Mapping) and {"bytes", "path"} == set(cell)


def _check_unread(name: str, value: object, answer: object) -> None:
    """Raise UserError for an unused column that looks like the options of the question."""
    like = isinstance(value, Mapping) and bool({"choices", "options", "endings"} & set(value))
    if isinstance(value, list) and len(value) > 1 and are_all(value, str):
        label = isinstance(answer, str) and re.fullmatch(r"\W*[A-Za-z]\W*", answer)
        like = bool(label or LIKE_OPTIONS.search(name))
    if like:
        raise _UnreadError(
            f"the column {name!r} looks like options and was not read as such; say so "
            f"with --columns choices={name}, or, if it does not hold options, give the kind"
        )
