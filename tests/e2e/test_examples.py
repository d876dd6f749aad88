"""The scripts in examples/ run to their end and leave what they say."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from children import run as run_child
from children import script
from cli_helpers import isolate
from stores import new_store

import folkmoot as fm
from folkmoot.pipelines.testing.server import ScriptedServer

EXAMPLES = Path(fm.__file__).parent / "examples"


@pytest.fixture(autouse=True)
def _isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", new_store(tmp_path))
    monkeypatch.setenv("COLUMNS", "160")


def run(name: str, *words: Any) -> subprocess.CompletedProcess[str]:
    """Run a script in a process that is forked from a warm one."""
    return run_child(script, EXAMPLES / name, *words)


def asked(name: str, server: ScriptedServer, *words: Any) -> str:
    done = run(name, "--lm", "openai/scripted", "--api-base", server.url, *words)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


def test_every_example_is_tested() -> None:
    known = {"bring_your_own.py", "demo.py", "improve.py", "tune.py", "train_selector.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == known


@pytest.mark.nightly
def test_improve(tmp_path: Path, scripted: ScriptedServer) -> None:
    said = asked("improve.py", scripted, "--limit", 6)
    folder = tmp_path / "runs/improve/openai/scripted-6-questions"
    assert "verdict: " in said
    assert "before: " in said
    assert "after: " in said
    assert fm.load_program(folder / "saved").describe()["program"] == "single"
    assert len((folder / "evaluated-after/results.jsonl").read_text().splitlines()) == 6
    made = len(scripted.bodies)
    assert asked("improve.py", scripted, "--limit", 6) == said
    assert len(scripted.bodies) == made


@pytest.mark.nightly
def test_tune(tmp_path: Path, scripted: ScriptedServer) -> None:
    said = asked("tune.py", scripted, "--limit", 4)
    folder = tmp_path / "runs/tune/openai/scripted-4-questions"
    assert said.count("%  {'roles'") == 6
    assert "verdict: " in said
    assert fm.load_program(folder / "saved").describe()["program"] == "deliberation"
    page = (folder / "report.html").read_text()
    assert "winner" in page
    assert "default" in page


@pytest.mark.nightly
def test_train_selector(tmp_path: Path) -> None:
    done = run("train_selector.py", "--questions", 120, "--trials", 1)
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert "verdict: " in said
    shares = dict(line.split(": ", 1) for line in said.splitlines() if "zero_shot" in line)
    assert shares["sums"].startswith("cot 100%"), said
    assert shares["capitals"].endswith("zero_shot 100%"), said
    assert "compiled: 2 of its 2 prompts have demonstrations" in said
    folder = tmp_path / "runs/selector/120-questions"
    assert (folder / "network/tensors.safetensors").exists()
    assert said.count("'strategies': ") == 2
    assert (folder / "study/study.json").exists()


def test_demo(tmp_path: Path, scripted: ScriptedServer) -> None:
    said = asked("demo.py", scripted, "--limit", 6)
    for name in ("step by step", "panel of three", "two who talk", "Take one prompt for now: "):
        assert name in said
    assert (tmp_path / "runs/demo/6-scripted/winner/program.json").exists()
    contest = said.partition("Recorded: ")[2]
    assert "two who talk      58%" in contest
    assert "23% against 56% on 100 questions" in contest


def test_bad_input_is_one_line() -> None:
    done = run("improve.py", "--lm", "nonsense")
    assert done.returncode == 1
    assert done.stderr.startswith("folkmoot: 'nonsense' is not an LM name")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.nightly
def test_bring_your_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reply(body: Any) -> str:
        if "[[ ##" in str(body["messages"]):  # as DSPy's adapter asks
            return "[[ ## reasoning ## ]]\nso\n\n[[ ## answer ## ]]\nA\n\n[[ ## completed ## ]]"
        return "Reasoning: so\nAnswer: A"

    monkeypatch.setenv("OPENAI_API_KEY", "sk-none-0000000000")
    with ScriptedServer(reply) as server:
        said = asked("bring_your_own.py", server)
        assert f"in all: {len(server.bodies)} calls, in MLflow as 'my own experiment'" in said
    assert "differ in prompt layout (a deliberation: folkmoot's; my module: DSPy's own" in said
    for name in ("rag", "team", "compiled/program", "tuned"):
        assert (tmp_path / "runs/bring_your_own" / name).is_dir()
