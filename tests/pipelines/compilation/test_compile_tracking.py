"""A compilation in MLflow: one run, its candidates and evaluations under it, prompts to read."""

from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
from mlflow import MlflowClient
from planted import KEY, compiled, of_instructions
from stores import new_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowClient]:
    folder = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", uri := new_store(folder))
        yield MlflowClient(tracking_uri=uri)


@pytest.mark.nightly
def test_a_compilation_is_a_run_with_children(scripted, store, tmp_path, monkeypatch):
    scripted.reply = of_instructions()
    settings = {"data": "colours.jsonl", "split": "held"}
    out = tmp_path / "out"
    found = compiled(scripted.url, optimizer="copro", tracking=True, out=out, settings=settings)
    result = found.compilation
    run = store.get_run(result.mlflow_run_id)
    assert store.get_experiment(run.info.experiment_id).name == "colours"
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "100% · compile copro light · scripted"
    params, metrics = run.data.params, run.data.metrics
    assert (params["optimizer"], len(params) <= 12) == ("copro", True)
    assert metrics["accuracy"] == 1.0
    assert run.data.tags["folkmoot.outcome"] == "beats"
    described = run.data.tags["mlflow.note.content"]
    assert result.verdict in described
    assert metrics["difference_low"] <= metrics["difference"] <= metrics["difference_high"]
    assert {"accuracy_low", "calls_per_question", "questions"} <= metrics.keys()
    assert len(metrics) <= 12
    names = {file.path for file in store.list_artifacts(result.mlflow_run_id)}
    assert {"prompts.md", "prompts.json", "compile.json", "candidates.jsonl", "program"} <= names
    assert KEY in Path(store.download_artifacts(result.mlflow_run_id, "prompts.md")).read_text()
    parent = f"tags.`mlflow.parentRunId` = '{result.mlflow_run_id}'"
    children = store.search_runs([run.info.experiment_id], parent)
    titles = sorted(child.info.run_name.partition(" · ")[2] for child in children)
    assert titles == ["after copro · scripted", "before copro · scripted"]
    optimizers = {
        child.info.run_name.split(" ")[2]: child.data.params.get("optimizer") for child in children
    }
    assert optimizers == {"before": None, "after": "copro"}
    candidates = store.load_table(run.info.experiment_id, "candidates.json", [run.info.run_id])
    assert len(candidates) == len((out / "candidates.jsonl").read_text().splitlines()) > 1
    best = candidates[candidates["candidate"] == result.selection["candidate"]].iloc[0]
    assert (best["score"], KEY in best["changed"]) == (1.0, True)
    first = sorted(names)[0]
    shown = Path(store.download_artifacts(result.mlflow_run_id, first)).read_text()
    assert '+  "instructions"' in shown
    compiled(scripted.url, optimizer="copro", tracking=True, out=out, settings=settings)
    again = store.search_runs([run.info.experiment_id], parent)
    assert len(again) == len(children), "nothing is logged twice"
    (model,) = store.get_run(result.mlflow_run_id).outputs.model_outputs
    monkeypatch.setenv("OPENAI_BASE_URL", scripted.url)
    loaded = mlflow.pyfunc.load_model(store.get_logged_model(model.model_id).model_uri)
    assert KEY in str(loaded.unwrap_python_model().program.predictors()[0].signature.instructions)
