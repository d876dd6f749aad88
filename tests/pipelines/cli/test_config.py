"""Defaults of the command line: configuration files and FOLKMOOT_LM, which counts, and what none
may say.
"""

from __future__ import annotations

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


def config(text: str, file: str = "folkmoot.toml") -> None:
    Path(file).parent.mkdir(parents=True, exist_ok=True)
    Path(file).write_text(text)


def asked(server: ScriptedServer) -> str:
    return str(server.bodies[-1]["model"])


def test_an_option_goes_before_the_environment_before_a_file(
    scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    config('lm = "openai/of-file"\n[ask]\ntemperature = 0.5\n')
    assert folkmoot(*ASK).exit_code == 0
    assert (asked(scripted), scripted.bodies[-1]["temperature"]) == ("of-file", 0.5)
    monkeypatch.setenv("FOLKMOOT_LM", "openai/of-environment")
    assert folkmoot(*ASK).exit_code == 0
    assert asked(scripted) == "of-environment"
    assert folkmoot(*ASK, "--lm", "openai/of-option", "--temperature", 0).exit_code == 0
    assert (asked(scripted), scripted.bodies[-1]["temperature"]) == ("of-option", 0)


def test_seats_and_pairs_are_joined_one_by_one(
    scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    config(
        'lm = ["openai/rest", "judge=openai/of-file"]\n[ask]\nset = ["max_rounds=1", '
        '"tie_break=judge"]\n'
    )
    scripted.reply = lambda body: json.dumps(
        {"answer": "AB"[len(scripted.bodies) % 2], "reason": "so"}
    )
    program = ("ask", "deliberation:intuitive,critic", *ASK[2:])
    assert (
        folkmoot(*program, "--lm", "judge=openai/of-option", "--set", "max_rounds=2").exit_code == 0
    )
    models = [body["model"] for body in scripted.bodies]
    assert {*models} == {"rest", "of-option"}
    assert len(models) == 5
    monkeypatch.setenv("FOLKMOOT_LM", "openai/of-environment")
    assert folkmoot(*program).exit_code == 0
    assert {body["model"] for body in scripted.bodies[5:]} == {"of-environment", "of-file"}


def test_the_nearest_file_upwards_counts_and_folkmoot_toml_before_pyproject(
    scripted: ScriptedServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config('[tool.folkmoot]\nlm = "openai/far"', "pyproject.toml")
    (home / "near" / "below").mkdir(parents=True)
    monkeypatch.chdir(home / "near" / "below")
    assert folkmoot(*ASK).exit_code == 0
    assert asked(scripted) == "far"
    config("[tool.other]\nname = 'folkmoot'", "pyproject.toml")  # says nothing of folkmoot
    assert folkmoot(*ASK).exit_code == 0
    config('[tool.folkmoot]\nlm = "openai/hidden"', "../pyproject.toml")
    config('lm = "openai/near"', "../folkmoot.toml")
    assert folkmoot(*ASK).exit_code == 0
    assert asked(scripted) == "near"


def test_where_defaults_come_from_is_shown(
    scripted: ScriptedServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOLKMOOT_LM", "openai/of-environment")
    config(f'api_base = "{scripted.url}"', OWN)
    config("[evaluate]\nconcurrency = 3\n")
    source = ten_questions(home)
    planned = folkmoot("evaluate", "single:simple", "--data", source, "--dry-run", "--limit", 2)
    assert "concurrency = 3 (folkmoot.toml [evaluate])" in planned.stderr
    assert "lm = openai/of-environment (FOLKMOOT_LM)" in planned.stderr
    assert "folkmoot: defaults: " in folkmoot(*ASK, "-v").stderr
    assert "defaults" not in folkmoot(*ASK).stderr
    found = json.loads(folkmoot("doctor", "--json").stdout)
    said = {check["name"]: check["result"] for check in found["checks"]}
    assert f"api-base = {scripted.url} ({home / OWN})" in said["defaults"]
    assert said["LM answers"].startswith("openai/of-environment")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("lmm = 'openai/x'", "folkmoot.toml: lmm is not an option (did you mean 'lm'?)"),
        ("concurrency = 0", "folkmoot.toml: concurrency is 0: give a whole number of at least 1"),
        ("concurrency = '16'", "folkmoot.toml: concurrency is not a whole number"),
        ("lm = ", "folkmoot.toml is not TOML"),
        ("yes = true", "folkmoot.toml: yes is for the command line"),
        (f"api_key = '{KEY}'", "folkmoot.toml: api_key looks like a key"),
        (f'[ask]\nlm_set = [\'extra_body={{"api_key": "{KEY}"}}\']', "holds a key or password"),
        ("evaluate = 3", "evaluate is a command: write its options under [evaluate]"),
    ],
)
def test_what_a_file_may_not_say_is_one_line(text: str, told: str) -> None:
    for file in ("folkmoot.toml", OWN):
        config(text, file)
        refused(told)
        Path(file).unlink()


def refused(told: str) -> None:
    done = folkmoot("ask", "single:simple", "What?", "--choice", "a", "--choice", "b")
    assert done.exit_code == 2, done.output
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert KEY not in done.output
    assert folkmoot("ask", "--help").exit_code == 0


ELSEWHERE = [
    *(f"{option} = 'http://localhost/v1'" for option in ("api_base", "[compile]\nprompt_api_base")),
    *(
        "api_base = 'http:/\\t/evil.test/v1'",
        "api_base = 'http://localhost: @evil.test'",
        "api-base = ''",
    ),
    *("[tune]\nstorage = 'study'", "[ui]\nhost = '0.0.0.0'", "[tune]\nregister = 'theirs'"),
    *("[reproduce]\nenvironment = 'wikipedia'", "set = ['environment=shelf']"),
    *("[train]\nembedding = 'model'", "set = ['embedding=model']"),
    *("lm = 'huggingface/https:/evil.test'", "[evaluate]\njudge_lm = 'x/https://evil.test'"),
    *("lm = ['local/hf:evil/repo:m.gguf']", "lm = 'judge=local/near.gguf'"),
    *(
        "lm_set = ['extra_body={\"a\": 1}']",
        "lm_set = ['extra_body=a: 1']",
        "[report]\ncluster = 'a:b'",
    ),
    *(
        "record = '/tmp/x'",
        "[evaluate]\nout = '../x'",
        "[evaluate]\nout = 'linked/x'",
        "record = '~/x'",
    ),
    *("[evaluate]\ndata = '/etc/passwd'", "[tune]\ntrain = 'linked/x'"),
]
"""What a file in the working folder may not say, and the user's own may."""

CODE = [
    *("[evaluate]\nmetric = 'planted:way'", "[tune]\nmetric = 'planted:way'"),
    *("[compile]\noptimizer = 'planted:best'", "[reproduce]\nenvironment = 'planted:Place'"),
    *("set = ['strategy=planted:Way']", "set = ['members=[single:planted:Way]']"),
    "set = ['strategy=\"plan\\x74ed\\x3aWay\"']",
]


@pytest.mark.parametrize("text", [*ELSEWHERE, *CODE])
@pytest.mark.parametrize("file", ["folkmoot.toml", "pyproject.toml"])
def test_a_file_of_the_working_folder_names_no_place_and_no_code(
    home: Path, text: str, file: str
) -> None:
    (home / "planted.py").write_text("open('ran', 'w').close()\n")
    (home / "linked").symlink_to(home.parent)
    head, table, rest = text.partition("]\n") if text.startswith("[") else ("", "", text)
    nested = f"[tool.folkmoot.{head[1:]}]\n{rest}" if table else f"[tool.folkmoot]\n{text}"
    config(nested if file == "pyproject.toml" else text, file)
    refused(": give it on the command line")
    assert not (home / "ran").exists()


@pytest.mark.parametrize("text", CODE)
def test_no_file_names_code(home: Path, text: str) -> None:
    (home / "planted.py").write_text("open('ran', 'w').close()\n")
    config(text, OWN)
    refused("could name code, which no file may: give it on the command line")
    assert not (home / "ran").exists()


def test_the_users_own_file_says_where_servers_are(
    scripted: ScriptedServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL")
    config(f'lm = "openai/own"\napi_base = "{scripted.url}"\n[ask]\ntemperature = 0.5', OWN)
    config('[ask]\nlm = ["openai/near:free", "judge=ollama/llama3:8b"]\ntemperature = 0.7\n')
    assert folkmoot(*ASK).exit_code == 0
    assert (asked(scripted), scripted.bodies[-1]["temperature"]) == ("near:free", 0.7)
    Path("folkmoot.toml").unlink()
    monkeypatch.chdir(home / "own" / "folkmoot")  # where it is the nearest, too
    assert folkmoot(*ASK).exit_code == 0
    assert (asked(scripted), scripted.bodies[-1]["temperature"]) == ("own", 0.5)


def test_the_example_of_the_docs_is_read(
    scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(fm.__file__).parent / "docs" / "cli.md").read_text()
    config(page.split("```toml\n")[1].split("```")[0])
    monkeypatch.setenv("OPENAI_BASE_URL", scripted.url)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    words = ("deliberation:intuitive,critic:judge", "--data", "sample-choice", "--limit", 2)
    planned = folkmoot(
        "evaluate", *words, "--dry-run", "--budget", "50 calls", "--lm", "judge=openai/o"
    )
    assert planned.exit_code == 0, planned.output
    assert "concurrency = 16 (folkmoot.toml)" in planned.stderr
    assert "judge openai/o" in planned.stderr
    assert "budget =" not in planned.stderr


def test_files_beside_the_configuration_are_found_from_below(
    scripted: ScriptedServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ten_questions(home)
    config(
        'lm = "openai/x"\n[evaluate]\ndata = "questions.jsonl"\nout = "out"\ntrack = '
        "false\nlimit = 3\n"
    )
    (home / "below").mkdir()
    monkeypatch.chdir(home / "below")
    assert folkmoot("evaluate", "single:simple", "-q").exit_code == 0
    assert len((home / "out" / "results.jsonl").read_text().splitlines()) == 3
