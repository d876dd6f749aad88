"""What answers a task: commands, functions with a folder, and programs that give a text."""

from pathlib import Path
from typing import Any

import pytest
from acting import ASK, DIFF, PYTEST, REPAIRED, TESTED, add_task, command, done, fm_server, only_row

import folkmoot as fm
from folkmoot.pipelines.tasks.folder import MOST_KEPT, NOTHING, left_in_folder, put
from folkmoot.pipelines.tasks.process import CommandError

REPAIRS = f"open('add.py', 'w').write({REPAIRED!r})\n"


@pytest.fixture(autouse=True)
def _unprotected(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are of answers; those of sandboxes are in test_attacks.py."""
    made = fm.Check.__init__

    def init(self: Any, *arguments: Any, **options: Any) -> None:
        made(self, *arguments, **{"sandbox": "none", **options})

    monkeypatch.setattr(fm.Check, "__init__", init)


def test_what_a_command_leaves_is_its_answer_and_is_checked(tmp_path: Path) -> None:
    row = only_row(command(tmp_path, REPAIRS), check=PYTEST)
    assert (row["score"], row["correct"], row["kind"], row["gold"]) == (1.0, True, "task", None)
    assert "-    return a - b\n+    return a + b" in row["answer"]
    assert row["answer"].startswith("diff --git a/add.py b/add.py")
    assert row["check"]["exit_code"] == 0
    assert "1 passed" in row["check"]["lines"][-1]
    assert row["check"]["seconds"] > 0


def test_a_command_finds_files_and_no_tests_and_gets_the_question(tmp_path: Path) -> None:
    code = (
        "asked = json.load(sys.stdin)\n"
        "assert asked['question'].startswith('Repair'), asked\n"
        "assert sorted(os.listdir()) == ['README', 'add.py'], os.listdir()\n"
        "assert 'test_add' not in json.dumps(asked)\n"
    )
    row = only_row(command(tmp_path, code), check=TESTED)
    assert (row["error"], row["answer"], row["correct"]) == (None, NOTHING, False)
    assert "AssertionError" in row["feedback"]


def test_its_calls_are_metered(tmp_path: Path) -> None:
    row = only_row(command(tmp_path, ASK + "open('said', 'w').write(ask('q'))\n"))
    assert "hello" in row["answer"]
    assert (row["usage"]["calls"], row["usage"]["completion_tokens"]) == (1, 2)


def test_a_function_may_work_in_the_folder() -> None:
    async def acts(question: fm.Question, folder: Path) -> str:
        assert sorted(path.name for path in folder.iterdir()) == ["README", "add.py"]
        (folder / "add.py").write_text(REPAIRED)
        return "done"

    def by_fields(question: str, folder: Path) -> None:
        (folder / "README").unlink()

    row = only_row(acts)
    assert (row["correct"], row["answer"].count("diff --git")) == (True, 1)
    assert "deleted file" in only_row(by_fields)["answer"]


@pytest.mark.parametrize(
    "text",
    [
        REPAIRED,
        f"Here:\n```\nx\n```\nand better:\n```python\n{REPAIRED}```\nDone.",
        f"Here:\n```py\n{REPAIRED}```\nRun it:\n```bash\npython add.py\n```\n```\n3\n```",
        f"~~~~Python\n{REPAIRED}~~~~",
        f"I was cut off:\n```python\n{REPAIRED}",
        f"1. In a list:\n```python\n{REPAIRED}```".replace("\n", "\n   "),
        f"```python\n# half a character: \ud83d\n{REPAIRED}```",
    ],
)
def test_a_text_goes_into_the_answer_file(text: str) -> None:
    row = only_row(lambda question: text, answer_file="add.py")
    assert (row["correct"], row["answer"]) == (True, text.strip())


README = "--- a/README\n+++ b/README\n@@ -1 +1 @@\n-Sums.\n+Sums!\n"
LINKED = "--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc\n\\ No newline at end of file\n"


@pytest.mark.parametrize(
    "diff",
    [
        DIFF,
        f"I changed:\n```diff\n{DIFF}```",
        DIFF.replace("-1,2 +1,2", "-1,9 +1,7"),  # LMs cannot count lines
        DIFF.replace("a/add", "add").replace("b/add", "add"),
        f"diff --git a/add.py b/add.py\n{DIFF}",
        DIFF.replace("\n", "\r\n"),
        f"Two files:\n```diff\n{DIFF}```\n```diff\n{README}```",
        f"{DIFF}{README}".replace("-1,2 +1,2", "-1,9 +1,7"),
        f"```diff\n{DIFF.replace('a + b', '0')}```\nNo, rather:\n```diff\n{DIFF}```",
    ],
)
def test_a_text_is_a_diff_without_an_answer_file(diff: str) -> None:
    assert only_row(lambda question: diff)["correct"] is True


@pytest.mark.parametrize(
    ("text", "diff", "left"),
    [
        ("a\r\nb\r\n", "@@ -1,2 +1,2 @@\n-a\n+c\n b\n", "c\r\nb\r\n"),
        ("```\na\n```\n", "@@ -1,3 +1,3 @@\n ```\n-a\n+c\n ```\n", "```\nc\n```\n"),
    ],
)
def test_a_diff_fits_its_file(text: str, diff: str, left: str, tmp_path: Path) -> None:
    put_files({"x.md": text}, tmp_path / "b")
    put(f"--- a/x.md\n+++ b/x.md\n{diff}", tmp_path / "b", None)
    assert contents(tmp_path / "b") == {"x.md": left.encode()}


@pytest.mark.parametrize(
    ("diff", "reason"),
    [
        ("I do not know.", "is not a diff that can be applied"),
        (DIFF.replace("a - b", "a * b"), "patch does not apply"),
        (DIFF.replace("add.py", "../add.py"), "applied"),
        ("--- /dev/null\n+++ b/../../../x\n@@ -0,0 +1 @@\n+1\n", "invalid path '../../../x'"),
        (DIFF.replace("a/add.py", "/etc/passwd").replace("b/add.py", "/etc/passwd"), "applied"),
        ("--- /dev/null\n+++ b/add.py\n@@ -0,0 +1 @@\n+1\n", "add.py: already exists"),
        (f"diff --git a/l b/l\nnew file mode 120000\n{LINKED}", "makes a link"),
        (f"diff --git a/l b/l\nnew file mode 0120000 \n{LINKED}", "makes a link"),
    ],
)
def test_an_error_row_says_why_a_text_is_no_diff(diff: str, reason: str) -> None:
    row = only_row(lambda question: diff)
    assert reason in row["error"]
    assert row["answer"] == diff.strip()


def test_a_diff_of_any_folder_makes_it_again(tmp_path: Path) -> None:
    files = {"a.txt": "x\ny\r\n", "gone": "g\n", "same": "s\n"}
    left, again = tmp_path / "1" / "b", tmp_path / "2" / "b"
    for folder in (left, again):
        folder.parent.mkdir()
        put_files(files, folder)
    (left / "a.txt").write_bytes(b"x\nz\r\nno end")
    (left / "gone").unlink()
    (left / "sub").mkdir()
    (left / "sub" / "né w").write_text("hi\n")
    (left / "bin").write_bytes(bytes(range(256)))
    (left / ".gitattributes").write_text("* text=auto eol=crlf\n")
    (left / "empty").write_text("")
    (left / "run.sh").write_text("#!/bin/sh\n")
    (left / "run.sh").chmod(0o755)
    (left / "__pycache__").mkdir()
    (left / "__pycache__" / "x.pyc").write_text("x")
    (left / "sub" / ".git").write_text("gitdir: elsewhere\n")
    (left / "link").symlink_to("/etc/passwd")
    (left / "l\nk\udcff").symlink_to("/etc/passwd")
    kept, whole = left_in_folder(files, left)
    assert kept == whole
    assert sorted(kept.splitlines()[:2]) == ["# left out: 'l\\nk\\udcff'", "# left out: link"]
    put(kept, again, "add.py")
    assert contents(again) == contents(left)
    assert (again / "run.sh").stat().st_mode & 0o100
    (left / "latin").write_bytes(b"caf\xe9\n")
    with pytest.raises(CommandError, match="a text that is not UTF-8"):
        left_in_folder(files, left)


def put_files(files: dict[str, str], folder: Path) -> None:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_bytes(text.encode())


def contents(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def test_a_long_diff_is_cut_in_the_row_and_checked_whole(tmp_path: Path) -> None:
    code = f"open('a', 'w').write('0123456789\\n' * {MOST_KEPT // 10})\n" + REPAIRS
    row = only_row(command(tmp_path, code))
    assert row["correct"] is True
    assert "… cut: the whole diff has" in row["answer"]
    assert len(row["answer"].encode()) < MOST_KEPT + 100


def test_more_than_there_is_room_for_is_an_error_row(tmp_path: Path) -> None:
    row = only_row(command(tmp_path, "open('a', 'wb').write(os.urandom(25_000_000))\n"))
    assert "it left changes of 32 MB, and 20 MB are the most" in row["error"]


def test_tests_replace_what_a_program_left_in_their_place(tmp_path: Path) -> None:
    code = "os.mkdir('test_add.py'); open('test_add.py/x', 'w').write('1')\n"
    row = only_row(command(tmp_path, code), check=TESTED)
    assert row["correct"] is False
    assert "AssertionError" in row["check"]["lines"][-1]


def test_a_failing_command_is_an_error_row(tmp_path: Path) -> None:
    row = only_row(command(tmp_path, "raise ValueError('no idea')"))
    assert row["error"] == "the command ended with code 1: ValueError: no idea"


def test_a_protocol_of_folkmoot_is_shown_the_files_and_answers_with_a_text() -> None:
    asked: list[Any] = []

    class Says(fm.SingleAgent):
        async def solve(self, task: fm.Task) -> Any:
            asked.append(task)
            return fm.prediction_of(task, REPAIRED, "agent", [])

    row = only_row(Says("simple"), answer_file="add.py")
    assert row["correct"] is True
    assert "add.py:\ndef add" in asked[0].context


def test_rows_resume_and_are_compared(tmp_path: Path) -> None:
    tasks = [add_task(f"t{number}") for number in range(3)]
    repairs = command(tmp_path, REPAIRS)
    with fm_server() as lm:
        first = done(repairs, tasks, lm=lm, out=tmp_path / "run")
        again = done(repairs, tasks, lm=lm, out=tmp_path / "run")
        lazy = done(lambda question: NOTHING, tasks, lm=lm, out=tmp_path / "lazy")
    assert [row["seconds"] for row in first.rows] == [row["seconds"] for row in again.rows]
    assert not (tmp_path / "run" / "tasks").exists()
    assert (first.score, lazy.score) == (1.0, 0.0)
    assert abs(fm.compare(first, lazy).pairs[0].difference) == 1.0


def test_a_killed_run_leaves_no_folder_after_the_next_start(tmp_path: Path) -> None:
    left = tmp_path / "run" / "tasks" / "task-old"
    left.mkdir(parents=True)
    (left / "x").write_text("x")
    done(lambda question: NOTHING, out=tmp_path / "run")
    assert not left.exists()


def test_bubblewrap_may_be_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = "folkmoot.pipelines.tasks.sandbox._missing_bwrap"
    monkeypatch.setattr(missing, lambda: "is not installed")
    assert only_row(command(tmp_path, REPAIRS))["correct"] is True
