"""A compilation in MLflow: one run, its candidates and evaluations under it, prompts to read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
def test_a_compilation_is_a_run_with_children(
    scripted: Any, store: MlflowClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert (params["settings.optimizer"], params["settings.preset"]) == ("copro", "light")
    assert metrics["accuracy"] == metrics["accuracy_after"] == 1.0 > metrics["accuracy_before"]
    described = run.data.tags["mlflow.note.content"]
    assert result.verdict in described
    assert f"Before {metrics['accuracy_before']:.1%}" in described
    assert "After 100.0%" in described
    assert metrics["difference_low"] <= metrics["difference"] <= metrics["difference_high"]
    assert metrics["selection_given"] < metrics["selection_winner"] == 1.0
    assert metrics["calls_made"] == metrics["calls"] == len(scripted.bodies)
    assert {"accuracy_before_low", "accuracy_after_high", "prompt_tokens"} <= metrics.keys()
    names = {file.path for file in store.list_artifacts(result.mlflow_run_id)}
    assert {"prompts.md", "prompts.json", "compile.json", "candidates.jsonl", "program"} <= names
    assert KEY in Path(store.download_artifacts(result.mlflow_run_id, "prompts.md")).read_text()
    parent = f"tags.`mlflow.parentRunId` = '{result.mlflow_run_id}'"
    children = store.search_runs([run.info.experiment_id], parent)
    kinds = [child.data.tags.get("folkmoot.kind") for child in children]
    assert kinds.count("candidate") == len((out / "candidates.jsonl").read_text().splitlines()) > 1
    assert len(kinds) - kinds.count("candidate") == 2, "the evaluations before and after"
    best = next(
        c
        for c in children
        if c.data.tags.get("folkmoot.candidate") == result.selection["candidate"]
    )
    assert best.data.metrics["score"] == 1.0
    name = f"100% · candidate {result.selection['candidate']} · scripted"
    assert best.info.run_name == name
    assert KEY in Path(store.download_artifacts(best.info.run_id, "prompts.json")).read_text()
    compiled(scripted.url, optimizer="copro", tracking=True, out=out, settings=settings)
    assert len(store.search_runs([run.info.experiment_id], parent)) == len(children), (
        "nothing is logged twice"
    )
    (model,) = store.get_run(result.mlflow_run_id).outputs.model_outputs
    monkeypatch.setenv("OPENAI_BASE_URL", scripted.url)
    loaded = mlflow.pyfunc.load_model(store.get_logged_model(model.model_id).model_uri)
    assert KEY in str(loaded.unwrap_python_model().program.predictors()[0].signature.instructions)
