"""Small files that would fill the memory: each is refused in a sentence, in a small child."""

import io
import json
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from by_day import some_by_day
from mortal import in_child, refused

import folkmoot as fm

HEADER = {"eval": {"task": "t", "model": "m", "scorers": [{"name": "s"}]}, "status": "success"}
HOME = "samples/1_epoch_1"
LONG = "x" * (15 * 2**20)
MANY = "[]," * 9_000_000 + "0"
"""A list of little text, which takes forty times its length as Python objects."""


def sample(**more: Any) -> dict[str, Any]:
    score = {"value": "C", "answer": "A"}
    return {"id": 1, "epoch": 1, "input": "q", "target": "A", "scores": {"s": score}, **more}


def packed(path: Path, members: Mapping[str, str]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as log:
        for name, text in {"header.json": json.dumps(HEADER), **members}.items():
            log.writestr(name, text)


def attachments(path: Path) -> None:
    parts = {f"{HOME}/attachments/{n}.json": json.dumps([LONG]) for n in range(5)}
    packed(path, {f"{HOME}/sample.json": json.dumps(sample(input="attachment://0")), **parts})


def one_attachment_many_times(path: Path) -> None:
    asked = [{"role": "user", "content": [{"type": "text", "text": "attachment://0"}] * 300}]
    packed(path, {f"{HOME}.json": json.dumps(sample(input=asked, attachments={"0": LONG}))})


def objects(path: Path) -> None:
    packed(path, {f"{HOME}.json": json.dumps(sample())[:-1] + f', "events": [{MANY}]}}'})


def a_size_that_is_a_lie(path: Path) -> None:
    """A member of 16 MB, says the zip, of which a zstd stream makes 1 GB."""
    zstandard = pytest.importorskip("zstandard")
    pytest.importorskip("zipfile_zstd")
    packer = zstandard.ZstdCompressor().compressobj()
    stream = b"".join(packer.compress(bytes(2**24)) for _ in range(64)) + packer.flush()
    with zipfile.ZipFile(path, "w") as log:
        log.writestr("header.json", stream)
    raw = path.read_bytes()
    central = raw.rindex(b"PK\x01\x02")
    lie, zstd = struct.pack("<I", 2**24), struct.pack("<H", 93)
    raw = raw[:8] + zstd + raw[10:22] + lie + raw[26:]
    raw = raw[: central + 10] + zstd + raw[central + 12 : central + 24] + lie + raw[central + 28 :]
    path.write_bytes(raw)


def repeated(text: str, times: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * times, pa.int32()), pa.array([text]))


def table(path: Path, rows: int, question: pa.Array) -> None:
    same = {"agent": "a", "answer": "A", "correct": True}
    columns = {"question_id": [str(row) for row in range(rows)], "question": question}
    columns |= {name: [value] * rows for name, value in same.items()}
    pq.write_table(pa.table(columns), path, compression="zstd", store_schema=False)


def repeated_text(path: Path) -> None:
    table(path, 3000, repeated("x" * 900_000, 3000))


def absurd_cell(path: Path) -> None:
    table(path, 50, repeated("x" * 100_000_000, 50))


def compressed_arrow(path: Path) -> None:
    """A folder as `datasets` saves one, but with batches that are compressed."""
    datasets.Dataset.from_dict({"question": ["q"]}).save_to_disk(path)
    (file,) = path.glob("*.arrow")
    rows = pa.table({"question": pa.array(["x" * 1_000_000] * 1000)})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(str(file), rows.schema, options=options) as stream:
        stream.write_table(rows)


def row_of_many_lines(path: Path) -> None:
    path.write_bytes(b"question,answer\n" + b'"x\n",' * 50_000_000)


def cells(path: Path) -> None:
    from openpyxl import Workbook

    book, file = Workbook(), io.BytesIO()
    book.active.append(["question", "answer"])
    book.save(file)
    many = b"<c/>" * 6_000_000 + b"</row>"
    with zipfile.ZipFile(file) as plain, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name in plain.namelist():
            content = plain.read(name)
            is_sheet = name == "xl/worksheets/sheet1.xml"
            packed.writestr(name, content.replace(b"</row>", many) if is_sheet else content)


BOMBS: dict[Callable[[Path], None], tuple[str, str]] = {
    attachments: (".eval", "far larger once unpacked"),
    one_attachment_many_times: (".eval", "more than 1 GB of memory"),
    objects: (".eval", "more than 1 GB of memory"),
    a_size_that_is_a_lie: (".eval", "not readable"),
    repeated_text: (".parquet", "far larger once unpacked"),
    absurd_cell: (".parquet", "far larger once unpacked"),
    compressed_arrow: (".saved", "is compressed Arrow"),
    row_of_many_lines: (".csv", "longer than 8 MB"),
    cells: (".xlsx", "more than 1 GB of memory"),
}


@pytest.mark.parametrize("make", some_by_day(BOMBS, 3))
def test_no_small_file_fills_the_memory(make: Callable[[Path], None], tmp_path: Path) -> None:
    ending, words = BOMBS[make]
    path = tmp_path / f"bomb{ending}"
    make(path)
    said, megabytes = in_child(refused, path)
    assert str(path) in said
    assert words in said
    assert megabytes < 700


def test_a_passage_that_all_questions_share_is_read(tmp_path: Path) -> None:
    path = tmp_path / "questions.parquet"
    asked = {"question": [f"What is {row}?" for row in range(1000)], "answer": ["x"] * 1000}
    pairs = pa.array([[("source", "wiki")]] * 1000, pa.map_(pa.string(), pa.string()))
    passages = repeated("p" * 20_000, 1000)
    pq.write_table(pa.table({**asked, "context": passages, "from": pairs}), path)
    assert path.stat().st_size < 100_000
    questions = fm.load(path)
    assert {len(str(one.context)) for one in questions} == {20_000}
    assert questions[-1].meta["from"] == [["source", "wiki"]]
