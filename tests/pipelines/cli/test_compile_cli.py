"""`folkmoot compile`: plan, result, JSON, exit codes, Ctrl-C."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from children import Child, command, wait_for_requests
from cli_helpers import folkmoot, lm, write
from planted import KEY, colours, of_instructions


@pytest.fixture
def files(home: Path) -> list[str]:
    for name, count in (("t", 16), ("v", 9)):
        write(home / f"{name}.jsonl", *(dict(one.to_row()) for one in colours(count, name)))
    return ["--train", "t.jsonl", "--validation", "v.jsonl", "--no-track"]


def run(server: Any, *words: Any) -> Any:
    return folkmoot("compile", "single:simple", *lm(server), *words)


def test_a_plan_first_then_figures_in_words_or_as_json(scripted: Any, files: list[str]) -> None:
    scripted.reply = of_instructions()
    words = [*files, "--optimizer", "copro", "--out", "out"]
    done = run(scripted, *words)
    assert done.exit_code == 0, done.stderr
    made = len(scripted.bodies)
    assert "16 training questions (0 to learn from, 16 to select by), 9 held out" in done.stderr
    assert "at most" in done.stderr
    assert "a gain: accuracy +" in done.stdout
    assert re.search(r"; after 100\.0% \[.*\] on 9 questions\.\n", done.stdout)
    assert "file: out/prompts.md" in done.stdout
    assert "Bootstrapped" not in done.stdout + done.stderr
    quiet = run(scripted, *words, "--quiet")
    assert (quiet.stdout.splitlines(), quiet.stderr) == (done.stdout.splitlines()[:1], "")
    found = json.loads(run(scripted, *words, "--json").stdout)
    assert found["calls_made"] == made == len(scripted.bodies)
    assert (found["winner"], found["stopped"], found["out"]) == ("compiled", None, "out")
    assert {"calls_saved", "before"} <= found.keys()
    assert found["after"]["scores"]["accuracy"]["value"] == 1.0
    assert {"difference", "low", "high", "p"} <= found["comparison"].keys()
    assert found["settings"]["breadth"] == 5
    asked, options = colours(3, "v")[2], ["--choice", "red", "--choice", "blue"]
    folkmoot("ask", "out/program", asked.question, *options, *lm(scripted), code=0)
    assert KEY in json.dumps(scripted.bodies[-1])


@pytest.mark.nightly
def test_ctrl_c_keeps_what_was_found(scripted: Any, files: list[str]) -> None:
    scripted.reply = of_instructions()
    scripted.delay = 0.1
    words = ["compile", "single:simple", *lm(scripted), *files]
    words += ["--optimizer", "copro", "--out", "out", "--json"]
    process = Child(command, *words, "--concurrency", 4)
    wait_for_requests(scripted, 30)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "interrupted" in err
    assert json.loads(out)["stopped"] == "interrupted"
    assert Path("out/program/program.json").exists()
    scripted.delay = 0.0
    done = run(scripted, *files, "--optimizer", "copro", "--out", "out", "--json")
    assert json.loads(done.stdout)["winner"] == "compiled"
