"""Modules of the working folder run where the user names one, and nowhere because a file does."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import evaluate, folkmoot, free_port, isolate, lm, question, ten_questions, write

import folkmoot as fm
from folkmoot.modules.protocols.registry import PROTOCOLS
from folkmoot.modules.protocols.strategies import STRATEGIES
from folkmoot.modules.reading.metrics import METRICS
from folkmoot.pipelines.lms.named import DEFAULT_LM
from folkmoot.pipelines.programs.build import ENVIRONMENTS
from folkmoot.pipelines.testing.server import ScriptedServer
from folkmoot.pipelines.tuning.yaml_space import space_of

PLANTED = ["secrets", "mlflow", "pickle", "socket", "logging"]
PLANTED += ["uvicorn", "fastapi", "optuna", "yaml"]


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with modules that note that they were run."""
    isolate(tmp_path, monkeypatch)
    (tmp_path / "ran").mkdir()
    for name in PLANTED:
        note = f"open({str(tmp_path / 'ran' / name)!r}, 'w').close()"
        (tmp_path / f"{name}.py").write_text(f"{note}\nraise SystemExit('planted {name}')\n")
    (tmp_path / "bin").mkdir()
    # As the installed command does, it has its own folder first on the path, not the working
    # folder.
    main = "from folkmoot.pipelines.cli import main\n\nif __name__ == '__main__':\n    main()\n"
    (tmp_path / "bin" / "command.py").write_text(main)
    return tmp_path


@contextmanager
def running(folder: Path, *words: Any) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, str(folder / "bin" / "command.py"), *map(str, words)]
    env = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    piped: Any = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=folder, env=env, **piped) as process:
        try:
            yield process
        finally:
            process.terminate()


def check_none_ran(folder: Path) -> None:
    assert not sorted(path.name for path in (folder / "ran").iterdir())


@pytest.mark.nightly
def test_the_ui_runs_none(planted: Path) -> None:
    port = free_port()
    with running(planted, "ui", "--port", port, "--json") as process:
        end, said = time.monotonic() + 180, ""
        while "url" not in said and process.poll() is None and time.monotonic() < end:
            said += process.stdout.readline()
        check_none_ran(planted)
        assert f":{port}" in said


@pytest.mark.nightly
@pytest.mark.parametrize(
    "command",
    [
        "tune single --train train.jsonl --validation validation.jsonl --trials 2 --workers 2 "
        "--out study --no-track -y",
        "evaluate single:simple --data train.jsonl --traces 1",
    ],
)
def test_commands_run_none(planted: Path, scripted: ScriptedServer, command: str) -> None:
    for name in ("train", "validation"):
        texts = {f"{name}-{n}": f"What holds {name} {n}?" for n in range(6)}
        rows = (question(0, id=id, question=text) for id, text in texts.items())
        write(planted / f"{name}.jsonl", *rows)
    with running(planted, *command.split(), *lm(scripted)) as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, out + err
    check_none_ran(planted)


CODE = """
import dspy
from folkmoot.signatures.strategies import Answering

open("ran", "w").close()


class Program(dspy.Module):
    def __init__(self):
        super().__init__()
        self.answer = dspy.Predict("question -> answer: Literal['A', 'B']")

    def forward(self, question):
        return self.answer(question=question)


class Way(Answering):
    \"\"\"Answer the question.\"\"\"

    answer: str = dspy.OutputField()


def metric(example, prediction, trace=None):
    return prediction.answer == example.answer


class Place:
    pass
"""
SPEC = "deliberation:intuitive,critic"


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as found:
        yield found


@pytest.fixture(scope="module")
def made(server: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with questions, a run of a team, and what `fm.compile` left of a module."""
    folder = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        isolate(folder, patch)
        source = ten_questions(folder)
        others = (question(number, id=f"o{number}") for number in range(10, 16))
        write(folder / "others.jsonl", *others)
        assert evaluate(server, source, "--out", "run", program=SPEC).exit_code == 0
    fm.SingleAgent().save(folder / "saved")
    (folder / "module").mkdir()
    (folder / "module" / "module.json").write_text('{"format": 1, "class": "outsider:Program"}')
    state = {"lm": None, "traces": [], "train": [], "demos": [], "signature": SIGNATURE}
    (folder / "module" / "state.json").write_text(json.dumps({"answer": state}))
    return folder


SIGNATURE = {
    "instructions": "Answer in a word.",
    "fields": [{"prefix": f"{name}:", "description": name} for name in ("question", "answer")],
}


@pytest.fixture
def home(tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    isolate(tmp_path, monkeypatch)
    (tmp_path / "outsider.py").write_text(CODE)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("outsider", None)
    for registry in (PROTOCOLS, STRATEGIES, METRICS, ENVIRONMENTS):
        for name in [name for name in registry if name.startswith("outsider")]:
            del registry[name]


def changed(file: str, **fields: Any) -> Callable[[], object]:
    """What changes fields of a JSON file; those of its `settings` where they are there."""

    def change() -> None:
        found = json.loads(Path(file).read_text())
        for name, value in fields.items():
            (found["settings"] if name in found.get("settings", {}) else found)[name] = value
        Path(file).write_text(json.dumps(found))

    return change


def yaml(*lines: str) -> Callable[[], object]:
    return lambda: Path("program.yaml").write_text("".join(f"{line}\n" for line in lines))


METRIC: dict[str, Any] = {"name": "metric", "spec": "outsider:metric", "code": "0" * 64}
METRIC |= dict.fromkeys(("low", "high", "rate"))
DATA = ("--data", "questions.jsonl")
OUT = ("--out", "new", "--no-track")
ASK = ("ask", "program.yaml", "Where?", "--choice", "a", "--choice", "b")
EVALUATE = ("evaluate", "program.yaml", *DATA, *OUT)
PARTS = ("--train", "questions.jsonl", "--validation", "others.jsonl")
COMPILE = ("compile", "program.yaml", *PARTS, *OUT)
TUNE = ("tune", "program.yaml", *PARTS, *OUT)
MATCH = ("compare", "run", "--match-budget", *DATA)
ALL = (ASK, EVALUATE, COMPILE, TUNE)
ANOTHER = changed("run/run.json", program_spec="outsider:Program", program_hash="0" * 64)
FILES: dict[str, tuple[Callable[[], object], str, tuple[tuple[str, ...], ...]]] = {
    "a run's metric": (changed("run/run.json", metric=METRIC), "--metric", (MATCH,)),
    "a run's spec": (ANOTHER, "answered by another program", (MATCH,)),
    "a program": (yaml("program: outsider:Program"), "--set", ALL),
    "a strategy": (yaml("program: single", "strategy: outsider:Way"), "--set", ALL),
    "an environment": (yaml("program: team:bold", "environment: outsider:Place"), "--set", ALL),
    "a choice": (yaml("program: single", "strategy: [cot, 'outsider:Way']"), "--set", (TUNE,)),
    "a saved module": (
        lambda: shutil.copytree("module", "program.yaml"),
        "--set program=outsider:Program",
        (ASK, EVALUATE),
    ),
}


@pytest.mark.parametrize("what", FILES)
def test_a_file_that_names_code_runs_none(home: Path, server: ScriptedServer, what: str) -> None:
    plant, option, commands = FILES[what]
    plant()
    asked = len(server.bodies)
    for words in commands:
        done = folkmoot(*words, *lm(server))
        assert done.exit_code == 2, f"{words}: {done.output}"
        assert option in done.stderr, words
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert "outsider" not in sys.modules, words
    assert not (home / "ran").exists()
    assert len(server.bodies) == asked


@pytest.mark.parametrize(
    "setting",
    [
        {"strategy": "outsider:Way"},
        {"strategy": "cot", "sampling.temperature": "outsider:Way"},
        {"strategy": "cot", "environment": "outsider:Place"},
        {"strategy": "cot", "lms.cot": {"name": "openai/a", "api_base": "http://evil.test/v1"}},
        {"strategy": "cot", "lms.cot": "local/hf:evil/repo:m.gguf"},
    ],
)
def test_a_study_that_names_code_or_server_is_refused(home: Path, setting: dict[str, Any]) -> None:
    space = space_of("single", lms={"cot": [DEFAULT_LM, "local/qwen2.5-coder-0.5b"]})
    space.program({"strategy": "cot", "sampling.temperature": 0.5, "lms.cot": DEFAULT_LM})
    with pytest.raises(fm.UserError, match="the study has a trial with"):
        space.program(setting)
    assert "outsider" not in sys.modules


@pytest.mark.nightly
def test_no_command_runs_the_code_of_a_run(home: Path, server: ScriptedServer) -> None:
    for what in ("a run's metric", "a run's spec"):
        FILES[what][0]()
        export = ("export", "run", "--out", "log")
        for words in (("runs", "."), ("report", "run"), ("push", "run"), export):
            folkmoot(*words)
        evaluate(server, "questions.jsonl", "--out", "run", program=SPEC)
        assert "outsider" not in sys.modules
    assert not (home / "ran").exists()


WAY, WAYS = ("--set", "strategy=outsider:Way"), ("--set", "strategy=[cot, outsider:Way]")


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (yaml("program: single", "strategy: outsider:Way"), (*EVALUATE, *WAY)),
        (yaml("program: single"), (*TUNE, *WAYS, "--trials", "2")),
        (yaml(), ("evaluate", "outsider:Program", *DATA, *OUT)),
        (yaml(), ("evaluate", "module", *DATA, *OUT, "--set", "program=outsider:Program")),
        (yaml(), ("evaluate", SPEC, *DATA, *OUT, "--metric", "outsider:metric")),
    ],
)
def test_code_that_the_user_names_is_run(home, server, plant, words):
    plant()
    folkmoot(*words, *lm(server), code=0)
    assert (home / "ran").exists()


def test_a_run_is_matched_by_a_metric_that_she_names(home: Path, server: ScriptedServer) -> None:
    words = ("evaluate", SPEC, *DATA, *OUT, "--metric", "outsider:metric")
    assert folkmoot(*words, *lm(server)).exit_code == 0
    del METRICS["outsider:metric"]
    match = ("compare", "new", "--match-budget", *lm(server))
    assert "give it with --metric" in folkmoot(*match).stderr
    folkmoot(*match, "--metric", "outsider:metric", code=0)
    assert "the run was scored by" in folkmoot(*match, "--metric", "f1").stderr
