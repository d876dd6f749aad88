"""Fixtures that all tests share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
os.environ["FOLKMOOT_CALLS_MB"] = "0"  # no answers from earlier runs; for child processes too

from scripted import ScriptedServer


@pytest.fixture
def scripted() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of real benchmark data; tests that need it are skipped without it."""
    folder = os.environ.get("FOLKMOOT_DATA")
    if not folder:
        pytest.skip("FOLKMOOT_DATA is not set: it names the folder of real benchmark data")
    return Path(folder)
