"""What is published: metadata, constraints, the page and the compose file for groups."""

import tomllib
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement

import folkmoot as fm

ROOT = Path(fm.__file__).parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert fm.__version__ == PROJECT["version"] == citation["version"]


def test_what_is_held_back_is_held_back_in_both_files() -> None:
    """With the constraints or without them, pip takes what folkmoot runs with. MLflow 3.18 alone is
    taken and held back: it was tested beside the parts of 3.17, and not every index has its own.
    """
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    kept = (line for line in lines if line[0] != "#")
    held = {one.name: one.specifier for one in map(Requirement, kept)}
    assert set(held) == {"torch", "mlflow"}
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["network"]]
    declared = {one.name: one.specifier for one in map(Requirement, wanted)}
    assert (str(held["mlflow"]), "<3.19" in str(declared["mlflow"])) == ("<3.18", True)
    below = {str(part) for part in declared["torch"] if part.operator == "<"}
    assert {str(part) for part in held["torch"]} == below
