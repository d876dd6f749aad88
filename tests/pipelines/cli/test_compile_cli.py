"""`folkmoot compile`: plan, result, JSON, exit codes, Ctrl-C."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from children import Child, command
from cli_helpers import folkmoot, isolate, lm
from planted import KEY, colours, of_instructions


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    isolate(tmp_path, monkeypatch)
    for name, count in (("t", 16), ("v", 9)):
        rows = [json.dumps(question.to_row()) + "\n" for question in colours(count, name)]
        (tmp_path / f"{name}.jsonl").write_text("".join(rows))
    return ["--train", "t.jsonl", "--validation", "v.jsonl", "--no-track"]


def run(server: Any, *words: Any) -> Any:
    return folkmoot("compile", "single:simple", *lm(server), *words)


def test_json_says_all_that_matters(scripted: Any, files: list[str]) -> None:
    scripted.reply = of_instructions()
    done = run(
        scripted, *files, "--optimizer", "copro", "--out", "out", "--budget", "1000 calls", "--json"
    )
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["calls_made"] == len(scripted.bodies)
    assert {
        "calls_saved",
        "before",
        "after",
        "comparison",
        "settings",
        "winner",
        "stopped",
        "out",
    } <= found.keys()
    assert found["winner"] == "compiled"
    assert found["stopped"] is None
    assert found["after"]["scores"]["accuracy"]["value"] == 1.0
    assert {"difference", "low", "high", "p"} <= found["comparison"].keys()
    assert found["settings"]["breadth"] == 5
    scripted.requests.clear()
    asked = colours(3, "v")[2]
    answer = folkmoot(
        "ask",
        "out/program",
        asked.question,
        "--choice",
        "red",
        "--choice",
        "blue",
        "--choice",
        "green",
        *lm(scripted),
    )
    assert answer.exit_code == 0, answer.stderr
    assert KEY in json.dumps(scripted.bodies)


def test_a_plan_first_and_figures_after(scripted: Any, files: list[str]) -> None:
    scripted.reply = of_instructions()
    done = run(scripted, *files, "--optimizer", "copro", "--out", "out")
    assert done.exit_code == 0, done.stderr
    assert "16 training questions (0 to learn from, 16 to select by), 9 held out" in done.stderr
    assert "at most" in done.stderr
    assert "verdict: a gain: accuracy +" in done.stdout
    assert re.search(r"held out, after: 100\.0% \[.*\], n = 9\n", done.stdout)
    assert "prompts: out/prompts.md" in done.stdout
    assert "Bootstrapped" not in done.stdout + done.stderr
    quiet = run(scripted, *files, "--optimizer", "copro", "--out", "out", "--quiet")
    assert quiet.stdout.splitlines() == [
        line for line in done.stdout.splitlines() if line.startswith("verdict")
    ]
    assert quiet.stderr == ""


def test_a_dry_run_asks_nothing(scripted: Any, files: list[str]) -> None:
    done = run(scripted, *files, "--optimizer", "mipro", "--out", "out", "--dry-run", "--json")
    assert done.exit_code == 0
    plan = json.loads(done.stdout)["plan"]
    assert (
        plan["calls"][0]
        == 18
        <= plan["calls"][1]
        == plan["comparison_calls"] + plan["optimizer_calls"]
    )
    assert not scripted.bodies
    assert not Path("out").exists()


@pytest.mark.parametrize(
    "name",
    [
        "labeled_few_shot",
        "bootstrap",
        "bootstrap_rs",
        "knn",
        "copro",
        "mipro",
        "simba",
        "gepa",
        "infer_rules",
        "better_together",
    ],
)
def test_no_optimizer_takes_more_calls_than_planned(
    scripted: Any, files: list[str], name: str
) -> None:
    scripted.reply = of_instructions(varied=True)
    words = [*files, "--optimizer", name, "--out", "out", "--json"]
    plan = json.loads(run(scripted, *words, "--dry-run").stdout)["plan"]
    found = json.loads(run(scripted, *words).stdout)
    assert found["calls_made"] <= plan["calls"][1]


def test_a_spent_budget_ends_with_the_best_so_far_and_0(scripted: Any, files: list[str]) -> None:
    scripted.reply = of_instructions()
    done = run(
        scripted, *files, "--optimizer", "gepa", "--out", "out", "--budget", "30 calls", "--json"
    )
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["stopped"].startswith("budget 30 calls spent")
    assert len(scripted.bodies) <= 30


def test_a_tiny_budget_shows_how_little_was_answered(scripted: Any, files: list[str]) -> None:
    scripted.reply = of_instructions(share=100)
    done = run(scripted, *files, "--optimizer", "copro", "--out", "out", "--budget", "3 calls")
    assert done.exit_code == 0
    assert "verdict: nothing could be tried" in done.stdout
    assert re.search(r"held out, before: 100\.0% \[.*\], n = 1 of 9\n", done.stdout)
    assert "after" not in done.stdout
    assert "candidates: 1, the given program among them" in done.stdout
    assert "what is kept back to ask the result the held-out questions" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--optimizer", "gema"], "did you mean 'gepa'"),
        (["--preset", "lite"], "no preset 'lite'"),
        (["--budget", "many"], "the budget 'many' cannot be read"),
        (["--prompt-api-base", "http://x/v1"], "without --prompt-lm"),
        (["--validation", "t.jsonl"], "16 of 16 test questions are training questions"),
        (["--train", "none.jsonl"], "none.jsonl"),
    ],
)
def test_bad_input_is_one_line_and_2(
    scripted: Any, files: list[str], words: list[str], said: str
) -> None:
    done = run(scripted, *files, "--out", "out", *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not scripted.bodies


@pytest.mark.parametrize("missing", ["--train", "--validation", "--out"])
def test_what_is_missing_is_named(scripted: Any, files: list[str], missing: str) -> None:
    given = {"--train": "t.jsonl", "--validation": "v.jsonl", "--out": "out"}
    words = [
        word for option, value in given.items() if option != missing for word in (option, value)
    ]
    done = run(scripted, *words)
    assert done.exit_code == 2
    assert f"{missing} is missing" in done.stderr


@pytest.mark.nightly
def test_ctrl_c_keeps_what_was_found(scripted: Any, files: list[str]) -> None:
    scripted.reply = of_instructions()
    scripted.delay = 0.1
    words = [
        "compile",
        "single:simple",
        *lm(scripted),
        *files,
        "--optimizer",
        "copro",
        "--out",
        "out",
        "--json",
    ]
    process = Child(command, *words, "--concurrency", 4)
    end = time.monotonic() + 60
    while len(scripted.bodies) < 30 and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    began = time.monotonic()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert time.monotonic() - began < 15
    assert "interrupted" in err
    assert json.loads(out)["stopped"] == "interrupted"
    assert Path("out/program/program.json").exists()
    scripted.delay = 0.0
    done = run(scripted, *files, "--optimizer", "copro", "--out", "out", "--json")
    assert json.loads(done.stdout)["winner"] == "compiled"
