"""What hostile programs and answers in a check can do, as a table with what becomes of it."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from acting import (
    ASK,
    CHECKS,
    PYTEST,
    REPAIRED,
    TESTED,
    add_task,
    command,
    done,
    needs_bwrap,
    only_row,
)
from by_day import some_by_day
from children import BARE

import folkmoot as fm
from folkmoot.pipelines.tasks.folder import NOTHING
from folkmoot.pipelines.tasks.sandbox import Door, Sandbox

pytestmark = needs_bwrap

SECRET = "sk-of-the-user"
SAYS = """
said = []
def tried(what, act):
    try:
        said.append(f'{what}: {act()}')
    except BaseException as problem:
        said.append(f'{what}: {type(problem).__name__}')
"""
ENDS = "open('said', 'w').write('\\n'.join(said))\n"


def outside(tmp_path: Path) -> str:
    return (
        f"tried('home', lambda: open(os.path.expanduser('~root/x'), 'w').write('x'))\n"
        f"tried('etc', lambda: open('/etc/x', 'w').write('x'))\n"
        f"tried('here', lambda: open({str(tmp_path / 'x')!r}, 'w').write('x'))\n"
        f"tried('remount', lambda: subprocess.run(['mount', '-o', 'remount,rw', '/'], "
        "capture_output=True, check=True))\n"
        "tried('kernel', lambda: open('/proc/sys/vm/swappiness', 'a').write(''))\n"
    )


def reads(tmp_path: Path) -> str:
    return (
        "tried('environment', lambda: 'KEY' in ' '.join(os.environ.values()))\n"
        "tried('others', lambda: sum(b'sk-of' in open(f'/proc/{p}/environ', 'rb').read() "
        "for p in os.listdir('/proc') if p.isdigit()))\n"
        f"tried('tests', lambda: os.listdir({str(tmp_path / 'tasks')!r}))\n"
        f"tried('rows', lambda: os.listdir({str(tmp_path / 'run')!r}))\n"
    )


def connects(port: int, tmp_path: Path) -> str:
    return (
        f"tried('loopback', lambda: socket.create_connection(('127.0.0.1', {port}), 2))\n"
        "tried('internet', lambda: socket.create_connection(('1.1.1.1', 53), 2))\n"
        "tried('name', lambda: socket.getaddrinfo('example.org', 80))\n"
        f"tried('socket', lambda: socket.socket(socket.AF_UNIX).connect({str(tmp_path / 's')!r}))\n"
    )


def said_by(row: Any) -> dict[str, str]:
    lines = [line[1:] for line in row["answer"].splitlines() if line[:1] == "+" and ": " in line]
    return dict(line.split(": ", 1) for line in lines)


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[fm.Question]:
    monkeypatch.setenv("MY_OWN", SECRET)
    task = add_task()
    for part, files in (("files", task.files), ("tests", task.tests)):
        for name, text in files.items():
            file = tmp_path / "tasks" / "add" / part / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
    (tmp_path / "tasks" / "add" / "question.md").write_text(task.question)
    return fm.load(tmp_path / "tasks")


def test_nothing_outside_is_written_or_read(tmp_path: Path, tasks: list[fm.Question]) -> None:
    code = SAYS + outside(tmp_path) + reads(tmp_path) + ENDS
    row = only_row(command(tmp_path, code), tasks=tasks, out=tmp_path / "run")
    said = said_by(row)
    assert (said["etc"], said["here"]) == ("OSError", "OSError")
    assert said["remount"] == "CalledProcessError"
    assert said["kernel"] in ("OSError", "PermissionError")
    assert said["home"] in ("OSError", "PermissionError", "FileNotFoundError", "1")
    assert (said["environment"], said["others"]) == ("False", "0")
    assert (said["tests"], said["rows"]) == ("[]", "[]")
    places = (Path.home() / "x", Path("/etc/x"), tmp_path / "x")
    assert not [path for path in places if path.exists()]


def test_a_program_reaches_the_meter_and_nothing_else(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as unix:
        unix.bind(str(tmp_path / "s"))
        unix.listen()
        code = connects(server.getsockname()[1], tmp_path)
        meter = "tried('meter', lambda: ask('q'))\n"
        row = only_row(command(tmp_path, ASK + SAYS + code + meter + ENDS))
    said = said_by(row)
    assert said["meter"] == "hello"
    assert row["usage"]["calls"] == 1
    assert said["loopback"] == "ConnectionRefusedError"
    assert {said["internet"], said["name"]} <= {"OSError", "gaierror", "ConnectionRefusedError"}
    assert said["socket"] == "None"  # it lies beside the command, which is the user's own folder


@pytest.mark.parametrize(
    ("attack", "reason"),
    [
        ("while True: os.fork()", "more than 256 processes"),
        ("open('a', 'wb').write(bytes(300_000_000))", "File too large"),
        pytest.param(
            "for n in range(9): open(f'{n}', 'wb').write(bytes(200_000_000))\ntime.sleep(60)",
            "more than 1 GB into its folder",
            marks=pytest.mark.nightly,
        ),
        ("x = bytearray(3_000_000_000)", "MemoryError"),
        pytest.param(
            "for _ in range(4): subprocess.Popen([sys.executable, '-c', "
            "'x = bytearray(b\"1\") * 900_000_000; import time; time.sleep(60)'])\ntime.sleep(60)",
            "more than 2 GB of memory",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            "while True: print('x' * 1_000_000)", "File too large", marks=pytest.mark.nightly
        ),
        ("time.sleep(60)", "it took longer than its timeout, 3 s"),
        ("os.kill(os.getppid(), 9)\ntime.sleep(60)", "the command ended with code"),
    ],
)
def test_a_program_that_takes_too_much_is_ended(tmp_path: Path, attack: str, reason: str) -> None:
    began = time.monotonic()
    row = only_row(command(tmp_path, attack, timeout=3 if "3 s" in reason else 40))
    assert reason in row["error"]
    assert time.monotonic() - began < 60
    assert not left_behind(str(tmp_path))


def left_behind(word: str) -> list[str]:
    """The command lines of processes that name this folder."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = place.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if word in line and str(os.getpid()) != place.parent.name:
            found.append(line)
    return found


def test_what_a_program_leaves_running_ends_with_it(tmp_path: Path) -> None:
    code = (
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)', "
        f"{str(tmp_path)!r}], start_new_session=True)\n"
    )
    assert only_row(command(tmp_path, code))["error"] is None
    assert not left_behind(str(tmp_path))


@pytest.mark.parametrize(
    ("check", "file"), [(TESTED, "test_add.py"), (f"{BARE} check.py", "check.py")]
)
def test_a_program_cannot_edit_the_tests(
    check: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "check.py").write_text("raise SystemExit(1)\n")
    row = only_row(command(tmp_path, f"open({file!r}, 'w').write('def test(): pass')"), check=check)
    assert (row["correct"], row["error"]) == (False, None)


CHECKED = {
    "writes outside": ("open('/etc/x', 'w')", "Read-only file system"),
    "opens sockets": ("socket.create_connection(('1.1.1.1', 53), 2)", "Network is unreachable"),
    "reads the environment": ("assert os.environ['MY_OWN']", "KeyError: 'MY_OWN'"),
    "forks": ("[os.fork() for _ in range(20)]; time.sleep(60)", "more than 256 processes"),
    "never ends": ("time.sleep(60)", "the check took longer than 3 s"),
}


@pytest.mark.parametrize("attack", some_by_day(CHECKED))
def test_an_attack_is_wrong(tmp_path: Path, attack: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_OWN", SECRET)
    code, reason = CHECKED[attack]
    answer = f"import os, socket, time\n{code}\n"
    seconds = 3 if "3 s" in reason else 10
    check = fm.Check(f"{BARE} add.py", answer_file="add.py", seconds=seconds)
    row = only_row(lambda question: answer, check=check)
    assert (row["error"], row["correct"]) == (None, False)
    assert reason in "\n".join(row["check"]["lines"])
    assert row["check"]["seconds"] < 30


ENDED = "the check did not come to its end, as where an answer ends its process"
LEAVES = "import os\ndef add(a, b):\n    os.{}\n    return a - b\n"
UNITTEST = f"{BARE} -m unittest -v test_add.py"
CASE = "import unittest\nclass Case(unittest.TestCase):\n    def test(self): test()\n"
HOOK = ["import pytest", "@pytest.hookimpl(wrapper=True)"]
HOOK += ["def pytest_runtest_makereport():", "  report = yield", "  report.outcome = 'passed'"]
HOOK += ["  return report"]
PLUGIN, PLUGINS = ["[pytest11]", "x = x"], PYTEST.replace("AUTOLOAD=1", "AUTOLOAD=")
MINE = {"mine/test_mine.py": ["def test():", "    pass"]}


def added(files: dict[str, list[str]]) -> str:
    """A diff that makes these files, with these lines."""
    diff = ""
    for name, lines in files.items():
        diff += f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1,{len(lines)} @@\n"
        diff += "".join(f"+{line}\n" for line in lines)
    return diff


@pytest.mark.parametrize(
    ("check", "answer", "last"),
    [
        (f"{PYTEST} -v -s", LEAVES.format("_exit(0)"), ENDED),
        (f"sh -c '{PYTEST} -v -s'", LEAVES.format("_exit(0)"), ENDED),
        (UNITTEST, LEAVES.format("_exit(0)"), ENDED),
        (UNITTEST.replace("-m ", "-m"), LEAVES.format("_exit(0)"), ENDED),
        (TESTED, LEAVES.format("_exit(0)"), ENDED),
        (TESTED, LEAVES.format("execv('/bin/true', ['true'])"), ENDED),
        (TESTED, "print('{\"score\": 1}', flush=True)\nimport os\nos._exit(1)", '{"score": 1}'),
        (TESTED, "import sys\nsys.exit(0)", ENDED),
        (TESTED, "raise SystemExit", ENDED),
        (TESTED, "import os, sys\nos.chdir('/')\nsys.exit(0)", ENDED),
        (TESTED, added({"json.py": ["raise SystemExit"], "runpy.py": ["x"]}), "AssertionError"),
        (f"{BARE} -c 'import atexit as a, os; print(7); a.register(os._exit, 3)'", "x = 1", "7"),
        (f"{BARE} -c 'from test_add import *; unittest.main()'", "add = max", "FAILED"),
        (f"{BARE} README", "import sys\nsys.exit(0)", ENDED),
        (f"{BARE} -m unittest add", "add = max", "the check found no test to run"),
        (f"{BARE} made.py", added({"x.py": [""]}), "FileNotFoundError: "),
        (f"{BARE} -m made", added({"x.py": [""]}), "ImportError: No module named made"),
        (f"{BARE} -c 'exec(open(\"add.py\").read())'", "raise SystemExit", ENDED),
        (TESTED, "import atexit, os\natexit.register(os._exit, 0)\nadd = max", "AssertionError"),
        (PYTEST, added({"conftest.py": HOOK}), "the answer's conftest.py was not used"),
        (PYTEST, added({"pytest.py": ["print('1 passed')"]}), "the answer's pytest.py"),
        (PYTEST, added({"tox.ini": ["[pytest]", "testpaths = mine"], **MINE}), "2 failed"),
        (PLUGINS, added({"x.py": HOOK, "x.dist-info/entry_points.txt": PLUGIN}), "the answer's x."),
        (PYTEST, added({"setup.cfg": ["[tool:pytest]", "addopts =", "  --co"]}), "2 failed"),
    ],
)
def test_an_answer_that_ends_or_steers_the_check_is_wrong(check, answer, last) -> None:
    task = add_task()
    task.files["README"] = "import test_add\ntest_add.test()\n"
    task.tests["test_add.py"] += CASE
    check = fm.Check(check, answer_file="add.py")
    row = only_row(lambda question: answer, tasks=[task], check=check)
    assert (row["error"], row["correct"]) == (None, False)
    assert row["check"]["lines"][-1].startswith(last)


@pytest.mark.parametrize(
    ("check", "helper"),
    [
        (f"{BARE} -W error -m helper", "import test_add\ntest_add.test()\nraise SystemExit(0)"),
        (f"{BARE} helper.py", "import sys, add\nadd.add(2, 3)\nsys.stdout.close()\nsys.exit()"),
        (f"{BARE} -c 'import helper; helper.ends()'", "def ends(): raise SystemExit"),
        (f"{BARE} helper.py", "from pathlib import Path\nPath(__file__).parents[1].iterdir()"),
        (f"{BARE} -c 'import pickle\ndef f(): pass\npickle.dumps(f)'", ""),
        (f"sh -c '{PYTEST} -s --color=yes; seq 99 >&2'", ""),
        (f"sh -c '{BARE} -m unittest -b helper; seq 99 >&2'", CASE.replace("test()", "pass")),
    ],
)
def test_a_check_may_end_itself(check: str, helper: str) -> None:
    task = add_task()
    task.tests["helper.py"] = helper
    check = fm.Check(check, answer_file="add.py")
    row = only_row(lambda question: REPAIRED, tasks=[task], check=check)
    assert (row["error"], row["correct"]) == (None, True)
    assert row["check"]["lines"][-1:] in ([], ["99"])


def test_a_check_may_be_the_answer() -> None:
    ends = {"made/__main__.py": ["import made.ends"], "made/ends.py": ["raise SystemExit"]}
    row = only_row(lambda question: added(ends), check=f"{BARE} -m made")
    assert (row["error"], row["correct"]) == (None, True)


def test_a_check_says_a_score_and_feedback(tmp_path: Path) -> None:
    said = json.dumps({"score": 0.25, "feedback": "one of four"})
    check = fm.Check(f"{BARE} add.py", answer_file="add.py")
    answer = f"print('x')\nprint({said!r})\nraise SystemExit(3)"
    row = only_row(lambda question: answer, check=check)
    assert (row["score"], row["correct"], row["feedback"]) == (0.25, None, "one of four")
    assert row["check"]["exit_code"] == 3


def test_a_check_outside_its_scale_is_an_error_row() -> None:
    check = fm.Check(f"{BARE} add.py", answer_file="add.py")
    row = only_row(lambda question: "print('{\"score\": 7}')", check=check)
    assert "returned 7, outside 0 to 1" in row["error"]
    row = only_row(lambda question: "print('[' * 100_000)", check=check)  # no JSON that can be read
    assert (row["correct"], row["error"]) == (True, None)


def test_code_and_any_path_may_stand_in_a_command() -> None:
    code = f"{BARE} -c '{'pass;' * 99}'"
    row = only_row(fm.Command(code), check=f"{code} /tmp/pytest-1/unittest")
    assert (row["correct"], row["error"]) == (True, None)


def test_a_function_checks() -> None:
    def check(task: fm.Question, folder: Path) -> Any:
        assert (folder / "test_add.py").exists()
        return 0.5, f"{task.id} is half right"

    async def waits(task: fm.Question, folder: Path) -> Any:
        await asyncio.sleep(0)
        return check(task, folder)

    for each in (check, waits):
        row = only_row(lambda question: NOTHING, check=each)
        assert (row["score"], row["feedback"]) == (0.5, "add is half right")
    row = only_row(lambda question: NOTHING, check=lambda task, folder: (1, 2, 3))
    assert "returned a tuple" in row["error"]
    with pytest.raises(fm.UserError, match=r"write it as \(task, folder\)"):
        fm.Check(lambda folder: True)


def test_no_more_checks_run_at_once_than_there_are_cores() -> None:
    running, most = 0, 0
    lock = threading.Lock()

    def check(task: fm.Question, folder: Path) -> bool:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        return True

    done(lambda question: NOTHING, [add_task(f"t{n}") for n in range(16)], check=check)
    assert most <= (os.cpu_count() or 1)


def test_a_check_that_is_not_there_ends_the_run() -> None:
    with pytest.raises(fm.UserError, match="there is no command 'nosuchthing'"):
        done(lambda question: NOTHING, check="nosuchthing -q")
    missing = fm.Check("sh -c nosuchthing")
    tasks = [add_task(f"t{number}") for number in range(8)]
    with pytest.raises(fm.UserError, match=r"not run on any of the first 5 tasks, .* not found"):
        done(lambda question: NOTHING, tasks, check=missing)
    # fewer tasks than that, and all of them
    unables = [("sh -c nosuchthing", 1), ("sleep 60", 2)]
    unables += [(f"{BARE} -m pytest", 1)]  # which that Python does not have
    for unable, few in unables:
        with pytest.raises(fm.UserError, match=rf"not run on any of the first {few} task"):
            done(lambda question: NOTHING, tasks[:few], check=fm.Check(unable, seconds=1))
    slow = fm.Check("sleep 60", seconds=1)
    with pytest.raises(fm.UserError, match=r"has not run .* longer than 1 s"):
        done(lambda question: NOTHING, tasks, check=slow)


def test_a_check_that_fails_on_one_task_alone_makes_an_error_row() -> None:
    tasks = [add_task("good"), add_task("bad")]
    tasks[1].tests["missing"] = ""
    check = fm.Check("sh -c 'test ! -e missing || exit 127'")
    rows = done(lambda question: NOTHING, tasks, check=check).rows
    assert [row["error"] is None for row in rows] == [True, False]
    assert "cannot be run" in rows[1]["error"]


@pytest.mark.parametrize("command", ["A=1 python x.py", "python x.py && false", "cat x | wc"])
def test_what_only_a_shell_understands_is_refused(command: str) -> None:
    for make in (fm.Check, fm.Command):
        with pytest.raises(fm.UserError, match=r"needs a shell, and none runs it: give sh -c '"):
            make(command)


def test_a_score_that_is_no_number_is_the_checks_fault() -> None:
    row = only_row(lambda question: NOTHING, check=fm.Check('echo \'{"score": "high"}\''))
    assert "the check printed the score 'high': print a number from 0 to 1" in row["error"]


def test_sandboxes_are_named_or_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(fm.UserError, match="no sandbox 'vm': choose bwrap, docker:IMAGE"):
        Sandbox.of("vm")
    with pytest.raises(fm.UserError, match="no sandbox 'docker'"):
        Sandbox.of("docker")
    monkeypatch.setattr("folkmoot.pipelines.tasks.sandbox._missing_bwrap", lambda: "is not there")
    ways = "install bubblewrap, or give --sandbox docker:IMAGE or podman:IMAGE, or --sandbox none"
    with pytest.raises(fm.UserError, match=ways):
        Sandbox.of(None)
    assert "whatever you can" in str(Sandbox.of("none"))


def test_a_container_has_limits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.which", lambda word, **_: f"/usr/bin/{word}")
    (tmp_path / "crew.py").write_text("")
    door = Door(tmp_path / "meter", 4711)
    sandbox, env = Sandbox.of("docker:python:3.12"), {"OPENAI_API_KEY": "token"}
    how = sandbox.started(["python", "crew.py"], tmp_path / "b", env, door=door, cwd=tmp_path)
    line = " ".join(how.words)
    assert line.startswith("docker run --rm -i --init --name folkmoot-")
    parts = ["--network none", "--read-only", "--memory 2147483648", "--pids-limit 256"]
    parts += [f"-v {tmp_path}:{tmp_path}:ro", "-e OPENAI_API_KEY python:3.12 python3 -I -S"]
    for part in parts:
        assert part in line
    assert line.endswith(f"/tmp/meter 4711 python {tmp_path / 'crew.py'}")
    assert "token" not in line
    assert how.environment["OPENAI_API_KEY"] == "token"
    assert how.after[:3] == ["docker", "rm", "-f"]


@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_a_container_is_started_and_ended(tmp_path, monkeypatch, engine):
    program = tmp_path / "bin" / engine
    program.parent.mkdir()
    noted = f'printf "%s " "$@" >> {tmp_path}/asked\necho >> {tmp_path}/asked\n'
    program.write_text(f"#!/bin/sh\n{noted}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    row = only_row(lambda question: NOTHING, check="sh check.sh", sandbox=f"{engine}:py:3")
    assert (row["error"], row["correct"]) == (None, True)
    run, removed = (tmp_path / "asked").read_text().splitlines()
    assert run.startswith("run --rm -i --init --name folkmoot-")
    assert run.endswith("py:3 sh check.sh ")
    assert "--network none --read-only" in run
    assert removed.split() == ["rm", "-f", run.split()[5]]


@needs_bwrap
def test_a_python_behind_a_shim_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_home(tmp_path / "python", monkeypatch)
    (tmp_path / "acts.py").write_text(f"open('add.py', 'w').write({REPAIRED!r})\n")
    row = only_row(fm.Command(f"python {tmp_path / 'acts.py'}"), check=f'python -c "{CHECKS}"')
    assert (row["error"], row["correct"]) == (None, True)


@needs_bwrap
@pytest.mark.parametrize(
    "starts", ["python {acts}", pytest.param("agent", marks=pytest.mark.nightly)]
)
def test_a_virtual_environment_in_a_hidden_folder_is_found(tmp_path: Path, starts: str) -> None:
    place = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "mine.py").write_text(f"open('add.py', 'w').write({REPAIRED!r})\n")
    (tmp_path / "acts.py").write_text("import mine\n")
    (place / "bin" / "agent").write_text(f"#!{place / 'bin' / 'python'}\nimport mine\n")
    (place / "bin" / "agent").chmod(0o755)
    line = f"{place / 'bin'}/{starts.format(acts=tmp_path / 'acts.py')}"
    row = only_row(fm.Command(line), check=f'python -c "{CHECKS}"')
    assert (row["error"], row["correct"]) == (None, True)


@needs_bwrap
def test_a_hidden_program_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_home(tmp_path / "agent", monkeypatch)
    with pytest.raises(fm.UserError, match="in your home, which the sandbox hides"):
        done(fm.Command("agent --solve"))


def at_home(shim: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script that starts this Python, first on the path and in the home."""
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    shim.chmod(0o755)
    monkeypatch.setenv("HOME", str(shim.parent))
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")
