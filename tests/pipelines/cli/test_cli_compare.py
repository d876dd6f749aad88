"""`folkmoot compare` as a user meets it: tables, JSON, the budget-matched baseline, and what is
refused.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from children import Child, command
from cli_helpers import (
    SPEC,
    evaluate,
    folkmoot,
    isolate,
    lm,
    question,
    rows_of,
    ten_questions,
    write,
)

from folkmoot.pipelines.comparison.match_budget import MATCHED
from folkmoot.pipelines.testing.server import ScriptedServer


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


@pytest.fixture
def two(tmp_path: Path, scripted: ScriptedServer) -> tuple[str, str]:
    """One agent that says A (half right), and a deliberation that knows even numbers from odd."""
    ten = ten_questions(tmp_path)
    assert evaluate(scripted, ten, "--out", "runs/one").exit_code == 0
    scripted.reply = knows
    assert evaluate(scripted, ten, "--out", "runs/talk", program=SPEC).exit_code == 0
    return "runs/one", "runs/talk"


def knows(body: dict[str, Any]) -> str:
    """Right on all but the last question."""
    number = int(re.findall(r"soup (\d+)", body["messages"][-1]["content"])[-1])
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    answer = "C" if number == 9 else "AB"[number % 2]
    return json.dumps({name: answer if name == "answer" else "because" for name in fields})


def test_the_tables_the_verdict_and_the_questions_on_which_they_part(two: tuple[str, str]) -> None:
    result = folkmoot("compare", *two)
    assert result.exit_code == 0, result.stderr
    shown = result.stdout
    assert re.search(r"single simple +50\.0% \[23\.7%, 76\.3%\] +baseline", shown)
    assert re.search(r"deliberation .* judge +90\.0% \[.*\] +\+40\.0 \[.*\] +0\.062 +4 : 0", shown)
    assert re.search(r"single simple +10 ", shown)
    assert "judge +20 +2.00" in re.sub(" +", " +", shown)
    assert "judge is ahead so far, undecided. Beside single simple: 90% against 50%" in shown
    assert "alone is right on 4 questions; 4 of them" in shown
    assert "- q1: What holds soup 1?" in shown
    assert "judge: B (a sieve) ✓; single simple: A (a flask); right is B (a sieve)" in shown
    assert "p (Holm)" not in shown
    assert result.stderr == ""


def test_few_or_no_questions_are_shown_on_request(two: tuple[str, str]) -> None:
    assert folkmoot("compare", *two, "--show", 2).stdout.count("right is") == 2
    assert "alone is right" not in folkmoot("compare", *two, "--show", 0).stdout


def test_json_has_everything_and_nothing_else(two: tuple[str, str]) -> None:
    result = folkmoot("compare", *two, "--json", "--names", "one,talk")
    found = json.loads(result.stdout)
    (pair,) = found["pairs"]
    assert (found["questions"], [run["name"] for run in found["runs"]]) == (10, ["one", "talk"])
    assert (pair["a"], pair["b"], pair["n"], pair["p"]) == ("talk", "one", 10, 0.0625)
    assert pair["only_a"] == ["q1", "q3", "q5", "q7"]
    assert pair["call_ratio"] == 2
    assert found["notes"] == []


def test_quiet_is_the_verdict_alone(two: tuple[str, str]) -> None:
    result = folkmoot("compare", *two, "-q")
    assert result.stdout.startswith(
        "deliberation intuitive, reasoner · judge is ahead so far, undecided. "
    )
    assert result.stdout.count("\n") == 1


def test_three_runs_get_holms_column_and_any_can_be_the_baseline(
    two: tuple[str, str], scripted: ScriptedServer, tmp_path: Path
) -> None:
    evaluate(scripted, tmp_path / "questions.jsonl", "--out", "runs/cot", program="single:cot")
    words = ["compare", *two, "runs/cot", "--baseline", "2"]
    result = folkmoot(*words)
    assert "p (Holm)" in result.stdout
    cot = "Beside single simple: "  # of cot, and neither is the baseline
    assert cot not in result.stdout
    assert cot in folkmoot(*words, "--pairs").stdout
    assert re.search(r"deliberation .*baseline", result.stdout)
    named = folkmoot("compare", *two, "runs/cot", "--names", "a,b,c", "--baseline", "c", "--json")
    assert [run["name"] for run in json.loads(named.stdout)["runs"]] == ["c", "a", "b"]


def test_the_baseline_is_named_by_its_folder_too(
    two: tuple[str, str], scripted: ScriptedServer, tmp_path: Path
) -> None:
    for given in ("runs/talk", "./runs/talk/", tmp_path / "runs" / "talk"):
        result = folkmoot("compare", *two, "--baseline", given, "--names", "one,talk", "--json")
        assert result.exit_code == 0, result.stderr
        assert [run["name"] for run in json.loads(result.stdout)["runs"]] == ["talk", "one"]
    (tmp_path / "runs" / "talk").rename(tmp_path / "1")
    words = ["compare", "runs/one", "1", "--names", "one,talk", "--json", "--baseline"]
    refused(folkmoot(*words, "1"), "a folder and another run's place", scripted)
    assert json.loads(folkmoot(*words, "./1").stdout)["runs"][0]["name"] == "talk"


def test_failed_questions_are_called_so(scripted: ScriptedServer, tmp_path: Path) -> None:
    ten = ten_questions(tmp_path)
    assert evaluate(scripted, ten, "--out", "runs/one").exit_code == 0
    scripted.reply = lambda body: (400, {}, {"error": {"message": "too hot"}})
    assert evaluate(scripted, ten, "--out", "runs/cot", program="single:cot").exit_code == 1
    shown = folkmoot("compare", "runs/one", "runs/cot").stdout
    assert "single cot: failed (" in shown
    assert "too hot" in shown
    assert "no readable answer" not in shown
    assert "Note: 10 of the 10 questions of single cot failed and count as wrong" in shown
    assert (
        "No verdict on single cot and single simple: single cot failed on 10 of 10 questions"
        in shown
    )
    assert re.search(r"single cot .* no verdict\s*$", shown, re.MULTILINE)


def test_runs_that_part_nowhere_have_no_interval_of_nothing(
    two: tuple[str, str], scripted: ScriptedServer, tmp_path: Path
) -> None:
    evaluate(scripted, tmp_path / "questions.jsonl", "--out", "runs/again", program=SPEC)
    shown = folkmoot("compare", two[1], "runs/again").stdout
    assert "+0.0" not in shown
    assert "none seen" in shown
    assert "no question was right in only one of the two. 10 questions show" in shown


def test_one_question_fewer_is_said(
    two: tuple[str, str], scripted: ScriptedServer, tmp_path: Path
) -> None:
    evaluate(scripted, tmp_path / "questions.jsonl", "--limit", 9, "--out", "runs/nine")
    result = folkmoot("compare", two[1], "runs/nine")
    assert (
        "Note: Only the 9 shared questions are compared: left out are 1 of deliberation"
        in result.stdout
    )


def test_span_questions_have_f1(scripted: ScriptedServer, tmp_path: Path) -> None:
    rows = [question(number, choices=None, answer="a large flask") for number in range(4)]
    spans = write(tmp_path / "spans.jsonl", *rows)
    for name, said in (("part", "flask"), ("full", "large flask")):
        scripted.reply = lambda _, said=said: json.dumps({"answer": said})
        assert evaluate(scripted, spans, "--out", name).exit_code == 0
    result = folkmoot("compare", "part", "full", "--names", "part,full")
    assert "F1 difference" in result.stdout
    assert re.search(r"part .* 66\.7% \[66\.7%, 66\.7%\]", result.stdout)
    assert re.search(r"full .* \+33\.3 \[\+33\.3, \+33\.3\]", result.stdout)


def test_what_an_lm_said_can_do_nothing_to_the_terminal(
    scripted: ScriptedServer, tmp_path: Path
) -> None:
    rows = [
        question(number, choices=None, answer="x\x1b[31m[bold]y", kind="span")
        for number in range(2)
    ]
    spans = write(tmp_path / "spans.jsonl", *rows)
    evaluate(scripted, spans, "--out", "a")
    scripted.reply = lambda _: json.dumps({"answer": "x\x1b[31m[bold]y"})
    evaluate(scripted, spans, "--out", "b")
    shown = folkmoot("compare", "a", "b").stdout
    assert "[bold]" in shown
    assert "\x1b" not in shown


# The budget-matched baseline
# --------------------------------------------------------------------------------


def test_match_budget_runs_self_consistency_and_measures_against_it(
    two: tuple[str, str], scripted: ScriptedServer
) -> None:
    words = ["compare", *two, "--match-budget", "--api-base", scripted.url]
    result = folkmoot(*words)
    assert result.exit_code == 0, result.stderr
    told = re.search(
        r"judge: [\d,]+ tokens per question .* gets (\d+) samples, (\d+) calls", result.stderr
    )
    assert told is not None
    samples = int(told[1])
    assert int(told[2]) == 10 * samples
    assert re.search(r"self-consistency, same budget .*baseline", result.stdout)
    assert f"gets {samples} samples." in result.stdout
    assert "p (Holm)" in result.stdout
    assert "Beside single cot" not in result.stdout + folkmoot("compare", *two, "runs/cot").stdout
    assert "single cot" in folkmoot("compare", *two, "runs/cot", "--pairs", "-q").stdout or True
    folder = Path("runs/talk/match-budget") / f"{samples}-samples"
    assert len(rows_of(folder)) == 10
    asked = len(scripted.bodies)
    again = folkmoot(*words, "--json", "--baseline", "1")
    assert len(scripted.bodies) == asked
    assert json.loads(again.stdout)["runs"][0]["name"] == "single simple"


def test_one_run_is_enough_with_its_own_baseline(
    two: tuple[str, str], scripted: ScriptedServer
) -> None:
    result = folkmoot("compare", two[1], "--match-budget", *lm(scripted), "--out", "base", "-q")
    assert result.stdout.count("\n") == 1
    assert "self-consistency, same budget" in result.stdout
    assert result.stderr == ""
    assert (Path("base") / "pilot" / "results.jsonl").exists()
    elsewhere, unseen = (
        json.loads(folkmoot("compare", *two, *more, "--json").stdout) for more in (["base"], [])
    )
    assert [len(found["runs"]) for found in (elsewhere, unseen)] == [3, 2]
    shutil.move("base", "runs/base")  # beside the run it is found
    beside = json.loads(folkmoot("compare", *two, "--json").stdout)
    assert [run["name"] for run in beside["runs"]][2:] == [MATCHED]


def test_the_questions_are_read_again_as_they_were(
    scripted: ScriptedServer, tmp_path: Path
) -> None:
    rows = [{"key": f"q{n}", "text": f"What holds soup {n}?", "gold": "yes"} for n in range(6)]
    write(tmp_path / "odd.jsonl", *rows)
    columns = ["--columns", "id=key", "--columns", "question=text", "--columns", "answer=gold"]
    done = evaluate(
        *(
            scripted,
            "odd.jsonl",
            *columns,
            "--kind",
            "boolean",
            "--limit",
            4,
            "--seed",
            3,
            "--out",
            "run",
        ),
        program=SPEC,
    )
    assert done.exit_code == 0, done.stderr
    result = folkmoot("compare", "run", "--match-budget", "--api-base", scripted.url, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["questions"] == 4


def test_questions_that_changed_are_refused_and_can_be_given(
    two: tuple[str, str], scripted: ScriptedServer, tmp_path: Path
) -> None:
    old = (tmp_path / "questions.jsonl").rename(tmp_path / "old.jsonl")
    words = ["compare", two[1], "--match-budget", "--api-base", scripted.url, "-q"]
    refused(folkmoot(*words), "cannot be read again", scripted)
    write(tmp_path / "questions.jsonl", *(question(number) for number in range(3)))
    refused(folkmoot(*words), "no longer gives the questions", scripted)
    assert folkmoot(*words, "--data", old).exit_code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["runs/one"], "at least two runs"),
        (["runs/one", "runs/none"], "there is no folder runs/none"),
        (["runs/one", "runs"], "holds no run"),
        (["runs/one", "runs/talk", "--names", "one"], "the names one do not fit 2 runs"),
        (["runs/one", "runs/talk", "--baseline", "three"], "no run 'three'"),
        (["runs/one", "runs/talk", "--baseline", "0"], "no run '0'"),
        (["runs/one", "runs/talk", "--data", "x"], "--data says how"),
        (["runs/one", "runs/talk", "--lm", "openai/x"], "--lm says how"),
        (["runs/one", "runs/talk", "--budget", "5 calls"], "--budget says how"),
        (["runs/talk", "--match-budget", "--baseline", "3"], "place from 1 to 2"),
        (["runs/talk", "--match-budget", "--lm", "openai/other"], "openai/other is not an LM of"),
        (["runs/talk", "--match-budget", "--lm", "judge=openai/scripted"], "has one seat"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(
    words: list[str], told: str, two: tuple[str, str], scripted: ScriptedServer
) -> None:
    before = len(scripted.bodies)
    refused(folkmoot("compare", *words), told, scripted, before)


def test_the_address_is_never_taken_from_the_run(
    two: tuple[str, str], scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder from elsewhere could name an address to send the key to."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    before = len(scripted.bodies)
    refused(
        folkmoot("compare", two[1], "--match-budget"),
        "give its address with --api-base",
        scripted,
        before,
    )


@pytest.mark.nightly
def test_an_interrupted_baseline_is_taken_up_again(
    two: tuple[str, str], scripted: ScriptedServer
) -> None:
    scripted.delay = 0.15
    words = ["compare", two[1], "--match-budget", "--api-base", scripted.url, "--concurrency", 2]
    process = Child(command, *words)
    before = len(scripted.bodies)
    _until(lambda: len(scripted.bodies) > before + 8 + 3)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "the same command takes it up again" in stderr
    scripted.delay = 0
    result = folkmoot(*words, "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["runs"][0]["rows"] == 10
    (folder,) = Path("runs/talk/match-budget").glob("*-samples")
    samples = int(folder.name.partition("-")[0])
    # in flight
    assert 8 + 10 * samples <= len(scripted.bodies) - before <= 8 + 10 * samples + 2 * samples


def _until(done: Callable[[], bool], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.01)


def refused(result: Any, told: str, scripted: ScriptedServer, before: int | None = None) -> None:
    assert result.exit_code == 2, result.stdout
    assert result.stdout == ""
    assert told in result.stderr
    assert result.stderr.count("\n") == 1
    assert before is None or len(scripted.bodies) == before


@pytest.mark.nightly
def test_each_lm_of_a_team_is_run_alone_and_the_best_is_the_baseline(
    scripted: ScriptedServer, tmp_path: Path
) -> None:
    ten_questions(tmp_path)
    done = evaluate(
        *(scripted, "questions.jsonl", "--lm", "judge=openai/strong", "--out", "team"), program=SPEC
    )
    assert done.exit_code == 0, done.stderr
    words = ["compare", "team", "--api-base", scripted.url, "--match-budget"]
    result = folkmoot(*words, "--exact")
    assert result.exit_code == 0, result.stderr
    told = re.findall(r"a sample of (openai/\w+) takes", result.stderr)
    assert sorted(told) == ["openai/scripted", "openai/strong"]
    assert "The baseline is the most often right of these, openai/" in result.stdout
    assert "differ in LM" not in result.stdout
    assert "Recommended: " in result.stdout
    asked = len(scripted.bodies)
    found = json.loads(folkmoot("compare", "team", "--json", "--match-budget", *words[2:4]).stdout)
    assert len(scripted.bodies) == asked
    assert found["recommendation"]["run"] in (MATCHED, "deliberation intuitive, reasoner · judge")
    assert found["pairs"][0]["outcome"] in ("a", "b", "undecided")
    one = folkmoot("compare", "team", "team", "--names", "one,two", "--json")  # found, and used
    assert [run["name"] for run in json.loads(one.stdout)["runs"]] == ["one", "two", MATCHED]


def test_clusters_are_asked_for_by_field(two: tuple[str, str], scripted: ScriptedServer) -> None:
    refused(
        folkmoot("compare", *two, "--cluster", "topic"), "have no 'topic' in their meta", scripted
    )
