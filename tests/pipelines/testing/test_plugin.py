"""The pytest fixture for users: it passes and fails with the verdict, and shows it."""

import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from planted_programs import planted_lm, questions, solo

import folkmoot as fm
from folkmoot.pipelines.testing.plugin import folkmoot_compare  # noqa: F401

ASKED = questions(60)


@pytest.mark.parametrize(
    ("percent", "not_worse", "better"), [(95, True, True), (40, True, False), (5, False, False)]
)
def test_a_program_is_compared_with_a_baseline(
    folkmoot_compare: Any,  # noqa: F811
    percent: int,
    not_worse: bool,
    better: bool,
) -> None:
    mine, earlier = solo("mine", percent), solo("earlier", 40)
    found = folkmoot_compare(mine, earlier, ASKED, lm=planted_lm(ASKED), cache=False)
    assert found.is_not_worse() == not_worse
    assert found.is_better() == better
    assert "on 60 questions" in repr(found)


def test_pytest_finds_the_plugin() -> None:
    project = tomllib.loads((Path(fm.__file__).parent / "pyproject.toml").read_text())["project"]
    name = project["entry-points"]["pytest11"]["folkmoot"]
    assert hasattr(import_module(name), "folkmoot_compare")
