"""A study in MLflow: a run with trials as children, plots, and a winner that loads."""

from pathlib import Path
from typing import Any

import mlflow
import pytest
from stores import new_store
from tuned import critic_first, scripted_by, study_at


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> mlflow.MlflowClient:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", new_store(tmp_path))
    return mlflow.MlflowClient()


def runs(client: mlflow.MlflowClient) -> list[Any]:
    ids = [found.experiment_id for found in client.search_experiments()]
    return list(client.search_runs(ids))


@pytest.mark.nightly
@pytest.mark.plots
def test_a_study_is_a_run_with_its_trials_and_evaluations_as_children(
    scripted, client, tmp_path, monkeypatch
):
    monkeypatch.setenv("OPENAI_BASE_URL", scripted.url)  # where the saved winner finds its LM again
    scripted.reply = scripted_by(critic_first)
    goals = ["accuracy", "calls"]
    options = {"trials": 5, "objectives": goals, "tracking": True, "register": "panel"}
    study = study_at(scripted.url, tmp_path / "out", settings={"data": "bank"}, **options)
    (parent,) = [run for run in runs(client) if "mlflow.parentRunId" not in run.data.tags]
    others = [run for run in runs(client) if run is not parent]
    children = [run for run in others if run.info.run_id != parent.info.run_id]
    assert {run.data.tags["mlflow.parentRunId"] for run in children} == {parent.info.run_id}
    trials = [run for run in children if run.data.tags.get("folkmoot.kind") == "trial"]
    assert len(trials) == 5
    evaluated = [run.info.run_name.split(" · ") for run in children if run not in trials]
    assert {name[1] for name in evaluated} == {"winner on validation", "default on validation"}
    by_number = {run.data.tags["folkmoot.trial"]: run for run in trials}
    for entry in study.trials:
        if entry.state == "complete":
            run = by_number[str(entry.trial)]
            assert run.data.metrics["accuracy"] == entry.value("accuracy")
            assert run.data.params["roles"] == ", ".join(entry.setting["roles"])
            assert run.data.metrics["calls_per_question"] == entry.value("calls")
            assert (run.info.start_time, run.info.end_time) == (entry.began, entry.ended)
    used = [run.inputs.dataset_inputs for run in [parent, *children] if run not in trials]
    digests = {inputs[0].dataset.digest for inputs in used}
    assert len(digests) == 1, "a study's data are those that its winner is judged on"
    front = client.load_table(parent.info.experiment_id, "trials.json", [parent.info.run_id])
    drawn = list(front.dropna(subset=["front"])["trial"])
    assert drawn == [entry.trial for entry in study.report.front]
    assert parent.info.run_name.startswith(f"{study.validation.accuracy:.0%} · study ")
    assert parent.data.metrics["accuracy"] == study.validation.accuracy
    assert len(parent.data.metrics) <= 12
    described = parent.data.tags["mlflow.note.content"]
    assert study.report.verdict in described
    artifacts = {item.path for item in client.list_artifacts(parent.info.run_id)}
    assert artifacts >= {"study.json", "trials.json", "history.png", "front.png", "winner"}
    assert parent.info.status == "FINISHED"
    assert parent.data.tags["folkmoot.outcome"] == "beats"
    assert client.get_model_version("panel", "1").tags["outcome"] == "beats"
    loaded = mlflow.pyfunc.load_model("models:/panel/1")
    assert loaded.metadata.run_id == parent.info.run_id

    study_at(scripted.url, tmp_path / "out", settings={"data": "bank"}, **options)
    assert len(runs(client)) == 1 + 5 + 2
    assert len(client.search_model_versions("name = 'panel'")) == 1
