"""`pip install folkmoot` is enough for all but what an extra is for, which then says so."""

import json
import re
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import SPEC, isolate, lm, question, write
from packaging.requirements import Requirement

import folkmoot as fm

ROOT = Path(fm.__file__).parent
CHILD = ROOT / "tests" / "support" / "core_child.py"


def test_the_core_has_no_package_of_an_extra_and_no_extra_has_parts_of_weights() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    core = {Requirement(line).name for line in project["dependencies"]}
    assert not core & {Requirement(line).name for line in extras["network"]}
    own = {"all", "mpnet", "ray", "docs", "bench", "test"}
    assert Requirement(extras["all"][0]).extras == set(extras) - own
    assert not [line for line in chain(*extras.values()) if "part" in line]


@pytest.mark.nightly
def test_the_core_runs_without_extras_and_what_needs_one_says_which(
    scripted, tmp_path, monkeypatch
):
    isolate(tmp_path, monkeypatch)
    rows = [question(number, answer="ABC"[number % 3]) for number in range(44)]
    write(tmp_path / "train.jsonl", *rows[:22])
    write(tmp_path / "test.jsonl", *rows[22:])
    (tmp_path / "rows.xlsx").touch()
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "state.json").write_text("{}")
    config = fm.NetworkConfig(agents=2, strategies=("simple", "cot"), hidden=2, heads=1, k=1)
    network = fm.StrategyNetwork.untrained(config, lambda texts: np.ones((len(texts), 4), "f4"))
    network.save(tmp_path / "trained")
    asked, split = lm(scripted), ["--train", "train.jsonl", "--validation", "test.jsonl"]
    works = [
        ["evaluate", "single:cot", "--data", "test.jsonl", "--out", "one", *asked],
        ["evaluate", SPEC, "--data", "test.jsonl", "--out", "two", *asked],
        ["compare", "one", "two"],
        ["report", "one", "two", "--out", "page.html"],
        ["compile", "single:cot", *split, "--optimizer", "bootstrap", "--out", "compiled", *asked],
        ["tune", "single", *split, "--trials", "2", "--out", "study", *asked],
        ["reproduce", "--list"],
        ["lms"],
    ]
    needs = [
        ("a strategy network", "train network --train train.jsonl --out net", asked),
        ("a strategy network", "evaluate network:trained --data test.jsonl", asked),
        ("a strategy network", "tune network --out nets", [*split, *asked]),
        ("the sampler gp", "tune single --sampler gp --out gp", [*split, *asked]),
        ("the embedded LM", "evaluate single:cot --data test.jsonl --out own", []),
        ("rows.xlsx, an Excel file,", "data check rows.xlsx", []),
        ("saved, a folder of the library `datasets`,", "data check saved", []),
    ]
    lines = works + [[*line.split(), *more] for _, line, more in needs]
    words = [sys.executable, str(CHILD), json.dumps(lines)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    codes = json.loads((tmp_path / "codes.json").read_text())
    assert codes == [0] * len(works) + [2] * len(needs), done.stderr
    extra = r"needs the extra `(\w+)`: pip install 'folkmoot\[\2\]'$"
    sentence = re.compile(rf"^folkmoot: (?:network: )*(.*) {extra}", re.M)
    found = [feature for feature, _ in sentence.findall(done.stderr)]
    assert found == [feature for feature, *_ in needs]


@pytest.mark.nightly
def test_the_core_runs_without_the_attached_rooms(scripted, tmp_path, monkeypatch):
    """Programs, contests and pages need none of them; their commands are left out, and said."""
    isolate(tmp_path, monkeypatch)
    rows = [question(number, answer="ABC"[number % 3]) for number in range(24)]
    write(tmp_path / "train.jsonl", *rows[:12])
    write(tmp_path / "test.jsonl", *rows[12:])
    asked, split = lm(scripted), ["--train", "train.jsonl", "--validation", "test.jsonl"]
    works = [
        ["evaluate", "single:cot", "--data", "test.jsonl", "--out", "runs/one", *asked],
        ["compile", "single:cot", *split, "--optimizer", "bootstrap", "--out", "runs/two", *asked],
        ["tune", "single", *split, "--trials", "2", "--out", "runs/three", *asked],
        ["try", "test.jsonl", "--out", "runs/four", "--yes", *asked],
        ["compare", "runs/one", "runs/four/runs/one-prompt"],
        ["report", "runs/four", "--out", "page.html"],
        ["runs", "--json"],
        ["show", "runs/two"],
        ["ask", "runs/four/winner", "What holds soup?", *asked],
    ]
    lines = [*works, ["controls", "runs/one"]]
    words = [sys.executable, str(CHILD), json.dumps(lines), *attached_rooms()]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    codes = json.loads((tmp_path / "codes.json").read_text())
    assert codes == [*[0] * len(works), 2], done.stderr
    assert "warning: the command controls cannot be imported" in done.stderr
    assert "No such command 'controls'" in done.stderr


def attached_rooms() -> list[str]:
    """The rooms with round ends in the picture of the house, such as `pipelines.controls`."""
    picture = (ROOT / "docs" / "architecture.md").read_text()
    floors = {"m": "modules", "o": "optimizers", "p": "pipelines"}
    found = re.findall(r"\b([mop])\d+\(\[(\w+)\]\)", picture)
    return [f"{floors[floor]}.{room}" for floor, room in found]
