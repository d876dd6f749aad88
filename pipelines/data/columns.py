"""What the columns of a table mean: found by name, settled by what the answers are, and said in one
line.
"""

from __future__ import annotations

import ast
import math
import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from typing import Any, cast

from ...modules.base.errors import UserError, closest
from ...modules.reading.question import FIELDS, choices_by_label
from ..base.wording import counted
from .aliases import LIKE_OPTIONS, column_of, naming, naming_all, option_columns
from .tables import DECODER, TableRow

READINGS = ("from0", "from1", "text", "label")
"""How the numbers in a column of answers are meant: places of options, their texts or their labels.
"""
_NUMBER = re.compile(r"-?\d+")
_LABELLED = re.compile(
    r"(?:(?:option|choice|answer)[\s_:-]*)?[(\[]?\s*([a-z]|\d{1,2})\s*(?:[)\].:]+\s*(.*)|$)",
    re.I | re.S,
)
_EMPTY = frozenset(("nan", "<na>", "nat", "#n/a"))
_NONE = _EMPTY | {"none", "null"}  # words, which an option may be
_ALPHABET = string.ascii_uppercase
_TRUTHS = {"1": "yes", "y": "yes", "t": "true", "0": "no", "n": "no", "f": "false"}
_LETTERS = frozenset("abcdefghij")


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
    wrong = {name: of for name, of in joined.items() if name not in FIELDS}
    if not wrong:
        return joined
    said = f"columns names the unknown field {next(iter(wrong))!r}"
    if set(wrong.values()) <= set(FIELDS):
        turned = {of: name for name, of in wrong.items()}
        raise UserError(f"{said}: fields stand first, so turn it round {naming_all(turned)}")
    raise UserError(f"{said}; the fields are {', '.join(FIELDS)}")


class _UnreadError(UserError):
    """A column was not read as what it looks like, which is no fault of one row."""


class Columns:
    """Turns rows as they stand into rows with `Question`'s fields; other columns keep their names.

    A field is found under the name that `columns` gives ({"question": "q_text"}; for the choices
    also "COLUMN,COLUMN,…", for the answer "COLUMN:from0" and the like), else its own, else one of
    ALIASES. Options in columns of their own become `choices`. Numbers as answers of choices are
    read in the one way that fits all rows. `kind` is that of all rows, if it is known. With
    `cells`, nested values may be text, and words such as `nan` are empty cells.
    """

    def __init__(
        self,
        columns: Mapping[str, str] | None = None,
        *,
        kind: str | None = None,
        cells: bool = False,
    ) -> None:
        self._columns = dict(columns or {})
        self._kind, self._cells = kind, cells
        self._answers = _Answers(kind)
        self._places = _Places()
        self._plans: dict[tuple[str, ...], tuple[dict[str, str], dict[str, str]]] = {}
        # field → the words for how it is read, where that was a guess
        self._said: dict[str, str] = {}
        self._more: Counter[str] = Counter()

    def read(self, rows: Iterable[TableRow]) -> Iterator[TableRow]:
        """The rows, mapped; as many are looked at first as it takes to know how answers are meant.

        Raises UserError where the columns do not say what is what.
        """
        waiting: list[TableRow] = []
        for row in rows:
            mapped = self._mapped(row)
            if not mapped.fault:
                self._places.see(mapped.fields)
            if self._answers.settled:
                yield self._finished(mapped)
                continue
            waiting.append(mapped)
            if not mapped.fault:
                self._answers.see(mapped)
            if self._answers.settled:
                yield from map(self._finished, waiting)
                waiting = []
        if not self._answers.settled:
            try:
                self._answers.decide(self._said.get("_answer", "answer"))
            except UserError:
                # all that is wrong is said at once
                yield from (row for row in waiting if row.fault)
                raise
        yield from map(self._finished, waiting)

    def check_options(self) -> None:
        """Raises UserError where columns that were read as nothing seem to hold the options."""
        options = self._places.options() if self._kind in (None, "choice") else []
        if options:
            columns = {**self._columns, "choices": ",".join(options)}
            raise UserError(
                f"the answer always stands in one of `{options[0]}` … `{options[-1]}`: are these "
                f"the "
                f"options? If so, say it {naming_all(columns)}, else give the kind, such as "
                f"--kind span"
            )

    def said(self) -> str:
        """One line on what was guessed, empty if nothing was."""
        parts = [self._said[field] for field in FIELDS if field in self._said]
        how = self._answers.said
        if how and "answer" in self._said:
            parts[parts.index(self._said["answer"])] += f" ({how})"
        elif how:
            parts.append(f"`{self._said.get('_answer', 'answer')}` as answer ({how})")
        return ", ".join(
            [*parts, *(f"{words} ({counted(n, 'row')})" for words, n in self._more.items())]
        )

    def _mapped(self, row: TableRow) -> TableRow:
        if row.fault:
            return row
        cells = dict(row.fields)
        nested = cells.get("question")
        if isinstance(nested, Mapping) and isinstance(nested.get("stem"), str):  # ARC's own files
            cells |= {"question": nested["stem"], "choices": nested.get("choices")}
        names = tuple(cells)
        if names not in self._plans:  # nearly always the same for every row
            try:
                self._plans[names] = self._plan(names)
            except UserError as error:
                if not self._plans:  # of the first row: the table's fault
                    raise UserError(f"{row.where}: {error}") from None
                return TableRow(row.where, {}, str(error))
        try:
            return TableRow(row.where, self._fields(cells, *self._plans[names]))
        except _UnreadError as error:
            raise UserError(f"{row.where}: {error}") from None
        except UserError as error:
            return TableRow(row.where, {}, str(error))

    def _fields(
        self, cells: dict[str, Any], sources: Mapping[str, str], options: Mapping[str, str]
    ) -> dict[str, Any]:
        cells = {name: _plain(cell, name) for name, cell in cells.items()}
        fields = {field: self._value(field, cells[source]) for field, source in sources.items()}
        fields["choices"] = _shaped(fields.get("choices"))
        if options:
            texts = ((label, self._emptied(cells[name], _EMPTY)) for name, label in options.items())
            fields["choices"] = {
                label: text for label, text in texts if text not in (None, "")
            } or None
            if fields["choices"] is None and (self._kind or fields.get("kind")) in (None, "choice"):
                raise UserError(
                    f"no option in {', '.join(options)}; add them, or say the row's kind"
                )
        fields["context"] = _passages(fields.get("context"))
        self._open_answer(fields, sources.get("answer"))
        used = {*sources.values(), *options}
        for name, cell in cells.items():
            if name in used:
                continue
            value = self._value("meta", cell, parse=False)
            if not options and fields["choices"] is None:
                self._check_unread(name, value, fields.get("answer"))
            if name not in FIELDS:
                fields[name] = value
            elif value is not None and isinstance(fields.get("meta") or {}, dict):
                # `columns` took another column for this field: this one is kept beside it
                fields["meta"] = {name: value, **(fields.get("meta") or {})}
        return fields

    def _open_answer(self, fields: dict[str, Any], source: str | None) -> None:
        """Take the gold out of what data sets wrap it in; the rest of it goes to `meta`."""
        answer, rest = fields.get("answer"), cast(Any, None)
        if isinstance(answer, Mapping):
            rest, answer = answer, answer.get("text", answer.get("value"))
        if isinstance(answer, list):
            rest = rest or (answer if len(set(map(str, answer))) > 1 else None)
            answer = answer[0] if answer else None
        if isinstance(answer, str) and "####" in answer and fields["choices"] is None:
            solution, _, answer = (part.strip() for part in answer.rpartition("####"))
            self._more["the answer after ####"] += 1
            rest = {"solution": solution} if solution else None
        elif rest is not None:
            self._more[f"the first answer in `{source}`"] += 1
            rest = {str(source): rest}
        if isinstance(answer, str) and self._cells:
            options = (fields["choices"] or {}).values()
            answer = answer if answer.strip() in options else self._emptied(answer, _NONE)
        fields["answer"] = answer
        if rest and isinstance(fields.get("meta") or {}, dict):
            fields["meta"] = {**rest, **(fields.get("meta") or {})}

    def _check_unread(self, name: str, value: Any, answer: Any) -> None:
        """Raises UserError for a column that looks like the options of a question that has none."""
        if self._kind not in (None, "choice"):
            return
        if isinstance(value, list):
            many = len(value) > 1 and all(isinstance(member, str) for member in value)
            letter = isinstance(answer, str) and len(answer.strip(" ().")) == 1
            like = many and (
                bool(LIKE_OPTIONS.search(name)) or (letter and answer.strip(" ().").isalpha())
            )
        else:
            like = isinstance(value, Mapping) and bool(
                {"choices", "options", "endings"} & set(value)
            )
        if like:
            raise _UnreadError(
                f"the column {name!r} looks like options and was not read as such; say so "
                f"with --columns choices={name}, or say the kind if they are none"
            )

    def _finished(self, row: TableRow) -> TableRow:
        if row.fault:
            return row
        try:
            return TableRow(row.where, {**row.fields, "answer": self._answers.read(row.fields)})
        except UserError as error:
            return TableRow(row.where, {}, str(error))

    def _plan(self, names: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
        """Field → column, and option column → label, for rows with these columns."""
        sources: dict[str, str] = {}
        options: dict[str, str] = {}
        missing: list[tuple[str, str]] = []
        for field, column in self._columns.items():
            stem, _, reading = column.rpartition(":")
            if field == "answer" and column not in names and reading in READINGS:
                self._answers.settle(reading)
                column = stem
            wanted = [column]
            if field == "choices" and column not in names and "," in column:
                wanted = [name.strip() for name in column.split(",")]
                options = dict(zip(wanted, _ALPHABET, strict=False))
            else:
                sources[field] = column
            missing += [(field, name) for name in wanted if name not in names]
        if missing:
            raise self._not_there(missing, names)
        given = set(self._columns)
        if "choices" not in given:
            free = [name for name in names if name not in sources.values()]
            whole = column_of("choices", free)
            strict = whole is None and self._kind in (None, "choice")
            options = option_columns([name for name in free if name != whole], strict=strict)
        for field in FIELDS:
            free = [name for name in names if name not in sources.values() and name not in options]
            found = None if field in {*sources, *given} else column_of(field, free)
            if found is not None:
                sources[field] = found
        if options and "choices" in sources:
            raise UserError(
                f"the options may be in {sources['choices']} or in {', '.join(options)}; say which "
                f"{naming('choices')}, or drop one"
            )
        if "question" not in sources:
            raise UserError(
                f"no question; the columns are {', '.join(names) or 'none'}, so add one named "
                f"'question' or "
                f"say which {naming('question')}"
            )
        for field, column in sources.items():
            if field not in given and column.strip().casefold() != field:
                self._said.setdefault(field, f"`{column}` as {field}")
        self._said.setdefault("_answer", sources.get("answer", "answer"))
        if options and "choices" not in given:
            first, *_, last = options
            self._said.setdefault("choices", f"`{first}`–`{last}` as choices")
        return sources, options

    def _not_there(self, missing: Iterable[tuple[str, str]], names: Sequence[str]) -> UserError:
        """The error for columns that no row has, with a command that names those which were
        meant.
        """
        said = ", ".join(f"{column!r} for {field}" for field, column in missing)
        likely = {
            field: closest(name, names) or closest(field, names) or "NAME"
            for field, name in missing
        }
        return UserError(
            f"no column {said}; the columns are {', '.join(names)}, so name them "
            f"{naming_all({**self._columns, **likely})}"
        )

    def _value(self, field: str, value: Any, *, parse: bool = True) -> Any:
        if parse and field in ("id", "context", "choices", "kind", "meta"):
            value = self._emptied(value, _NONE)
        if field not in ("choices", "context", "meta") or not (self._cells or field == "choices"):
            return value
        if parse and isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
            try:
                parsed = _parsed(value)
            except ValueError as error:
                if field == "context":
                    return value
                raise UserError(f"{field} is not readable as JSON ({error}); correct it") from None
            is_passages = isinstance(parsed, list) and all(
                isinstance(passage, str) for passage in parsed
            )
            return parsed if field != "context" or is_passages else value
        return (_without_empty(value) or None) if self._cells and isinstance(value, dict) else value

    def _emptied(self, value: Any, words: frozenset[str]) -> Any:
        """None for a cell of one of the words that programs write for nothing."""
        if not isinstance(value, str) or not self._cells:
            return value
        if value.strip().casefold() in words:
            self._more[f"`{value.strip()}` as an empty cell"] += 1
            return None
        return value if value.strip() else None


class _Places:
    """In which of the columns that were read as nothing the answers stand."""

    def __init__(self) -> None:
        self._names: dict[str, None] = {}
        self._columns: set[str] | None = set()

    def see(self, fields: Mapping[str, Any]) -> None:
        answer = fields.get("answer")
        if self._columns is None or answer is None:
            return
        others = {
            name: _text(value).strip().casefold()
            for name, value in fields.items()
            if name not in FIELDS and isinstance(value, str | int | float)
        }
        inside = [name for name, text in others.items() if text == _text(answer).strip().casefold()]
        if (
            len(inside) == 1
            and not fields.get("choices")
            and fields.get("kind") in (None, "choice")
        ):
            self._names |= dict.fromkeys(others)
            self._columns.add(inside[0])
        else:
            self._columns = None  # options of a question differ, and one of them is right

    def options(self) -> list[str]:
        """The columns in one of which each answer stands, and those named like them; none where it
        is one.
        """
        if self._columns is None or len(self._columns) < 2:
            return []
        words = {name: set(re.findall(r"[^\W\d_]+", name.casefold())) for name in self._names}
        common = set.intersection(*(words[name] for name in self._columns))
        return [
            name
            for name in self._names
            if name in self._columns or (common and common <= words[name])
        ]


class _Answers:
    """How the answers of all rows are meant: found by looking at rows until one reading is left.

    With choices: `label` (as it stands), `text`, `from0`, `from1`. Without: words, or 0 and 1 as no
    and yes.
    """

    def __init__(self, kind: str | None) -> None:
        self.said = ""
        self._reading: str | None = None
        self._truths = kind == "boolean"
        self._fit = dict.fromkeys(("label", "text", "from0", "from1"), True)
        self._apart: set[frozenset[str]] = set()  # readings that differ on a row that both fit
        self._seen, self._chosen, self._words = False, 0, 0
        self._labels = True  # whether all answers without choices look like the labels of some
        # answers without choices so far
        self._short: set[str] | None = set() if kind is None else None

    @property
    def settled(self) -> bool:
        if self._reading is None and self._chosen and sum(self._fit.values()) == 1:
            self.settle(next(reading for reading, fits in self._fit.items() if fits))
        left = [self._chosen and self._reading is None, self._words and self._short is not None]
        return self._seen and not any(left)

    def settle(self, reading: str) -> None:
        self._reading = reading
        self.said = f"index from {reading[-1]}" if reading.startswith("from") else self.said

    def see(self, row: TableRow) -> None:
        choices, answer = row.fields.get("choices"), row.fields.get("answer")
        if answer is None:
            return
        self._seen = True
        if not isinstance(choices, Mapping):
            if row.fields.get("kind") is not None:
                return
            self._words += 1
            if self._short is not None:
                text = _text(answer).strip()
                bare = text.strip("().")
                self._short.add(bare.casefold())
                self._labels &= text.isupper() or text != bare
                free = not any(
                    self._short <= known for known in (_LETTERS, set("01"), set("yn"), set("tf"))
                )
                self._short = None if free else self._short
            return
        self._chosen += 1
        if self._reading is not None:
            return
        if not _is_number(answer):
            self.settle("label")
            return
        read = {
            reading: _label(answer, choices, reading) for reading in self._fit if self._fit[reading]
        }
        if not any(read.values()):
            return  # a fault of the row under any reading
        self._fit |= {reading: label is not None for reading, label in read.items()}
        self._apart |= {
            frozenset((one, other))
            for one, label in read.items()
            for other, its in read.items()
            if label is not None and its is not None and label != its
        }

    def decide(self, column: str) -> None:
        """Take what is left when all rows have been seen. Raises UserError where that is more than
        one.
        """
        if self._chosen and self._reading is None:
            left = [reading for reading, fits in self._fit.items() if fits]
            clash = [pair for pair in self._apart if pair <= set(left)]
            if len(left) == len(self._fit) and not self._apart:
                left = []  # no row told anything
            if clash and "label" not in left:
                ways = {"text": "the text of an option", "from0": "its place counted from 0"}
                ways["from1"] = "its place counted from 1"
                raise UserError(
                    f"the answers in {column!r} are numbers, each of which may be "
                    f"{' or '.join(ways[reading] for reading in left)}; say which with "
                    f"{' or '.join(f'--columns answer={column}:{reading}' for reading in left)} "
                    f'(in Python columns={{"answer": "{column}:{left[0]}"}})'
                )
            self.settle("label" if "label" in left or not left else left[0])
        if self._short is None or not self._short:
            return
        if self._short in ({"0", "1"}, {"y", "n"}, {"t", "f"}):
            self._truths = True
            yes, no = (
                next(word for word in self._short if _TRUTHS[word] in ways) for ways in _WAYS
            )
            self.said = f"{yes} is {_TRUTHS[yes]}, {no} is {_TRUTHS[no]}"
        elif self._short <= _LETTERS and self._labels:
            raise UserError(
                f"the answers in {column!r} are letters, but there are no options; put the "
                f"options into "
                "columns named A, B, …, or say --kind span if the letters are what is asked for"
            )

    def read(self, fields: Mapping[str, Any]) -> Any:
        """The answer of a row as what it means."""
        answer, choices = fields.get("answer"), fields.get("choices")
        if answer is None:
            return None
        if not isinstance(choices, Mapping):
            truth = self._truths or fields.get("kind") == "boolean"
            return _TRUTHS.get(_text(answer).strip().casefold(), answer) if truth else answer
        if self._reading in ("from0", "from1", "text") and _is_number(answer):
            label = _label(answer, choices, self._reading)
            if label is None and self._reading != "text":
                raise UserError(
                    f"the answer {_text(answer)} is the place of no option, counted "
                    f"{self._reading[:4]} "
                    f"{self._reading[-1]} as the others are; correct it"
                )
            return answer if label is None else label
        return _canonical(answer, choices)


_WAYS = ({"yes", "true"}, {"no", "false"})


def _is_number(answer: Any) -> bool:
    if isinstance(answer, float) and answer.is_integer():
        return True
    if isinstance(answer, str):
        return _NUMBER.fullmatch(answer.strip().removesuffix(".0")) is not None
    return isinstance(answer, int) and not isinstance(answer, bool)


def _text(answer: Any) -> str:
    return str(int(answer)) if isinstance(answer, float) and answer.is_integer() else str(answer)


def _label(answer: Any, choices: Mapping[str, Any], reading: str) -> str | None:
    """The label that a number means in a reading, if it means one."""
    number = _text(answer).strip()
    if reading == "label":
        return number if number in choices else None
    if reading == "text":
        return next((label for label, text in choices.items() if str(text).strip() == number), None)
    place = int(float(number)) - (reading == "from1")
    label = list(choices)[place] if 0 <= place < len(choices) else None
    gap = label is not None and next(iter(choices)) == "A" and label != _ALPHABET[place]
    return None if gap else label


def _canonical(answer: Any, choices: Mapping[str, Any]) -> Any:
    """`(D)`, `D.` and `D. the text` as D, unless that is itself a label or the text of an
    option.
    """
    if not isinstance(answer, str):
        return answer
    stripped = answer.strip()
    known = {str(part).casefold() for pair in choices.items() for part in pair}
    match = _LABELLED.match(stripped)
    if stripped.casefold() in known or match is None:
        return stripped
    label = next((one for one in choices if one.casefold() == match[1].casefold()), None)
    rest = (match[2] or "").strip()
    if label is None or (rest and rest.casefold() != str(choices[label]).strip().casefold()):
        return stripped
    return label


def _shaped(choices: Any) -> Any:
    """Options in one of the shapes that data sets use, as label → text; labels in their texts are
    cut off.
    """
    if isinstance(choices, list) and choices and all(isinstance(one, Mapping) for one in choices):
        if not all({"label", "text"} <= set(one) for one in choices):
            raise UserError("each of the choices needs a label and a text; correct them")
        choices = {key: [one[key] for one in choices] for key in ("label", "text")}
    if isinstance(choices, list):
        while choices and (choices[-1] is None or not str(choices[-1]).strip()):
            choices = choices[:-1]
        own = [
            re.fullmatch(r"\(?([A-Za-z])[).:]\s*(\S.*)", str(one).strip(), re.S) for one in choices
        ]
        if choices and [match and match[1].upper() for match in own] == list(
            _ALPHABET[: len(choices)]
        ):
            choices = [match[2] for match in own if match]
    if isinstance(choices, str):
        raise UserError(
            f"choices of type str ({choices[:40]!r}); give a list of texts, or a column for each "
            f"option"
        )
    return choices_by_label(choices)


def _passages(context: Any) -> Any:
    """HotpotQA's titles and sentences as passages; anything else as it is."""
    if isinstance(context, Mapping) and {"title", "sentences"} <= set(context):
        context = list(zip(context["title"], context["sentences"], strict=False))
    if isinstance(context, list) and context and all(_is_titled(one) for one in context):
        return [
            f"{title}: {' '.join(sentence.strip() for sentence in text)}" for title, text in context
        ]
    return context


def _is_titled(one: Any) -> bool:
    return isinstance(one, list | tuple) and len(one) == 2 and isinstance(one[1], list)


def _parsed(text: str) -> Any:
    """JSON, or a list as Python prints it, which is how pandas writes one into a cell."""
    try:
        return DECODER.decode(text)
    except RecursionError:
        raise ValueError("too deep") from None
    except ValueError as error:
        try:
            return ast.literal_eval(text)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            raise error from None


def _plain(value: Any, column: str) -> Any:
    """`value` with only what JSON can hold: not-a-number cells are empty, dates and decimals become
    text.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, dict):
        return {key: _plain(member, column) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member, column) for member in value]
    if type(value).__name__ in ("NAType", "NaTType"):
        return None
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    if hasattr(value, "tolist"):  # NumPy's scalars and arrays
        return _plain(value.tolist(), column)
    kind = type(value).__name__
    raise UserError(f"a value of type {kind} in {column!r} cannot be used; leave that column out")


def _without_empty(value: dict[str, Any]) -> dict[str, Any]:
    members = {key: _without_empty(m) if isinstance(m, dict) else m for key, m in value.items()}
    return {key: member for key, member in members.items() if member is not None}
