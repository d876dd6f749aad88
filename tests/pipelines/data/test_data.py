"""`load`: names, files, splits, all kinds of bad input, samples, overlap, and real data."""

import csv
import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import huggingface_hub
import pandas as pd
import pytest
from cli_helpers import write
from hypothesis import given
from hypothesis import strategies as st

from folkmoot.modules.base.errors import UserError
from folkmoot.modules.reading.question import Question
from folkmoot.pipelines.data import catalogue
from folkmoot.pipelines.data.load import load
from folkmoot.pipelines.data.parts import recorded
from folkmoot.pipelines.data.places import list_datasets
from folkmoot.pipelines.data.questions import check_labelled, check_overlap, fingerprint, overlap
from folkmoot.pipelines.data.sampling import sample

ROWS: list[dict[str, Any]] = [
    {"id": "1", "question": "Where, then?", "choices": {"A": "bank", "B": "the \"mall\""},
     "answer": "B",
     "context": None, "meta": {"type": "x", "n": 1}},
    {"id": "2", "question": "Is it so?", "choices": None, "answer": "yes",
     "context": "A passage,\nin two lines.", "meta": {}},
    {"id": "3", "question": "How many?", "choices": None, "answer": "1200", "context": ["one",
     "two"],
     "meta": {"type": "y"}},
    {"id": "4", "question": "Who was it? é", "choices": None, "answer": "Ada", "context": None,
     "meta": {}},
]  # fmt: skip
# Rows without options have one kind, whatever each gold looks like.
EXPECTED = [Question(row, kind=None if row["choices"] else "span") for row in ROWS]
KINDS = ["choice", "span", "span", "span"]


@pytest.fixture(autouse=True)
def _no_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FOLKMOOT_DATA", "FOLKMOOT_CACHE", "FOLKMOOT_THREADS"):
        monkeypatch.delenv(name, raising=False)


def simple(count: int, **fields: Any) -> list[dict[str, Any]]:
    known = {"answer": "yes", **fields}
    return [{"id": f"q{n}", "question": f"Question {n}?", **known} for n in range(count)]


def as_text(row: dict[str, Any]) -> dict[str, Any]:
    return {k: json.dumps(v) if isinstance(v, dict | list) else v for k, v in row.items()}


def refusal(*args: Any, **kwargs: Any) -> str:
    with pytest.raises(UserError) as caught:
        load(*args, **kwargs)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_jsonl_and_csv_with_json_cells(tmp_path: Path) -> None:
    found = load(write(tmp_path / "data.jsonl", *ROWS))
    assert found == EXPECTED
    assert [question.kind for question in found] == KINDS
    assert load([question.to_row() for question in found]) == EXPECTED
    path = tmp_path / "data.csv"
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, list(ROWS[0]))
        writer.writeheader()
        writer.writerows(map(as_text, ROWS))
    assert load(path) == EXPECTED
    assert load(str(path)) == EXPECTED


def test_parquet_with_nested_and_with_json_columns(tmp_path: Path) -> None:
    frame = pd.DataFrame([{**row, "context": None, "meta": row["meta"] or None} for row in ROWS])
    frame.to_parquet(tmp_path / "nested.parquet")
    expected = [question.copy(context=None) for question in EXPECTED]
    assert load(tmp_path / "nested.parquet") == expected
    pd.DataFrame(map(as_text, ROWS)).to_parquet(tmp_path / "text.PARQUET")
    assert load(tmp_path / "text.PARQUET") == EXPECTED


def test_saved_datasets_folder(tmp_path: Path) -> None:
    rows = [{**row, "context": None, "meta": json.dumps(row["meta"])} for row in ROWS]
    saved = datasets.Dataset.from_list(rows)
    saved.save_to_disk(tmp_path / "one")
    expected = [question.copy(context=None) for question in EXPECTED]
    assert load(tmp_path / "one") == expected
    assert "no split 'test'" in refusal(tmp_path / "one", split="test")
    datasets.DatasetDict({"a": saved, "b": saved.select([3])}).save_to_disk(tmp_path / "two")
    assert load(tmp_path / "two", split="b") == expected[3:]
    assert "a, b" in refusal(tmp_path / "two")
    assert "a, b" in refusal(tmp_path / "two", split="c")


BAD = {
    "jsonl": [
        (b"", "no questions"),
        (b'{"id": "1"}', "line 1: no question"),
        (b'{"id": "1", "question": "A?", "choices": {"A": "x", "A": "y"}}', "'A' is given twice"),
        (b'{"id": "1", "question": "A?", "answer": "maybe", "kind": "boolean"}', "'maybe'"),
        (b'{"id": "1", "question": "A?"', "line 1: not readable as JSON"),
        (b'[{"id": "1", "question": "A?"}, 3]', "row 2: a value of type int is not an object"),
        (b"[" * 100_000, "line 1: "),
        (b'{"id": "1", "question": "caf\xe9?"}', "line 1: not UTF-8"),
        (b'{"id": "1", "question": "half \\ud800?"}', "Unicode"),
    ],
    "csv": [
        (b"id,question,answer\n", "no questions"),
        (b"text of it,answer\nA?,yes\n", "line 2: no question; the columns are text of it, answer"),
        (b"id,question\n1,A?\n1.0,B?\n1,C?\n", "line 4: the id '1' already stands at"),
        (b"id,question,question\n1,A?,B?\n", "same name"),
        (b'id,question\n1,"never closed\n', "line 2: not readable as CSV"),
    ],
}


@pytest.mark.parametrize("ending", BAD)
def test_bad_content(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"data.{ending}"
    for content, says in BAD[ending]:
        path.write_bytes(content)
        message = refusal(path)
        assert says in message
        assert str(path) in message


def test_bad_files(tmp_path: Path) -> None:
    assert "no file" in refusal(tmp_path / "absent.jsonl")
    (tmp_path / "data.dat").write_text("x")
    assert ".jsonl" in refusal(tmp_path / "data.dat")
    assert "folder" in refusal(tmp_path)
    (tmp_path / "data.parquet").write_bytes(b"PAR1 no parquet")
    assert "not readable as Parquet" in refusal(tmp_path / "data.parquet")
    raw = pd.DataFrame({"id": ["a"], "question": ["A?"], "raw": [b"\x00"]})
    raw.to_parquet(tmp_path / "bytes.parquet")
    assert "row 1: a value of type bytes in 'raw'" in refusal(tmp_path / "bytes.parquet")
    path = write(tmp_path / "data.jsonl", *ROWS)
    assert "no split 'test'" in refusal(path, split="test")
    assert "unknown field 'topic'" in refusal(path, columns={"topic": "x"})


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"q": "question", "a": "answer"}, "--columns question=q --columns answer=a "),
        (["question", "answer"], '(in Python columns={"question": "q_text"})'),
        ({"question": "Text", "answer": "gold"}, "'Text' for question, 'gold' for answer"),
        ({"choices": "first team,2nd team"}, "no column '2nd team' for choices"),
    ],
)
def test_wrong_columns_are_told_what_to_write(columns: Any, said: str, tmp_path: Path) -> None:
    rows = [{"id": 1, "the text": "Who won?", "first team": "Rome", "second team": "Bari"}]
    assert said in refusal(write(tmp_path / "data.jsonl", *rows), columns=columns)


TEAMS = """question;first team;second team;third team;answer;city
Who won 1990?;Rome;Bari;Turin;Bari;Milan
Who won 1991?;Rome;Genoa;Turin;Rome;Bari
"""


def test_options_in_columns_of_any_name_are_asked_for_and_named(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text(TEAMS)
    said = refusal(path)
    guess = "the answer always stands in one of `first team` … `third team`: are these the options?"
    assert guess in said
    assert "--columns 'choices=first team,second team,third team'" in said
    first, second = load(path, columns={"choices": "first team,second team,third team"})
    assert (first.choices, first.answer) == ({"A": "Rome", "B": "Bari", "C": "Turin"}, "B")
    assert (second.answer, second.meta["city"]) == ("A", "Bari")
    assert {question.kind for question in load(path, kind="span")} == {"span"}


@pytest.mark.parametrize(
    ("names", "columns"),
    [("first,second,third", "first,second,third"), ("option_a,option_b,option_c", None)],
)
def test_an_answer_may_name_its_column(names: str, columns: str | None, tmp_path: Path) -> None:
    one, two, _ = names.split(",")
    rows = f"question,{names},answer\nWho won 1990?,Rome,Bari,Turin,{two}\n"
    path = tmp_path / "data.csv"
    path.write_text(f"{rows}Who won 1991?,Rome,Genoa,Turin,{one}\n")
    if columns is not None:
        assert "are these the options?" in refusal(path)
    found = load(path, columns={"choices": columns} if columns else None)
    assert [question.answer for question in found] == ["B", "A"]
    assert found[0].choices == {"A": "Rome", "B": "Bari", "C": "Turin"}


def test_unlabelled_questions_load_but_cannot_be_scored(tmp_path: Path) -> None:
    blank = [{"id": str(n), "question": "A?"} for n in (1, 2)]
    path = write(tmp_path / "data.jsonl", *simple(1), *blank)
    found = load(path)
    assert found[1].answer is None
    check_labelled(found[:1])
    says = r"2 questions have no answer .* line 2, question '1'.*NAME:unanswerable"
    with pytest.raises(UserError, match=says):
        check_labelled(found)
    assert fingerprint(found) == fingerprint([Question(**one.toDict()) for one in found])
    assert found == [Question(**one.toDict()) for one in found]


def test_unknown_names_and_splits_are_refused_with_help(tmp_path: Path) -> None:
    assert "did you mean 'commonsenseqa'" in refusal("comonsenseqa")
    assert "the names are commonsenseqa, " in refusal("zzz")
    splits = "gsm1k has no split 'validation'; its splits are test"
    assert refusal("gsm1k", split="validation").startswith(splits)
    assert "not a folder" in refusal("gsm1k", data_dir=tmp_path / "absent")


def test_a_name_is_read_from_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "gsm8k-test.jsonl", *simple(3, answer="1,000"))
    write(tmp_path / "gsm8k-train.jsonl", *simple(2, answer="4"))
    assert len(load("openai/gsm8k", data_dir=tmp_path)) == 3
    assert len(load("gsm8k", split="TRAIN", data_dir=str(tmp_path))) == 2
    monkeypatch.setenv("FOLKMOOT_DATA", str(tmp_path))
    assert {question.kind for question in load("gsm8k")} == {"number"}
    write(tmp_path / "gsm8k-test.jsonl", *simple(1, answer="a lot"))
    assert "gsm8k-test.jsonl, line 1" in refusal("gsm8k")


def test_boolq_closed_and_open_book(tmp_path: Path) -> None:
    path = write(tmp_path / "boolq-validation.jsonl", *simple(1, context="The passage."))
    closed = load("boolq", data_dir=tmp_path)[0]
    assert "passage" not in json.dumps(closed.toDict())
    assert load("boolq-open", split="dev", data_dir=tmp_path)[0].context == "The passage."
    assert load(path)[0].context == "The passage."


def test_a_users_own_set_in_the_data_folder(tmp_path: Path) -> None:
    write(tmp_path / "mine-validation.jsonl", *ROWS)
    assert load("mine", data_dir=tmp_path) == EXPECTED
    write(tmp_path / "mine-test.jsonl", *ROWS[:1])
    assert load("mine", split="test", data_dir=tmp_path) == EXPECTED[:1]
    assert load("mine", split="dev", data_dir=tmp_path) == EXPECTED
    assert "test, validation" in refusal("mine", data_dir=tmp_path)
    assert "test, validation" in refusal("mine", split="train", data_dir=tmp_path)
    own = next(info for info in list_datasets(tmp_path) if info.name == "mine")
    assert set(own.here) == {"test", "validation"}


OF_SCIENCE = {"choices": ["x", "y"], "topic": "t", "category": "c", "skill": "k"}
HUB: dict[str, tuple[str, list[dict[str, Any]], dict[str, Any]]] = {
    "arc-challenge": (
        "ARC-Challenge/test-00000-of-00001.parquet",
        [{"id": "a1", "question": "Which?", "answerKey": "2",
          "choices": {"text": ["x", "y"], "label": ["1", "2"]}}],
        {"id": "a1", "answer": "B", "choices": {"A": "x", "B": "y"},
         "meta": {"upstream_labels": ["1", "2"]}},
    ),
    "gsm8k": (
        "main/test-00000-of-00001.parquet",
        [{"question": "How many?", "answer": "4 * 300 = <<4*300=1200>>1200\n#### 1,200"}],
        {"id": "gsm8k-test-0000", "answer": "1200", "kind": "number", "meta": {}},
    ),
    "hotpotqa": (
        "distractor/validation-00000-of-00001.parquet",
        [{"id": "5a", "question": "Same?", "answer": "yes", "type": "comparison", "level": "hard",
          "supporting_facts": {"title": ["T", "T", "U"], "sent_id": [0, 1, 0]},
          "context": {"title": ["T"], "sentences": [["One."]]}}],
        {"id": "hotpotqa-dev-0000", "answer": "yes", "kind": "span", "context": None,
         "meta": {"type": "comparison", "level": "hard", "hotpot_id": "5a",
         "supporting_titles": ["T", "U"]}},
    ),
    "scienceqa": (
        "data/test-00000-of-00001-0123456789abcdef.parquet",
        [{"image": {"bytes": b"x", "path": None}, "question": "See?", "answer": 0, "hint": "",
          "grade": "grade1", "subject": "s", **OF_SCIENCE},
         {"image": None, "question": "Which?", "answer": 1, "hint": "Look.", "grade": "grade11",
          "subject": "natural science", **OF_SCIENCE}],
        {"id": "scienceqa-test-1", "question": "Which?\nLook.", "answer": "B",
         "meta": {"subject": "natural science", "topic": "t", "category": "c", "skill": "k",
         "grade": 11, "hint": "Look."}},
    ),
}  # fmt: skip


def fake_hub(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = []

    def snapshot_download(repo: str, **kwargs: Any) -> str:
        calls.append({"repo": repo, **kwargs})
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return calls


@pytest.mark.parametrize("name", HUB)
def test_hub_rows_become_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, rows, expected = HUB[name]
    (tmp_path / file).parent.mkdir()
    pd.DataFrame(rows).to_parquet(tmp_path / file)
    calls = fake_hub(monkeypatch, tmp_path)
    (question,) = load(name)
    assert {field: question[field] for field in expected} == expected
    spec: Any = catalogue.find(name)
    assert calls[0]["repo"] == spec.hub.id
    assert len(calls[0]["revision"]) == 40
    assert calls[0]["local_files_only"]  # what is in the cache is read without a network
    assert len(calls) == 1


def test_no_network_is_one_sentence_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def snapshot_download(*_: Any, **__: Any) -> str:
        raise ConnectionError("a long\nstory")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    message = refusal("commonsenseqa")
    assert "commonsenseqa-validation.jsonl" in message
    assert "FOLKMOOT_DATA" in message
    assert "hotpotqa-validation-context.jsonl" in refusal("hotpotqa-context")  # it is on no hub


def test_limits_and_seeds(tmp_path: Path) -> None:
    path = write(tmp_path / "data.jsonl", *simple(50))
    everything = load(path)
    assert load(path, limit=5) == everything[:5]
    assert load(path, limit=500) == everything
    drawn = load(path, limit=10, seed=3)
    assert drawn == load(path, limit=10, seed=3)
    assert drawn != load(path, limit=10, seed=4)
    assert drawn != everything[:10]
    assert drawn == sorted(drawn, key=lambda question: int(question.id[1:]))
    assert load(path, seed=3) == everything


def test_hotpotqa_samples_are_balanced_and_recorded(tmp_path: Path) -> None:
    rows = simple(30)
    for n, row in enumerate(rows):
        row["meta"] = {"type": "comparison" if n % 5 == 0 else "bridge"}
    write(tmp_path / "hotpotqa-validation.jsonl", *rows)
    drawn = load("hotpotqa", limit=8, seed=0, data_dir=tmp_path)
    record = recorded(drawn, "hotpot_qa", None, 8, 0)
    assert record["types"] == {"bridge": 4, "comparison": 4}
    assert (record["data"], record["split"], record["seed"]) == ("hotpotqa", "validation", 0)
    assert record["sampling"] == "balanced by type"
    seven = load("hotpotqa", limit=7, seed=0, data_dir=tmp_path)
    assert Counter(q.meta["type"] for q in seven) == {"bridge": 4, "comparison": 3}
    assert "at most 12" in refusal("hotpotqa", limit=14, seed=0, data_dir=tmp_path)
    assert load("hotpotqa", limit=2, data_dir=tmp_path)[0].id == "q0"
    assert json.loads(json.dumps(record)) == record


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2**32))
def test_samples_of_one_seed_are_nested(small: int, large: int, seed: int) -> None:
    small, large = sorted((small, large))
    questions = [Question(row) for row in simple(40)]
    inner, outer = sample(questions, small, seed), sample(questions, large, seed)
    assert len(inner) == small
    assert set(inner) <= set(outer)
    assert outer == [question for question in questions if question in set(outer)]


@pytest.mark.parametrize(
    "change",
    [
        lambda q: [*q[1:], q[0]],
        lambda q: q[:-1],
        lambda q: [q[0].copy(choices=dict(reversed(q[0].choices.items()))), *q[1:]],
        lambda q: [q[0].copy(answer="A"), *q[1:]],
        lambda q: [*q[:-1], q[-1].copy(context="new")],
    ],
)
def test_fingerprints_see_changes(change: Callable[[list[Question]], list[Question]]) -> None:
    assert fingerprint(EXPECTED) == fingerprint([question.copy() for question in EXPECTED])
    assert fingerprint(change(EXPECTED)) != fingerprint(EXPECTED)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Don't go!", "don’t go", True),
        ("A well-known place?", "a well known place", True),
        ("Straße?", "STRASSE", True),
        ("What is 3 + 4?", "What is 3 - 4?", False),
        ("?", "!", False),
    ],
)
def test_overlap_is_by_normalised_text(one: str, other: str, same: bool) -> None:
    pairs = overlap([Question(id="a", question=one)], [Question(id="b", question=other)])
    assert pairs == ([("a", "b")] if same else [])


def test_overlap_tells_equal_options_from_other_ones() -> None:
    def asked(id: str, question: str, first: str, second: str = "a mile") -> Question:
        return Question(id=id, question=question, choices={"A": first, "B": second})

    train = [asked("0", "Which is longer?", "a foot"), asked("1", "Which is longer?", "an inch")]
    test = [
        asked("same", "Which is longer", "A mile", "an inch"),
        asked("stem", "Which is longer", "a yard"),
        asked("new", "Which is heavier?", "a yard"),
    ]
    assert overlap(train, test) == [("1", "same"), ("0", "stem")]
    told = "2 of 3 test questions have the text of a training question, 1 "
    assert (check_overlap(train, test) or "").startswith(told)
    assert check_overlap(train, test[2:]) is None


REAL = [
    ("commonsenseqa", "validation", 1221, "choice"),
    ("commonsenseqa", "train", 9741, "choice"),
    ("arc-challenge", "test", 1172, "choice"),
    ("arc-challenge", "train", 1119, "choice"),
    ("gsm8k", "test", 1319, "number"),
    ("gsm8k", "train", 7473, "number"),
    ("gsm1k", "test", 50, "number"),
    ("hotpotqa", "validation", 7405, "span"),
    ("hotpotqa-context", "validation", 858, "span"),
    ("hotpotqa-context", "train", 400, "span"),
    ("scienceqa", "test", 2224, "choice"),
    ("scienceqa", "train", 6508, "choice"),
    ("com2sense", "validation", 782, "boolean"),
    ("boolq", "validation", 3270, "boolean"),
    ("boolq-open", "validation", 3270, "boolean"),
]
DATA = os.environ.get("FOLKMOOT_DATA")
BY_DAY = ("gsm1k", "hotpotqa-context", "com2sense")  # the smallest of each kind


@pytest.mark.skipif(not DATA, reason="FOLKMOOT_DATA names no folder with the real data sets")
@pytest.mark.parametrize(
    ("name", "split", "rows", "kind"),
    [pytest.param(*one, marks=[] if one[0] in BY_DAY else pytest.mark.nightly) for one in REAL],
)
def test_real_data(name: str, split: str, rows: int, kind: str) -> None:
    questions = load(name, split, data_dir=DATA)
    assert len(questions) == rows
    assert {question.kind for question in questions} == {kind}
    check_labelled(questions)
    assert not any(isinstance(question.context, list) for question in questions)
    assert all((question.context is not None) == (name == "boolq-open") for question in questions)
    if name == "hotpotqa-context":
        assert all(question.meta["context_ids"] for question in questions)
    if name == "scienceqa":
        assert all(question.meta["subject"] for question in questions)
