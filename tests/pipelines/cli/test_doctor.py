"""`folkmoot doctor`: each thing that can be wrong is found, with its fix, and no key is shown."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli_helpers import KEY, folkmoot, isolate
from stores import new_store

from folkmoot.pipelines.cli import doctor as cli_doctor
from folkmoot.pipelines.testing.server import ScriptedServer
from folkmoot.pipelines.tracking.cursor import note_pushed


@pytest.fixture(autouse=True)
def checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scripted: ScriptedServer) -> Any:
    """Calls the doctor on a machine with nothing of the tester's: its checks by name."""
    isolate(tmp_path, monkeypatch)

    def call() -> dict[str, Any]:
        words = ("--lm", "openai/scripted", "--api-base", scripted.url, "--json")
        found = json.loads(folkmoot("doctor", *words).stdout)["checks"]
        return {check.pop("name"): SimpleNamespace(**check) for check in found}

    return call


def test_a_machine_in_order_has_no_failure_and_stays_clean(checks: Any, tmp_path: Path) -> None:
    found = checks()
    assert [check for check in found.values() if check.status == "fail"] == []
    assert [*found] == ["extras", "data", "MLflow store", "sandbox", "LM"]
    assert found["LM"].result.startswith("openai/scripted answered in")
    assert not list(tmp_path.iterdir())


def test_troubles_have_fixes(checks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLKMOOT_DATA", str(tmp_path))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"postgresql://me:{KEY}@127.0.0.1:1/db")
    monkeypatch.setattr(cli_doctor, "find_spec", lambda name: None)
    found = checks()
    assert found["data"].status == "warn"
    assert found["MLflow store"].status == "fail"
    assert all(found[name].fix for name in ("data", "MLflow store"))
    assert "installed: none" in found["extras"].result
    assert "pip install" in found["extras"].result
    assert KEY not in str(found)


@pytest.mark.parametrize("last", [True, False])
def test_a_store_of_the_installed_mlflow_is_not_opened(checks, tmp_path, monkeypatch, last):
    """MLflow takes seconds to open it; only one of another MLflow needs that."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", new_store(tmp_path))
    if not last:
        with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database, database:
            database.execute("UPDATE alembic_version SET version_num = 'f00'")
    opened = []
    monkeypatch.setattr(cli_doctor, "open_client", lambda: opened.append(1) or 1 / 0)
    assert checks()["MLflow store"].status == ("ok" if last else "fail")
    assert opened == [1] * (not last)


def test_a_closed_folder_has_no_store(checks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere
    found = checks()["MLflow store"]
    assert (found.status, "cannot be written" in found.result) == ("fail", True)


def test_runs_that_wait_for_the_store_are_told(checks: Any, tmp_path: Path) -> None:
    note_pushed(tmp_path, "s", whole=False)
    found = checks()["MLflow store"]
    assert (found.status, str(tmp_path) in found.result) == ("warn", True)
    assert "folkmoot push" in str(found.fix)


def test_a_check_that_breaks_stops_no_other(checks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_doctor, "load", lambda *_, **__: 1 / 0)
    found = checks()
    assert found["data"].status == "fail"
    assert "ZeroDivisionError" in found["data"].result
    assert found["extras"].status == "ok"


def test_an_endpoint_that_is_down_has_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("folkmoot.pipelines.lms.engine.MAX_RETRIES", 0)
    monkeypatch.setattr("folkmoot.pipelines.lms.engine.back_off", lambda *_: 0.0)
    words = ("--lm", "openai/x", "--api-base", "http://127.0.0.1:9/v1")
    result = folkmoot("doctor", *words, "--json", code=1)
    last = json.loads(result.stdout)["checks"][-1]
    assert (last["name"], last["status"]) == ("LM", "fail")
    assert "start the endpoint" in last["fix"]
