"""Rows of whatever users bring: delimited text, JSON, Parquet, Excel, saved data sets, frames and
lists.
"""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import dspy

from ...modules.base.errors import UserError
from ...modules.base.extras import from_extra
from ..base.wording import counted
from .aliases import known
from .unpacked import MOST_ROW, OBJECT, TOO_LONG, Unpacked, lines_of


class TableRow(NamedTuple):
    """One row as read, where it stands ("line 7"), and what keeps it from being read, if anything
    does.
    """

    where: str
    fields: dict[str, Any]
    fault: str = ""


@dataclass
class Source:
    """Rows, and what errors call them.

    `cells` says that nested values may stand as text in a cell, and that absent ones are padded.
    `notes` says what was guessed on the way; it is whole when the last row has been read.
    """

    name: str
    rows: Iterator[TableRow]
    cells: bool = False
    notes: list[str] = field(default_factory=list)


_BATCH, _MOST_BATCH = 1024, 2**26
"""Rows of a Parquet file that are unpacked at once, and their bytes."""
_DELIMITERS = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}
_JSON = (".jsonl", ".ndjson", ".json")
_TEXT = (".csv", ".tsv", ".tab", ".psv", ".txt")
_EXCEL = (".xlsx", ".xlsm")
_SPACE = re.compile(r"\s*")


def read(path: Path, split: str | None = None, wanted: Iterable[str] = ()) -> Source:
    """The rows of a file or a saved `datasets` folder, one at a time, by its extension.

    A `split` is one of such a folder, or a sheet of a workbook. `wanted` are columns that must be
    there: they help to find the delimiter. Raises UserError, here or from the rows, for what cannot
    be read.
    """
    suffix = path.suffix.casefold()
    if not path.exists():
        ask = (
            ", or, to ask one question, call the program: program(question=…)"
            if " " in str(path)
            else ""
        )
        raise UserError(f"there is no file {str(path)!r}; correct the path{ask}")
    table = Source(str(path), iter(()), cells=suffix not in _JSON)
    if path.is_dir():
        table.rows = _saved_dataset(path, split)
    elif suffix in _EXCEL:
        table.rows = _excel(path, split, table.notes)
    elif suffix in (".xls", ".ods", ".numbers"):
        raise UserError(
            f"{path} is a spreadsheet of a kind that is not read; save it as .xlsx or .csv"
        )
    elif suffix not in (*_JSON, *_TEXT, ".parquet"):
        kinds = ", ".join((*_JSON, *_TEXT, ".parquet", *_EXCEL))
        raise UserError(f"{path} is of no known type; give {kinds} or a saved datasets folder")
    elif split is not None:
        raise UserError(f"{path} is a single file and has no split {split!r}; leave the split out")
    elif suffix == ".parquet":
        table.rows = _parquet(path)
    else:
        usual = {".csv": ",", ".psv": "|", ".txt": ""}.get(suffix, "\t")
        text = partial(_delimited, notes=table.notes, wanted=set(wanted), usual=usual)
        reader = _json if suffix in _JSON else text
        table.rows = _opened(path, partial(reader, unpacked=Unpacked(path)))
    return table


def read_stream(stream: IO[Any], wanted: Iterable[str] = (), name: str | None = None) -> Source:
    """The rows of an open file, such as standard input: JSON if it begins like JSON, else delimited
    text.
    """
    name = name or str(getattr(stream, "name", "") or "the stream").replace(
        "<stdin>", "standard input"
    )
    unpacked = Unpacked(name)
    raw = unpacked.read(stream)
    table = Source(name, iter(()))
    table.cells = raw.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] not in (b"{", b"[")
    text = partial(_delimited, notes=table.notes, wanted=set(wanted))
    table.rows = (text if table.cells else _json)(io.BytesIO(raw), unpacked=unpacked)
    return table


def read_held(given: Any, split: str | None = None, called: str | None = None) -> Source:
    """The rows of a DataFrame, a `datasets.Dataset` or a list of dicts, `dspy.Example`s or
    questions.

    Raises UserError for anything else.
    """
    kind = type(given).__name__
    name = called or f"the {kind}"
    if isinstance(given, Mapping) and type(given).__module__.startswith("datasets."):
        return Source(name, _dataset(_split(given, split, name)), cells=True)
    if split is not None:
        raise UserError(f"{name} has no split {split!r}; leave the split out")
    if type(given).__module__.startswith("datasets."):
        return Source(name, _dataset(given), cells=True)
    if kind == "DataFrame" and hasattr(given, "iloc"):
        return Source(name, _frame(given, name), cells=True)
    if isinstance(given, Mapping | str | bytes) or not isinstance(given, Iterable):
        what = "None" if given is None else f"a {kind}"
        raise UserError(
            f"{called or 'what is to be loaded'} is {what}: pass a list of fm.Question, of dicts "
            f"or of "
            "dspy.Examples, a DataFrame, a datasets.Dataset, a path, or the name of a data set"
        )
    return Source(name, _members(given, name))


def _members(given: Iterable[Any], name: str) -> Iterator[TableRow]:
    for number, row in enumerate(given, 1):
        if isinstance(row, dspy.Example):
            fields = dict(row.items())
        elif isinstance(row, Mapping):
            fields = {str(key): value for key, value in row.items()}
        else:
            what = "None" if row is None else f"a {type(row).__name__}"
            raise UserError(
                f"{name}[{number - 1}] is {what} and no fm.Question: pass dicts or dspy.Examples "
                f"otherwise"
            )
        yield TableRow(f"row {number}", fields)


def _frame(frame: Any, name: str) -> Iterator[TableRow]:
    named = [
        level for level in frame.index.names if level is not None and level not in frame.columns
    ]
    if named:
        # what has a name in an index is a column that was set aside
        frame = frame.reset_index(named)
    for column in frame.columns[[str(kind) in ("float16", "float32") for kind in frame.dtypes]]:
        # 1.1, not 1.10000002384
        frame = frame.assign(**{column: frame[column].astype(str).astype(float)})
    header = _header([str(column) for column in frame.columns], name)
    for start in range(0, len(frame), _BATCH):
        part = frame.iloc[start : start + _BATCH]
        for number, cells in enumerate(part.itertuples(index=False, name=None), start + 1):
            yield TableRow(f"row {number}", dict(zip(header, cells, strict=True)))


def _dataset(loaded: Any) -> Iterator[TableRow]:
    import datasets

    # A column of class numbers means their names: the numbers alone could be read as numbers or
    # wrong labels.
    features = loaded.features or {}
    names = {
        column: kind.int2str
        for column, kind in features.items()
        if isinstance(kind, datasets.ClassLabel)
    }
    for number, fields in enumerate(loaded, 1):
        for column, name_of in names.items():
            if fields[column] is not None:
                fields[column] = name_of(fields[column])
        yield TableRow(f"row {number}", fields)


def _split(parts: Mapping[str, Any], split: str | None, name: str) -> Any:
    chosen = split or (next(iter(parts)) if len(parts) == 1 else None)
    if chosen is None or chosen not in parts:
        raise UserError(
            f"{name} has the splits {', '.join(parts)}; choose one of them, not {split!r}"
        )
    return parts[chosen]


def _saved_dataset(path: Path, split: str | None) -> Iterator[TableRow]:
    import datasets

    try:
        loaded = datasets.load_from_disk(str(path))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} is a folder but not one that datasets.save_to_disk wrote "
            f"({_first_line(error)}); "
            "give such a folder or a file"
        ) from None
    if isinstance(loaded, datasets.DatasetDict):
        loaded = _split(loaded, split, str(path))
    elif split is not None:
        raise UserError(
            f"{path} is a single data set and has no split {split!r}; leave the split out"
        )
    yield from _dataset(loaded)


def _opened(path: Path, reader: Callable[[IO[bytes]], Iterator[TableRow]]) -> Iterator[TableRow]:
    try:
        with path.open("rb") as file:
            yield from reader(file)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None


# Text
# ------------------------------------------------------------------------------------------------


class _Lines:
    """The lines of a text, decoded one by one; `others` counts those that are Windows-1252, not
    UTF-8.

    `where` is the place of the last one.
    """

    def __init__(self, file: IO[bytes], *, windows: bool) -> None:
        self.others, self.where = 0, "line 1"
        self._file, self._windows = file, windows

    def __iter__(self) -> Iterator[str]:
        for where, line in lines_of(self._file):
            self.where = where
            if b"\0" in line:
                raise UserError(f"{where}: holds NUL characters; save the file as UTF-8 text")
            try:
                yield line.decode("utf-8-sig" if where == "line 1" else "utf-8")
            except UnicodeDecodeError:
                yield self._other(line, where)

    def _other(self, line: bytes, where: str) -> str:
        foreign = sum(byte > 127 for byte in line)
        text = line.decode("cp1252", "ignore")
        western = foreign * 4 < len(line) and len(text) == len(line)
        if not western:
            raise UserError(f"{where}: not UTF-8; save the file as UTF-8")
        if not self._windows:
            raise UserError(
                f"{where}: not UTF-8 but, it seems, cp1252 (Windows); save the file as UTF-8"
            )
        self.others += 1
        return text


def _utf8(file: IO[bytes], unpacked: Unpacked) -> IO[bytes]:
    """The file, or what it holds as UTF-8 where its first bytes say that it is UTF-16 ("Unicode
    text").
    """
    marked = file.read(2) in (b"\xff\xfe", b"\xfe\xff")
    file.seek(0)
    if not marked:
        return file
    try:
        return io.BytesIO(unpacked.read(file).decode("utf-16").encode() or b"\xff")
    except UnicodeDecodeError:
        raise UserError("line 1: begins like UTF-16 and is not; save the file as UTF-8") from None


def _delimited(
    file: IO[bytes], *, unpacked: Unpacked, notes: list[str], wanted: set[str], usual: str = ""
) -> Iterator[TableRow]:
    lines = _Lines(_utf8(file, unpacked), windows=True)
    text = iter(lines)
    first = next(text, "")
    stated = re.fullmatch(r"sep=(.)\r?\n?", first)  # what Excel writes for Excel
    if stated:
        first = next(text, "")
    delimiter = stated[1] if stated else _delimiter(first, wanted, usual)
    if usual and delimiter != usual and not stated:
        notes.append(f"cells parted by {_DELIMITERS[delimiter]}")
    rows = csv.reader(chain([first], text), strict=True, delimiter=delimiter)
    before = 1 if stated else 0
    header: list[str] | None = None
    while True:  # a quoted cell may hold line breaks, so a row is named by the line it begins on
        where = f"line {before + rows.line_num + 1}"
        try:
            cells = next(rows)
        except StopIteration:
            break
        except csv.Error as error:
            if header is None:
                raise UserError(f"{where}: {_unreadable(error)}") from None
            yield TableRow(where, {}, _unreadable(error))
            continue
        if not any(cell.strip() for cell in cells):
            continue
        if header is None:
            header = _header(cells, where)
            continue
        while len(cells) > len(header) and not cells[-1].strip():
            cells.pop()
        if len(cells) != len(header):
            named = f" ({header[0]})" if len(header) == 1 else ""
            said = f"{len(cells)} cells under {counted(len(header), 'column')}{named}"
            way = "the first line names the columns, and cells that hold the delimiter need quotes"
            yield TableRow(where, {}, f"{said}; {way}")
            continue
        values = (cell if cell.strip() else None for cell in cells)
        yield TableRow(where, dict(zip(header, values, strict=True)))
    if lines.others:
        notes.append(f"{counted(lines.others, 'line')} as cp1252 (Windows), not being UTF-8")


def _unreadable(error: csv.Error) -> str:
    said = str(error)
    if "field limit" in said:
        return "a cell is longer than 131,072 characters, or a quote is never closed; correct it"
    if "unexpected end" in said:
        said = "a quote that opens in this row is never closed"
    if "new-line" in said:
        return "a line ends in CR alone; save the file with the line ends of Unix or Windows"
    return f"not readable as CSV ({said}); correct the quoting"


def _delimiter(first: str, wanted: set[str], usual: str) -> str:
    """The delimiter under which the header has the most columns that are known, else the
    usual one.
    """

    def told(delimiter: str) -> tuple[int, int]:
        try:
            names = [name.strip() for name in next(csv.reader([first], delimiter=delimiter), [])]
        except csv.Error:
            return 0, 0
        return sum(name in wanted or known(name) for name in names), len(names)

    return max(_DELIMITERS, key=lambda delimiter: (told(delimiter), delimiter == usual))


def _header(names: Sequence[str], where: str) -> list[str]:
    """Names without stray blanks; one that is blank is called by its place."""
    header = [name.strip() or f"column {place}" for place, name in enumerate(names, 1)]
    if len(set(header)) < len(header):
        raise UserError(
            f"{where}: two columns have the same name; the header is {', '.join(header)}, so "
            f"rename one"
        )
    return header


# JSON
# ------------------------------------------------------------------------------------------------


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):  # json itself silently keeps the last of them
        keys = [key for key, _ in pairs]
        raise ValueError(
            f"the key {next(k for k in keys if keys.count(k) > 1)!r} stands twice in one object"
        )
    return found


DECODER = json.JSONDecoder(object_pairs_hook=_without_repeats)


def _json(file: IO[bytes], *, unpacked: Unpacked) -> Iterator[TableRow]:
    """One object a line, or one document: an array of objects, or an object that holds one."""
    file = _utf8(file, unpacked)
    start = file.read(2**16).lstrip(b"\xef\xbb\xbf \t\r\n").splitlines() or [b""]
    file.seek(0)
    if start[0][:1] == b"[" or (start[0][:1] == b"{" and _goes_on(start)):
        yield from _document(unpacked.read_json(file))
        return
    alone = sum(bool(line.strip()) for line in start) == 1
    lines = _Lines(file, windows=False)
    for line in lines:
        if not line.strip():
            continue
        where = lines.where
        try:
            value = DECODER.decode(line.strip().removesuffix(","))
        except (ValueError, RecursionError) as error:
            yield TableRow(where, {}, _not_json(error, "one object a line"))
            continue
        if (
            alone
            and isinstance(value, dict)
            and not any(known(name) and _flat(value[name]) for name in value)
        ):
            yield from _inside(value)
        else:
            yield _object(where, value, "one object a line")


def _flat(value: Any) -> bool:
    return not isinstance(value, dict | list)


def _goes_on(start: Sequence[bytes]) -> bool:
    """Whether an object that begins on the first line ends on a later one."""
    follows = next((line.lstrip()[:1] for line in islice(start, 1, None) if line.strip()), b"{")
    try:
        json.loads(start[0])
    except (ValueError, RecursionError):
        return follows != b"{"
    return False


def _document(raw: bytes) -> Iterator[TableRow]:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UserError(f"line {line}: not UTF-8; save the file as UTF-8") from None
    at = _past_space(text, 0)
    if text[at] == "[":
        yield from _array(text, at + 1)
        return
    try:
        whole, end = DECODER.raw_decode(text, at)
    except (ValueError, RecursionError) as error:
        said = _not_json(error, "an array of objects, or one object a line")
        raise UserError(f"line {getattr(error, 'lineno', 1)}: {said}") from None
    if text[end:].strip():
        raise UserError(
            "line 1: objects over several lines; put them into an array, or each on one line"
        )
    yield from _inside(whole)


def _past_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _array(text: str, at: int) -> Iterator[TableRow]:
    """The objects of an array whose first member begins at or after a place."""
    line, counted_to = 1, 0
    while True:
        at = _past_space(text, at)
        line, counted_to = line + text.count("\n", counted_to, at), at
        if text[at : at + 1] == "]" and not text[at + 1 :].strip():
            return
        where = f"line {line}"
        try:
            value, end = DECODER.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            said = _not_json(error, "an array of objects, or one object a line")
            yield TableRow(f"line {getattr(error, 'lineno', line)}", {}, said)
            return
        if end - at > MOST_ROW:
            yield TableRow(where, {}, TOO_LONG)
        else:
            yield _object(where, value, "an array of objects")
        at = _past_space(text, end)
        if text[at : at + 1] == ",":
            at += 1
        elif text[at : at + 1] != "]":
            yield TableRow(
                where, {}, "not a JSON array (',' or ']' is missing after it); correct it"
            )
            return


def _inside(whole: dict[str, Any]) -> Iterator[TableRow]:
    """The rows in one object: the list of objects it holds, its columns, or the object itself."""
    lists = {k: v for k, v in whole.items() if isinstance(v, list) and v and isinstance(v[0], dict)}
    if "question" in whole and not isinstance(whole["question"], list | dict):
        yield TableRow("row 1", whole)
    elif len(lists) == 1:
        for number, value in enumerate(next(iter(lists.values())), 1):
            yield _object(f"row {number}", value, "a list of objects")
    elif whole and all(
        isinstance(v, dict) and v.keys() == _first(whole).keys() for v in whole.values()
    ):
        for number, key in enumerate(_first(whole), 1):  # as DataFrame.to_json writes it
            yield TableRow(f"row {number}", {name: column[key] for name, column in whole.items()})
    elif whole and all(
        isinstance(v, list) and len(v) == len(_first(whole)) for v in whole.values()
    ):
        for number, cells in enumerate(zip(*whole.values(), strict=True), 1):
            yield TableRow(f"row {number}", dict(zip(whole, cells, strict=True)))
    else:
        raise UserError(
            f"line 1: an object with {', '.join(islice(whole, 8)) or 'nothing'} and no list of "
            f"rows; "
            "write an array of objects, or one object a line"
        )


def _first(whole: dict[str, Any]) -> Any:
    return next(iter(whole.values()))


def _object(where: str, value: Any, wanted: str) -> TableRow:
    if isinstance(value, dict):
        return TableRow(where, value)
    what = "null" if value is None else type(value).__name__
    return TableRow(where, {}, f"a JSON {what}, not an object; write {wanted}")


def _not_json(error: Exception, wanted: str) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"not a JSON object ({error.msg}, column {error.colno}); write {wanted}"
    return f"{error}; correct the row"


# Packed files
# ----------------------------------------------------------------------------------------


def _parquet(path: Path) -> Iterator[TableRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            number = 0
            for batch in file.iter_batches(batch_size=_rows_at_once(path, file)):
                for fields in batch.to_pylist():
                    number += 1
                    yield TableRow(f"row {number}", fields)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise UserError(
            f"{path} is not readable as Parquet ({_first_line(error)}); write it again"
        ) from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None


def _rows_at_once(path: Path, file: Any) -> int:
    """How many rows of a Parquet file to unpack at once, from the lengths of all of them.

    A text that repeats is stored once, so that a small file may hold it a million times: the texts
    are read as the places of such texts first. Raises UserError where a row, or the file, is too
    long.
    """
    import pyarrow.parquet as pq

    unpacked, groups = Unpacked(path, path.stat().st_size), file.metadata
    texts = {column.path for column in file.schema if column.physical_type == "BYTE_ARRAY"}
    for group in map(groups.row_group, range(groups.num_row_groups)):
        with unpacked.row():
            for column, chunk in zip(
                file.schema, map(group.column, range(group.num_columns)), strict=True
            ):
                each = column.length or 8
                # a text is stored as what differs from the last
                if "DELTA_BYTE_ARRAY" in chunk.encodings:
                    texts -= {chunk.path_in_schema}
                    each = chunk.total_uncompressed_size
                unpacked.hold(chunk.total_uncompressed_size + each * chunk.num_values)
    with pq.ParquetFile(path, read_dictionary=texts) as places:
        for batch in places.iter_batches(batch_size=_BATCH):
            size = _unpacked_size(batch)
            if size > _MOST_BATCH:
                break
            unpacked.grow(size)
        else:
            return _BATCH
        unpacked = Unpacked(path, path.stat().st_size)
        for number, row in enumerate(places.iter_batches(batch_size=1), 1):
            size = _unpacked_size(row)
            if size > MOST_ROW:
                raise UserError(f"row {number}: {TOO_LONG}")
            unpacked.grow(size)
        return 1


def _unpacked_size(rows: Any) -> int:
    """Bytes of memory of rows of Arrow's, or of columns, where each text stands by itself."""
    import pyarrow as pa
    import pyarrow.compute as pc

    size = 0
    for column in rows:
        size += 8 * len(column)  # what Python needs to refer to a value
        if pa.types.is_map(column.type):
            size += _unpacked_size([column.keys, column.items])
        elif pa.types.is_nested(column.type):
            inside = column.flatten()
            size += _unpacked_size(inside if isinstance(inside, list) else [inside])
        elif pa.types.is_dictionary(column.type):
            size += (
                pc.sum(pc.take(pc.binary_length(column.dictionary), column.indices)).as_py() or 0
            )
        else:
            size += column.nbytes
    return size


def _excel(path: Path, sheet: str | None, notes: list[str]) -> Iterator[TableRow]:
    """The rows of a sheet: values as they were last calculated; no formula is."""
    with from_extra("excel", f"{path}, an Excel file,"):
        from openpyxl import load_workbook
    try:
        _check_parts(path)
        book = load_workbook(path, read_only=True, data_only=True)
    except UserError:
        raise
    except Exception as error:  # openpyxl raises whatever a damaged part makes it raise
        raise UserError(
            f"{path} is not readable as Excel ({_first_line(error)}); save it again"
        ) from None
    try:
        yield from _sheet(book, sheet, path, notes)
    finally:
        book.close()


def _check_parts(path: Path) -> None:
    """Raises UserError for a workbook that is too large for openpyxl, or declares XML entities."""
    unpacked = Unpacked(path, path.stat().st_size)
    with zipfile.ZipFile(path) as packed:
        for part in packed.infolist():
            if part.filename.endswith((".xml", ".rels")):
                of_cells = "/worksheets/" in part.filename or "sharedStrings" in part.filename
                with packed.open(part) as opened:
                    text = unpacked.read(opened).replace(b"\0", b"")  # perhaps UTF-16
                if b"<!DOCTYPE" in text:
                    raise UserError(f"{path} declares XML entities, which no Excel file does")
                elements = text.count(b"</") + text.count(b"/>")
                unpacked.hold((4 if of_cells else 16) * OBJECT * elements)


def _sheet(book: Any, sheet: str | None, path: Path, notes: list[str]) -> Iterator[TableRow]:
    filled = [
        one.title
        for one in book.worksheets
        if any(any(_filled(row)) for row in islice(one.values, 50))
    ]
    chosen = sheet or (filled[0] if len(filled) == 1 else None)
    if not filled:
        return
    if chosen not in book.sheetnames:
        raise UserError(
            f"{path} has the sheets {', '.join(filled)}; choose one as the split, not {sheet!r}"
        )
    if len(filled) > 1:
        notes.append(f"sheet `{chosen}`")
    header: list[str] | None = None
    for number, cells in enumerate(book[chosen].values, 1):
        where = f"row {number}"
        if not any(_filled(cells)):
            continue
        if header is None:
            width = max(place for place, full in enumerate(_filled(cells), 1) if full)
            header = _header([str(cell or "") for cell in cells[:width]], where)
            continue
        if any(_filled(cells[len(header) :])):
            yield TableRow(
                where, {}, f"cells beyond the {len(header)} columns of the header; name them"
            )
            continue
        if sum(len(cell) for cell in cells if isinstance(cell, str)) > MOST_ROW:
            yield TableRow(where, {}, TOO_LONG)
            continue
        values = [cell if full else None for cell, full in zip(cells, _filled(cells), strict=True)]
        values += [None] * (len(header) - len(values))
        yield TableRow(where, dict(zip(header, values[: len(header)], strict=True)))


def _filled(cells: Sequence[Any]) -> list[bool]:
    return [cell is not None and bool(str(cell).strip()) for cell in cells]


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
