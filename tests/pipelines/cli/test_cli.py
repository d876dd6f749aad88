"""The command line as a user meets it: help, `ask`, and what `evaluate` prints and writes."""

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import SPEC, evaluate, folkmoot, lm, question, rows_of, write

from folkmoot.pipelines.testing.server import ScriptedServer

COMMANDS = [
    *("try", "forecast", "controls", "show", "ask", "serve", "evaluate", "compare", "compile"),
    *("tune", "pipeline", "train", "report", "reproduce"),
    *("runs", "data", "datasets", "lms", "doctor", "import", "push", "ui"),
]
pytestmark = pytest.mark.usefixtures("home")


def reasons(body: dict[str, Any]) -> bool:
    """Whether the agent that asks is one that reasons before it answers."""
    return "reasoning" in body["response_format"]["json_schema"]["schema"]["properties"]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_commands_help_has_an_example(command: str) -> None:
    result = folkmoot(command, "--help", code=0)
    assert f"Example: folkmoot {command}" in " ".join(result.stdout.split())


def test_help_lists_the_commands_that_there_are() -> None:
    shown = re.findall(r"^│ ([a-z]+) ", folkmoot("--help").stdout, re.MULTILINE)
    assert sorted(shown) == sorted(COMMANDS)


def test_it_runs_as_a_module(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["folkmoot", "--version"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("folkmoot", run_name="__main__")
    assert (ended.value.code or 0, capsys.readouterr().out[:9]) == (0, "folkmoot ")


def test_ask_shows_the_dialogue_and_a_record_answers_again_without_the_endpoint() -> None:
    words = ["ask", SPEC, "What holds soup?", "--choice", "X=a flask", "--choice", "Y=a net"]
    with ScriptedServer() as server:
        shown = folkmoot(*words, *lm(server), "--record", "record").stdout
    for line in ("intuitive, round 1: X (a flask)", "reasoner, round 1: X (a flask)"):
        assert line in shown.splitlines()
    assert "Answer: X (a flask)" in shown.splitlines()
    assert "decided by consensus after 1 round; 2 calls" in shown
    assert "price unknown" in shown
    again = json.loads(folkmoot(*words, "--lm", "replay/record", "--json").stdout)
    assert (again["answer"], again["decided_by"], again["kind"]) == ("X", "consensus", "choice")
    assert again["choices"] == {"X": "a flask", "Y": "a net"}
    assert [turn["agent"] for turn in again["transcript"]] == ["intuitive", "reasoner"]
    assert again["usage"]["cached_calls"] == again["usage"]["calls"] == 2
    other = folkmoot("ask", SPEC, "Something else?", "--lm", "replay/record")
    assert (other.exit_code, "no answer to this request" in other.stderr) == (1, True)


def test_evaluate_writes_its_files(scripted: ScriptedServer, ten: Path, tmp_path: Path) -> None:
    result = evaluate(scripted, ten, "--out", tmp_path / "out", program=SPEC, code=0)
    rows = rows_of(tmp_path / "out")
    assert [row["id"] for row in rows] == [f"q{number}" for number in range(10)]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["scores"]["accuracy"]["value"] == 0.5
    assert summary["counts"]["rows"] == 10
    assert summary["settings"]["data"] == str(ten)
    score, bill, following = result.stdout.splitlines()
    assert score == "50.0% [23.7%, 76.3%] right on 10 questions"
    assert bill.startswith("20 calls, price unknown; ")
    assert bill.endswith(f"rows in {tmp_path / 'out'}")
    assert following.startswith(f"next: folkmoot try {ten} --lm openai/scripted --")
    assert "--api-base http://127.0.0.1:" in following
    plan, figures = result.stderr.splitlines()
    assert plan == f"{SPEC} on 10 questions (choice) from {ten}, openai/scripted"
    assert figures.startswith("likely 37 calls, ")
    assert "; at most 140 calls; 10 questions show differences from about " in figures
    (tmp_path / "out" / "results.jsonl").write_text("")  # as of a run that was stopped at once
    other = evaluate(scripted, ten, "--out", tmp_path / "other")
    assert "next: folkmoot try " in other.stdout
    # A run that stopped early, or failed throughout, is no rival.
    told, scripted.reply = scripted.reply, lambda body: (400, {}, {"error": {"message": "no"}})
    evaluate(scripted, ten, "--out", tmp_path / "failed", program="single:cot")
    scripted.reply = told
    few = ("--budget", "3 calls")
    short = evaluate(scripted, ten, "--out", tmp_path / "short", *few, program=SPEC)
    assert short.stdout.endswith(f"next: folkmoot show {tmp_path / 'short'}\n")
    last = evaluate(scripted, ten, "--out", tmp_path / "last", program="single:zero_shot")
    assert f"next: folkmoot compare {tmp_path / 'other'} {tmp_path / 'last'}" in last.stdout
    folder = tmp_path / "out"
    saved = evaluate(scripted, ten, "--out", tmp_path / "saved", "--limit", "9", program=folder)
    assert saved.stdout.endswith(f" --with {folder}\n")


def test_a_run_from_the_cache_still_tells_the_price(scripted, ten, monkeypatch):
    monkeypatch.setenv("FOLKMOOT_CALLS_MB", "10")
    words = ["--price", "openai/scripted=100,100"]
    first = json.loads(evaluate(scripted, ten, "--out", "one", "--json", *words).stdout)
    assert first["paid"] == first["usage"] == first["takes"]
    again = json.loads(evaluate(scripted, ten, "--out", "two", "--json", *words).stdout)
    assert (again["paid"]["calls"], again["usage"]["cost_usd"]) == (0, 0)
    assert again["takes"] == first["takes"]
    told = evaluate(scripted, ten, "--out", "three", *words).stdout.splitlines()[1]
    each = 1000 * first["takes"]["cost_usd"] / 10
    assert told.startswith("paid 0 USD for 0 calls (10 more from records or the cache); ")
    assert f"{float(f'{each:.2g}'):g} USD for 1,000 questions" in told


def test_the_same_resumes_another_has_its_folder(scripted: ScriptedServer, ten: Path) -> None:
    result = evaluate(scripted, ten, "--quiet")
    assert result.stdout == "50.0% [23.7%, 76.3%] right on 10 questions\n"
    assert result.stderr == ""
    first = json.loads(evaluate(scripted, ten, "--json").stdout)["out"]
    assert len(scripted.requests) == 10
    assert first.startswith("runs/questions-single-simple-")
    for words in (["--limit", "5"], ["--temperature", "0.7"]):
        assert json.loads(evaluate(scripted, ten, "--json", *words).stdout)["out"] != first


def test_each_seat_gets_its_lm_and_address(scripted: ScriptedServer, ten: Path) -> None:
    scripted.reply = lambda body: json.dumps({"answer": "B" if reasons(body) else "A"})
    with ScriptedServer() as judge:
        words = ["--lm", "judge=openai/big=1", "--api-base", f"judge={judge.url}", "--limit", "1"]
        result = evaluate(scripted, ten, *words, "--set", "max_rounds=1", program=SPEC, code=0)
        assert {body["model"] for body in scripted.bodies} == {"scripted"}
        assert [body["model"] for body in judge.bodies] == ["big=1"]
    assert "judge openai/big=1" in result.stderr
    assert "--lm openai/scripted --lm judge=openai/big=1 --no-track" in result.stdout


def test_a_recorded_run_replays_to_the_same_rows(ten: Path, tmp_path: Path) -> None:
    with ScriptedServer() as server:
        server.reply = lambda body: '{"answer": "A"}' if len(str(body)) % 2 else '{"answer": "B"}'
        words = ["--lm", "judge=openai/big", "--record", tmp_path / "record"]
        evaluate(server, ten, *words, "--out", tmp_path / "first", program=SPEC)
    words = ["--no-track", "--out", tmp_path / "again"]
    replay = ["evaluate", SPEC, "--data", ten, "--lm", f"replay/{tmp_path / 'record'}"]
    assert folkmoot(*replay, *words).exit_code == 0
    first, again = rows_of(tmp_path / "first"), rows_of(tmp_path / "again")
    for key in ("id", "answer", "decided_by", "rounds", "correct", "error"):
        assert [row[key] for row in again] == [row[key] for row in first]
    addressed = ["--api-base", "http://127.0.0.1:1/v1"]
    for words in (["--temperature", "1"], ["--lm", "judge=openai/x"], addressed):
        refused = folkmoot(*replay, *words, code=2)
        assert "answers as recorded" in refused.stderr


def test_leaked_test_questions_are_noticed(scripted: ScriptedServer, tmp_path: Path) -> None:
    test = write(tmp_path / "questions.jsonl", question(1), question(2))
    leak = write(tmp_path / "leak.jsonl", question(1, id="other"), question(5))
    options = ["--train", leak, "--demos", "1"]
    refused = evaluate(scripted, test, *options, code=2)
    assert "'other' has the text of test question 'q1'" in refused.stderr
    assert not scripted.requests
    later = write(tmp_path / "later.jsonl", question(5), question(1, id="other"))
    warned = evaluate(scripted, test, "--train", later, "--demos", "1", "--json", code=0)
    assert "warning: 1 of 2 test questions" in warned.stderr
    assert json.loads(warned.stdout)["settings"]["warnings"]
