"""Bad input on the command line: one clear sentence, exit code 2, and not one call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from cli_helpers import (
    evaluate,
    folkmoot,
    isolate,
    lm,
    question,
    ten_questions,
    write,
)

from folkmoot.pipelines.testing.server import ScriptedServer


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


@pytest.fixture
def ten(tmp_path: Path) -> Path:
    return ten_questions(tmp_path)


BAD_ROWS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "missing question": ([question(1, question=None)], "line 1: the row has no 'question'"),
    "duplicate id": ([question(1), question(1)], "line 2: the id 'q1' already stands"),
    "gold not among the choices": (
        [question(1), question(2, answer="Z")],
        "line 2: question 'q2' has the answer",
    ),
    "no gold": ([question(1, answer=None)], "no answer"),
    "wrong type": ([question(1, question=["a"])], "line 1"),
    "one choice": ([question(1, choices={"A": "x"})], "line 1"),
    "no data": ([], "no questions"),
    "over-long context": ([question(1, context="long " * 10_000)], "context of 50,000 characters"),
}


@pytest.mark.parametrize("what", BAD_ROWS)
def test_bad_data_is_refused_before_any_call(
    what: str, scripted: ScriptedServer, tmp_path: Path
) -> None:
    rows, words = BAD_ROWS[what]
    refused(evaluate(scripted, write(tmp_path / "questions.jsonl", *rows)), words, scripted)


BAD_WORDS: dict[str, tuple[list[str], str]] = {
    "unknown program": (["singel:cot"], "did you mean 'single'"),
    "unknown role": (["deliberation:intuitive,boss"], "no role 'boss'"),
    "unknown parameter": (["single:cot", "--set", "max_round=2"], "no parameter 'max_round'"),
    "unknown tie-break": (["deliberation:intuitive:coin"], "no tie-break 'coin'"),
    "no pair": (["single:cot", "--set", "max_rounds"], "KEY=VALUE"),
    "unknown seat": (["single:cot", "--lm", "jugde=openai/x"], "no seat 'jugde'"),
    "seat twice": (["single:cot", "--lm", "cot=openai/x", "--lm", "cot=openai/y"], "twice"),
    "no LM name": (["single:cot", "--lm", "cot=gpt"], "'gpt' is not an LM name"),
    "unknown embedded LM": (["single:cot", "--lm", "cot=local/llama"], "no embedded LM"),
    "bad address": (["single:cot", "--api-base", "cot=nowhere"], "not a usable address"),
    "not a recorded run": (["single:cot", "--lm", "cot=replay/none"], "not a recorded run"),
    "unknown column": (["single:cot", "--columns", "question=text"], "text"),
    "unknown field": (["single:cot", "--columns", "topic=text"], "topic"),
    "no column": (["single:cot", "--columns", "question"], "FIELD=COLUMN"),
    "kind that does not fit": (["single:cot", "--kind", "number"], "line 1"),
    "unknown kind": (["single:cot", "--kind", "essay"], "kind is 'essay'"),
    "bad limit": (["single:cot", "--limit", "0"], "limit is 0"),
    "bad answer form": (["single:cot", "--answer-form", "picture"], "answer_form is 'picture'"),
    "split of a file": (["single:cot", "--split", "test"], "no split"),
    "no weights": (["ensemble:simple,cot:weighted"], "--train"),
    "demos of nothing": (["single:cot", "--demos", "2"], "--demos needs --train"),
    "training for nothing": (["single:cot", "--train", "sample-choice"], "nothing learns"),
    "too many demos": (["single:cot", "--train", "sample-choice", "--demos", "99"], "only 40"),
}


@pytest.mark.parametrize("what", BAD_WORDS)
def test_bad_words_are_refused_before_any_call(
    what: str, scripted: ScriptedServer, ten: Path
) -> None:
    (program, *words), told = BAD_WORDS[what]
    refused(evaluate(scripted, ten, *words, program=program), told, scripted)


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("none.jsonl", None, "none.jsonl"),
        ("sample-chioce", None, "did you mean 'sample-choice'"),
        ("bad.jsonl", b"{", "line 1"),
        ("bad.jsonl", b"\xff\xfe", "line 1"),
        ("bad.parquet", b"PAR?", "bad.parquet"),
        ("bad.txt", b"x", "bad.txt"),
    ],
)
def test_unreadable_data_is_refused(
    name: str, content: bytes | None, told: str, scripted: ScriptedServer, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    refused(evaluate(scripted, name), told, scripted)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["single:cot", "  "], "blank"),
        (
            ["single:cot", "What?", "--choice", "one"],
            "--choice is given 1 time: give it 2 to 26 times, or not",
        ),
        (
            ["single:cot", "What?", *["--choice", "one"] * 27],
            "--choice is given 27 times: give it 2 to 26",
        ),
        (
            ["single:cot", "What?", "--choice", "A=x", "--choice", "y"],
            "without a label, or a label twice",
        ),
        (["single:cot", "What?", "--choice", "A=x", "--choice", "A=y"], "or a label twice"),
        (["single:cot", "What?", "--kind", "choice"], "no choices"),
        (["single:cot", "What?", "--context", "long " * 10_000], "context of 50,000 characters"),
        (["single:wizardry", "What?"], "no strategy 'wizardry'"),
    ],
)
def test_a_bad_question_is_refused(words: list[str], told: str, scripted: ScriptedServer) -> None:
    refused(folkmoot("ask", *words, *lm(scripted)), told, scripted)


def test_the_api_without_a_key_is_refused(ten: Path) -> None:
    result = folkmoot("evaluate", "single:cot", "--data", ten, "--lm", "openai/gpt-4o-mini")
    assert result.exit_code == 2
    assert "OPENAI_API_KEY" in result.stderr


def test_an_address_for_an_lm_that_has_none_is_refused(ten: Path, scripted: ScriptedServer) -> None:
    refused(
        folkmoot("evaluate", "single:cot", "--data", ten, "--api-base", scripted.url),
        "--api-base",
        scripted,
    )


def refused(result: Any, told: str, server: ScriptedServer) -> None:
    """One clear sentence, or each fault of a file in a line, exit code 2, and not one call."""
    assert result.exit_code == 2, result.output
    assert told in result.stderr
    assert result.stderr.startswith("folkmoot: ")
    assert all(line.startswith("  line ") for line in result.stderr.splitlines()[1:])
    assert result.stdout == ""
    assert not server.requests
    assert not Path("runs").exists()
