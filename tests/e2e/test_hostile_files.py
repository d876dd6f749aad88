"""Files that somebody else left: each is read, or refused in a sentence, at once and unharmed."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest
import torch
from cli_helpers import evaluate, folkmoot, isolate, lm, write
from doctored import Doctor, Hang, values, whole_files, within
from safetensors.torch import load as read_tensors
from safetensors.torch import save as write_tensors

import folkmoot as fm
from folkmoot.modules.environment.corpus import CorpusEnvironment
from folkmoot.modules.environment.replay import RecordingEnvironment, ReplayEnvironment
from folkmoot.modules.network.config import NetworkConfig
from folkmoot.modules.network.state import NetworkState
from folkmoot.modules.protocols.registry import PROTOCOLS
from folkmoot.pipelines.programs.build import takes
from folkmoot.pipelines.programs.resolve import program_of
from folkmoot.pipelines.testing.replies import mixed, sample_questions
from folkmoot.pipelines.testing.server import ScriptedServer
from folkmoot.pipelines.tuning.yaml_space import space_of

SPEC = "deliberation:intuitive,reasoner:judge"
SECONDS = 20.0  # far more than any of these takes on a busy machine, far less than a hang
FILES: dict[str, Callable[[Path], Iterator[tuple[str, Doctor]]]] = {
    "run.json": values(False, inner=("program", "settings", "lms", "versions")),
    "results.jsonl": values(True, inner=("usage", "transcript", "meta", "choices")),
    "summary.json": values(False, inner=("scores", "counts", "report", "paid", "usage")),
    ".folkmoot/ledger.jsonl": values(True),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with questions and the runs `one` and `two` over them."""
    folder, questions = tmp_path_factory.mktemp("runs"), sample_questions()
    write(folder / "questions.jsonl", *(question.toDict() for question in questions))
    with ScriptedServer(mixed(questions)) as server, pytest.MonkeyPatch.context() as patched:
        isolate(folder, patched)
        for name in ("one", "two"):
            assert evaluate(server, "questions.jsonl", "--out", name, program=SPEC).exit_code == 0
    return folder


@pytest.fixture
def home(tmp_path: Path, runs: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    isolate(tmp_path, monkeypatch)
    shutil.copytree(runs, tmp_path, dirs_exist_ok=True)
    return tmp_path


def check_said(home: Path, name: str, every: int, *commands: tuple[Any, ...]) -> None:
    """Every command over a run with this file doctored works, or ends with one sentence."""
    cases = [*whole_files().items(), *FILES[name](home / "one" / name)]
    wrong = []
    for label, doctor in cases[::every]:
        for words in commands:
            shutil.rmtree("doctored", ignore_errors=True)
            shutil.copytree("one", "doctored")
            doctor(Path("doctored", name))
            try:
                with within(SECONDS):
                    result = folkmoot(*words)
            except Hang as hang:
                wrong.append(f"{words[0]}, {label}: {hang}")
                continue
            raised = None if isinstance(result.exception, SystemExit) else result.exception
            if raised is not None or "unexpected" in result.output:
                wrong.append(f"{words[0]}, {label}: {raised!r} {result.output[-200:]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.nightly
@pytest.mark.parametrize("name", FILES)
def test_commands_refuse_doctored_runs(home: Path, name: str, scripted: ScriptedServer) -> None:
    scripted.reply = mixed(sample_questions())
    check_said(home, name, 2, ("compare", "doctored", "two"))
    check_said(home, name, 9, ("compare", "two", "doctored", "--json"))
    words = (*lm(scripted), "--no-track", "--out", "doctored")
    again = ("evaluate", SPEC, "--data", "questions.jsonl", *words)
    check_said(home, name, 15, again)
    check_said(home, name, 15, ("report", "doctored", "two", "--out", "page.html", "--no-track"))
    check_said(home, name, 25, ("push", "doctored"))


@pytest.mark.parametrize(
    "name", ["calls.jsonl", "results.jsonl", "ledger.jsonl", ".folkmoot/calls.jsonl", ".folkmoot"]
)
def test_a_planted_link_is_not_followed(home: Path, name: str, scripted: ScriptedServer) -> None:
    precious = home / "precious.txt"
    precious.write_text("precious")
    place = home / "new" / name
    place.parent.mkdir(parents=True)
    place.symlink_to(precious)
    result = evaluate(scripted, "questions.jsonl", "--out", "new", "--record", "new", code=2)
    assert "is a link to another place" in result.stderr or name == "results.jsonl"
    assert precious.read_text() == "precious"


def test_what_holds_answers_is_for_its_owner_alone(home: Path, scripted: ScriptedServer) -> None:
    before = os.umask(0o022)
    try:
        words = ["--out", "new", "--record", "kept", "--retry-errors", "--limit", 3]
        for _ in range(2):  # the second time its rows are put in order again
            assert evaluate(scripted, "questions.jsonl", *words).exit_code == 0
    finally:
        os.umask(before)
    for name in ("new/results.jsonl", "new/.folkmoot/ledger.jsonl", "kept/calls.jsonl"):
        assert (home / name).stat().st_mode & 0o777 == 0o600, name


def network(folder: Path) -> Path:
    config = NetworkConfig(agents=2, strategies=("simple", "cot"), hidden=4, heads=1)
    fm.StrategyNetwork(NetworkState.fresh(config, 3), len).save(folder)  # type: ignore[arg-type]
    return folder


@pytest.mark.parametrize("name", ["agents", "hidden", "heads", "min_degree"])
@pytest.mark.parametrize("size", [10**9, 10**30])
def test_a_network_of_absurd_size_is_refused_at_once(tmp_path: Path, name: str, size: int) -> None:
    about = json.loads((network(tmp_path) / "network.json").read_text())
    about["config"][name] = size
    (tmp_path / "network.json").write_text(json.dumps(about))
    with within(SECONDS), pytest.raises(fm.UserError, match=r"cannot be loaded: "):
        NetworkState.load(tmp_path)


@pytest.mark.parametrize("name", ["network.json", "tensors.safetensors"])
@pytest.mark.parametrize("what", ["fifo", "device", "dangling link", "folder", "deep", "zeros"])
def test_a_network_is_read_from_plain_files_only(tmp_path: Path, name: str, what: str) -> None:
    whole_files()[what](network(tmp_path) / name)
    with within(SECONDS), pytest.raises(fm.UserError, match=name):
        NetworkState.load(tmp_path)


def test_a_network_with_tensors_of_no_rows_is_refused(tmp_path: Path) -> None:
    """Tensors without a row say any width for nothing, and a tracker makes room for it."""
    path = network(tmp_path / "net") / "tensors.safetensors"
    tensors = read_tensors(path.read_bytes())
    path.write_bytes(write_tensors(tensors | {"tracker.questions": torch.empty(0, 10**15)}))
    with within(SECONDS), pytest.raises(fm.UserError, match=r"tracker\.questions must hold"):
        NetworkState.load(tmp_path / "net")


@pytest.mark.parametrize("what", ["fifo", "device"])
def test_pages_are_read_from_a_plain_file_only(tmp_path: Path, what: str) -> None:
    path = tmp_path / "pages.jsonl"
    path.touch()
    whole_files()[what](path)
    source = write(tmp_path / "corpus.jsonl", {"title": "A", "text": "b"})
    corpus = CorpusEnvironment(source, index_dir=None)
    for read in (lambda: ReplayEnvironment(path), lambda: RecordingEnvironment(corpus, path)):
        with within(SECONDS), pytest.raises(fm.UserError, match="it is not a regular file"):
            read()


def bomb(merged: bool) -> str:
    lines = ["a0: &a0 {x: 1, y: 2}"]
    for depth in range(1, 40):
        held = ", ".join([f"*a{depth - 1}"] * 9)
        lines.append(f"a{depth}: &a{depth} " + (f"{{<<: [{held}]}}" if merged else f"[{held}]"))
    return "\n".join([*lines, "program: single"])


@pytest.mark.parametrize(
    "text", [bomb(True), bomb(False), "&a [*a]", "&a {program: *a}", "program: &a {<<: *a}"]
)
def test_yaml_that_unfolds_without_end_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "program.yaml"
    path.write_text(text)
    with within(SECONDS), pytest.raises(fm.UserError, match=r"program\.yaml"):
        program_of(str(path))


ENDLESS = ["{from: 1, to: 1000000000000}", "{from: 0.0, to: 1.0e+9, step: 0.001}"]
ENDLESS += ["{of: [1, 2], least: 1, most: 1000000000000}", f"{{of: {list(range(60))}}}"]


@pytest.mark.parametrize("values", ENDLESS)
def test_a_range_without_end_is_refused(tmp_path: Path, values: str) -> None:
    path = tmp_path / "space.yaml"
    for parameter in ("max_rounds", "roles"):
        path.write_text(f"program: deliberation\n{parameter}: {values}\n")
        with within(SECONDS), pytest.raises(fm.UserError, match=parameter):
            space_of(str(path))


WRONG = ("null", "x", "-1", "[]", "{}", "true", "[1, 2]", "{x: {y: [null]}}", ".nan", "2020-01-01")


@pytest.mark.parametrize("protocol", PROTOCOLS.names())
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.nightly)])
def test_a_parameter_of_a_wrong_type_is_told(tmp_path: Path, protocol: str, step: int) -> None:
    """For every protocol and parameter, whatever YAML can say; by day, a third of it in turn."""
    path, wrong = tmp_path / "program.yaml", []
    found = PROTOCOLS.find(protocol)
    names = (*takes(found), "lms", "program", "environment", "strategy")
    for name, value in islice(product(names, WRONG), None, None, step):
        spec = "" if name == "program" else f"program: {found.example or protocol}\n"
        path.write_text(f"{spec}{name}: {value}\n")
        try:
            with within(SECONDS):
                for read in (program_of, space_of):
                    with suppress(fm.UserError):
                        read(str(path))
        except BaseException as problem:
            wrong.append(f"{name}: {value}: {problem!r}")
    assert not wrong, "\n".join(wrong)
