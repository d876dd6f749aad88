"""Rows from files that users bring: JSONL, CSV, Parquet, a saved `datasets` folder; columns found by name."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ...modules.base.errors import UserError
from ...modules.reading.question import FIELDS


class TableRow(NamedTuple):
    """One row as read, and where it stands (file and line or row), for errors."""

    where: str
    fields: dict[str, Any]


# The names that public data sets use for each field, besides the field's own.
ALIASES: dict[str, tuple[str, ...]] = {
    "id": ("qid", "question_id", "questionid", "example_id", "uid", "_id"),
    "question": ("query", "prompt", "problem", "question_text", "sent"),
    "choices": ("options",),
    "answer": ("label", "answerkey", "answer_key", "gold", "target", "correct_answer"),
    "context": ("passage", "paragraph"),
    "kind": (),
    "meta": ("metadata",),
}
_OPTION_COLUMN = re.compile(r"(?:(?i:choice|option)[_ -]?)([A-Za-z]|\d{1,2})|([A-Z])")
_BATCH = 1024
MOST_ROW = 8 * 2**20
"""Bytes of a row of input, unpacked."""
_LARGE, _DENSE = 2**26, 100  # bytes of a column, and how many times as large as the file has it


def read(path: Path, split: str | None = None) -> Iterator[TableRow]:
    """The rows of a file or a saved `datasets` folder, one at a time; only such a folder has splits.

    Raises UserError, naming file and line, for what cannot be read; an unreadable row ends the reading.
    """
    if not path.exists():
        raise UserError(f"there is no file {str(path)!r}; correct the path")
    reader = _READERS.get(path.suffix.casefold())
    if path.is_dir():
        yield from _saved_dataset(path, split)
    elif reader is None:
        raise UserError(f"{path} is of no known type; give {', '.join(_READERS)} or a saved datasets folder")
    elif split is not None:
        raise UserError(f"{path} is a single file and has no split {split!r}; leave the split out")
    else:
        try:
            yield from reader(path)
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror or error}") from None


def _lines(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        for number, line in enumerate(iter(partial(file.readline, MOST_ROW + 1), b""), 1):
            if len(line) > MOST_ROW:
                raise _too_long(f"{path}, line {number}")
            try:
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise UserError(f"{path}, line {number}: not UTF-8; save the file as UTF-8") from None


def _jsonl(path: Path) -> Iterator[TableRow]:
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            fields = json.loads(line, object_pairs_hook=_without_repeats)
        except json.JSONDecodeError as error:
            raise UserError(
                f"{where}: not a JSON object ({error.msg}, column {error.colno}); write one object a line"
            ) from None
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where}: {error}; correct the row") from None
        if not isinstance(fields, dict):
            raise UserError(
                f"{where}: a JSON {type(fields).__name__}, not an object; write one object a line"
            )
        yield TableRow(where, fields)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):  # json itself silently keeps the last of them
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(k for k in keys if keys.count(k) > 1)!r} stands twice in one object")
    return found


def _csv(path: Path) -> Iterator[TableRow]:
    rows = csv.reader(_lines(path), strict=True)
    start = 1  # a quoted cell may hold line breaks, so a row is named by the line it begins on
    try:
        header = next(rows, [])
        if len(set(header)) < len(header):
            raise UserError(
                f"{path}, line 1: two columns have the same name; the header is {', '.join(header)}"
            )
        start = rows.line_num + 1
        for cells in rows:
            where, start = f"{path}, line {start}", rows.line_num + 1
            if not cells:
                continue
            if len(cells) != len(header):
                raise UserError(
                    f"{where}: {len(cells)} cells under {len(header)} columns; quote cells with commas"
                )
            yield TableRow(
                where,
                {name: cell if cell.strip() else None for name, cell in zip(header, cells, strict=True)},
            )
    except csv.Error as error:
        raise UserError(f"{path}, line {start}: not readable as CSV ({error}); correct the quoting") from None


def _parquet(path: Path) -> Iterator[TableRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=_batch(path, file.metadata)):
                if batch.nbytes > MOST_ROW:
                    for place in range(batch.num_rows):
                        if batch.slice(place, 1).nbytes > MOST_ROW:
                            raise _too_long(f"{path}, row {number + place + 1}")
                for fields in batch.to_pylist():
                    number += 1
                    yield TableRow(f"{path}, row {number}", fields)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise UserError(f"{path} is not readable as Parquet ({_first_line(error)}); write it again") from None


def _batch(path: Path, metadata: Any) -> int:
    """How many rows of a Parquet file to unpack at once: one where it is far larger once unpacked.

    Raises UserError where rows are too long on average, before any is unpacked.
    """
    groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
    for group in groups:
        if group.total_byte_size > MOST_ROW * group.num_rows:
            raise _too_long(f"{path}, one of {group.num_rows} rows")
    chunks = [group.column(place) for group in groups for place in range(group.num_columns)]
    dense = (max(_LARGE, _DENSE * one.total_compressed_size) < one.total_uncompressed_size for one in chunks)
    return 1 if any(dense) else _BATCH


def _too_long(where: str) -> UserError:
    return UserError(f"{where}: longer than {MOST_ROW // 2**20} MB; shorten the row, or split it")


def _saved_dataset(path: Path, split: str | None) -> Iterator[TableRow]:
    import datasets

    try:
        loaded = datasets.load_from_disk(str(path))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is a folder but not one that datasets.save_to_disk wrote ({_first_line(error)}); "
            "give such a folder or a file"
        ) from None
    if isinstance(loaded, datasets.DatasetDict):
        chosen = split or (next(iter(loaded)) if len(loaded) == 1 else None)
        if chosen not in loaded:
            raise UserError(f"{path} has the splits {', '.join(loaded)}; choose one of them, not {split!r}")
        loaded = loaded[chosen]
    elif split is not None:
        raise UserError(f"{path} is a single data set and has no split {split!r}; leave the split out")
    # A column of class numbers means their names: the numbers alone could be read as numbers or wrong labels.
    names = {c: f.int2str for c, f in loaded.features.items() if isinstance(f, datasets.ClassLabel)}
    for number, fields in enumerate(loaded, 1):
        for column, name_of in names.items():
            if fields[column] is not None:
                fields[column] = name_of(fields[column])
        yield TableRow(f"{path}, row {number}", fields)


JSON_LINES = (".jsonl", ".ndjson", ".json")
_READERS: dict[str, Callable[[Path], Iterator[TableRow]]] = {
    **dict.fromkeys(JSON_LINES, _jsonl),
    ".csv": _csv,
    ".parquet": _parquet,
}


class Mapper:
    """Turns rows as they stand in a file into rows with `Question`'s fields; other columns keep their names.

    A field is found under the name that `columns` gives ({"question": "q_text"}), else its own, else one of
    ALIASES (case, spaces and dashes aside). Options in columns of their own (A, B, …, choice_a, option_1)
    become `choices`. In tables, `choices`, `meta` and `context` may be JSON text, and empty members of nested
    values are dropped, because Parquet gives every row the same members.
    """

    def __init__(self, columns: Mapping[str, str] | None = None, *, table: bool = False) -> None:
        wrong = [name for name in columns or {} if name not in FIELDS]
        if wrong:
            raise UserError(
                f"columns names the unknown field {wrong[0]!r}; the fields are {', '.join(FIELDS)}"
            )
        self._columns = dict(columns or {})
        self._table = table
        self._plans: dict[tuple[str, ...], tuple[dict[str, str], dict[str, str]]] = {}

    def __call__(self, row: TableRow) -> TableRow:
        names = tuple(row.fields)
        if names not in self._plans:  # nearly always the same for every row
            self._plans[names] = self._plan(names, row.where)
        sources, options = self._plans[names]
        fields = {
            field: self._value(field, row.fields[source], row.where) for field, source in sources.items()
        }
        if options:
            texts = {label: _plain(row.fields[column], row.where) for column, label in options.items()}
            fields["choices"] = {label: text for label, text in texts.items() if text is not None} or None
        used = {*sources.values(), *options}
        for name in names:
            if name in used:
                continue
            value = self._value("meta", row.fields[name], row.where, parse=False)
            if name not in FIELDS:
                fields[name] = value
            elif value is not None and isinstance(
                fields.get("meta") or {}, dict
            ):  # `columns` took another column for this field: this one is kept beside it
                fields["meta"] = {name: value, **(fields.get("meta") or {})}
        return TableRow(row.where, fields)

    def _plan(self, names: tuple[str, ...], where: str) -> tuple[dict[str, str], dict[str, str]]:
        """Field → column, and option column → label, for rows with these columns."""
        sources: dict[str, str] = {}
        for field, column in self._columns.items():
            if column not in names:
                raise UserError(
                    f"{where}: no column {column!r} for {field}; the columns are {', '.join(names)}"
                )
            sources[field] = column
        free = [name for name in names if name not in sources.values()]
        for field in FIELDS:
            if field in sources:
                continue
            for wanted in ((field,), ALIASES[field]):
                found = [name for name in free if _folded(name) in wanted]
                if len(found) > 1:
                    raise UserError(
                        f"{where}: the columns {' and '.join(found)} could both be the {field}; "
                        f"say which {naming(field)}"
                    )
                if found:
                    sources[field] = found[0]
                    break
        for field in ("id", "question"):
            if field not in sources:
                raise UserError(
                    f"{where}: no {field}; the columns are {', '.join(names) or 'none'}, "
                    f"so add one named {field!r} or say which {naming(field)}"
                )
        options: dict[str, str] = {}
        if "choices" not in sources:
            matches = {
                n: m for n in names if n not in sources.values() and (m := _OPTION_COLUMN.fullmatch(n))
            }
            if len(matches) > 1:
                options = {name: (m[1] or m[2]).upper() for name, m in matches.items()}
        return sources, options

    def _value(self, field: str, value: Any, where: str, *, parse: bool = True) -> Any:
        value = _plain(value, where)
        if not self._table or field not in ("choices", "context", "meta"):
            return value
        if parse and isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
            try:
                parsed = json.loads(value, object_pairs_hook=_without_repeats)
            except ValueError as error:
                if field == "context":
                    return value
                raise UserError(f"{where}: {field} is not readable as JSON ({error}); correct it") from None
            is_passages = isinstance(parsed, list) and all(isinstance(passage, str) for passage in parsed)
            return parsed if field != "context" or is_passages else value
        return (_without_empty(value) or None) if isinstance(value, dict) else value


def naming(field: str) -> str:
    """How a user says which column holds a field, on the command line and in Python."""
    return f'with --columns {field}=NAME (in Python columns={{"{field}": "NAME"}})'


def _folded(name: str) -> str:
    return re.sub(r"[\s-]+", "_", name.strip().casefold())


def _plain(value: Any, where: str) -> Any:
    """`value` with only what JSON can hold: not-a-number cells are empty, dates and decimals become text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, dict):
        return {key: _plain(member, where) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(member, where) for member in value]
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    raise UserError(f"{where}: a value of type {type(value).__name__} cannot be used; leave that column out")


def _without_empty(value: dict[str, Any]) -> dict[str, Any]:
    members = {key: _without_empty(m) if isinstance(m, dict) else m for key, m in value.items()}
    return {key: member for key, member in members.items() if member is not None}


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
