"""`folkmoot compare` as a user meets it: tables, JSON, matched budgets, what is refused."""

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from children import Child, command, wait_for_requests
from cli_helpers import SPEC, evaluate, folkmoot

from folkmoot.pipelines.testing.replies import filled
from folkmoot.pipelines.testing.server import ScriptedServer

pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def two(ten: Path, scripted: ScriptedServer) -> tuple[str, str]:
    """One agent that says A (half right), and a deliberation that knows even numbers from odd."""
    assert evaluate(scripted, ten, "--out", "runs/one").exit_code == 0
    scripted.reply = knows
    assert evaluate(scripted, ten, "--out", "runs/talk", program=SPEC).exit_code == 0
    return "runs/one", "runs/talk"


def knows(body: dict[str, Any]) -> str:
    """Right on all but the last question."""
    number = int(re.findall(r"soup (\d+)", body["messages"][-1]["content"])[-1])
    return filled(body, "C" if number == 9 else "AB"[number % 2], "because")


def test_the_table_three_sentences_and_a_legend(two: tuple[str, str]) -> None:
    result = folkmoot("compare", *two)
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert re.match(r" +right +against 1 agent +price$", lines[0])
    assert re.match(r"1 agent +50% .*▕.*●.*▏ +· +1×$", lines[1])
    assert re.match(r"2 agents \+ judge +90% .*●.* \+40 .*┊.*●.* \[0, \+69\] +2.4×$", lines[2])
    ratio = json.loads(folkmoot("compare", *two, "--json").stdout)["pairs"][0]["token_ratio"]
    assert lines[3:] == [
        "",
        "2 agents + judge is ahead so far, undecided, as it may be chance. "
        "Against 1 agent: 90% against 50% on 10 questions: +40 points, 95% interval 0 to +69. "
        "10 questions show differences from about 62 points up.",
        "Take 1 agent: it is the cheapest in tokens that nothing is shown to beat; 2 agents + "
        f"judge, ahead so far, costs {ratio:.1f} times as much.",
        "1 agent: simple",
        "2 agents + judge: intuitive, reasoner; at most 3 rounds",
    ]
    assert len(result.stdout.splitlines()) <= 24


def test_tests_are_shown_on_request_and_json_has_everything(two: tuple[str, str]) -> None:
    assert "McNemar" not in folkmoot("compare", *two).stdout
    assert "McNemar's mid-p is 0.062, n = 10" in folkmoot("compare", *two, "--pairs").stdout
    result = folkmoot("compare", *two, "--json", "--names", "one,talk")
    found = json.loads(result.stdout)
    (pair,) = found["pairs"]
    assert (found["questions"], [run["name"] for run in found["runs"]]) == (10, ["one", "talk"])
    assert (pair["a"], pair["b"], pair["n"], pair["p"]) == ("talk", "one", 10, 0.0625)
    assert pair["only_a"] == ["q1", "q3", "q5", "q7"]
    assert pair["call_ratio"] == 2
    assert found["notes"] == []


def test_a_verdict_can_fail_a_build(two: tuple[str, str], scripted: ScriptedServer) -> None:
    for rule, code in (("worse", 0), ("undecided", 3), ("not-better", 3)):
        results = [folkmoot("compare", *runs, "--fail-if", rule) for runs in (two, two[::-1])]
        assert [result.exit_code for result in results] == [code, code], rule
        assert "undecided" in results[0].stdout
    refused(folkmoot("compare", *two, "--fail-if", "wrose"), "did you mean 'worse'", scripted)


def test_the_address_is_never_taken_from_the_run(two, scripted, monkeypatch):
    """A folder from elsewhere could name an address to send the key to."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    before = len(scripted.bodies)
    done = folkmoot("compare", two[1], "--match-budget")
    refused(done, "give its address with --api-base", scripted, before)


@pytest.mark.nightly
def test_an_interrupted_baseline_goes_on(two: tuple[str, str], scripted: ScriptedServer) -> None:
    scripted.delay = 0.15
    words = ["compare", two[1], "--match-budget", "--api-base", scripted.url, "--concurrency", 2]
    before = len(scripted.bodies)
    process = Child(command, *words)
    wait_for_requests(scripted, before + 8 + 4)
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "the same command resumes it" in stderr
    scripted.delay = 0
    result = folkmoot(*words, "--json", code=0)
    assert json.loads(result.stdout)["runs"][0]["rows"] == 10
    (folder,) = Path("runs/talk/match-budget").glob("*-samples")
    samples = int(folder.name.partition("-")[0])
    # in flight
    assert 8 + 10 * samples <= len(scripted.bodies) - before <= 8 + 10 * samples + 2 * samples


def refused(result: Any, told: str, scripted: ScriptedServer, before: int | None = None) -> None:
    assert result.exit_code == 2, result.stdout
    assert result.stdout == ""
    assert told in result.stderr
    assert result.stderr.count("\n") == 1
    assert before is None or len(scripted.bodies) == before
