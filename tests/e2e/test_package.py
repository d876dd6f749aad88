"""What is published: the package's metadata, its constraints, its page and the compose file for
groups.
"""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

import folkmoot as fm

ROOT = Path(fm.__file__).parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert fm.__version__ == PROJECT["version"] == citation["version"]


def test_what_is_held_back_is_held_back_in_both_files() -> None:
    """With the constraints or without them, pip takes what folkmoot runs with."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    held = {
        one.name: one.specifier
        for one in map(Requirement, (line for line in lines if line[0] != "#"))
    }
    assert set(held) == {"torch", "mlflow"}
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["network"]]
    declared = {one.name: one.specifier for one in map(Requirement, wanted)}
    for name, least in held.items():
        assert {str(part) for part in least} == {
            str(part) for part in declared[name] if part.operator == "<"
        }


def test_the_package_page_has_no_relative_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    package_page = importlib.import_module("package_page")
    readme = (ROOT / "README.md").read_text()
    page = package_page.absolute(readme, "someone/folkmoot", "v1")
    assert not re.findall(r"\]\((?!https://)", page)
    at = r"\(https://github\.com/[\w.-]+/[\w.-]+"  # a published copy names its own repository
    pictures = re.findall(rf"!\[[^\]]*\]{at}/raw/[^/]+/([^)]+)\)", page)
    assert pictures
    for path in pictures + re.findall(rf"\]{at}/blob/[^/]+/([^)]+)\)", page):
        assert (ROOT / path).is_file(), path
    project = tomllib.loads(
        package_page.with_urls("[project.optional-dependencies]\n", "someone/folkmoot")
    )
    assert project["project"]["urls"]["Repository"] == "https://github.com/someone/folkmoot"


def test_the_services_of_a_group_are_pinned_and_open_to_this_machine_alone() -> None:
    text = (ROOT / "compose.yaml").read_text()
    compose = yaml.safe_load(text)
    services = compose["services"]
    for name, service in services.items():
        assert re.fullmatch(r"[\w./-]+:v?\d[\w.]*", service["image"]), name
        for port in service["ports"]:
            assert re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port), name
        for volume in service.get("volumes", []):
            assert volume.partition(":")[0] in compose["volumes"], name
    ports = {port.split(":")[1] for service in services.values() for port in service["ports"]}
    assert set(re.findall(r"127\.0\.0\.1:(\d+)", text.partition("services:")[0])) == ports
    assert services["postgres"]["environment"]["POSTGRES_PASSWORD"].startswith(
        "${POSTGRES_PASSWORD:?"
    )
    declared = {one.name: one.specifier for one in map(Requirement, PROJECT["dependencies"])}
    tag = services["mlflow"]["image"].rpartition(":v")[2]
    assert Version(tag) in declared["mlflow"]
    assert (
        f"--port {services['mlflow']['ports'][0].rpartition(':')[2]}"
        in services["mlflow"]["command"]
    )
    collector = yaml.safe_load(compose["configs"]["collector"]["content"])
    (pipeline,) = collector["service"]["pipelines"].values()
    assert set(pipeline["receivers"]) <= set(collector["receivers"])
    assert set(pipeline["exporters"]) <= set(collector["exporters"])
    assert collector["receivers"]["otlp"]["protocols"]["http"]["endpoint"].endswith(":4318")
