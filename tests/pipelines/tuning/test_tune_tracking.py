"""A study in MLflow: a run with trials and evaluations as children, plots, and a winner
that loads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest
from stores import new_store
from tuned import ORDERS, critic_first, lm_at, questions, scripted_by, second_thoughts, study_at

import folkmoot as fm


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[mlflow.MlflowClient]:
    uri = new_store(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(uri)
    yield mlflow.MlflowClient(uri)
    mlflow.set_tracking_uri(None)


def runs(client: mlflow.MlflowClient) -> list[Any]:
    return [
        run
        for found in client.search_experiments()
        for run in client.search_runs([found.experiment_id])
    ]


@pytest.mark.nightly
@pytest.mark.plots
def test_a_study_is_a_run_with_its_trials_and_evaluations_as_children(
    scripted: Any, client: mlflow.MlflowClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", scripted.url)  # where the saved winner finds its LM again
    scripted.reply = scripted_by(critic_first)
    goals = ["accuracy", "calls"]
    options = {"trials": 5, "objectives": goals, "tracking": True, "register": "panel"}
    study = study_at(scripted.url, tmp_path / "out", settings={"data": "bank"}, **options)
    (parent,) = [run for run in runs(client) if "mlflow.parentRunId" not in run.data.tags]
    children = [
        run for run in runs(client) if run is not parent and run.info.run_id != parent.info.run_id
    ]
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    trials = [run for run in children if run.data.tags.get("folkmoot.kind") == "trial"]
    assert len(trials) == 5
    evaluated = [run.info.run_name.split(" · ") for run in children if run not in trials]
    assert {name[1] for name in evaluated} == {"winner on validation", "default on validation"}
    by_number = {run.data.tags["folkmoot.trial"]: run for run in trials}
    for entry in study.trials:
        if entry["state"] == "complete":
            run = by_number[str(entry["trial"])]
            assert run.data.metrics["accuracy"] == entry["scores"]["accuracy"]["value"]
            assert run.data.metrics["accuracy_low"] <= run.data.metrics["accuracy"]
            assert run.data.metrics["calls_per_question"] == entry["scores"]["calls"]["value"]
            assert (
                run.data.metrics["calls"] == entry["scores"]["calls"]["value"] * entry["questions"]
            )
            roles = ", ".join(entry["setting"]["roles"])
            assert run.data.params["roles"] == roles
            begin = f"{entry['scores']['accuracy']['value']:.0%} · trial {entry['place']} · "
            assert run.info.run_name.startswith(begin)
    front = client.load_table(parent.info.experiment_id, "trials.json", [parent.info.run_id])
    assert list(front.dropna(subset=["front"])["trial"]) == [
        entry["trial"] for entry in study.report["front"]
    ]
    assert parent.info.run_name.startswith(f"{study.validation.accuracy:.0%} · study ")
    assert parent.data.metrics["calls_saved"] == study.report["calls"]["saved"]
    assert parent.data.metrics["accuracy"] == study.validation.accuracy
    assert parent.data.metrics["calls"] == study.report["paid"]["calls"]
    described = parent.data.tags["mlflow.note.content"]
    assert study.report["verdict"] in described
    assert ", ".join(study.report["best"]["setting"]["roles"]) in described
    assert f"{study.report['calls']['saved']:,} saved" in described
    assert parent.data.params["settings.sampler"] == "tpe"
    artifacts = {item.path for item in client.list_artifacts(parent.info.run_id)}
    assert artifacts >= {
        "study.json",
        "trials.json",
        "history.png",
        "front.png",
        "importances.png",
        "winner",
    }
    assert parent.info.status == "FINISHED"
    loaded = mlflow.pyfunc.load_model("models:/panel/1")
    assert loaded.metadata.run_id == parent.info.run_id

    study_at(scripted.url, tmp_path / "out", settings={"data": "bank"}, **options)
    assert len(runs(client)) == 1 + 5 + 2
    assert len(client.search_model_versions("name = 'panel'")) == 1


@pytest.mark.nightly
def test_replayed_trials_are_rows_of_the_table_and_a_spent_budget_is_a_tag(
    scripted: Any, client: mlflow.MlflowClient, tmp_path: Path
) -> None:
    scripted.reply = scripted_by(second_thoughts)
    space = {
        "program": "deliberation",
        "roles": ["critic", "reasoner"],
        "max_rounds": {"from": 1, "to": 3},
        "tie_break": ["majority", "strongest"],
        "sampling": {"temperature": None},
    }
    options = {"trials": 1, "lm": lm_at(scripted.url), "settings": {"data": "bank"}}
    study = fm.tune(space, questions(0, 20), questions(40, 44), out=tmp_path / "out", **options)
    (parent,) = [run for run in runs(client) if "mlflow.parentRunId" not in run.data.tags]
    assert parent.data.tags["folkmoot.stopped"] == "no"
    table = json.loads(
        Path(client.download_artifacts(parent.info.run_id, "trials.json")).read_text()
    )
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert [row["trial"] for row in rows] == [entry["trial"] for entry in study.trials]
    replayed = [row for row in rows if row["state"] == "told"]
    assert len(replayed) == study.report["trials"]["told"] == 8
    assert {row["replayed_from"] for row in replayed} == {0}
    known = {
        e["trial"]: e["scores"]["accuracy"]["value"] for e in study.trials if e["state"] == "told"
    }
    assert {row["trial"]: row["accuracy"] for row in replayed} == known
    assert "trials.json" in parent.data.tags["mlflow.loggedArtifacts"]

    short = study_at(
        scripted.url, tmp_path / "short", budget="200 calls", tracking=True, study="short"
    )
    assert short.report["stopped"]
    (run,) = [run for run in runs(client) if run.data.tags.get("folkmoot.study") == "short"]
    assert run.info.status == "FINISHED"
    assert run.data.tags["folkmoot.stopped"] == short.report["stopped"]


def test_a_store_that_is_down_does_not_stop_a_study(
    scripted: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:////dev/null/x.db")
    scripted.reply = scripted_by(critic_first)
    with pytest.warns(RuntimeWarning, match="the tracking store did not take"):
        study = fm.tune(
            ORDERS,
            questions(0, 20),
            questions(40, 50),
            lm=lm_at(scripted.url),
            trials=2,
            out=tmp_path / "out",
        )
    assert study.best is not None
    assert json.loads((tmp_path / "out" / "study.json").read_text())["best"]
