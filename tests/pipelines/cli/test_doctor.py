"""`folkmoot doctor`: each thing that can be wrong is found, with its fix, and no key is shown."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli_helpers import KEY, folkmoot, isolate

from folkmoot.pipelines.cli import doctor as cli_doctor
from folkmoot.pipelines.cli.doctor import Check, examine
from folkmoot.pipelines.cli.options import DoctorRequest
from folkmoot.pipelines.testing.server import ScriptedServer
from folkmoot.pipelines.tracking.cursor import note_pushed


@pytest.fixture(autouse=True)
def checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scripted: ScriptedServer) -> Any:
    """Calls the doctor on a machine with nothing of the tester's: its checks by name."""
    isolate(tmp_path, monkeypatch)

    def call() -> dict[str, Check]:
        options = DoctorRequest(lm=["openai/scripted"], api_base=[scripted.url])
        return {check.name: check for check in examine(options)}

    return call


def test_a_machine_in_order_has_no_failure_and_nothing_is_left_behind(
    checks: Any, tmp_path: Path
) -> None:
    found = checks()
    assert [check for check in found.values() if check.status == "fail"] == []
    assert {"packages", "data", "cache", "folder", "MLflow store", "keys"} <= found.keys()
    assert found["LM answers"].result.startswith("openai/scripted answered in")
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]


@pytest.mark.parametrize("status", ["warn", "fail"])
def test_every_trouble_has_a_fix(
    checks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FOLKMOOT_DATA", str(tmp_path))
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/file/mlflow.db")
    monkeypatch.setenv("OTHER_API_KEY", f" {KEY}")
    monkeypatch.setattr(cli_doctor, "find_spec", lambda name: None)
    usage = cli_doctor.shutil.disk_usage(tmp_path)
    size = {"warn": 1e9, "fail": 1e8}[status]
    monkeypatch.setattr(cli_doctor.shutil, "disk_usage", lambda place: usage._replace(free=size))
    found = checks()
    for name in ("data", "keys", "embedded LM"):
        assert found[name].status == "warn"
    assert found["folder"].status == status
    assert found["MLflow store"].status == "fail"
    assert "choose another MLFLOW_TRACKING_URI" in found["MLflow store"].result
    assert all(found[name].fix for name in ("data", "keys", "embedded LM", "cache", "folder"))
    assert KEY not in str(found)


def test_a_package_of_the_wrong_version_is_named(
    checks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found_of(name: str) -> list[Any]:
        versions = {"dspy": "2.0", "optuna": None}
        version = versions.get(name, metadata.version(name))
        return [] if version is None else [SimpleNamespace(version=version)]

    monkeypatch.setattr(cli_doctor, "distributions", found_of)
    found = checks()["packages"]
    assert (found.status, found.fix) == ("fail", "pip install --upgrade folkmoot")
    assert "dspy is 2.0, not " in found.result
    assert "optuna is missing, not " in found.result


def test_the_runs_of_a_store_and_those_that_wait_for_it_are_told(
    checks: Any, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database, database:
        database.execute("create table runs as select 1")
    note_pushed(tmp_path, "s", whole=False)
    assert "holds 1 run" in checks()["MLflow store"].result
    found = checks()["MLflow backlog"]
    assert (found.status, str(tmp_path) in found.result) == ("warn", True)
    assert "folkmoot push" in str(found.fix)


def test_a_check_that_breaks_stops_no_other(checks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli_doctor, "load", lambda *_, **__: 1 / 0)
    found = checks()
    assert found["data"].status == "fail"
    assert "ZeroDivisionError" in found["data"].result
    assert found["keys"].status == "ok"


def test_an_endpoint_that_is_down_has_a_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("folkmoot.pipelines.lms.engine.MAX_RETRIES", 0)
    monkeypatch.setattr("folkmoot.pipelines.lms.engine.back_off", lambda *_: 0.0)
    words = ("--lm", "openai/x", "--api-base", "http://127.0.0.1:9/v1")
    result = folkmoot("doctor", *words, "--json")
    assert result.exit_code == 1
    last = json.loads(result.stdout)["checks"][-1]
    assert (last["name"], last["status"]) == ("LM answers", "fail")
    assert "start the endpoint" in last["fix"]
