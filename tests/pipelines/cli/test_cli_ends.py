"""How commands end (failures, Ctrl-C, unexpected errors), and the commands about this machine."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from children import Child, command, wait_for_requests, wait_until
from cli_helpers import KEY, SPEC, evaluate, folkmoot, free_port, lm, question, rows_of, write

from folkmoot.pipelines.testing.server import ScriptedServer
from folkmoot.pipelines.tracking import ui_server

pytestmark = pytest.mark.usefixtures("home")


def bad_request(body: dict[str, Any]) -> tuple[int, dict[str, str], Any]:
    return 400, {}, {"error": {"message": "too hot"}}


def test_many_failures_stop_a_run(scripted: ScriptedServer, ten: Path, tmp_path: Path) -> None:
    scripted.reply = bad_request
    words = ["--max-failures", "3", "--concurrency", "1", "--out", tmp_path / "out", "--json"]
    result = evaluate(scripted, ten, *words, code=1)
    assert "stopped after 3 failed questions" in json.loads(result.stdout)["stopped"]
    assert len(rows_of(tmp_path / "out")) == 3
    scripted.reply = lambda body: json.dumps({"answer": "A"})
    words = ["--retry-errors", "--out", tmp_path / "out", "--json"]
    assert evaluate(scripted, ten, *words).exit_code == 0
    assert [row["error"] for row in rows_of(tmp_path / "out")] == [None] * 10


HELD_OUT = ("--train", "t.jsonl", "--validation", "v.jsonl")
COMPILED = ("single:simple", "--optimizer", "bootstrap_rs")


@pytest.mark.parametrize(
    ("words", "budget", "code", "first"),
    [
        (("evaluate", "single:simple", "--data", "v.jsonl"), 5, 1, "Budget 5 calls spent"),
        (("compile", *COMPILED, *HELD_OUT), 30, 1, "Budget 30 calls spent"),
        (("tune", "single", *HELD_OUT, "--trials", "9"), 30, 1, "Budget 30 calls spent"),
        # A contest whose money is gone has a program to take.
        (("try", "v.jsonl", "--only", "panel"), 90, 0, "of 90 calls pays for no more questions"),
        (("controls", "team"), 40, 1, "Budget 40 calls spent"),
        # the budget ends the last arm
        (("controls", "team", "--arms", "self_consistency"), 50, 1, "Budget 50 calls spent"),
        (("compare", "team", "--match-budget"), 15, 1, "Budget 15 calls spent"),
    ],
)
def test_what_a_budget_ends_says_so_and_is_no_success(
    scripted, tmp_path, words, budget, code, first
):
    write(tmp_path / "t.jsonl", *(question(n, answer="AB"[n % 2]) for n in range(16)))
    write(tmp_path / "v.jsonl", *(question(n, answer="AB"[n % 2]) for n in range(20, 60)))
    how = [*lm(scripted), "--out", "out", "--budget", f"{budget} calls"]
    if words[0] != "compare":  # which leaves nothing in MLflow unless asked
        how.append("--no-track")
    if "team" in words:
        evaluate(scripted, "v.jsonl", "--limit", 20, "--out", "team", program=SPEC)
        scripted.requests.clear()
    for _ in range(2):  # the second shows what is stored
        ended = folkmoot(*words, *how)
        assert ended.exit_code == code, ended.output
        shown = ended.stdout if words[0] == "try" else ended.stdout.splitlines()[0]
        assert first in shown
        assert len(scripted.bodies) <= budget


ASKS = (
    ("evaluate", "single:simple", "--data", "v.jsonl"),
    ("try", "v.jsonl", "--only", "panel"),
    ("compile", "single:simple", *HELD_OUT, "--optimizer", "bootstrap_rs"),
    ("tune", "single", *HELD_OUT, "--trials", "9"),
    ("pipeline", "p.yaml"),
    ("compare", "team", "--match-budget"),
)


@pytest.mark.parametrize("words", ASKS, ids=[words[0] for words in ASKS])
def test_a_key_is_wrong_until_a_call_is_answered_then_its_account_pauses(scripted, tmp_path, words):
    write(tmp_path / "t.jsonl", *(question(n, answer="AB"[n % 2]) for n in range(16)))
    write(tmp_path / "v.jsonl", *(question(n, answer="AB"[n % 2]) for n in range(20, 60)))
    how = [*lm(scripted), "--no-track"]
    if words[0] == "pipeline":
        named = f"lm: openai/scripted\napi_base: {scripted.url}\n"
        steps = "data: {train: t.jsonl, test: v.jsonl}\nprograms: [single:simple]\ncompile: {}\n"
        (tmp_path / "p.yaml").write_text(named + steps)
        how = ["--no-track"]
    if words[0] == "compare":
        evaluate(scripted, "v.jsonl", "--limit", 20, "--out", "team", program=SPEC)
        how = lm(scripted)
    told = scripted.reply
    for answered, code in ((0, 2), (12, 1)):
        scripted.requests.clear()

        def reply(body: dict[str, Any], answered: int = answered) -> Any:
            if len(scripted.requests) <= answered:
                return told(body)
            return 401, {}, {"error": {"message": "Incorrect API key provided"}}

        scripted.reply = reply
        ended = folkmoot(*words, *how, "--out", f"out-{answered}")
        assert ended.exit_code == code, ended.output
        assert "refused the key" in ended.stderr
        if code == 2:
            assert ended.stdout == ""
        else:
            assert "the same command continues" in ended.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_keeps_what_is_done_and_the_same_command_goes_on(tmp_path, number):
    source = write(tmp_path / "questions.jsonl", *(question(number) for number in range(40)))
    with ScriptedServer(delay=0.05) as server:
        words = ["--no-track", "--concurrency", "2", "--out", tmp_path / "out"]
        process = Child(command, "evaluate", "single:simple", "--data", source, *lm(server), *words)
        wait_for_requests(server, 6)
        process.send_signal(number)
        _, told = process.communicate(timeout=120)
        assert process.returncode == 130
        done = len(rows_of(tmp_path / "out"))
        counts = json.loads((tmp_path / "out" / "summary.json").read_text())["counts"]
        assert 1 <= done == counts["rows"] < counts["questions"] == 40
        assert f"finished work is kept in {tmp_path}" in told
        assert "same command" in told
        assert "Traceback" not in told
        asked = len(server.requests)
        assert evaluate(server, source, "--no-track", "--out", tmp_path / "out").exit_code == 0
        assert len(rows_of(tmp_path / "out")) == 40
        assert len(server.requests) - asked <= 40 - done
        assert len(server.requests) <= 40 + 2


IMPORTING = """
import sys
class Interrupted:
    def find_spec(self, name, *_):
        if name == "MODULE":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupted())
from folkmoot.pipelines.cli import main
main()
"""


@pytest.mark.parametrize("module", ["typer", "dspy"])
def test_ctrl_c_while_modules_are_imported_is_one_line(module: str) -> None:
    words = ["ask", "single:cot", "Who?", "--lm", "openai/x", "--api-base", "http://127.0.0.1:9/v1"]
    run = [sys.executable, "-c", IMPORTING.replace("MODULE", module), *words]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "folkmoot: interrupted\n")


def test_an_unexpected_error_is_one_line_unless_debugging(scripted, ten, monkeypatch):
    def broken(*_: Any, **__: Any) -> None:
        raise KeyError("surprise")

    monkeypatch.setattr("folkmoot.pipelines.evaluation.plan.check_metric", broken)
    result = evaluate(scripted, ten, code=1)
    said = "unexpected KeyError: 'surprise' (run it again with --debug for the traceback)"
    assert result.stderr == f"folkmoot: {said}\n"
    assert "Traceback" in evaluate(scripted, ten, "--debug").stderr


def test_datasets_lists_names_splits_licences_and_places() -> None:
    shown = folkmoot("datasets").stdout
    for told in ("commonsenseqa", "validation 1221", "MIT", "shipped with folkmoot"):
        assert told in shown
    found = {info["name"]: info for info in json.loads(folkmoot("datasets", "--json").stdout)}
    assert found["sample-choice"]["splits"]["test"] == 120
    assert "test" in found["sample-choice"]["here"]
    assert folkmoot("lms", "get", "gemma").stderr.startswith("folkmoot: there are no weights")


def test_a_taken_port_is_named(scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")
    result = folkmoot("ui", "--port", scripted.port, code=2)
    assert f"port {scripted.port}" in result.stderr
    assert "choose another --port" in result.stderr


FINALISED = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
if sys.argv[1] == "handled":
    from folkmoot.pipelines.cli.guard import handle_interrupts
    handle_interrupts()
class Thing:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        sum(number for number in range(1000))
try:
    Thing()
    time.sleep(30 if sys.argv[1] == "handled" else 0.1)
    print("went on")
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize(("how", "said"), [("handled", "interrupted"), ("not", "went on")])
def test_ctrl_c_is_handled_even_where_python_drops_exceptions(how: str, said: str) -> None:
    run = [sys.executable, "-c", FINALISED, how]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == said


SERVER = """
import http.server, os, subprocess, sys
open("store", "w").write(os.environ["MLFLOW_BACKEND_STORE_URI"])
helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
open("helper", "w").write(str(helper.pid))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(200); self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_the_ui_and_its_children_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    port, uri = free_port(), f"postgresql://me:{KEY}@127.0.0.1/moot"
    assert KEY not in " ".join(ui_server.server_command("127.0.0.1", port))
    server = [sys.executable, "-c", SERVER, str(port)]
    monkeypatch.setattr(ui_server, "server_command", lambda *_: server)
    said = []

    def interrupt(address: str) -> None:
        said.append(address)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ui_server.serve(uri, "127.0.0.1", port, interrupt)
    assert said == [f"http://127.0.0.1:{port}"]
    assert (tmp_path / "store").read_text() == uri
    ui_server.check_port("127.0.0.1", port)
    helper = int((tmp_path / "helper").read_text())
    wait_until(lambda: not alive(helper))


def alive(pid: int) -> bool:
    """Whether the process runs; one that ended and was not collected yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
