"""Tasks as rows and as folders, and what is refused in their paths."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

import folkmoot as fm
from folkmoot.pipelines.data.questions import check_labelled, fingerprint

FILES = {"src/add.py": "def add(a, b):\n    return a - b\n"}
TESTS = {"test_add.py": "from src.add import add\n"}


def folder_of_a_task(path: Path) -> Path:
    for part, files in {"files": FILES, "tests": TESTS}.items():
        for name, text in files.items():
            file = path / "add" / part / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    (path / "add" / "question.md").write_text("Repair add.\n")
    return path


def test_a_folder_and_a_row_are_the_same_task(tmp_path: Path) -> None:
    place = folder_of_a_task(tmp_path / "tasks")
    for cache in ("__pycache__", ".git"):
        (place / "add" / "tests" / cache).mkdir()
        (place / "add" / "tests" / cache / "x").write_bytes(b"\xff")
    folder = fm.load(place)
    assert fm.load(place / "add") == folder
    row = {"id": "add", "question": "Repair add.\n", "files": FILES, "tests": TESTS}
    file = tmp_path / "tasks.jsonl"
    file.write_text(json.dumps(row) + "\n")
    assert folder == fm.load(file) == fm.load([{**row, "kind": "task"}])
    assert fingerprint(folder) == fingerprint([fm.Question(q.to_row()) for q in folder])
    (task,) = folder
    assert (task.kind, task.answer, task.files, task.tests) == ("task", None, FILES, TESTS)
    check_labelled(folder)


def test_programs_are_shown_the_files_and_never_the_tests(tmp_path: Path) -> None:
    (task,) = fm.load(folder_of_a_task(tmp_path / "tasks"))
    shown = task.shown()
    assert (shown.files, shown.tests) == (FILES, {})
    assert "test_add" not in str(shown.toDict()) + str(task.inputs().toDict())
    assert task.context == ["src/add.py:\n" + FILES["src/add.py"]]


def test_columns_of_these_names_are_no_task_where_a_row_has_an_answer() -> None:
    (question,) = fm.load([{"question": "q", "answer": "a", "files": {"x": "1"}}])
    assert (question.kind, question.meta["files"]) == ("span", {"x": "1"})


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a//b", "a/../../b", ".git/config", "a\\b", ""])
def test_paths_that_lead_out_are_refused(path: str) -> None:
    for part in ("files", "tests"):
        fields: dict[str, Any] = {part: {path: "1"}}
        with pytest.raises(fm.UserError, match="is refused: give one inside the folder"):
            fm.Question(id="t", question="q", kind="task", **fields)


@pytest.mark.parametrize("part", ["add", "add/files", "add/tests", "add/question.md"])
def test_no_part_of_a_task_is_a_link(part: str, tmp_path: Path) -> None:
    tasks = folder_of_a_task(tmp_path / "tasks")
    outside = tmp_path / "outside"
    (tasks / part).rename(outside)
    (tasks / part).symlink_to(outside)
    with pytest.raises(fm.UserError, match="link to another place"):
        fm.load(tasks)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a": "", "a/b": ""}, "'a' is a file, so 'a/b' cannot lie in it"),
        ({"x" * 300: ""}, "give one of at most 255 bytes"),
        (["a.py"], "has files that are not an object of paths and texts, so it is no task"),
        (None, "; a task needs no answer, but tests, a column of objects of paths and texts"),
    ],
)
def test_files_that_cannot_be_laid_are_refused(files: object, message: str, tmp_path: Path) -> None:
    place = tmp_path / "tasks.jsonl"
    row = {"id": "t", "question": "Repair.", "files": files, "test_list": ["assert f()"]}
    place.write_text(json.dumps(row))
    with pytest.raises(fm.UserError, match=message):
        fm.evaluate(lambda question: "", place, check="true", tracking=False, sandbox="none")


def test_links_and_what_is_no_text_are_refused(tmp_path: Path) -> None:
    tasks = folder_of_a_task(tmp_path / "tasks")
    os.symlink("/etc/passwd", tasks / "add" / "files" / "secret")
    with pytest.raises(fm.UserError, match=r"secret cannot be a file of a task \(it is a link"):
        fm.load(tasks)
    (tasks / "add" / "files" / "secret").unlink()
    (tasks / "add" / "tests" / "picture.png").write_bytes(b"\x89PNG\xff")
    with pytest.raises(fm.UserError, match="it is not text"):
        fm.load(tasks)


def test_faults_of_tasks_are_said(tmp_path: Path) -> None:
    with pytest.raises(fm.UserError, match="a check decides"):
        fm.load([{"question": "q", "kind": "task", "answer": "a"}])
    with pytest.raises(fm.UserError, match="tests that are not an object of paths and texts"):
        fm.load([{"question": "q", "kind": "task", "tests": {"x": 1}}])
    tasks = folder_of_a_task(tmp_path / "tasks")
    (tasks / "empty").mkdir()
    with pytest.raises(fm.UserError, match=r"empty/question\.md cannot be a file of a task"):
        fm.load(tasks)
