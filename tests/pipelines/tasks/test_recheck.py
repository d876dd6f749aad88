"""Another check on kept answers, without a call."""

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from acting import ASK, CHECK, REPAIRED, add_task, command, fm_server, needs_bwrap
from cli_helpers import folkmoot

import folkmoot as fm
from folkmoot.pipelines.tasks.folder import NOTHING

pytestmark = needs_bwrap

ASKS = f"{ASK}ask('q')\nopen('add.py', 'w').write({REPAIRED!r})\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("run")
    tasks = folder / "tasks.jsonl"
    rows = [add_task(f"t{number}").to_row() for number in range(3)]
    tasks.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with fm_server() as lm:
        options: Any = {"lm": lm, "tracking": False, "check": CHECK, "repeats": 2}
        yield fm.evaluate(command(folder, ASKS), tasks, out=folder / "run", **options)


def test_answers_are_checked_again_without_a_call(run: fm.Evaluation, tmp_path: Path) -> None:
    def strict(task: fm.Question, folder: Path) -> Any:
        assert (folder / "add.py").read_text() == REPAIRED
        return task.id != "t1", "looked at"

    assert (run.score, run.summary.usage["calls"]) == (1.0, 6)
    again = fm.recheck(run, strict, out=tmp_path / "again", tracking=False)
    assert again.score == pytest.approx(2 / 3)
    assert again.summary.usage == run.summary.usage
    assert again.summary.paid["calls"] == 0
    for old, new in zip(run.rows, again.rows, strict=True):
        for name in ("id", "repeat", "answer"):
            assert old[name] == new[name]
        assert new["feedback"] == "looked at"
    resumed = fm.recheck(run, strict, out=tmp_path / "again", tracking=False)
    assert resumed.score == again.score
    assert fm.compare(run, again).pairs


def test_the_command_line_checks_again(run: fm.Evaluation) -> None:
    arguments = ["evaluate", str(run.folder), "--recheck", "--out", str(run.folder.parent / "new")]
    planned = folkmoot(*arguments, "--check", "ls gone", "--dry-run").output
    assert "its answers are checked again, which asks no LM; " in planned
    ended = folkmoot(*arguments, "--check", "ls gone", "--no-track", "--json")
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout)["scores"]["check"]["value"] == 0.0
    # What another check found is no rival of the first run.
    again = folkmoot(*arguments, "--check", "ls gone", "--no-track").stdout
    assert again.endswith(f"next: folkmoot show {run.folder.parent / 'new'}\n")
    shown = folkmoot("show", str(run.folder.parent / "new"), "t1")
    assert re.search(r"^checked in \d+\.\d s; ", shown.stdout, re.M)
    assert "✗  feedback: ls: " in shown.stdout
    ended = folkmoot(*arguments)
    assert "give --check COMMAND" in ended.stderr


def test_what_cannot_be_checked_again_is_said(tmp_path: Path) -> None:
    with fm_server() as lm:
        options: Any = {"lm": lm, "tracking": False, "check": CHECK}
        run = fm.evaluate(lambda question: NOTHING, [add_task()], **options)
    with pytest.raises(fm.UserError, match="does not say where its questions come from"):
        fm.recheck(run, "true", tracking=False)
    assert fm.recheck(run, "true", [add_task()], tracking=False).score == 1.0


def test_the_next_command_checks_the_same_tasks_in_the_same_way(tmp_path: Path) -> None:
    row = {"id": "a", "question": "Say hi.", "tests": {"t.py": "assert open('hi').read()"}}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(row))
    check = ["--check", "python t.py", "--check-timeout", "20", "--limit", "1", "--no-track"]
    asked = ["--data", str(tmp_path / "tasks.jsonl"), *check, "--out", str(tmp_path / "run")]
    ended = folkmoot("evaluate", "cmd:touch hi", *asked)
    following = shlex.split(ended.stdout.splitlines()[-1].removeprefix("next: "))
    assert following[:3] == ["folkmoot", "try", str(tmp_path / "tasks.jsonl")]
    given = dict(pairwise(following))
    assert given["--with"] == "cmd:touch hi"
    assert (given["--check"], given["--check-timeout"]) == ("python t.py", "20.0")
    assert "--no-track" in following
    assert "--out" not in following
