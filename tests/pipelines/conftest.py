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
    """Policies without a graph are not cross-validated, which tests/optimizers/policy has."""
    monkeypatch.setattr("folkmoot.optimizers.policy.rivals._FOLDS", 0)


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """How a training went is not drawn: tests/pipelines/training/test_train.py has that."""
    for name in ("trust", "graphs", "rewards", "strategies"):
        monkeypatch.setattr(f"folkmoot.pipelines.training.train.{name}_plot", lambda *_: False)


@pytest.fixture
def ten(home: Path) -> Path:
    """A file of ten questions."""
    return ten_questions(home)
