"""Fixtures that the tests of pipelines share."""

from pathlib import Path

import pytest
from cli_helpers import isolate, ten_questions


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, and none of this machine's settings and keys."""
    isolate(tmp_path, monkeypatch)
    return tmp_path


@pytest.fixture
def quick_rivals(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policies without a graph, which a training fits beside its network, are not
    cross-validated: that takes most of its time, and tests/optimizers/policy has it.
    """
    monkeypatch.setattr("folkmoot.optimizers.policy.rivals._FOLDS", 0)


@pytest.fixture
def ten(home: Path) -> Path:
    """A file of ten questions."""
    return ten_questions(home)
