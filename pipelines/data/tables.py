"""Rows of files (text, JSON, Parquet, Excel, saved data sets) and of what Python holds.

Text is read by the standard library's `csv` and `json`: pandas fills short rows, renames equal
columns and turns "01" into 1 without a word, and cannot say on which line a fault is.
"""

from __future__ import annotations

import csv
import io
import json
import re
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

from ...modules.base.errors import UserError, are_all, from_extra, is_number, said_by, system_errors
from ...modules.base.files import CACHES, opened, read_regular
from ...modules.base.keyed import without
from ..base.wording import counted
from .aliases import CONTAINERS, columns_of, squeezed
from .unpacked import MOST_ROW, OBJECT, TOO_LONG, Unpacked, lines_of


class TableRow(NamedTuple):
    """One row: its position in the source ("line 7"), its cells by column, and why it cannot be
    read.
    """

    where: str
    fields: dict[str, Any]
    fault: str = ""


@dataclass
class TableSource:
    """Rows, their name in errors, and whether cells may hold nested values as text."""

    name: str
    rows: Iterator[TableRow]
    cells: bool = False


_JSON, _TEXT = (".jsonl", ".ndjson", ".json"), (".csv", ".tsv", ".tab", ".psv", ".txt")
TASK = "question.md"
"""The file that makes a folder a task."""

_EXCEL = (".xlsx", ".xlsm")
_PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_SAVED = ("dataset_dict.json", "state.json")
"""Of which datasets.save_to_disk writes one."""

WANTED = (
    "questions are wanted here: give a .jsonl, .json, .csv, .tsv, .txt, .parquet or .xlsx file "
    f"(text also as .gz, .bz2 or .zst; archives unpacked), a folder of tasks (TASK/{TASK}), or one "
    "that datasets.save_to_disk wrote"
)
_POINTER = b"version https://git-lfs.github.com/"
_USUAL = {".tsv": "\t", ".tab": "\t", ".psv": "|"}
_DELIMITERS = ",\t;|^~"
_AFTER_RETURN = re.compile(r"(?<=\r)(?!\n)")
_NARROW = ("float16", "float32")
_BATCH, _MOST_BATCH = 256, 2**26
"""Rows that are taken out of Parquet or Arrow at once, and the most bytes that they may have."""


def read(path: Path, split: str | None = None) -> TableSource:
    """Return the rows of a file (by its extension) or a saved `datasets` folder, one at a time.
    `split` is a split of such a folder, or a sheet of a workbook. Raises UserError, here or from
    the rows, for unreadable input.
    """
    suffix, name = path.suffix.casefold(), str(path)
    if not path.exists():
        problem = f"there is no file {name!r}; correct the path"
        if " " in name:  # as a question has, which somebody gave in place of a file
            problem += (
                f", or ask one question: folkmoot ask PROGRAM {name!r}, in Python "
                "program(question=…)"
            )
        raise UserError(problem)
    if (path / TASK).is_file():
        return TableSource(name, _tasks([path]))
    if path.is_dir() and any(path.glob(f"*/{TASK}")):
        return TableSource(name, _tasks(sorted(path.iterdir())))
    if path.is_dir():
        return TableSource(name, _saved(path, split), cells=True)
    with suppress(OSError), opened(path) as file:  # what cannot be opened is named later
        if file.read(len(_POINTER)) == _POINTER:
            raise UserError(
                f"{path} is a pointer of Git LFS in place of the file: run git lfs pull, or "
                "download the file itself"
            )
    if suffix in _EXCEL:
        return TableSource(name, _excel(path, split), cells=True)
    packing = _PACKED.get(suffix)
    if packing:
        suffix = Path(path.stem).suffix.casefold()
    if suffix not in (*_JSON, *_TEXT) and (packing or suffix != ".parquet"):
        raise UserError(f"{path} has a type that cannot be read, and {WANTED}")
    if split is not None:
        raise UserError(f"{path} is a single file and has no split {split!r}; leave the split out")
    if suffix == ".parquet":
        return TableSource(name, _parquet(path), cells=True)
    return TableSource(name, _text(path, suffix, packing), cells=suffix in _TEXT)


def _tasks(places: Iterable[Path]) -> Iterator[TableRow]:
    """Yield a row for each folder of a task: its question, files and tests."""
    for place in places:
        if not place.is_dir() or place.name[0] == ".":
            continue
        files, tests = place / "files", place / "tests"
        try:
            for folder in (place, files, tests):
                if folder.is_symlink():
                    raise UserError(f"{folder} is a link to another place: put its files here")
            fields = {"id": place.name, "question": _text_in(place / TASK), "kind": "task"}
            texts = {"files": _texts_below(files), "tests": _texts_below(tests)}
            yield TableRow(place.name, fields | texts)
        except UserError as problem:
            yield TableRow(place.name, {}, str(problem))


def read_stream(stream: IO[Any]) -> TableSource:
    """Return the rows of an open file, such as standard input: of JSON if it begins so, else of a
    table.
    """
    name = str(getattr(stream, "name", "") or "the stream").replace("<stdin>", "standard input")
    raw = Unpacked(name).read(stream)
    if raw.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"["):
        return TableSource(name, _json(io.BytesIO(raw), name))
    return TableSource(name, _read_delimited(io.BytesIO(raw)), cells=True)


def read_held(
    source: object, split: str | None = None, name: str | None = None, packed: int | None = None
) -> TableSource:
    """Return the rows of a DataFrame, a `datasets.Dataset`, or a list of dicts, examples or
    questions.

    `packed` is the size on disk of a data set from there. Raises UserError for anything else.
    """
    kind = type(source).__name__
    called = name or f"the {kind}"
    from_datasets = type(source).__module__.startswith("datasets.")
    if from_datasets and isinstance(source, Mapping):
        source, split = _split(source, split, called), None
    if split is not None:
        raise UserError(f"{called} has no split {split!r}; leave the split out")
    if from_datasets:
        return TableSource(called, _dataset(source, Unpacked(called, packed)), cells=True)
    if kind == "DataFrame" and hasattr(source, "iloc"):
        return TableSource(called, _frame(source, called), cells=True)
    for way in ("to_dicts", "to_pylist"):  # of polars and pyarrow
        if hasattr(source, way):
            return TableSource(called, _members(getattr(source, way)()), cells=True)
    if isinstance(source, Mapping | str | bytes) or not isinstance(source, Iterable):
        what = "None" if source is None else f"a {kind}"
        raise UserError(
            f"{name or 'what is to be loaded'} is {what}: pass a list of fm.Question, of dicts or "
            "of dspy.Examples, a DataFrame, a datasets.Dataset, a path, or the name of a data set"
        )
    return TableSource(called, _members(source))


def _members(members: Iterable[object], where: str = "row") -> Iterator[TableRow]:
    """Yield a row for each object, with its number after `where`."""
    for number, row in enumerate(members, 1):
        yield _row(f"{where} {number}", row)


def _row(where: str, held: Any) -> TableRow:
    """Return the row in an object of JSON or of Python, which has `items`."""
    if callable(getattr(held, "items", None)):
        return TableRow(where, {str(name): cell for name, cell in held.items()})
    what = f"a value of type {type(held).__name__} is not an object"
    how = "write one for each row (in Python an fm.Question, a dict or a dspy.Example)"
    return TableRow(where, {}, f"{what}; {how}")


def _frame(frame: Any, name: str) -> Iterator[TableRow]:
    # A named index is a column that was set aside.
    named = [level for level in frame.index.names if level and level not in frame.columns]
    if named:
        frame = frame.reset_index(named)
    # Through text, so that 1.1 does not become 1.10000002384.
    narrow = [column for column, kind in frame.dtypes.items() if str(kind) in _NARROW]
    frame = frame.astype(dict.fromkeys(narrow, str)).astype(dict.fromkeys(narrow, float))
    header = _header(list(map(str, frame.columns)), name)
    for number, cells in enumerate(frame.itertuples(index=False, name=None), 1):
        yield TableRow(f"row {number}", dict(zip(header, cells, strict=True)))


# Data sets of the `datasets` library, and Parquet


def _split(parts: Mapping[str, object], split: str | None, name: str) -> Any:
    if not split and len(parts) == 1:
        (split,) = parts
    if not split or split not in parts:
        raise UserError(
            f"{name} has {', '.join(parts)}; give one of them as the split, not {split!r}"
        )
    return parts[split]


def _dataset(loaded: Any, unpacked: Unpacked) -> Iterator[TableRow]:
    # As Arrow: rows in Python's own form would open the images and addresses that they name.
    tables = loaded.with_format("arrow").iter(batch_size=_BATCH)
    features = loaded.features.to_dict() if loaded.features else {}
    batches = chain.from_iterable(table.to_batches() for table in tables)
    yield from _with_class_names(_arrow_rows(batches, unpacked), features)


def _with_class_names(rows: Iterable[TableRow], features: Mapping[str, Any]) -> Iterator[TableRow]:
    """Yield the rows with the names of classes in place of their numbers, which could be read as
    anything; a number without a class (-1 in rows without a label) is empty. `features` describe
    the columns as the `datasets` library does.
    """
    for row in rows:
        fields = {name: _class_name(cell, features.get(name)) for name, cell in row.fields.items()}
        yield row._replace(fields=fields)


def _class_name(cell: object, feature: Any) -> object:
    """Return the name of the class that a cell, or each of its members, is the number of."""
    if isinstance(feature, list):
        feature = next(iter(feature), None)
    if not isinstance(feature, Mapping):
        return cell
    if isinstance(cell, list):
        return [_class_name(member, feature.get("feature", feature)) for member in cell]
    names = feature.get("names")
    if feature.get("_type") != "ClassLabel" or not names:
        return cell
    if isinstance(cell, int) and 0 <= cell < len(names):
        return names[cell]
    return None


def _saved(path: Path, split: str | None) -> Iterator[TableRow]:
    if not any((path / file).is_file() for file in _SAVED):
        raise UserError(f"{path} is a folder, and {WANTED}")
    with from_extra("datasets", f"{path}, a folder of the library `datasets`,"):
        import datasets

    _check_arrow(path)
    try:
        loaded = datasets.load_from_disk(str(path))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} is damaged ({said_by(error).rstrip('.')}), and {WANTED}") from None
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    yield from read_held(loaded, split, str(path), size).rows


def _check_arrow(folder: Path) -> None:
    """Raise UserError for compressed Arrow, which `datasets` never writes, and unpacks whole."""
    import pyarrow as pa

    for file in folder.rglob("*"):
        if not file.is_file() or file.suffix == ".json":
            continue
        try:
            with pa.memory_map(str(file)) as source:
                packed = any(map(_is_compressed, pa.ipc.MessageReader.open_stream(source)))
        except (pa.ArrowException, OSError, struct.error):
            continue  # `datasets` says what is wrong with it
        if packed:
            raise UserError(f"{file} is compressed Arrow; save the data set again with datasets")


def _is_compressed(message: Any) -> bool:
    """Return True if a message of Arrow's holds a record batch whose field `compression` is set."""
    # pyarrow does not say whether a message is compressed, so its flatbuffer is read.
    raw = message.metadata.to_pybytes()

    def field(table: int, slot: int) -> int:
        """Return the offset of a field of a flatbuffer table; 0 where the table does not have
        it.
        """
        vtable, place = table - struct.unpack_from("<i", raw, table)[0], 4 + 2 * slot
        if place >= struct.unpack_from("<H", raw, vtable)[0]:
            return 0
        offset = struct.unpack_from("<H", raw, vtable + place)[0]
        return int(offset and table + offset)

    header = field(struct.unpack_from("<I", raw)[0], 2)
    if message.type not in ("record batch", "dictionary") or not header:
        return False
    batch = header + struct.unpack_from("<I", raw, header)[0]
    if message.type == "dictionary":  # holds a record batch in its second field
        data = field(batch, 1)
        batch = data + struct.unpack_from("<I", raw, data)[0]
    return bool(field(batch, 3))


def _parquet(path: Path) -> Iterator[TableRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    size = path.stat().st_size
    try:
        with pq.ParquetFile(path) as file:
            columns = list(file.schema)
            groups = [file.metadata.row_group(place) for place in range(file.num_row_groups)]
        # Texts stay in dictionaries, where one that repeats a million times is held once. Values
        # that are stored as what differs from the last, or of a fixed length, cannot: one by one.
        swelling = set()
        for group in groups:
            chunks = [group.column(place) for place in range(group.num_columns)]
            unpacked = sum(chunk.total_uncompressed_size + 8 * chunk.num_values for chunk in chunks)
            # A counter of its own for each group: they are read one after another.
            Unpacked(path, size).hold(unpacked)
            Unpacked(path, size).grow(unpacked)
            for chunk, column in zip(chunks, columns, strict=True):
                long = (column.length or 0) > MOST_ROW // 2**10
                if long or "DELTA_BYTE_ARRAY" in chunk.encodings:
                    swelling.add(chunk.path_in_schema)
        places: list[str] = []
        for column in columns:
            if column.physical_type == "BYTE_ARRAY" and column.path not in swelling:
                places.append(column.path)
        with pq.ParquetFile(path, read_dictionary=places) as file:
            batches = file.iter_batches(batch_size=1 if swelling else _BATCH)
            features = _features(file.schema_arrow.metadata or {})
            yield from _with_class_names(_arrow_rows(batches, Unpacked(path, size)), features)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise UserError(
            f"{path} is not readable as Parquet ({said_by(error).rstrip('.')}); write it again"
        ) from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}") from None


def _features(metadata: Mapping[bytes, bytes]) -> dict[str, object]:
    """Return the features that the `datasets` library notes in a Parquet file; empty without
    them.
    """
    try:
        return dict(json.loads(metadata.get(b"huggingface", b"{}"))["info"]["features"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}


def _arrow_rows(batches: Iterable[Any], unpacked: Unpacked) -> Iterator[TableRow]:
    """Yield the rows of Arrow's record batches, each counted before it is unpacked."""
    number = 0
    for batch in batches:
        # A batch that would be too large is unpacked row by row.
        step = 1 if _unpacked_size(batch) > _MOST_BATCH else len(batch)
        for start in range(0, len(batch), step or 1):
            part = batch.slice(start, step)
            size = _unpacked_size(part)
            if step == 1 and size > MOST_ROW:
                raise UserError(f"row {number + 1}: {TOO_LONG}")
            unpacked.grow(size)
            for fields in part.to_pylist():
                number += 1
                yield TableRow(f"row {number}", fields)


def _unpacked_size(columns: Iterable[Any]) -> int:
    """Return the bytes of memory that columns of Arrow's take when each text is separate."""
    import pyarrow as pa
    import pyarrow.compute as pc

    size = 0
    for column in columns:
        size += 8 * len(column)  # what Python needs to refer to a value
        if pa.types.is_map(column.type):
            size += _unpacked_size([column.keys, column.items])
        elif pa.types.is_nested(column.type):
            inside = column.flatten()
            if not isinstance(inside, list):
                inside = [inside]
            size += _unpacked_size(inside)
        elif pa.types.is_dictionary(column.type):
            lengths = pc.take(pc.binary_length(column.dictionary), column.indices)
            size += pc.sum(lengths).as_py() or 0
        else:
            size += column.nbytes
    return size


# Text


def _text(path: Path, suffix: str, packing: str | None) -> Iterator[TableRow]:
    with system_errors(path, "write it again", "cannot be read"), opened(path) as file:
        content: IO[bytes] = file
        if packing:
            import pyarrow as pa

            unpacked = Unpacked(path, path.stat().st_size)
            content = io.BytesIO(unpacked.read(pa.CompressedInputStream(file, packing)))
        if suffix in _JSON:
            yield from _json(content, str(path))
        else:
            yield from _read_delimited(content, _USUAL.get(suffix, ","))


def _decode(line: bytes, where: str) -> str:
    # Excel begins a file with a byte order mark, which would become part of the first column's
    # name.
    encoding = "utf-8-sig" if where == "line 1" else "utf-8"
    try:
        return line.decode(encoding)
    except UnicodeDecodeError:
        raise UserError(
            f"{where}: not UTF-8; save the file as UTF-8 (in Excel: CSV UTF-8)"
        ) from None


def _read_delimited(file: IO[bytes], usual: str = ",") -> Iterator[TableRow]:
    row_size = 0  # several lines make one row where a quote stays open

    def lines() -> Iterator[str]:
        nonlocal row_size
        for where, line in lines_of(file):
            row_size += len(line)
            if row_size > MOST_ROW:
                raise UserError(f"{where}: the row is {TOO_LONG}")
            # Excel for Macs may end lines with a carriage return alone.
            yield from filter(None, _AFTER_RETURN.split(_decode(line, where)))

    text = lines()
    first, number = next(text, ""), 1
    bare = re.sub(r'"[^"]*"', "", first)
    # Of equally frequent signs the first one is taken, which is the usual one.
    delimiter = max(usual + _DELIMITERS, key=bare.count)
    stated = re.fullmatch(r"sep=(.)\r?\n?", first)  # which Excel writes for itself
    if stated:
        delimiter = stated[1]
        first, number = next(text, ""), 2
    # Passages of a context may be longer than the 128 kB of a cell that Python stops at.
    csv.field_size_limit(max(MOST_ROW, csv.field_size_limit()))
    reader = csv.reader(chain([first], text), strict=True, delimiter=delimiter)
    header: list[str] = []
    while True:  # a row is named by the line that it begins on
        where = f"line {reader.line_num + number}"
        row_size = 0
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            yield TableRow(where, {}, f"not readable as CSV ({error}); correct its quotes")
            continue
        if not any(map(str.strip, cells)):
            continue
        if not header:
            header = _header(cells, where)
            continue
        # Spreadsheets write empty cells beyond the last column.
        while len(cells) > len(header) and not cells[-1].strip():
            cells.pop()
        if len(cells) != len(header):
            yield TableRow(
                where,
                {},
                f"{counted(len(cells), 'cell')} under {counted(len(header), 'column')}; the first "
                "line names the columns, and cells that hold the delimiter need quotes",
            )
            continue
        yield TableRow(where, dict(zip(header, map(_filled, cells), strict=True)))


def _filled(cell: object) -> Any:
    """Return the cell, or None if it is blank."""
    if str(cell).strip():
        return cell
    return None


def _header(names: Sequence[str], where: str) -> list[str]:
    """Return the names of columns without stray blanks; a blank one becomes the column's number.
    Raises UserError if two are the same.
    """
    header = [name.strip() or f"column {place}" for place, name in enumerate(names, 1)]
    if len(set(header)) < len(header):
        raise UserError(
            f"{where}: two columns have the same name; the header is {', '.join(header)}, so "
            "rename one"
        )
    return header


# JSON


def _without_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    whole = dict(pairs)
    if len(whole) < len(pairs):  # json itself silently keeps the last of them
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {repeated!r} is given twice in one object")
    return whole


IN_ONE_ROW = (
    "{!r} holds several questions in one row: write a row for each question (with what was said "
    "before it in its context, if they are a conversation)"
)
_OF_A_TALK = {"followup", "turnid"}
"""Columns of questions that follow one another in a conversation (QuAC)."""
_ANSWERED = ("choices", "answer")
_ASKED = ("question", *_ANSWERED)
CHAT_TURNS = (("role", "content"), ("from", "value"))
"""Who speaks in a turn of a chat and what, as OpenAI and as ShareGPT call it."""

DECODER = json.JSONDecoder(object_pairs_hook=_without_repeats)


def _json(file: IO[bytes], name: str) -> Iterator[TableRow]:
    """Yield an object per line, or one document: an array of objects, or an object that holds
    them.
    """
    lines = iter(partial(file.readline, MOST_ROW), b"")
    first = next((line for line in lines if line.strip(b"\xef\xbb\xbf \t\r\n")), b"")
    if not re.fullmatch(rb"(\xef\xbb\xbf)?\s*\{.*\}\s*", first, re.S):
        file.seek(0)
        # No object on the first line: then all of the file is one document.
        text = _decode(Unpacked(name).read_json(file), "line 1")
        if first:
            yield from _json_rows(text, "line 1")
        return
    alone = not any(map(bytes.strip, lines))  # one document
    file.seek(0)
    for where, line in lines_of(file):
        if line.strip():
            yield from _json_rows(_decode(line, where), where, alone)


def _json_rows(text: str, where: str, alone: bool = True) -> Iterator[TableRow]:
    """Yield the rows in a text: of an array, of the list of objects that an object holds if it
    stands `alone`, or itself.
    """
    try:
        whole = DECODER.decode(text.strip())
    except (ValueError, RecursionError) as error:
        why, line = str(error), 1
        if isinstance(error, json.JSONDecodeError):
            why, line = f"{error.msg}, column {error.colno}", error.lineno
        place = where if line == 1 else f"line {line}"
        how = "write an object per line, or an array of objects"
        yield TableRow(place, {}, f"not readable as JSON ({why}); {how}")
        return
    if alone and isinstance(whole, dict):
        whole = _rows_of_columns(whole)
        if inside := _table_inside(whole, alone):
            whole = _rows_of(whole, inside)
    if isinstance(whole, list):
        yield from _members(whole)
    else:
        yield _row(where, whole)


def _rows_of_columns(whole: dict[str, Any]) -> Any:
    """Return the rows of a document that holds a list or an object for each column, as pandas
    writes them, or an object for each id; any other document as it is.
    """
    names: Any = whole.get("columns")
    rows: Any = whole.get("data")
    is_split = isinstance(names, list) and isinstance(rows, list) and are_all(rows, list)
    if is_split and {len(names)} == set(map(len, rows)):  # as pandas splits a table
        return [dict(zip(names, row, strict=True)) for row in rows]
    columns = list(whole.values())
    if len(columns) > 1 and all(isinstance(column, dict) for column in columns):
        if not columns_of("question", whole) and all(map(_asks, columns)):
            return [{"id": name} | row for name, row in whole.items()]
        if any(column.keys() != columns[0].keys() for column in columns):
            return whole
        columns = [list(column.values()) for column in columns]
    is_table = all(isinstance(column, list) and column for column in columns)
    if not is_table or not columns_of("question", whole) or len(set(map(len, columns))) > 1:
        return whole
    return [dict(zip(whole, cells, strict=True)) for cells in zip(*columns, strict=True)]


def unfolded(rows: Iterable[TableRow], remark: Callable[[str], None]) -> Iterator[TableRow]:
    """Return the rows; in place of one that is no question itself, those inside it, such as the
    questions of an article. `remark` is told of lists that were taken apart.
    """
    for row in rows:
        whole = _with_objects(row.fields)
        inside = _table_inside(whole)
        if not inside:
            yield row
            continue
        if whole is not row.fields:
            remark(f"each of `{inside}` as a question of its own")
        yield from unfolded(_members(_rows_of(whole, inside), f"{row.where}, {inside}"), remark)


def _with_objects(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with an object for each question in place of the lists of its questions, their
    answers and whatever else has as many members (RACE); any other row as it is.
    """
    asked = row.get("questions")
    if not asked or not isinstance(asked, list) or not are_all(asked, str):
        return row
    shared = columns_of("context", row)
    lists: dict[str, list[Any]] = {}
    for name, held in row.items():
        if isinstance(held, list) and len(held) == len(asked) and name not in shared:
            lists[name] = held
    if not columns_of("answer", lists):
        return row
    names = ["question" if name == "questions" else name for name in lists]
    objects = [dict(zip(names, cells, strict=True)) for cells in zip(*lists.values(), strict=True)]
    return without(row, lists) | {"questions": objects}


def _rows_of(whole: Mapping[str, Any], inside: str) -> list[Any]:
    """Return the rows in a list of an object; if they are questions, each with the object's texts,
    without its id. Raises UserError for the questions of a conversation.
    """
    if _OF_A_TALK.intersection(map(squeezed, whole[inside][0])):
        raise UserError(IN_ONE_ROW.format(inside))
    if not _table_inside(whole):
        return list(whole[inside])
    # Passages may be a list, too (TAT-QA).
    shared = {*columns_of("context", whole)} - {inside}
    beside = {
        name: cell
        for name, cell in whole.items()
        if name in shared or isinstance(cell, str | int | float)
    }
    for name in columns_of("id", beside):
        del beside[name]
    rows: list[Any] = []
    for row in whole[inside]:
        if isinstance(row, dict):
            row = beside | row
        rows.append(row)
    return rows


def _table_inside(whole: object, alone: bool = False) -> str:
    """Return the key of the only list of objects in an object that is no row itself: it has no
    question, answer or options. Unless it stands `alone`, they must ask. Empty where there is none.
    """
    if not isinstance(whole, dict):
        return ""
    lists: list[str] = [name for name, held in whole.items() if _is_table(held)]
    if not lists or any(columns_of(field, whole) for field in _ASKED):
        return ""
    if any(isinstance(held, dict) and squeezed(name) in CONTAINERS for name, held in whole.items()):
        return ""
    if len(lists) > 1:  # such as a description of the columns, and the rows
        lists = [name for name in lists if _asks(whole[name][0])]
    if alone and len(lists) > 1:
        raise UserError(
            f"several lists of questions ({', '.join(lists)}): write each to a file of its own"
        )
    if len(lists) != 1:
        return ""
    first = whole[lists[0]][0]
    return lists[0] if alone or _asks(first) or _table_inside(first) else ""


def _asks(row: Mapping[str, object]) -> bool:
    """Return whether an object has a question and its answer or options, itself or in a
    container.
    """
    names = list(row)
    for name, held in row.items():
        if isinstance(held, dict) and squeezed(name) in CONTAINERS:
            names += [f"{name}.{inner}" for inner in held]
    answered = any(columns_of(field, names) for field in _ANSWERED)
    return bool(columns_of("question", names)) and answered


def _is_table(held: Any) -> bool:
    """Return whether it is a list of objects, which are not the turns of a chat."""
    is_list = isinstance(held, list) and bool(held) and isinstance(held[0], dict)
    return is_list and not any(held[0].keys() >= set(turn) for turn in CHAT_TURNS)


# Excel


def _excel(path: Path, sheet: str | None) -> Iterator[TableRow]:
    """Yield the rows of a sheet: values as they were last calculated; no formula is evaluated."""
    with from_extra("excel", f"{path}, an Excel file,"):
        import openpyxl

    filled: dict[str, list[list[Any]]] = {}
    try:
        _check_parts(path)
        book = openpyxl.load_workbook(path, read_only=True, data_only=True, keep_links=False)
        for page in book.worksheets:
            page.reset_dimensions()  # which other programs may note wrongly
            rows = [_excel_row(row) for row in page.iter_rows()]
            if sum(map(bool, rows)) > 1:
                filled[page.title] = rows
        book.close()
    except UserError:
        raise
    except Exception as error:  # openpyxl raises whatever a damaged part makes it raise
        raise UserError(
            f"{path} is not readable as Excel ({said_by(error).rstrip('.')}); save it again"
        ) from None
    if not filled:
        return
    header: list[str] = []
    rows = _split(filled, sheet, str(path))
    width = max(map(len, rows))
    for number, cells in enumerate(rows, 1):
        cells += [None] * (width - len(cells))
        if not header and any(cells):
            names = ["" if cell is None else str(cell) for cell in cells]
            header = _header(names, f"{path}, row {number}")
        elif any(cell is not None for cell in cells):
            yield TableRow(f"row {number}", dict(zip(header, cells, strict=True)))


def _excel_row(row: Iterable[Any]) -> list[Any]:
    """Return the values of a row up to its last filled cell: shares as they are shown, blanks as
    None.
    """
    cells: list[Any] = []
    for cell in row:
        value = _filled(cell.value)
        if is_number(value) and "%" in cell.number_format:
            value = f"{100 * value:.10g}%"
        cells.append(value)
    while cells and cells[-1] is None:
        cells.pop()
    return cells


def _check_parts(path: Path) -> None:
    """Raise UserError for a workbook that is too large for openpyxl, or declares XML entities."""
    unpacked = Unpacked(path, path.stat().st_size)
    with zipfile.ZipFile(path) as packed:
        for part in packed.infolist():
            of_cells = "/worksheets/" in part.filename or "sharedStrings" in part.filename
            with packed.open(part) as opened:
                text = unpacked.read(opened).replace(b"\0", b"")  # perhaps UTF-16
            if b"<!DOCTYPE" in text:
                raise UserError(
                    f"{path} declares XML entities, which no Excel file does: save it again"
                )
            elements = text.count(b"</") + text.count(b"/>")
            unpacked.hold((4 if of_cells else 16) * OBJECT * elements)


def _texts_below(folder: Path) -> dict[str, str]:
    """Return the texts of all files below a folder but for caches, by path; empty without the
    folder. Raises UserError for a link, and for a file that is not text.
    """
    texts = {}
    for file in sorted(folder.rglob("*")):
        # A link to a folder is refused below and not passed over: its files would be missing.
        if file.is_dir() and not file.is_symlink():
            continue
        if CACHES.intersection(file.relative_to(folder).parts):  # such as of a test run by hand
            continue
        texts[file.relative_to(folder).as_posix()] = _text_in(file)
    return texts


def _text_in(file: Path) -> str:
    """Return the text of a task's file. Raises UserError for a link, and for one without text."""
    try:
        return read_regular(file, links=False).decode()
    except (OSError, UnicodeDecodeError) as problem:
        what = getattr(problem, "strerror", "it is not text")
        raise UserError(
            f"{file} cannot be a file of a task ({what}): put a text there, or take it out"
        ) from None
