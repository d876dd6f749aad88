"""Manners of the command line: completion, pipes, what -v says, result folders as programs."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import KEY, evaluate, folkmoot, lm
from typer.testing import CliRunner

from folkmoot.pipelines.cli import app as cli
from folkmoot.pipelines.testing.server import ScriptedServer

pytestmark = pytest.mark.usefixtures("home")


def completed(words: str) -> list[str]:
    env = {"_FOLKMOOT_COMPLETE": "complete_fish", "_TYPER_COMPLETE_ARGS": words}
    env["_TYPER_COMPLETE_FISH_ACTION"] = "get-args"
    done = CliRunner().invoke(cli.app, [], env=env, prog_name="folkmoot")
    assert done.exit_code == 0, done.output
    return [line.partition("\t")[0] for line in done.stdout.splitlines()]


def test_commands_and_options_are_completed() -> None:
    assert {"evaluate", "compare", "runs"} <= {*completed("folkmoot ")}
    assert "--concurrency" in completed("folkmoot evaluate --con")


def piped(words: list[Any], text: str, code: int = 0) -> Any:
    return folkmoot(*words, code=code, text=text)


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_questions_come_from_a_pipe(scripted: ScriptedServer, home: Path, form: str) -> None:
    asked = {"question": "Is soup warm?", "answer": "yes"}
    rows = [{"id": f"q{number}", **asked} for number in range(3)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if form == "csv":
        text = "id,question,answer\n" + "".join(",".join(row.values()) + "\n" for row in rows)
    words = ["evaluate", "single:simple", "--data", "-", *lm(scripted), "--no-track", "--json"]
    done = piped(words, text)
    found = json.loads(done.stdout)
    assert found["counts"]["rows"] == 3
    calls = len(scripted.bodies)
    again = json.loads(piped(words, text).stdout)  # the same questions are the same run
    assert (again["out"], len(scripted.bodies)) == (found["out"], calls)
    (kept,) = (home / "cache" / "stdin").iterdir()
    assert kept.stat().st_mode & 0o077 == 0


def test_a_question_comes_from_standard_input(scripted: ScriptedServer) -> None:
    scripted.reply = lambda body: json.dumps({"answer": "a flask"})
    piped(["ask", "single:simple", "-", *lm(scripted), "-q"], "What holds soup?\n")
    assert "What holds soup?" in scripted.bodies[-1]["messages"][-1]["content"]


READ_TWICE = ["compile", "single:cot", "--train", "-", "--validation", "-"]


@pytest.mark.parametrize(
    ("words", "text", "told"),
    [
        (READ_TWICE, "x", "can be read only once"),
        (["evaluate", "single:cot", "--data", "-"], " \n", "standard input is empty"),
        (["ask", "single:cot", "-"], "", "question"),
    ],
)
def test_an_unreadable_pipe_is_one_line(words: list[str], text: str, told: str) -> None:
    done = piped(words, text, code=2)
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_verbose_says_calls_retries_and_cache_hits_and_no_key(scripted, ten, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("FOLKMOOT_CALLS_MB", "10")
    failed: list[Any] = []

    def reply(body: Any) -> Any:
        if not failed:
            failed.append(body)
            return 500, {}, {"error": {"message": f"sorry {KEY}"}}
        return json.dumps({"answer": "A"})

    scripted.reply = reply
    words = ["--limit", 2, "--concurrency", 1, "--json", "-v"]
    first = evaluate(scripted, ten, *words, "--out", "one")
    json.loads(first.stdout)
    assert len(re.findall(r"openai/scripted at http.*: answered in \d", first.stderr)) == 2
    assert re.search(r"500.*; try 2 in \d", first.stderr)
    second = evaluate(scripted, ten, *words, "--out", "two")
    assert second.stderr.count("answered from the cache") == 2
    assert KEY not in first.output + second.output
    assert "answered" not in evaluate(scripted, ten, *words[:-1], "--out", "three").stderr


def test_runs_are_listed_newest_first(scripted: ScriptedServer, home: Path, ten: Path) -> None:
    assert "no runs in runs" in folkmoot("runs").stderr
    price = ("--price", "openai/scripted=1,2")
    assert evaluate(scripted, ten, "--out", "runs/one", *price).exit_code == 0
    evaluate(scripted, ten, "--out", "runs/two", "--limit", 4, program="single:cot", code=0)
    assert evaluate(scripted, ten, "--out", "runs/cut", "--budget", "3 calls").exit_code == 1
    # as MLflow does
    shutil.copytree(home / "runs" / "one", home / "runs" / "1" / f"{1:032x}" / "artifacts")
    (home / "runs" / "torn").mkdir()
    (home / "runs" / "torn" / "run.json").write_text('{"program": ')
    said = json.loads((home / "runs" / "one" / "run.json").read_text())
    for name, odd in (("odd", {"lms": 3}), ("odder", {"settings": {"program_spec": [1]}})):
        (home / "runs" / name).mkdir()
        (home / "runs" / name / "run.json").write_text(json.dumps(said | odd))
    found = {Path(run["folder"]).name: run for run in json.loads(folkmoot("runs", "--json").stdout)}
    assert (found["odd"]["state"], found["odder"]["state"]) == ("damaged", "damaged")
    times = [run["when"] for run in found.values()]
    assert times == sorted(times, reverse=True)
    one = found["one"]
    assert (one["kind"], one["state"]) == ("evaluate", "finished")
    assert (one["program"], one["lm"]) == ("single:simple", "openai/scripted")
    assert (one["calls"], one["cost_usd"] > 0, one["score"]["n"]) == (10, True, 10)
    assert one["score"]["low"] <= one["score"]["value"] <= one["score"]["high"]
    assert found["two"]["cost_usd"] is None
    late = evaluate(scripted, ten, "--out", "runs/two", "--limit", 4, *price, program="single:cot")
    assert "runs/two has paid for keep an unknown price; to price them, choose" in late.stderr
    assert (found["cut"]["state"], "budget 3 calls" in found["cut"]["problem"]) == ("stopped", True)
    assert "artifacts" not in found
    assert (found["torn"]["state"], found["torn"]["score"]) == ("damaged", None)
    shown = folkmoot("runs", "--sort", "cost").stdout.splitlines()
    assert "runs/one" in shown[1]
    assert any("damaged: run.json is damaged" in line for line in shown)
    assert "give time, score, cost, calls" in folkmoot("runs", "--sort", "scor").stderr
    assert folkmoot("runs", "nowhere").exit_code == 2
    assert folkmoot("push", "nowhere").exit_code == 2
