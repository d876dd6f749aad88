"""Tracking: what an MLflow run holds, that it is resumed, and that a bad store does no harm."""

from __future__ import annotations

import io
import json
import re
import shutil
import socket
import sqlite3
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import dspy
import pytest
from dialogue_rows import error_row, row
from hypothesis import given
from hypothesis import strategies as st

from folkmoot.modules.agents.transcript import Task, Turn
from folkmoot.modules.base.errors import UserError
from folkmoot.modules.protocols.program import Program, prediction_of
from folkmoot.modules.reading.question import Question
from folkmoot.modules.reports.deliberation import deliberation_report
from folkmoot.pipelines.evaluation.evaluate import evaluate
from folkmoot.pipelines.evaluation.logged import evaluation_uploads, standing
from folkmoot.pipelines.plots.dialogues import dialogues_page, most_informative
from folkmoot.pipelines.plots.evaluation import deliberation_plot
from folkmoot.pipelines.plots.protocols import Drawing, plot_of
from folkmoot.pipelines.runs.progress import Progress
from folkmoot.pipelines.runs.summary import Summary, summarise
from folkmoot.pipelines.tracking import evaluation as logged
from folkmoot.pipelines.tracking import mlflow_sink as tracking
from folkmoot.pipelines.tracking.store import check_place, store_uri
from folkmoot.pipelines.tracking.tracker import start_tracking
from folkmoot.pipelines.tracking.uploads import Tracker, Upload
from folkmoot.pipelines.tracking.values import (
    experiment_name,
    params_of,
    run_name,
    scrubbed,
    valid_name,
)

CANARY = "sk-canary-8d1f4e7a"


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder in which tracking has made a store, and what it said meanwhile; the tables take
    seconds.
    """
    folder, said = tmp_path_factory.mktemp("store"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(said), redirect_stdout(said):
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.chdir(folder)
        track(folder / "out", a_run(settings={"data": "first"}))
    return folder, said.getvalue()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_run: tuple[Path, str]) -> Path:
    """The working folder of a user who has a store already."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    # It takes most of the time.
    monkeypatch.setattr(logged, "plot_of", lambda program: None)
    shutil.copy(first_run[0] / "mlflow.db", tmp_path)
    return tmp_path


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def a_run(**fields: Any) -> dict[str, Any]:
    return {
        "program": {
            "program": "deliberation",
            "roles": ["intuitive", "reasoner"],
            "tie_break": "judge",
            "max_rounds": 3,
            "sampling": {"temperature": 0.5},
        },
        "program_hash": "a" * 64,
        "prompt_hash": "b" * 64,
        "lms": {
            "*": {
                "name": "openai/small",
                "endpoint": "openai/small at http://h/v1",
                "settings": {"top_p": 1},
            },
            "judge": {
                "name": "openai/large",
                "endpoint": "openai/large at http://h/v1",
                "settings": {},
            },
        },
        "data_fingerprint": "c" * 64,
        "questions": 4,
        "settings": {"data": "toy", "split": "validation", "seed": None, "concurrency": 64},
        "versions": {"folkmoot": "0.1.0", "python": "3.11"},
        "git_commit": "d" * 40,
        **fields,
    }


def rows() -> list[dict[str, Any]]:
    found = [
        row([["A", "A"]]),
        row([["B", "A"], ["B", "B"]]),
        row([["B", "A"]], judge="A"),
        error_row(),
    ]
    for number, one in enumerate(found):
        one.update(
            id=f"q{number}",
            question=f"Where does <b>number {number}</b> belong?",
            choices={"A": "the bank", "B": "a tree"},
            seconds=1.0 + number,
            em=None,
            f1=None,
            meta={"subject": "natural science" if number % 2 else "language/arts"},
        )
        one["usage"] |= {"cached_calls": 0, "cost_usd": 0.25}
    return found


def evaluated(folder: Path, run: dict[str, Any], count: int = 4) -> Summary:
    """What `evaluate` leaves behind before it calls `finish`."""
    folder.mkdir(exist_ok=True)
    (folder / "results.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows()[:count]))
    (folder / "run.json").write_text(json.dumps(run))
    return summarise(iter(rows()[:count]), 4, deliberation_report, run)


def track(folder: Path, run: dict[str, Any], status: str = "FINISHED", count: int = 4) -> str:
    tracker = start_tracking(run)
    finish(tracker, evaluated(folder, run, count), folder, status)
    assert tracker.run_id is not None
    return tracker.run_id


def finish(tracker: Tracker, summary: Summary, folder: Path, status: str = "FINISHED") -> None:
    tracker.end(evaluation_uploads(summary, folder, tracker), status, folder)


def progress(tracker: Tracker, state: Progress) -> None:
    tracker.live(lambda: standing(replace(state, score=float(state.correct))))


def track_badly(folder: Path, match: str, run: dict[str, Any] | None = None) -> tuple[Tracker, str]:
    """Track with a store that is no good, and see that this costs exactly one warning; gives its
    text.
    """
    summary = evaluated(folder, a_run())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        tracker = start_tracking(run or a_run())
        progress(tracker, Progress(total=4, done=1))
        finish(tracker, summary, folder)
    (said,) = [str(one.message) for one in caught if issubclass(one.category, RuntimeWarning)]
    assert re.search(match, said)
    return tracker, said


def stored(experiment: str = "toy") -> list[Any]:
    """The runs of an experiment, the oldest first."""
    from mlflow import MlflowClient

    client = MlflowClient()
    found = client.get_experiment_by_name(experiment)
    assert found is not None
    return list(client.search_runs([found.experiment_id], order_by=["attributes.start_time ASC"]))


def artifacts(here: Path, run_id: str) -> Path:
    return here / "mlruns" / "toy" / run_id / "artifacts"


def test_a_new_store_is_made_where_mlflow_looks_and_in_silence(first_run: tuple[Path, str]) -> None:
    folder, said = first_run
    assert said == ""
    assert (folder / "mlflow.db").is_file()
    assert len(list(folder.glob("mlruns/first/*/artifacts/results.jsonl"))) == 1


def test_a_run_says_what_it_was_of_and_how_it_went(here: Path) -> None:
    run_id = track(here / "out", a_run())
    (run,) = stored()
    assert run.info.run_id == run_id
    assert run.info.status == "FINISHED"
    said = (
        "deliberation intuitive, reasoner · judge · small, large · 50.0% right, 15.0% to "
        "85.0% · $1.0000"
    )
    assert run.info.run_name == said

    params, tags, metrics = run.data.params, run.data.tags, run.data.metrics
    assert params["program.roles"] == "intuitive, reasoner"
    assert params["program.sampling.temperature"] == "0.5"
    assert params["lm.name"] == "openai/small"
    assert params["lm.judge.name"] == "openai/large"
    assert params["data.split"] == "validation"
    assert params["settings.concurrency"] == "64"
    assert "data.seed" not in params
    assert tags["folkmoot.lm"] == "openai/small, openai/large"
    assert tags["folkmoot.program_hash"] == "a" * 64
    assert tags["mlflow.source.git.commit"] == "d" * 40
    assert "50.0% right" in tags["mlflow.note.content"]

    assert metrics["accuracy"] == 0.5
    assert metrics["accuracy_low"] < 0.5 < metrics["accuracy_high"]
    assert (metrics["rows"], metrics["errors"], metrics["unreadable"]) == (4, 1, 0)
    assert metrics["cost_usd"] == 1.0
    assert metrics["seconds_p50"] == 2.5
    assert len(metrics) < 20, "the others are in a table"

    (used,) = run.inputs.dataset_inputs
    assert (used.dataset.name, used.dataset.digest) == ("toy", "c" * 36)


@pytest.mark.plots
def test_the_artifacts_can_be_read_by_people_and_by_mlflow(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    monkeypatch.setattr(logged, "plot_of", plot_of)
    run_id = track(here / "out", a_run())
    folder = artifacts(here, run_id)
    names = {path.name for path in folder.iterdir()}
    assert names == {
        *("results.jsonl", "summary.json", "run.json", "rows.json", "figures.json"),
        *("dialogues.html", "deliberation.png"),
    }
    assert (folder / "results.jsonl").read_text() == (here / "out" / "results.jsonl").read_text()
    assert (folder / "deliberation.png").read_bytes().startswith(b"\x89PNG")
    experiment = MlflowClient().get_experiment_by_name("toy")
    assert experiment is not None
    table = MlflowClient().load_table(experiment.experiment_id, "rows.json", [run_id])
    assert list(table["id"]) == ["q0", "q1", "q2", "q3"]
    assert list(table["correct"]) == [True, False, True, False]
    assert table["error"][3] == "no answer in time"
    figures = MlflowClient().load_table(experiment.experiment_id, "figures.json", [run_id])
    known = figures.set_index("figure")
    subject = known.loc["by_subject/language/arts"]
    assert (subject["value"], subject["n"]) == (1.0, 2)
    assert 0 < subject["low"] < subject["high"] == 1
    assert known["value"]["deliberation/consensus_rate"] == pytest.approx(2 / 3)
    assert known["value"]["deliberation/role/reasoner/accuracy_last"] == pytest.approx(2 / 3)
    assert known["low"].isna()["deliberation/consensus_rate"]
    assert known["value"]["usage/truncated_calls"] == 0


@pytest.mark.parametrize("outage", [False, True])
def test_a_registry_that_takes_no_prompts_fails_no_run(
    here: Path, monkeypatch: pytest.MonkeyPatch, outage: bool
) -> None:
    from mlflow import MlflowClient, MlflowException

    def refuse(*_: Any, **__: Any) -> None:
        said = "no prompts here"
        raise MlflowException(said) if outage else MlflowException.invalid_parameter_value(said)

    tracker = start_tracking(a_run())
    uploads = {"prompts": lambda: Upload(prompts={"toy.single cot.predict": "Think of {x}."})}
    with monkeypatch.context() as patch:
        patch.setattr(MlflowClient, "register_prompt", refuse)
        missing = tracker.end(uploads, "FINISHED", here / "out", warn=False)
    assert ("prompts" in missing) == outage, "an outage is tried again"
    assert tracker.end(uploads, "FINISHED", here / "out") == []
    assert tracker.end(uploads, "FINISHED", here / "out") == []
    (run,) = stored()
    linked = json.loads(run.data.tags["mlflow.linkedPrompts"])
    assert linked == [{"name": "toy.single-cot.predict", "version": "1"}]
    assert run.info.status == "FINISHED"


def test_a_long_table_is_cut_and_says_so(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logged, "TABLE_ROWS", 3)
    run_id = track(here / "out", a_run())
    table = json.loads((artifacts(here, run_id) / "rows.json").read_text())
    assert len(table["data"]) == 3
    assert stored()[0].data.tags["folkmoot.table_rows"] == "the first 3 of 4"


def test_a_killed_run_is_continued(here: Path) -> None:
    killed = start_tracking(a_run())  # and then kill -9: nothing more is heard of it
    assert stored()[0].info.status == "RUNNING"
    assert stored()[0].info.run_name == "deliberation intuitive, reasoner · judge · small, large"
    assert track(here / "out", a_run(mlflow_run_id=killed.run_id)) == killed.run_id
    (run,) = stored()
    assert run.info.status == "FINISHED"
    assert run.data.metrics["rows"] == 4


def test_a_stopped_run_runs_again_and_keeps_its_first_parameters(here: Path) -> None:
    run_id = track(here / "out", a_run(), status="KILLED", count=2)
    (run,) = stored()
    assert (run.info.status, run.data.metrics["rows"]) == ("KILLED", 2)

    settings = {"data": "toy", "split": "validation", "concurrency": 8}
    again = start_tracking(a_run(mlflow_run_id=run_id, settings=settings))
    assert again.run_id == run_id
    assert stored()[0].info.status == "RUNNING"
    finish(again, evaluated(here / "out", a_run()), here / "out")
    (run,) = stored()
    assert (run.info.status, run.data.metrics["rows"]) == ("FINISHED", 4)
    assert run.data.params["settings.concurrency"] == "64"
    assert json.loads(run.data.tags["folkmoot.changed_on_resuming"]) == {
        "settings.concurrency": "8"
    }
    assert len(json.loads((artifacts(here, run_id) / "rows.json").read_text())["data"]) == 4


def test_a_run_that_is_gone_from_the_store_begins_anew(here: Path) -> None:
    from mlflow import MlflowClient

    elsewhere = start_tracking(a_run(mlflow_run_id="0" * 32))
    assert elsewhere.run_id not in (None, "0" * 32)
    MlflowClient().delete_run(str(elsewhere.run_id))
    anew = start_tracking(a_run(mlflow_run_id=elsewhere.run_id))
    assert anew.run_id not in (None, elsewhere.run_id)


def test_a_deleted_experiment_comes_back(here: Path) -> None:
    from mlflow import MlflowClient

    track(here / "out", a_run())
    found = MlflowClient().get_experiment_by_name("toy")
    assert found is not None
    MlflowClient().delete_experiment(found.experiment_id)
    assert track(here / "out", a_run()) in [run.info.run_id for run in stored()]


MOVED = "UPDATE experiments SET artifact_location = '{}' WHERE name = 'toy'"
ELSEWHERE: dict[str, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    "experiment": (MOVED, lambda run: {}),
    "experiment by its id": (MOVED, lambda run: {"mlflow_experiment_id": run.info.experiment_id}),
    "experiment of the run above": (MOVED, lambda run: {"mlflow_parent_id": run.info.run_id}),
    "run above": (
        "UPDATE runs SET artifact_uri = '{}'",
        lambda run: {"mlflow_parent_id": run.info.run_id},
    ),
    "run that goes on": (
        "UPDATE runs SET artifact_uri = '{}'",
        lambda run: {"mlflow_run_id": run.info.run_id},
    ),
    "new run": (
        "CREATE TRIGGER t AFTER INSERT ON runs BEGIN UPDATE runs SET artifact_uri = '{}'; END",
        lambda run: {},
    ),
}


@pytest.mark.parametrize("what", ELSEWHERE)
def test_a_store_found_in_the_folder_sends_nothing_out_of_it(
    here: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    track(here / "out", a_run())
    (run,) = stored()
    outside, (doctor, named_by) = tmp_path_factory.mktemp("outside"), ELSEWHERE[what]
    with closing(sqlite3.connect("mlflow.db")) as database:
        database.execute(doctor.format(outside))
        database.commit()
    track_badly(
        here / "out", f"the run stays in .*out: .* files to {outside}", a_run(**named_by(run))
    )
    assert (
        tracking.attach([run.info.run_id], here / "out" / "run.json") is None
        or "runs SET" in doctor
    )
    assert not list(outside.iterdir())
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{here}/mlflow.db")  # as the warning says
    track(here / "out", a_run(**named_by(run)))
    # MLflow remembers where a run's files went
    assert list(outside.iterdir()) or "runs SET" in doctor


@pytest.mark.parametrize(
    "place", ["http://h/x", "s3://x", "file://h/{0}", "{0}/../x", "file://{0}/%2e%2e/x"]
)
@pytest.mark.parametrize("named", ["", "sqlite:///mlflow.db", "mlruns", "file:mlruns"])
def test_a_place_elsewhere_takes_a_store_with_a_full_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", named)
    check_place((tmp_path / "mlruns").as_uri())
    with pytest.raises(UserError, match="MLFLOW_TRACKING_URI="):
        check_place(place.format(tmp_path))
    for named in (f"sqlite:///{tmp_path}/mlflow.db", "http://h", str(tmp_path), "databricks"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", named)
        check_place(place.format(tmp_path))


def test_stopping_ends_the_run(here: Path) -> None:
    tracker = start_tracking(a_run())
    tracker.stop("FAILED")
    from mlflow import MlflowClient

    assert MlflowClient().get_run(str(tracker.run_id)).info.status == "FAILED"


def test_live_metrics_have_the_rows_done_as_step(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    monkeypatch.setattr(tracking, "LIVE_SECONDS", 0.0)
    tracker = start_tracking(a_run())
    state = Progress(total=4)
    for one in rows()[:2]:
        state.count(one)
        progress(tracker, state)
        until(lambda step=state.done: step in live_steps(str(tracker.run_id)))
        until(lambda: not any(one.name == "folkmoot-mlflow" for one in threading.enumerate()))
    finish(tracker, evaluated(here / "out", a_run()), here / "out")
    history = MlflowClient().get_metric_history(str(tracker.run_id), "accuracy")
    assert [(point.step, point.value) for point in history] == [(1, 1.0), (2, 0.5), (4, 0.5)]


def test_points_of_a_curve_that_the_store_did_not_take_are_sent_again(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    monkeypatch.setattr(tracking, "LIVE_SECONDS", 0.0)
    tracker = start_tracking(a_run())
    log_batch, refused = MlflowClient.log_batch, list[str]()

    def once(self: MlflowClient, run_id: str, **given: Any) -> None:
        if not refused:
            refused.append(run_id)
            raise ConnectionError("out of order")
        log_batch(self, run_id, **given)

    monkeypatch.setattr(MlflowClient, "log_batch", once)
    curve = [(step, {"reward": float(step)}) for step in (5, 10)]
    tracker.live(lambda: Upload(curve=curve[:1]))
    until(lambda: bool(refused))
    assert tracker.end({"figures": lambda: Upload(curve=curve)}, "FINISHED", here / "out") == []
    history = MlflowClient().get_metric_history(str(tracker.run_id), "reward")
    assert [(point.step, point.value) for point in history] == [(5, 5.0), (10, 10.0)]


def live_steps(run_id: str) -> list[int]:
    from mlflow import MlflowClient

    return [point.step for point in MlflowClient().get_metric_history(run_id, "accuracy")]


def until(true: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_progress_is_throttled(here: Path) -> None:
    tracker = start_tracking(a_run())
    state = Progress(total=4, done=1)
    for _ in range(100):
        progress(tracker, state)
    tracker.stop("KILLED")  # after whatever is under way
    assert live_steps(str(tracker.run_id)) == []


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A store that takes every call, and answers only while the event is set."""
    from mlflow import MlflowClient

    answering, log_batch = threading.Event(), MlflowClient.log_batch
    answering.set()

    def slow(self: MlflowClient, *args: Any, **kwargs: Any) -> Any:
        answering.wait(20)
        return log_batch(self, *args, **kwargs)

    monkeypatch.setattr(MlflowClient, "log_batch", slow)
    yield answering
    answering.set()


def test_progress_never_waits_for_a_slow_store(
    here: Path, monkeypatch: pytest.MonkeyPatch, answers: threading.Event
) -> None:
    monkeypatch.setattr(tracking, "LIVE_SECONDS", 0.0)
    tracker = start_tracking(a_run())
    answers.clear()
    before = threading.active_count()
    began = time.monotonic()
    for done in range(1, 200):
        progress(tracker, Progress(total=200, done=done))
    assert time.monotonic() - began < 0.5
    assert threading.active_count() == before + 1
    answers.set()
    tracker.stop("KILLED")
    assert threading.active_count() == before
    assert live_steps(str(tracker.run_id)) == [1]


def test_a_store_that_hangs_is_given_up_with_one_warning(
    here: Path, monkeypatch: pytest.MonkeyPatch, answers: threading.Event
) -> None:
    answers.clear()
    monkeypatch.setattr(tracking, "START_SECONDS", 0.2)
    monkeypatch.setattr(tracking, "FINISH_SECONDS", 0.2)
    began = time.monotonic()
    track_badly(here / "out", "does not answer in time.*has everything")
    assert time.monotonic() - began < 3


def test_a_store_that_is_down_costs_a_warning_and_little_time(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    closed_port: int,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://me:{CANARY}@127.0.0.1:{closed_port}")
    began = time.monotonic()
    tracker, said = track_badly(tmp_path / "out", "results.jsonl", a_run(mlflow_run_id="1" * 32))
    assert time.monotonic() - began < 8
    assert tracker.run_id == "1" * 32  # so that the manifest goes on naming the run to continue
    assert str(tmp_path / "out") in said
    assert CANARY not in said
    assert not (tmp_path / "mlflow.db").exists()
    assert "".join(capfd.readouterr()) == ""


@pytest.mark.parametrize(
    "kind", ["no folder", "no database", "a locked database", "an unknown store"]
)
def test_a_store_that_cannot_be_used_costs_a_warning(
    here: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    import sqlite3

    (here / "file").write_bytes(b"no database at all " * 100)
    uri = {
        "no folder": f"sqlite:///{here}/file/below/mlflow.db",
        "no database": f"sqlite:///{here}/file",
        "a locked database": f"sqlite:///{here}/mlflow.db",
        "an unknown store": "nonsense://somewhere",
    }[kind]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setattr("folkmoot.pipelines.tracking.store.CONNECT_SECONDS", 0.1)
    holder = sqlite3.connect(here / "mlflow.db")
    holder.execute("BEGIN EXCLUSIVE")
    began = time.monotonic()
    tracker, _ = track_badly(here / "out", "MLflow did not take scores")
    holder.close()
    assert tracker.run_id is None
    assert time.monotonic() - began < 5


def test_a_database_that_is_away_is_noticed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, closed_port: int
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"postgresql://u:{CANARY}@127.0.0.1:{closed_port}/x")
    _, said = track_badly(tmp_path / "out", "refused")
    assert CANARY not in said


def test_a_store_that_comes_back_gets_everything(
    here: Path, monkeypatch: pytest.MonkeyPatch, closed_port: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"postgresql://u:p@127.0.0.1:{closed_port}/x")
        tracker = start_tracking(a_run(), here / "out")
        assert tracker.run_id is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        finish(tracker, evaluated(here / "out", a_run()), here / "out")
    assert stored()[0].data.metrics["rows"] == 4
    manifest = json.loads((here / "out" / "run.json").read_text())
    # so that the next resumption continues this run
    assert manifest["mlflow_run_id"] == tracker.run_id


def test_one_artifact_that_fails_does_not_keep_the_run_from_ending(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(logged, "plot_of", lambda program: Drawing(full, ""))
    with pytest.warns(RuntimeWarning, match="did not take tables and dialogues .no space left"):
        track(here / "out", a_run())
    assert stored()[0].info.status == "FINISHED"


def test_a_fault_of_our_own_is_told_as_one_and_keeps_nothing_else_back(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logged, "dialogues_page", lambda *_: 1 / 0)
    with pytest.warns(
        RuntimeWarning, match="fault in folkmoot .ZeroDivisionError: division by zero"
    ) as said:
        run_id = track(here / "out", a_run())
    assert not [one for one in said if "did not take" in str(one.message)]
    assert stored()[0].info.status == "FINISHED"
    assert (artifacts(here, run_id) / "results.jsonl").is_file()


def test_no_key_is_written_anywhere(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    lm = {
        "name": "openai/small",
        "endpoint": f"openai/small at https://me:{CANARY}@host/v1?api_key={CANARY}",
        "settings": {
            "api_key": CANARY,
            "extra_headers": {"Authorization": CANARY},
            "max_tokens": 7,
        },
    }
    run_id = track(here / "out", a_run(lms={"*": lm}, settings={"data": "toy", "hf_token": CANARY}))
    assert stored()[0].data.params["lm.settings.max_tokens"] == "7"
    (here / "out" / "run.json").unlink()  # written by this test, with the canary in it
    files = [path for path in here.rglob("*") if path.is_file()]
    assert artifacts(here, run_id) / "run.json" in files
    assert [path for path in files if CANARY.encode() in path.read_bytes()] == []


def test_several_evaluations_at_once_are_several_runs(here: Path) -> None:
    def one(number: int) -> None:
        track(here / f"out{number}", a_run(program_hash=str(number) * 64))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    runs = stored()
    assert {run.data.tags["folkmoot.program_hash"][0] for run in runs} == set("0123")
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert not [thread for thread in threading.enumerate() if thread.name == "folkmoot-mlflow"]


class Echo(Program):
    """Answers A without asking anybody."""

    def describe(self) -> dict[str, Any]:
        return {"program": "echo"}

    async def solve(self, task: Task) -> dspy.Prediction:
        return prediction_of(task, "A", "single", [Turn("echo", 1, "A", "so it is")])


def test_an_evaluation_is_one_run_however_often_it_is_resumed(here: Path) -> None:
    questions = [
        Question(
            id=f"q{number}",
            question="Which one?",
            choices={"A": "x", "B": "y"},
            answer="AB"[number % 2],
        )
        for number in range(6)
    ]
    for _ in range(2):
        found = evaluate(Echo(), questions, out=here / "out", settings={"data": "data/toy.jsonl"})
        assert found.accuracy == 0.5
    (run,) = stored()
    assert run.info.run_name.startswith("echo · ")
    assert run.info.run_name.endswith("50.0% right, 18.8% to 81.2% · $0.0000")
    assert (run.info.status, run.data.metrics["rows"]) == ("FINISHED", 6)
    page = (artifacts(here, run.info.run_id) / "dialogues.html").read_text()
    assert "Which one?" in page
    assert "so it is" in page


def test_no_tracker_does_nothing() -> None:
    tracker = Tracker()
    assert tracker.run_id is None
    progress(tracker, Progress(total=1, done=1))
    assert tracker.end({"scores": lambda: 1 / 0}, "FINISHED", Path("out")) == []  # type: ignore[dict-item]
    assert tracker.wait()
    tracker.stop("FAILED")


@pytest.mark.parametrize(
    ("program", "demos", "name"),
    [
        ({"program": "single", "strategy": "simple"}, 4, "single simple · 4 demos"),
        ({"program": "single", "role": "critic"}, None, "single role critic"),
        (
            {
                "program": "deliberation",
                "roles": ["critic"],
                "tie_break": "majority",
                "max_rounds": 1,
            },
            None,
            "deliberation critic · majority · 1 round",
        ),
        (
            {
                "program": "ensemble",
                "members": [
                    {"program": "single", "strategy": "simple"},
                    {"program": "single", "strategy": "cot"},
                ],
                "vote": "weighted",
            },
            0,
            "ensemble simple, cot · weighted",
        ),
        ({"program": "network"}, None, "network"),
    ],
)
def test_a_run_has_a_name_that_reads_well(
    program: dict[str, Any], demos: int | None, name: str
) -> None:
    assert run_name(a_run(program=program, settings={"demos": demos})) == name


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ("commonsenseqa", "commonsenseqa"),
        ("my/own.jsonl", "own"),
        ("saved/set", "set"),
        (None, "folkmoot"),
    ],
)
def test_an_experiment_is_named_after_its_data(data: str | None, name: str) -> None:
    assert experiment_name(a_run(settings={"data": data})) == name


def test_a_value_too_long_for_mlflow_is_cut_and_stands_whole_in_the_artifact(here: Path) -> None:
    long = "a word " * 2000
    run_id = track(here / "out", a_run(settings={"data": "toy", "note": long}))
    assert len(stored()[0].data.params["settings.note"]) == 6000
    whole = json.loads((artifacts(here, run_id) / "run.json").read_text())
    assert whole["settings"]["note"] == long


@given(st.text(max_size=300))
def test_every_name_becomes_one_that_mlflow_takes(text: str) -> None:
    from mlflow.utils.validation import _validate_metric_name

    name = valid_name(f"by_subject/{text}")
    _validate_metric_name(name)
    assert len(name) <= 250


@given(
    st.sampled_from(
        ["api_key", "OPENAI_API_KEY", "x-api-key", "headers", "token", "authToken", "password"]
    )
)
def test_fields_named_like_secrets_are_left_out(name: str) -> None:
    kept = {"max_tokens": 5, "kinds": ["choice"], "monkey": 1}
    assert scrubbed({"a": [{name: CANARY, **kept}]}) == {"a": [kept]}
    assert CANARY not in params_of(scrubbed(a_run(settings={name: CANARY}))).values()


def test_the_dialogues_argued_over_and_lost_come_first() -> None:
    lost = row([["A", "B"], ["B", "B"]])  # somebody had it right
    never = row([["B", "C"], ["C", "C"]])  # nobody had
    won = row([["B", "A"], ["A", "A"]])
    agreed = row([["A", "A"]])
    both_wrong = row([["B", "B"]])
    order = most_informative([agreed, error_row(), both_wrong, never, won, lost], most=4)
    assert order[:2] == [lost, never]
    assert agreed not in order
    assert all(one in order for one in (won, both_wrong))


def test_what_models_say_cannot_break_out_of_the_page() -> None:
    evil = "</td></table><script>alert(1)</script><img src=x onerror=y>"
    one = row([[evil, "A"]], answer=evil, decided_by=evil)
    one |= {"id": evil, "question": evil, "choices": {"A": evil, evil: "x"}, "gold": evil}
    for turn in one["transcript"]:
        turn |= {"text": evil, "agent": evil, "evidence": [{"title": evil, "text": evil}]}
    page = dialogues_page([one], evil, 1)
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page


def test_a_text_too_long_for_a_page_says_how_much_is_missing() -> None:
    one = row([["A", "B"]], answer="A")
    one["transcript"][0]["text"] = "x" * 4100
    assert "… 100 more characters" in dialogues_page([one], "title", 1)


def test_a_report_without_dialogues_has_no_plot(tmp_path: Path) -> None:
    assert not deliberation_plot(deliberation_report([error_row()]), tmp_path / "plot.png")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("uri", [None, "http://127.0.0.1:1", "sqlite:///a%20b.db", "old"])
def test_the_store_is_the_one_that_mlflow_would_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str | None
) -> None:
    """MLflow 3.17 takes the environment's, else the files of before, else `mlflow.db`."""
    from mlflow import get_tracking_uri

    folder = tmp_path / "a folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    if uri == "old":
        (folder / "mlruns" / "0").mkdir(parents=True)
        (folder / "mlruns" / "0" / "meta.yaml").touch()
    elif uri:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    wanted = get_tracking_uri()
    with monkeypatch.context() as patch:
        if uri != "old":  # MLflow itself is asked then
            patch.delitem(sys.modules, "mlflow")
        assert store_uri() == wanted
