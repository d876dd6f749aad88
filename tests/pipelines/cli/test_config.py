"""Defaults of the command line: configuration files, FOLKMOOT_LM, and what none may say."""

import itertools
import json
from pathlib import Path

import pytest
from cli_helpers import KEY, folkmoot, ten_questions

import folkmoot as fm
from folkmoot.pipelines.testing.server import ScriptedServer

ASK = ("ask", "single:simple", "What holds soup?", "--choice", "a flask", "--choice", "a net", "-q")
OWN = "own/folkmoot/folkmoot.toml"
"""The user's own file, as `isolate` has it."""
pytestmark = pytest.mark.usefixtures("home")


@pytest.fixture
def scripted(scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> ScriptedServer:
    """The server, where the environment says that OpenAI's names lead."""
    monkeypatch.setenv("OPENAI_BASE_URL", scripted.url)
    return scripted


def config(text: str, file: str = OWN) -> None:
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(text)


def asked(server: ScriptedServer) -> str:
    return str(server.bodies[-1]["model"])


def test_which_default_counts(scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    config('lm = "openai/of-file"\n[ask]\ntemperature = 0.5\n')
    assert folkmoot(*ASK).exit_code == 0
    assert (asked(scripted), scripted.bodies[-1]["temperature"]) == ("of-file", 0.5)
    monkeypatch.setenv("FOLKMOOT_LM", "openai/of-environment")
    assert folkmoot(*ASK).exit_code == 0
    assert asked(scripted) == "of-environment"
    assert folkmoot(*ASK, "--lm", "openai/of-option", "--temperature", 0).exit_code == 0
    assert (asked(scripted), scripted.bodies[-1]["temperature"]) == ("of-option", 0)


def test_pairs_are_joined_singly(scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = '[ask]\nset = ["max_rounds=1", "tie_break=judge"]\n'
    config(f'lm = ["openai/rest", "judge=openai/of-file"]\n{ours}')
    answers = itertools.cycle("BA")
    scripted.reply = lambda body: json.dumps({"answer": next(answers), "reason": "so"})
    program = ("ask", "deliberation:intuitive,critic", *ASK[2:])
    changed = ("--lm", "judge=openai/of-option", "--set", "max_rounds=2")
    assert folkmoot(*program, *changed).exit_code == 0
    models = [body["model"] for body in scripted.bodies]
    assert {*models} == {"rest", "of-option"}
    assert len(models) == 5
    monkeypatch.setenv("FOLKMOOT_LM", "openai/of-environment")
    assert folkmoot(*program).exit_code == 0
    assert {body["model"] for body in scripted.bodies[5:]} == {"of-environment", "of-file"}


@pytest.mark.parametrize(
    "command",
    [
        "evaluate single --data sample-choice",
        "try sample-choice",
        "tune single --train sample-choice --train-split train --validation sample-choice --out s",
    ],
)
def test_defaults_may_be_for_agents_of_other_programs(scripted, command: str) -> None:
    config(f'lm = ["openai/m", "judge=openai/j"]\napi_base = "judge={scripted.url}"\n')
    assert folkmoot(*command.split(), "--dry-run").exit_code == 0
    done = folkmoot(*command.split(), "--dry-run", "--lm-set", "jugde.top_p=1", code=2)
    assert "agent 'jugde'" in done.stderr


@pytest.mark.parametrize("file", ["folkmoot.toml", "pyproject.toml"])
def test_no_file_of_the_folder_is_read(scripted: ScriptedServer, home: Path, file: str) -> None:
    """One set a price of 0, and the user's ceiling was off."""
    config('[tool.folkmoot]\nlm = "openai/planted"\n[ask]\nlm = "openai/planted"\n', file)
    assert folkmoot(*ASK, "--lm", "openai/mine").exit_code == 0
    assert asked(scripted) == "mine"
    source = ten_questions(home)
    planned = folkmoot("evaluate", "single:simple", "--data", source, "--dry-run")
    assert "planted" not in planned.output + planned.stderr


def test_where_defaults_come_from_is_shown(scripted, home, monkeypatch):
    monkeypatch.setenv("FOLKMOOT_LM", "openai/of-environment")
    config(f'api_base = "{scripted.url}"\n[evaluate]\nconcurrency = 3\n')
    source = ten_questions(home)
    planned = folkmoot("evaluate", "single:simple", "--data", source, "--dry-run", "--limit", 2)
    assert f"concurrency = 3 ({home / OWN} [evaluate])" in planned.stderr
    assert "lm = openai/of-environment (FOLKMOOT_LM)" in planned.stderr
    assert "folkmoot: defaults: " in folkmoot(*ASK, "-v").stderr
    assert "defaults" not in folkmoot(*ASK).stderr


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("lmm = 'openai/x'", "folkmoot.toml has an unknown key 'lmm' (did you mean 'lm'?)"),
        ("concurrency = 0", "folkmoot.toml: concurrency is 0: give a whole number of at least 1"),
        ("concurrency = '16'", "concurrency is '16': give a whole number of at least 1"),
        ("lm = ", "folkmoot.toml is not TOML"),
        ("yes = true", "folkmoot.toml has an unknown key 'yes'"),
        (f"api_key = '{KEY}'", "api_key holds a key or password"),
        (f'[ask]\nlm_set = [\'extra_body={{"api_key": "{KEY}"}}\']', "holds a key or password"),
        ("ask = 3", "ask is a command: write its options under [ask]"),
    ],
)
def test_what_a_file_may_not_say_is_one_line(text: str, told: str) -> None:
    config(text)
    refused(told)


def test_what_a_variable_may_not_say_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLKMOOT_CALLS_MB", "many")
    refused("FOLKMOOT_CALLS_MB is 'many': give a whole number of at least 0")


def refused(told: str) -> None:
    done = folkmoot("ask", "single:simple", "What?", "--choice", "a", "--choice", "b", code=2)
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert KEY not in done.output
    assert folkmoot("ask", "--help").exit_code == 0


def test_the_example_of_the_docs_is_read(scripted, home, monkeypatch):
    page = (Path(fm.__file__).parent / "docs" / "cli.md").read_text()
    config(page.split("```toml\n")[1].split("```")[0])
    monkeypatch.setenv("OPENAI_BASE_URL", scripted.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    words = ["deliberation:intuitive,critic:judge", "--data", "sample-choice", "--limit", "2"]
    words += ["--dry-run", "--budget", "50 calls", "--lm", "judge=openai/o"]
    planned = folkmoot("evaluate", *words, code=0)
    assert f"concurrency = 16 ({home / OWN})" in planned.stderr
    assert "judge openai/o" in planned.stderr
    assert "budget =" not in planned.stderr


def test_files_beside_the_configuration_are_found(scripted: ScriptedServer, home: Path) -> None:
    beside = (home / OWN).parent
    beside.mkdir(parents=True, exist_ok=True)
    ten_questions(home).rename(beside / "questions.jsonl")
    ours = '[evaluate]\ndata = "questions.jsonl"\nout = "out"\ntrack = false\nlimit = 3\n'
    config(f'lm = "openai/x"\n{ours}')
    assert folkmoot("evaluate", "single:simple", "-q").exit_code == 0
    assert len((beside / "out" / "results.jsonl").read_text().splitlines()) == 3
