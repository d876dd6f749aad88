"""The caller's MLflow: her experiment, active run and autologging are honoured, and kept."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dspy
import mlflow
import pytest
from mortal import questions
from stores import new_store

import folkmoot as fm
from folkmoot.pipelines.evaluation.earlier import earlier
from folkmoot.pipelines.evaluation.evaluate import carry_out
from folkmoot.pipelines.evaluation.plan import EvaluationPlan, plan_evaluation
from folkmoot.pipelines.evaluation.request import EvaluateRequest
from folkmoot.pipelines.tracking import live as running

PARENT = "mlflow.parentRunId"
SETTINGS = {"data": "hers"}


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[mlflow.MlflowClient]:
    """A store that she chose by `mlflow.set_tracking_uri`, and no experiment."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    uri = new_store(tmp_path, "hers.db")
    mlflow.set_tracking_uri(uri)
    yield mlflow.MlflowClient(uri)
    while mlflow.active_run():
        mlflow.end_run()
    # as after a restart: MLflow has no other way
    mlflow.tracking.fluent._active_experiment_id = None
    mlflow.set_tracking_uri(None)


@pytest.fixture
def lm(scripted: Any) -> Any:
    scripted.reply = lambda body: json.dumps({"reasoning": "so it is", "answer": "A"})
    return fm.lm("openai/scripted", api_base=scripted.url)


def evaluated(lm: Any, **options: Any) -> fm.Evaluation:
    return fm.evaluate(fm.SingleAgent("simple"), questions(3), lm=lm, settings=SETTINGS, **options)


def hers() -> list[Any]:
    """All that could be changed of what she has set."""
    active = mlflow.active_run()
    known = ["MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID"]
    known += ["MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME"]
    status = active and mlflow.get_run(active.info.run_id).to_dictionary()
    settings = [*map(os.environ.get, known), dspy.settings.callbacks]
    return [active, status, mlflow.get_tracking_uri(), *settings]


def test_an_active_runs_child(client: mlflow.MlflowClient, lm: Any, tmp_path: Path) -> None:
    mlflow.set_experiment("her experiment")
    with mlflow.start_run() as outer, mlflow.start_run(nested=True) as inner:
        mlflow.log_metric("mine", 1)
        before = hers()
        found = evaluated(lm, out=tmp_path / "out")
        assert hers() == before
        mlflow.log_metric("mine", 2)  # goes to her run
    run = client.get_run(found.run_id)
    assert run.data.tags[PARENT] == inner.info.run_id != outer.info.run_id
    assert run.info.experiment_id == inner.info.experiment_id
    assert run.info.status == "FINISHED"
    assert run.outputs.model_outputs  # she is no compilation: the program is kept as a model
    assert client.get_run(inner.info.run_id).data.metrics == {"mine": 2}
    assert names(client) == ["her experiment"]
    assert earlier(tmp_path / "out").run_id == found.run_id


def test_an_experiment_of_hers_is_used_whether_set_or_named_in_the_environment(
    client, lm, monkeypatch
):
    untouched = evaluated(lm)
    # the data's name, as there is none of her own
    assert experiment_of(client, untouched) == "hers"
    assert PARENT not in client.get_run(untouched.run_id).data.tags
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "named")
    assert experiment_of(client, evaluated(lm)) == "named"
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", client.create_experiment("numbered"))
    assert experiment_of(client, evaluated(lm)) == "numbered"
    mlflow.set_experiment("set")
    assert experiment_of(client, evaluated(lm)) == "set"


def names(client: mlflow.MlflowClient) -> list[str]:
    """The experiments that there are besides the one that MLflow makes in every store."""
    return [one.name for one in client.search_experiments() if one.name != "Default"]


def experiment_of(client: mlflow.MlflowClient, found: fm.Evaluation) -> str:
    return str(client.get_experiment(client.get_run(found.run_id).info.experiment_id).name)


def test_a_result_comes_before_mlflow(client: mlflow.MlflowClient, lm: Any, tmp_path: Path) -> None:
    mlflow.set_experiment("her experiment")
    seen: list[Any] = []

    def planned(**options: Any) -> EvaluationPlan:
        given: Any = {"lm": lm, "settings": SETTINGS, **options}
        request = EvaluateRequest(fm.SingleAgent("simple"), questions(3), **given)
        return plan_evaluation(request)

    def ended(result: fm.Evaluation) -> None:
        accuracy = result.summary.scores["accuracy"]["value"]
        seen.extend([accuracy, (tmp_path / "out" / "summary.json").exists(), runs()])

    def runs() -> int:
        return len(client.search_runs(["1"]))

    found = carry_out(planned(out=tmp_path / "out"), ended)
    assert (seen, runs()) == ([1 / 3, True, 0], 1)
    assert client.get_run(found.run_id).info.status == "FINISHED"

    def closed(result: fm.Evaluation) -> None:
        raise BrokenPipeError("nobody reads on")

    with pytest.raises(BrokenPipeError):
        carry_out(planned(), closed)
    assert [run.info.status for run in client.search_runs(["1"])] == ["FINISHED"] * 2


def test_a_run_that_lasts_is_in_mlflow_while_it_goes_on(client, lm, scripted, monkeypatch):
    mlflow.set_experiment("her experiment")
    monkeypatch.setattr(running, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(running, "MOST_CPU", 9.0)
    answer, seen = scripted.reply, []
    whole, names = running.Tracking.show, set[str]()

    def show(self: Any, step: int, figures: Any) -> None:
        names.update(figures)
        whole(self, step, figures)

    monkeypatch.setattr(running.Tracking, "show", show)

    def slow(body: Any) -> Any:
        until = time.monotonic() + 120
        while not seen and time.monotonic() < until:
            seen.extend(run.info.status for run in client.search_runs(["1"]))
        return answer(body)

    scripted.reply = slow
    found = evaluated(lm)
    assert seen == ["RUNNING"]
    run = client.get_run(found.run_id)
    assert run.info.status == "FINISHED"
    assert {"accuracy"} <= names <= run.data.metrics.keys(), "no figure is of the way alone"


@pytest.mark.nightly
def test_autolog_does_not_trace_what_is_traced(client: mlflow.MlflowClient, lm: Any) -> None:
    experiment = mlflow.set_experiment("her experiment").experiment_id
    before = dspy.settings.callbacks
    mlflow.dspy.autolog()
    try:
        with dspy.context(lm=lm):
            evaluated(lm)
            mlflow.flush_trace_async_logging()
            traces = client.search_traces(locations=[experiment])
            asked = sorted(trace.info.tags["folkmoot.question"] for trace in traces)
            assert asked == ["q0", "q1", "q2"]
            fm.SingleAgent("simple")(**questions(3)[0].inputs())  # her own, which she has traced
            mlflow.flush_trace_async_logging()
            assert len(client.search_traces(locations=[experiment])) == 4
            evaluated(lm, tracking=False)  # nothing of ours: what she switched on goes on
            mlflow.flush_trace_async_logging()
            assert len(client.search_traces(locations=[experiment])) == 7
    finally:
        mlflow.dspy.autolog(disable=True)
        dspy.settings.configure(callbacks=before, track_usage=False)


def test_a_run_whose_id_was_not_noted_is_found_again(client, lm, tmp_path, monkeypatch):
    """Killed between making the MLflow run and noting it: nothing after that was done."""

    def killed(*_: object) -> None:
        sys.exit()  # which ends a thread in silence

    with monkeypatch.context() as patch:
        patch.setattr("folkmoot.pipelines.tracking.push.note_id", killed)
        assert evaluated(lm, out=tmp_path / "out").run_id is None
    found = evaluated(lm, out=tmp_path / "out")
    experiment = client.get_experiment_by_name("hers")
    stored = client.search_runs([experiment.experiment_id])
    assert [run.info.run_id for run in stored] == [found.run_id]
    assert client.get_run(found.run_id).info.status == "FINISHED"


def test_a_program_is_registered_once(client: mlflow.MlflowClient, lm: Any, tmp_path: Path) -> None:
    for _ in range(2):
        found = evaluated(lm, out=tmp_path / "out", register="bank")
    (version,) = client.search_model_versions("name = 'bank'")
    assert version.run_id == found.run_id
    with pytest.raises(fm.UserError, match="drop --no-track"):
        evaluated(lm, register="bank", tracking=False)
