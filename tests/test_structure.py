"""The house's floors: who may import whom, what importing costs, and that every package is listed."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import folkmoot
from folkmoot._moved import MOVED

ROOT = Path(folkmoot.__file__).parent
FLOORS = ["signatures", "modules", "optimizers", "pipelines"]


def imported(path: Path) -> list[tuple[str, ...]]:
    """What a module imports from this package, as paths from the package's root."""
    here = path.relative_to(ROOT).parent.parts
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = here[: len(here) - node.level + 1]
            found += [(*base, *(node.module or "").split("."), alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "folkmoot":
            found += [(*(node.module or "").split(".")[1:], alias.name) for alias in node.names]
    return [tuple(part for part in parts if part) for parts in found]


@pytest.mark.parametrize("floor", FLOORS)
def test_nothing_imports_upwards(floor: str) -> None:
    above = set(FLOORS[FLOORS.index(floor) + 1 :])
    files = sorted((ROOT / floor).rglob("*.py"))
    assert files
    wrong = [(str(path), parts) for path in files for parts in imported(path) if parts and parts[0] in above]
    assert not wrong


def test_the_check_sees_an_upward_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = tmp_path / "modules" / "part" / "bad.py"
    module.parent.mkdir(parents=True)
    module.write_text("from ...pipelines.data import load\nfrom ..answers import score\n")
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    assert imported(module) == [("pipelines", "data", "load"), ("modules", "answers", "score")]


def test_importing_the_package_is_quick_and_light() -> None:
    code = (
        "import sys, time; began = time.perf_counter(); import folkmoot; took = time.perf_counter() - began;"
        "heavy = {'dspy', 'mlflow', 'torch', 'litellm', 'optuna'} & set(sys.modules); print(took, *heavy)"
    )
    took, *heavy = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/"
    ).stdout.split()
    assert not heavy
    assert float(took) < 0.3


def test_every_public_name_can_be_had() -> None:
    for name in folkmoot.__all__:
        assert getattr(folkmoot, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        folkmoot.no_such_name  # noqa: B018


def test_every_package_is_listed() -> None:
    listed = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    there = {
        ".".join(["folkmoot", *path.parent.relative_to(ROOT).parts])
        for floor in FLOORS
        for path in (ROOT / floor).rglob("__init__.py")
    }
    assert there | {"folkmoot"} == listed


def test_every_module_says_what_it_is_for() -> None:
    for floor in FLOORS:
        for path in (ROOT / floor).rglob("*.py"):
            assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"


@pytest.mark.parametrize("name", sorted(MOVED))
def test_a_documented_name_of_before_is_still_found(name: str) -> None:
    sys.modules.pop(name, None)
    with pytest.warns(DeprecationWarning, match="is now"):
        module = importlib.import_module(name)
    there = {key for key in vars(importlib.import_module(MOVED[name])) if not key.startswith("__")}
    assert there <= vars(module).keys()


def test_nothing_loads_pickle() -> None:
    banned = ("pickle.load", "allow_pickle=True", "joblib.load", "torch.load(")
    for floor in FLOORS:
        for path in (ROOT / floor).rglob("*.py"):
            assert not any(word in path.read_text() for word in banned), path
