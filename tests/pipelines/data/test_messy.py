"""Files as people have them, things in Python, hostile files: what is read, said, refused."""

import bz2
import gzip
import io
import json
import sys
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import Any

import datasets
import dspy
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from cli_helpers import folkmoot
from messy import FISH, FOUR, MESSY, SOUP, Messy, lines, text, write

import folkmoot as fm
from folkmoot.modules.base.errors import UserError
from folkmoot.pipelines.data.load import DataError, load
from folkmoot.pipelines.data.questions import fingerprint
from folkmoot.pipelines.reporting.dialogues import shown

HOLDS = {"question": SOUP, "choices": {"A": "a sieve", "B": "a flask"}, "answer": "B"}
DRAINS = {"question": "What drains?", "choices": {"A": "a sieve", "B": "a pot"}, "answer": "A"}
PLAIN: list[dict[str, Any]] = [{**HOLDS, "topic": "kitchen"}, {**DRAINS, "topic": None}]


class Color(Enum):
    RED = "red"


def said_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "folkmoot"]


def refusal(*args: Any, **kwargs: Any) -> str:
    with pytest.raises(UserError) as caught:
        load(*args, **kwargs)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def put(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("one", MESSY, ids=lambda one: one.file)
def test_messy_files(one: Messy, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(one, tmp_path)
    if one.kind is None:
        said = refusal(path)
        assert said.endswith(one.says)
        return
    first = load(path)[0]
    assert (first.kind, first.answer) == (one.kind, one.answer)
    assert said_of(caplog) == ([f"{path}: {one.says}"] if one.says else [])


@pytest.mark.parametrize(("reading", "answer"), [("from0", "B"), ("from1", "A")])
def test_the_option_that_settles_numbers(reading: str, answer: str, tmp_path: Path) -> None:
    path = put(tmp_path / "q.jsonl", lines({"question": SOUP, "choices": FOUR, "answer": 1}))
    assert load(path, columns={"answer": f"answer:{reading}"})[0].answer == answer
    path = put(tmp_path / "q.jsonl", lines({"question": SOUP, "first": "a", "answer": 1}))
    with pytest.raises(fm.UserError, match="answer:from1 counts options, but no column is"):
        load(path, columns={"answer": "answer:from1"})


@pytest.mark.parametrize(
    ("rows", "answers"),
    [
        ([(["3", "4", "5"], 4)], ["B"]),  # the text of an option and no place
        ([(["1", "0", "2", "3"], 1), (FOUR, 0)], ["B", "A"]),  # places, as the second row shows
        ([(["1", "0", "2", "3"], "1"), (FOUR, "4")], ["A", "D"]),
        # labels that are numbers
        ([({"1": "x", "2": "y"}, 2), ({"1": "x", "2": "y"}, "1")], ["2", "1"]),
        ([({"0": "x", "1": "y"}, 1)], ["1"]),
        ([(["0", "1", "2"], 2), (["0", "1", "2"], 1)], None),
    ],
)
def test_numbers_fit_all_rows(rows: list[tuple[Any, Any]], answers: list[str] | None) -> None:
    given = [
        {"question": f"Which {n}?", "choices": choices, "answer": answer}
        for n, (choices, answer) in enumerate(rows)
    ]
    if answers is None:
        assert "--columns answer=answer:from" in refusal(given)
    else:
        assert [question.answer for question in load(given)] == answers


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (text("question,choices,A,B,answer", 'Which?,"[""x"", ""y""]",x,y,x'), "or in A, B"),
        (text("question,A,B,answer", "Which?,,,no"), "line 2: no option in A, B"),
        (text("Which is red?,blood,grass,A", "Which is green?,a,b,B"), "put a line such as"),
        (text("version https://git-lfs.github.com/spec/v1", "size 9"), "run git lfs pull"),
    ],
)
def test_no_column_like_options_is_left_out(content: bytes, says: str, tmp_path: Path) -> None:
    assert says in refusal(put(tmp_path / "q.csv", content))


def held() -> dict[str, Any]:
    rows = [{key: value for key, value in row.items() if value is not None} for row in PLAIN]
    nested = [{**row, "choices": list(row["choices"].values())} for row in PLAIN]
    return {
        "dicts": rows,
        "examples": [dspy.Example(row).with_inputs("question", "choices") for row in rows],
        "frame": pd.DataFrame(nested),
        "numpy": pd.DataFrame(nested).assign(choices=[np.array(row["choices"]) for row in nested]),
        "dataset": datasets.Dataset.from_list(nested),
        "generator": iter(rows),
        "stream": io.StringIO(lines(*rows).decode()),
        "bytes": io.BytesIO(json.dumps(rows).encode()),
        "questions": load(rows),
        "arrow": pa.Table.from_pylist(nested),
    }


@pytest.mark.parametrize("what", held())
def test_the_same_questions_from_anything(what: str, caplog: pytest.LogCaptureFixture) -> None:
    expected = load(PLAIN)
    found = load(held()[what])
    assert found == expected
    assert fingerprint(found) == fingerprint(expected)
    assert [question.meta["row"] for question in found] == [1, 2]
    assert said_of(caplog) == []


def test_a_dataset_with_splits_and_class_names(tmp_path: Path) -> None:
    label, value = datasets.ClassLabel(names=["no", "yes"]), datasets.Value("string")
    features = datasets.Features(question=value, label=label)
    one = datasets.Dataset.from_dict({"question": [FISH], "label": [0]}, features=features)
    both = datasets.DatasetDict({"train": one, "test": one})
    assert load(both, split="test")[0].answer == "no"
    assert "has train, test" in refusal(both)
    assert "no split 'test'" in refusal(one, split="test")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (None, "is None: pass a list of fm.Question"),
        (7, "is a int: pass"),
        ({"question": "A?"}, "is a dict: pass"),
        ([1, 2], "row 1: a value of type int is not an object; write"),
        ([{"answer": "x"}], "row 1: no question; the columns are answer"),
        ([], "has no questions"),
        (pd.DataFrame(), "has no questions"),
    ],
)
def test_what_is_no_questions(given: Any, says: str) -> None:
    assert says in refusal(given)


def test_sets_and_members_of_enums_are_what_they_hold() -> None:
    told = dspy.Example(question=FISH, label=Color.RED, gold_titles={"b", "a"})  # as in HotPotQA
    [question] = load([told.with_inputs("question")])
    assert (question.answer, question.meta["gold_titles"]) == ("red", ["a", "b"])


def test_ids_are_made_of_the_content_alone(tmp_path: Path) -> None:
    ids = [question.id for question in load(PLAIN)]
    assert all(len(id_) == 12 for id_ in ids)
    assert [question.id for question in load(PLAIN[::-1])] == ids[::-1]
    moved = [
        {"answer": row["answer"], "prompt": row["question"], "options": row["choices"]}
        for row in PLAIN
    ]
    assert [question.id for question in load(put(tmp_path / "q.jsonl", lines(*moved)))] == ids
    assert load([{**PLAIN[0], "answer": "A"}])[0].id != ids[0]
    mixed = load([{**PLAIN[0], "id": "mine"}, {**PLAIN[1], "id": None}])
    assert [question.id for question in mixed] == ["mine", ids[1]]
    assert [question.meta.get("row") for question in mixed] == [None, 2]


def test_all_faults_are_listed_and_counted(tmp_path: Path) -> None:
    path = put(tmp_path / "q.jsonl", b'{"question": "A?"}\n' + b"nonsense\n" * 25)
    with pytest.raises(DataError) as caught:
        load(path)
    assert caught.value.count == 25
    assert len(caught.value.faults) == 20
    assert caught.value.faults[19].startswith("line 21: not readable as JSON")
    assert str(caught.value).startswith(f"{path} has 25 faults: line 2: not readable as JSON")
    assert str(caught.value).endswith("; and 5 more")
    assert len(load(path, limit=1)) == 1


def test_formulas_and_control_characters_are_text(tmp_path: Path) -> None:
    content = b'question,answer\n"=HYPERLINK(""http://x"")",=1+1\nWhat \x1b[31mred\x07?,x\n'
    first, second = load(put(tmp_path / "q.csv", content))
    assert (first.question, first.answer) == ('=HYPERLINK("http://x")', "=1+1")
    assert second.question == "What \x1b[31mred\x07?"
    out = folkmoot("data", "check", tmp_path / "q.csv")
    assert "\x1b" not in out.output


def test_a_cell_may_be_a_long_passage(tmp_path: Path) -> None:
    passage = "word " * 40_000
    text = f"question,context,answer\nA?,{passage},x\n"
    (question,) = load(put(tmp_path / "q.csv", text.encode()))
    assert question.context == passage
    cut = put(tmp_path / "cut.csv", f'question,answer\nA?,"{passage}\n'.encode())
    assert "line 2: not readable as CSV (unexpected end of data)" in refusal(cut)


@pytest.mark.nightly
def test_endless_cells_are_refused(tmp_path: Path) -> None:
    long = b"x" * (10 * 2**20)
    assert "line 2: longer than 8 MB" in refusal(put(tmp_path / "q.csv", b"question\n" + long))
    many = b"question,answer\n" + b'"x\n",' * (2 * 2**20) + b"\n"
    assert "the row is longer than 8 MB" in refusal(put(tmp_path / "q.csv", many))
    content = b'{"question": "A?"}\n{"question": "' + long + b'"}'
    assert "line 2: longer than 8 MB" in refusal(put(tmp_path / "q.jsonl", content))
    torn = put(tmp_path / "q.csv", b'question,answer\n"A?,x\nB?,y\n')
    assert "unexpected end of data" in refusal(torn)


def test_excel_needs_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    assert "pip install 'folkmoot[excel]'" in refusal(put(tmp_path / "q.xlsx", b"PK"))
    assert "has a type that cannot be read" in refusal(put(tmp_path / "q.xls", b"x"))


def test_excel(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    rows: list[list[Any]] = [["Question", "A", "B", "Gold", None], []]
    rows += [[SOUP, "a sieve", "a flask", "B"], ["=1+1", 1, 2, 2]]
    for row in rows:
        book.active.append(row)
    book.save(tmp_path / "q.xlsx")
    # A formula that was never calculated has no value: it is a fault, and never what it says.
    assert "row 4: the row has no 'question'" in refusal(tmp_path / "q.xlsx")
    book.active.delete_rows(4)
    book.save(tmp_path / "q.xlsx")
    assert [(q.question, q.answer) for q in load(tmp_path / "q.xlsx")] == [(SOUP, "B")]
    assert said_of(caplog)[-1].endswith("read `A`–`B` as choices, `Gold` as answer")
    book.create_sheet("more").append(["question"])
    book["more"].append(["Who?"])
    book.save(tmp_path / "q.xlsx")
    assert "has Sheet, more; give one of them as the split" in refusal(tmp_path / "q.xlsx")
    assert load(tmp_path / "q.xlsx", split="Sheet")[0].answer == "B"


def test_cells_of_excel_are_what_they_show(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    rows: list[list[Any]] = [["question", "answer"], ["What share?", 0.45]]
    for row in [*rows, ["When?", datetime(2024, 1, 5)], ["How much?", "#REF!"]]:
        book.active.append(row)
    book.active["B2"].number_format = "0%"
    book.save(tmp_path / "q.xlsx")
    assert "row 4: 'answer' holds #REF!, an error" in refusal(tmp_path / "q.xlsx")
    book.active.delete_rows(4)
    book.save(tmp_path / "q.xlsx")
    assert [question.answer for question in load(tmp_path / "q.xlsx")] == ["45%", "2024-01-05"]
    book.active["C1"] = "answer"
    book.save(tmp_path / "q.xlsx")
    assert "row 1: two columns have the same name" in refusal(tmp_path / "q.xlsx")


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [
        (".gz", gzip.compress),
        (".bz2", bz2.compress),
        (".zst", lambda raw: pa.compress(raw, codec="zstd", asbytes=True)),
    ],
)
def test_packed_text(suffix: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    packed = pack(b"question,answer\nWho?,Ada\n")
    assert load(put(tmp_path / f"q.csv{suffix}", packed))[0].answer == "Ada"
    assert "cannot be read (Truncated" in refusal(put(tmp_path / f"t.csv{suffix}", packed[:-9]))
    bomb = put(tmp_path / f"b.csv{suffix}", pack(bytes(2**26 + 1)))
    assert "far larger once unpacked" in refusal(bomb)
    assert "has a type that cannot be read" in refusal(put(tmp_path / "q.zip", b"PK"))


def test_check_shows_what_was_understood(tmp_path: Path) -> None:
    rows = [
        {"prompt": row["question"], "options": row["choices"], "gold": row["answer"]}
        for row in PLAIN
    ]
    path = put(tmp_path / "q.jsonl", lines(*rows, rows[0]))
    out = folkmoot("data", "check", path, code=0).stdout
    assert "questions: 3 (3 choice)" in out
    assert "answers: B 2, A 1" in out
    assert "asked again: 1 question (0 with another answer)" in out
    assert "read: `prompt` as question, `options` as choices, `gold` as answer" in out
    assert f"first row: {SOUP} | A: a sieve | B: a flask | answer: B" in out
    found = json.loads(folkmoot("data", "check", path, "--json").stdout)
    assert found["questions"] == 3
    assert found["answers"] == {"B": 2, "A": 1}
    assert found["faults"] == []


def test_a_frame_is_evaluated_and_its_report_shows_rows(scripted, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    columns = {"A": "a sieve", "B": "a flask", "gold": ["B", "A"]}
    frame = pd.DataFrame({"prompt": [SOUP, "What drains?"], **columns})
    model = fm.lm("openai/scripted", api_base=scripted.url)
    result = fm.evaluate(fm.SingleAgent("simple"), frame, lm=model, out=tmp_path, tracking=False)
    assert [row["id"] for row in result.rows] == [question.id for question in load(frame)]
    assert shown(result.rows[1]).id == f"{result.rows[1]['id']} (row 2)"
    read = "questions: read `prompt` as question, `A`–`B` as choices, `gold` as answer"
    assert read in said_of(caplog)
    # The same rows from elsewhere are the same run, which is resumed without a call.
    calls = len(scripted.requests)
    rows = frame.rename(columns={"prompt": "question", "gold": "answer"}).to_dict("records")
    fm.evaluate(fm.SingleAgent("simple"), rows, lm=model, out=tmp_path, tracking=False)
    assert len(scripted.requests) == calls
