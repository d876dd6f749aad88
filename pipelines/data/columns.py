"""Maps the columns of a table to a question's fields, by their names, and checks the answers."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from ...modules.base.errors import UserError, closest
from ...modules.reading.question import FIELDS, Question
from ..base.wording import counted
from .aliases import LIKE_OPTIONS, column_of, naming, naming_all, option_columns
from .answers import READINGS, AnswerReader, option_columns_missed
from .cells import answer_in, options_in, parsed_cell, passages_in, plain_value
from .tables import TableRow

_MAY_BE_CHOICE = (None, "choice")


def check_columns(columns: Any) -> dict[str, str]:
    """Field → column, where a list of option columns is one text: "COLUMN,COLUMN,…".

    Raises UserError for what does not give fields the names of their columns.
    """
    if columns is None:
        return {}
    if not isinstance(columns, Mapping):
        example = naming_all({"question": "q_text"})
        raise UserError(f"columns is {columns!r}: give the name of each field's column {example}")
    joined = {
        field: ",".join(map(str, column)) if isinstance(column, list | tuple) else str(column)
        for field, column in columns.items()
    }
    unknown = {field: column for field, column in joined.items() if field not in FIELDS}
    if not unknown:
        return joined
    problem = f"columns names the unknown field {next(iter(unknown))!r}"
    if set(unknown.values()) <= set(FIELDS):
        turned = {column: field for field, column in unknown.items()}
        raise UserError(f"{problem}: fields stand first, so turn it round {naming_all(turned)}")
    raise UserError(f"{problem}; the fields are {', '.join(FIELDS)}")


class _Plan(NamedTuple):
    """The columns of each field, for rows with the same columns."""

    sources: dict[str, str]
    """Field → column."""
    options: dict[str, str]
    """Column of an option → its label."""


class _UnreadError(UserError):
    """A column was not read as it looks, which is an error of the whole table."""


class Columns:
    """Turns raw rows into rows with `Question`'s fields; other columns keep their names.

    A field is taken from the column that `columns` gives ({"question": "q_text"}; for the choices
    also "COLUMN,COLUMN,…", for the answer "COLUMN:from0" and the like), else its own, else one of
    ALIASES. Options in columns of their own become `choices`. `kind` is that of all rows, if it is
    known. With `cells`, nested values may be text, and objects hold the keys of all rows.
    """

    def __init__(
        self, columns: Mapping[str, str], *, kind: str | None = None, cells: bool = False
    ) -> None:
        self._columns, self._kind, self._cells = columns, kind, cells
        self._answers = AnswerReader(kind)
        self._plans: dict[tuple[str, ...], _Plan] = {}
        self._guesses: dict[str, str] = {}  # field → how it is read, where that was a guess
        # remarks on extracted answers, with their number of rows
        self._opened: Counter[str] = Counter()
        self._answer_column = "answer"

    def read(self, rows: Iterable[TableRow]) -> Iterator[TableRow]:
        """The mapped rows; as many as needed are read first to decide how answers are read. Raises
        UserError where the meaning of columns is not clear.
        """
        mapped = map(self._mapped, rows)
        seen: list[TableRow] = []
        for row in mapped:
            seen.append(row)
            if not row.fault and self._answers.see(*_answer_of(row)):
                break
        try:
            self._answers.decide(self._answer_column)
        except UserError:
            yield from (row for row in seen if row.fault)  # all problems are reported together
            raise
        for row in chain(seen, mapped):
            try:
                answer = None if row.fault else self._answers.read(*_answer_of(row))
                yield row._replace(fields=row.fields | {"answer": answer})
            except UserError as error:
                yield TableRow(row.where, {}, str(error))

    def check_options(self, questions: Sequence[Question]) -> None:
        """Raises UserError where unused columns seem to hold the options."""
        options = option_columns_missed(questions) if self._kind in _MAY_BE_CHOICE else []
        if options:
            naming_them = naming_all({**self._columns, "choices": ",".join(options)})
            raise UserError(
                f"the answer always stands in one of `{options[0]}` … `{options[-1]}`: are these "
                f"the options? If so, say it {naming_them}, else give the kind, such as --kind span"
            )

    def guesses(self) -> str:
        """One line about guesses; empty if there were none."""
        parts = {field: self._guesses[field] for field in FIELDS if field in self._guesses}
        if self._answers.note:
            words = parts.get("answer", f"`{self._answer_column}` as answer")
            parts["answer"] = f"{words} ({self._answers.note})"
        opened = (f"{words} ({counted(n, 'row')})" for words, n in self._opened.items())
        return ", ".join([*parts.values(), *opened])

    def _mapped(self, row: TableRow) -> TableRow:
        if row.fault:
            return row
        cells = dict(row.fields)
        nested = cells.get("question")
        if isinstance(nested, Mapping) and isinstance(nested.get("stem"), str):  # ARC's own files
            cells |= {"question": nested["stem"], "choices": nested.get("choices")}
        names = tuple(cells)
        try:
            if names not in self._plans:  # nearly always the same for every row
                self._plans[names] = self._plan(names)
            return TableRow(row.where, self._fields(cells, self._plans[names]))
        except UserError as error:
            if not self._plans or isinstance(error, _UnreadError):
                raise UserError(f"{row.where}: {error}") from None
            return TableRow(row.where, {}, str(error))

    def _plan(self, names: tuple[str, ...]) -> _Plan:
        """Raises UserError where columns are missing or their meaning is not clear."""
        sources, options = self._named(names)
        if not options and "choices" not in sources and self._kind in _MAY_BE_CHOICE:
            free = [name for name in names if name not in sources.values()]
            whole = column_of("choices", free)
            options = option_columns([n for n in free if n != whole], strict=whole is None)
            if options:
                first, *_, last = options
                self._guesses.setdefault("choices", f"`{first}`–`{last}` as choices")
        for field in FIELDS:
            free = [name for name in names if name not in sources.values() and name not in options]
            column = None if field in self._columns else column_of(field, free)
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
            raise UserError(
                f"no question; the columns are {', '.join(names) or 'none'}, so add one named "
                f"'question' or say which {naming('question')}"
            )
        self._answer_column = sources.get("answer", "answer")
        return _Plan(sources, options)

    def _named(self, names: Sequence[str]) -> _Plan:
        """The plan that `columns` states. Raises UserError for all columns that are not there."""
        plan, missing = _Plan({}, {}), list[tuple[str, str]]()
        for field, column in self._columns.items():
            stem, _, reading = column.rpartition(":")
            if field == "answer" and column not in names and reading in READINGS:
                self._answers.reading, column = reading, stem
            wanted = [column]
            if field == "choices" and column not in names and "," in column:
                wanted = [name.strip() for name in column.split(",")]
                plan.options.update(zip(wanted, string.ascii_uppercase, strict=False))
            else:
                plan.sources[field] = column
            missing += [(field, name) for name in wanted if name not in names]
        if not missing:
            return plan
        absent = ", ".join(f"{column!r} for {field}" for field, column in missing)
        likely = {
            field: closest(name, names) or closest(field, names) or "NAME"
            for field, name in missing
        }
        raise UserError(
            f"no column {absent}; the columns are {', '.join(names)}, so name them "
            f"{naming_all({**self._columns, **likely})}"
        )

    def _fields(self, row: Mapping[str, object], plan: _Plan) -> dict[str, object]:
        cells = {name: plain_value(cell, name, padded=self._cells) for name, cell in row.items()}
        fields = {field: cells[column] for field, column in plan.sources.items()}
        for field in ("choices", "context", "meta"):
            if field in fields and (self._cells or field == "choices"):
                fields[field] = parsed_cell(fields[field], field) or None
        fields["choices"] = options_in(fields.get("choices"))
        fields["context"] = passages_in(fields.get("context"))
        if plan.options:
            texts = {label: cells[column] for column, label in plan.options.items()}
            fields["choices"] = {
                k: text for k, text in texts.items() if text is not None and str(text).strip()
            } or None
            if fields["choices"] is None and (self._kind or fields.get("kind")) in _MAY_BE_CHOICE:
                raise UserError(
                    f"no option in {', '.join(plan.options)}; add them, or say the row's kind"
                )
        column = plan.sources.get("answer", "answer")
        answer, left, opened = answer_in(fields.get("answer"), column)
        fields["answer"] = answer
        self._opened.update([opened] if opened else [])
        used = {*plan.sources.values(), *plan.options}
        for name, cell in cells.items():
            if name in used:
                continue
            if fields["choices"] is None and self._kind in _MAY_BE_CHOICE:
                _check_unread(name, cell, answer)
            if name not in FIELDS:
                fields[name] = cell
            elif cell is not None:  # `columns` took another column for this field
                left[name] = cell
        if left and isinstance(fields.get("meta") or {}, dict):
            fields["meta"] = left | (fields.get("meta") or {})
        return fields


def _answer_of(row: TableRow) -> tuple[Any, Any, Any]:
    return row.fields.get("choices"), row.fields.get("answer"), row.fields.get("kind")


def _check_unread(name: str, value: Any, answer: Any) -> None:
    """Raises UserError for a column that looks like the options of a question that has none."""
    like = isinstance(value, Mapping) and bool({"choices", "options", "endings"} & set(value))
    if isinstance(value, list) and len(value) > 1 and all(isinstance(one, str) for one in value):
        label = isinstance(answer, str) and re.fullmatch(r"\W*[A-Za-z]\W*", answer)
        like = bool(label or LIKE_OPTIONS.search(name))
    if like:
        raise _UnreadError(
            f"the column {name!r} looks like options and was not read as such; say so "
            f"with --columns choices={name}, or, if it does not hold options, give the kind"
        )
