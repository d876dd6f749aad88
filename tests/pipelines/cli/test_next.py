"""Printed commands work as they stand: each `next:` line is given to the command line."""

import shlex
from pathlib import Path

import pytest
from cli_helpers import folkmoot, lm, question, write

import folkmoot as fm
from folkmoot.pipelines.testing.server import ScriptedServer

FOLDER = "my runs"
HELD = ("--train", "train.jsonl", "--validation", "questions.jsonl")
COMMANDS = {
    "evaluate": ("evaluate", "single:simple", "--data", "questions.jsonl"),
    "few": ("evaluate", "single:simple", "--data", "questions.jsonl", "--limit", "5"),
    "try": ("try", "questions.jsonl", "--only", "step by step"),
    "compile": ("compile", "single:simple", *HELD, "--optimizer", "labeled_few_shot"),
    "tune": ("tune", "single:simple", *HELD, "--trials", "1", "--set", "sampling={}"),
}


def printed(text: str) -> list[str]:
    """The commands in what a command has printed, without those that name a FILE."""
    found = [line[line.index("folkmoot ") :] for line in text.splitlines() if " folkmoot " in line]
    return [line for line in found if " FILE" not in line]


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_printed_can_be_pasted(name: str, ten: Path, scripted: ScriptedServer) -> None:
    write(ten.parent / "train.jsonl", *(question(20 + number) for number in range(8)))
    done = folkmoot(*COMMANDS[name], *lm(scripted), "--no-track", "--out", f"{FOLDER}/{name}")
    shown = folkmoot("show", f"{FOLDER}/{name}")
    lines = [*printed(done.stdout), *printed(shown.stdout)]
    assert len(lines) >= 2, (done.stdout, done.stderr)
    has_ask = COMMANDS[name][0] != "evaluate"
    assert not has_ask or any("ask" in line and scripted.url in line for line in lines)
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "folkmoot"
        assert "--limit" not in words  # too few for a contest to decide
        done = folkmoot(*words)
        assert done.exit_code == 0, (line, done.stderr)


def test_a_missing_option_says_what_to_give(home: Path) -> None:
    done = folkmoot("tune", "deliberation", "--train", "train.jsonl", code=2)
    (line,) = done.stderr.splitlines()
    assert line.startswith("folkmoot: --validation is missing: labelled questions that no trial")
    assert "folkmoot tune deliberation --train train.jsonl --validation" in line
    assert folkmoot("ask", "single:cot").stderr.startswith("folkmoot: QUESTION is missing: the ")


def test_a_program_says_that_it_was_measured_with_options(ten, scripted, monkeypatch):
    folkmoot(*COMMANDS["evaluate"], *lm(scripted), "--no-track", "--out", "run")
    address = ("--api-base", scripted.url)
    options = ("--choice", "a flask", "--choice", "a net")
    assert "measured on" not in folkmoot("ask", "run", "What?", *address, *options).stderr
    with pytest.warns(UserWarning, match="measured on questions with options"):
        folkmoot("ask", "run", "What?", *address)
    monkeypatch.setenv("OPENAI_BASE_URL", scripted.url)
    program = fm.load_program("run")
    with pytest.warns(UserWarning, match=r"give choices=\[…\]"):
        program("What?")
