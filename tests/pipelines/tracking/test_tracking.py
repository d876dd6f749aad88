"""Pushes of folders: what an MLflow run holds, its resuming, and bad stores do no harm."""

import io
import json
import re
import shutil
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from by_day import some_by_day
from children import wait_until
from cli_helpers import closed_port
from dialogue_rows import error_row, row
from mlflow import MlflowClient, MlflowException, pyfunc
from mlflow.models import Model
from mlflow.protos.databricks_pb2 import PERMISSION_DENIED
from requests import HTTPError, Response
from stores import new_store
from wire_server import Server

import folkmoot as fm
from folkmoot.modules.base.errors import UserError
from folkmoot.modules.reports.deliberation import deliberation_report
from folkmoot.pipelines.base.run_files import BOOKS
from folkmoot.pipelines.evaluation import card as evaluation
from folkmoot.pipelines.plots.protocols import Drawing, drawings
from folkmoot.pipelines.runs.summary import Ending, summarise
from folkmoot.pipelines.testing.server import ScriptedServer
from folkmoot.pipelines.tracking.context import NOWHERE
from folkmoot.pipelines.tracking.cursor import (
    CURSOR,
    Beginning,
    RunState,
    note_beginning,
    note_pushed,
    waiting,
)
from folkmoot.pipelines.tracking.entry import ModelEntry, RunEntry
from folkmoot.pipelines.tracking.live import Tracking
from folkmoot.pipelines.tracking.log_model import log_model
from folkmoot.pipelines.tracking.push import push, show_running
from folkmoot.pipelines.tracking.store import add_to_runs, check_place, current_store, store_uri
from folkmoot.pipelines.tracking.stored_run import StoredRun
from folkmoot.pipelines.tracking.values import title

CANARY = "sk-canary-8d1f4e7a"
KIND = "run.json"


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder in which a push has made a store, and what it printed; the tables take seconds."""
    folder, said = tmp_path_factory.mktemp("store"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stderr(said), redirect_stdout(said):
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.chdir(folder)
        pushed(folder / "out", a_run(settings={"data": "first"}))
    return folder, said.getvalue()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_run: tuple[Path, str]) -> Path:
    """The working folder of a user who has a store already."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("FOLKMOOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    # It takes most of the time.
    monkeypatch.setattr(evaluation, "drawings", lambda program, report: {})
    shutil.copy(first_run[0] / "mlflow.db", tmp_path)
    return tmp_path


def a_run(**fields: Any) -> dict[str, Any]:
    talk = {"program": "deliberation", "roles": ["intuitive", "reasoner"], "tie_break": "judge"}
    small = {"name": "openai/small", "endpoint": "openai/small at http://h/v1"}
    large = {"name": "openai/large", "endpoint": "openai/large at http://h/v1"}
    run: dict[str, Any] = {"program_hash": "a" * 64, "prompt_hash": "b" * 64, "questions": 4}
    run["program"] = {**talk, "max_rounds": 3, "sampling": {"temperature": 0.5}}
    run["lms"] = {"*": {**small, "settings": {"top_p": 1}}, "judge": {**large, "settings": {}}}
    run["settings"] = {"data": "toy", "split": "validation", "seed": None, "concurrency": 64}
    run["versions"] = {"folkmoot": "0.1.0", "python": "3.11"}
    return run | {"data_fingerprint": "c" * 64, "git_commit": "d" * 40} | fields


def rows() -> list[dict[str, Any]]:
    found = [row([["A", "A"]]), row([["B", "A"], ["B", "B"]])]
    found += [row([["B", "A"]], judge="A"), error_row()]
    for number, one in enumerate(found):
        text = f"Where does <b>number {number}</b> belong?"
        one.update(id=f"q{number}", question=text, seconds=1.0 + number, em=None, f1=None)
        one["choices"] = {"A": "the bank", "B": "a tree"}
        one["meta"] = {"subject": "natural science" if number % 2 else "language/arts"}
        one["usage"] |= {"cached_calls": 0, "cost_usd": 0.25}
    return found


def written(folder: Path, run: dict[str, Any], count: int = 4, stopped: str | None = None) -> Path:
    """What `evaluate` leaves in a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "results.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rows()[:count]))
    (folder / KIND).write_text(json.dumps(run))
    summary = summarise(iter(rows()[:count]), 4, deliberation_report, run)
    summary.stopped = stopped
    summary.ending = Ending.FINISHED if stopped is None else Ending.STOPPED
    (folder / "summary.json").write_text(json.dumps(summary.to_dict()))
    return folder


def pushed(folder: Path, run: dict[str, Any], **more: Any) -> str:
    """The id of the run that a folder has once it is pushed."""
    done = push(written(folder, run, **more))
    assert done.missing == {}
    assert json.loads((folder / KIND).read_text())["mlflow_run_id"] == done.run_ids[KIND]
    return done.run_ids[KIND]


def badly(folder: Path, match: str, run: dict[str, Any] | None = None) -> str:
    """Push to a store that is no good: nothing is raised; gives the reason."""
    done = push(written(folder, run or a_run()))
    reason = "; ".join(done.missing.values())
    assert re.search(match, reason), reason
    return reason


def stored(experiment: str = "toy") -> list[Any]:
    """The runs of an experiment, the oldest first."""
    client = MlflowClient()
    found = client.get_experiment_by_name(experiment)
    return list(client.search_runs([found.experiment_id], order_by=["attributes.start_time ASC"]))


def artifacts(here: Path, run_id: str) -> Path:
    return here / "mlruns" / "toy" / run_id / "artifacts"


def requests_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of what is asked of MLflow's clients from now on."""
    asked: list[str] = []
    for name in ("search_runs", "get_run", "create_run", "log_batch", "log_artifact"):
        whole = getattr(MlflowClient, name)

        def noted(*given: Any, name: str = name, whole: Any = whole, **named: Any) -> Any:
            asked.append(name)
            return whole(*given, **named)

        monkeypatch.setattr(MlflowClient, name, noted)
    return asked


def test_a_new_store_is_made_where_mlflow_looks_and_in_silence(first_run: tuple[Path, str]) -> None:
    folder, said = first_run
    assert said == ""
    assert (folder / "mlflow.db").is_file()
    assert len(list(folder.glob("mlruns/first/*/artifacts/results.jsonl"))) == 1


def test_a_run_says_what_it_was_of_and_how_it_went(here: Path) -> None:
    began = Beginning(began=1000, ended=2000)
    note_beginning(written(here / "out", a_run()), KIND, began, pushes=True)
    run_id = pushed(here / "out", a_run())
    (run,) = stored()
    assert (run.info.run_id, run.info.status) == (run_id, "FINISHED")
    assert (run.info.start_time, run.info.end_time) == (1000, 2000)
    assert run.info.run_name == "50% · 2 agents + judge · small…"

    params, tags, metrics = run.data.params, run.data.tags, run.data.metrics
    assert (params["roles"], params["lm"]) == ("intuitive, reasoner", "mixed")
    assert params["data"] == "toy"
    assert len(params) <= 12
    assert not any("." in name for name in params), "the compare page opens on plain names"
    details = json.loads((artifacts(here, run_id) / "details.json").read_text())
    assert details["lms"]["*"]["endpoint"] == "openai/small at http://h/v1"
    assert details["versions"]["python"] == "3.11"
    settings = details["settings"]
    assert settings["program.sampling.temperature"] == "0.5"
    assert (settings["lm.name"], settings["lm.judge.name"]) == ("openai/small", "openai/large")
    assert (settings["data.split"], settings["settings.concurrency"]) == ("validation", "64")
    assert tags["folkmoot.lm"] == "openai/small, openai/large"
    assert tags["folkmoot.program_hash"] == "a" * 64
    assert tags["mlflow.source.git.commit"] == "d" * 40
    assert tags["mlflow.note.content"].startswith("**50.0% [")

    assert metrics["accuracy_low"] < metrics["accuracy"] == 0.5 < metrics["accuracy_high"]
    assert metrics["questions"] == 4
    assert metrics["cost_per_1000"] == 250
    assert len(metrics) <= 12, "the others are in a table"
    (used,) = run.inputs.dataset_inputs
    assert (used.dataset.name, used.dataset.digest) == ("toy", "c" * 36)


def test_a_push_sends_nothing_twice(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = requests_of(monkeypatch)
    pushed(here / "out", a_run())
    assert "search_runs" not in asked
    assert asked.count("create_run") == 1
    asked.clear()
    assert push(here / "out").missing == {}
    assert asked == []
    cursor = json.loads((here / "out" / BOOKS / CURSOR).read_text())
    del cursor["runs"]
    (here / "out" / BOOKS / CURSOR).write_text(json.dumps({**cursor, "clean": False}))
    assert push(here / "out").missing == {}
    assert "search_runs" in asked
    assert "create_run" not in asked
    assert len(stored()) == 1


def test_a_model_needs_no_more_packages(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def listed() -> None:
        raise AssertionError("listing the files of all packages takes seconds")

    monkeypatch.setattr("importlib_metadata.packages_distributions", listed)
    fm.SingleAgent("simple").save(here / "out" / "program")
    run_id = pushed(here / "out", a_run())
    (made,) = MlflowClient().get_run(run_id).outputs.model_outputs
    model = MlflowClient().get_logged_model(made.model_id)
    assert model.status == "READY"
    folder = here / "mlruns" / "toy" / "models" / made.model_id / "artifacts"
    assert {path.name for path in folder.iterdir()} == {
        *("MLmodel", "conda.yaml", "python_env.yaml", "requirements.txt", "saved_model.py"),
        *("artifacts", "input_example.json", "serving_input_example.json"),
    }
    about = pyfunc.load_model(model.model_uri).metadata
    written = about.flavors["python_function"]
    files = {"conda_env": "conda.yaml", "python_env": "python_env.yaml"}
    files |= {"model_code_path": "saved_model.py", "artifacts": written["artifacts"]}
    loader, set_to = written["loader_module"], written["config"]
    theirs = pyfunc.add_to_model(Model(), loader, model_config=set_to, **files)
    assert theirs.flavors["python_function"] == written
    assert about.signature.inputs.input_names() == ["question", "choices", "context", "kind"]
    assert pyfunc.get_model_dependencies(model.model_uri, "pip").endswith("requirements.txt")


@pytest.mark.plots
def test_people_and_mlflow_read_artifacts(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "drawings", drawings)
    run_id = pushed(here / "out", a_run())
    folder = artifacts(here, run_id)
    assert {path.name for path in folder.iterdir()} == {
        *("results.jsonl", "summary.json", "run.json", "rows.json"),
        *("details.json", "dialogues.html", "deliberation.png", "agreement.png"),
    }
    assert (folder / "results.jsonl").read_text() == (here / "out" / "results.jsonl").read_text()
    assert (folder / "deliberation.png").read_bytes().startswith(b"\x89PNG")
    experiment = stored()[0].info.experiment_id
    table = MlflowClient().load_table(experiment, "rows.json", [run_id])
    assert list(table["id"]) == ["q0", "q1", "q2", "q3"]
    assert list(table["correct"]) == [True, False, True, False]
    assert table["error"][3] == "no answer in time"


def an_entry(**fields: Any) -> RunEntry:
    return RunEntry(key="k/x", name="x", experiment="toy", **fields)


def test_a_curve_that_the_store_has_in_part_is_completed(here: Path) -> None:
    curve = [(step, {"reward": float(step)}) for step in (5, 10)]
    state = RunState()
    StoredRun(MlflowClient(), an_entry(curve=curve[:1]), state, None, asks=False).send_figures()
    StoredRun(MlflowClient(), an_entry(curve=curve), state, None, asks=True).send_figures()
    history = MlflowClient().get_metric_history(str(state.run_id), "reward")
    assert [(point.step, point.value) for point in history] == [(5, 5.0), (10, 10.0)]


def test_a_stopped_run_runs_again_and_keeps_its_first_parameters(here: Path) -> None:
    settings = {"data": "toy", "split": "validation", "concurrency": 64, "seed": 3}
    first = a_run(settings=settings)
    run_id = pushed(here / "out", first, count=2, stopped="budget 2 calls spent")
    (run,) = stored()
    assert (run.info.status, run.data.metrics["questions"]) == ("KILLED", 2)
    settings = {**settings, "seed": 8}
    written(here / "out", a_run(settings=settings))
    assert show_running(here / "out", KIND, 3, {"accuracy": 0.25}) == run_id
    (run,) = stored()
    assert (run.info.status, run.data.metrics["accuracy"]) == ("RUNNING", 0.25)
    assert pushed(here / "out", a_run(settings=settings)) == run_id
    (run,) = stored()
    assert (run.info.status, run.data.metrics["questions"]) == ("FINISHED", 4)
    history = MlflowClient().get_metric_history(run_id, "accuracy")
    assert [point.step for point in history] == [2, 3, 4]
    assert run.data.params["seed"] == "3"
    changed = json.loads(run.data.tags["folkmoot.changed_on_resuming"])
    assert changed == {"seed": "8"}
    assert len(json.loads((artifacts(here, run_id) / "rows.json").read_text())["data"]) == 4
    show_running(here / "out", KIND, 4, {"accuracy": 0.5})
    pushed(here / "out", a_run(settings=settings))
    assert stored()[0].info.status == "FINISHED"  # also where the folder has nothing new


def move_alone(folder: Path, target: Path) -> None:
    shutil.move(folder, target)
    (target / BOOKS / CURSOR).unlink()


PUT = [(shutil.copytree, True), (shutil.move, False), (move_alone, True)]


@pytest.mark.parametrize(("put", "own"), PUT)
def test_what_goes_on_in_a_copy_is_a_run_of_its_own(here, put, own):
    first = pushed(here / "one", a_run(), count=2, stopped="interrupted")
    put(here / "one", here / "other")
    run = json.loads((here / "other" / KIND).read_text())
    assert run["mlflow_run_id"] == first
    assert (pushed(here / "other", run) != first) is own


@pytest.mark.parametrize("place", ["mlflow_experiment", "mlflow_experiment_id"])
def test_a_run_that_is_gone_from_the_store_begins_anew(here: Path, place: str) -> None:
    first = pushed(here / "out", a_run())
    MlflowClient().delete_run(first)
    second = pushed(here / "out", a_run(), stopped="interrupted")
    assert second != first
    experiment = stored()[0].info.experiment_id
    MlflowClient().delete_experiment(experiment)
    hers = {"mlflow_experiment": "toy", "mlflow_experiment_id": experiment}[place]
    beginning = Beginning(place={**NOWHERE, place: hers})  # type: ignore[typeddict-item]
    note_beginning(written(here / "other", a_run()), KIND, beginning, pushes=True)
    third = pushed(here / "other", a_run())
    assert third in [run.info.run_id for run in stored()], "a deleted experiment comes back"


@pytest.mark.parametrize(
    ("there", "now", "goes_to"),
    [
        ("mlflow", {}, "toy"),
        ("mlflow", {"MLFLOW_EXPERIMENT_NAME": "named"}, "named"),
        ("mlflow", {"MLFLOW_EXPERIMENT_ID": "banking"}, None),
        ("mlflow", {"MLFLOW_ACTIVE_MODEL_ID": "m-77"}, None),  # no metric was kept
        ("other", {}, "toy"),
        ("other", {"MLFLOW_EXPERIMENT_ID": "1"}, "theirs"),
    ],
)
def test_a_place_that_a_store_does_not_have_is_the_one_set_now(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    there: str,
    now: dict[str, str],
    goes_to: str | None,
) -> None:
    """`mlflow gc` has removed her experiment, or her store is another one, with ids of its own."""
    hers = {"mlflow_experiment_id": "77" if there == "mlflow" else "1", "mlflow_parent_id": "f00"}
    place: Any = {**NOWHERE, **hers}
    note_beginning(written(here / "out", a_run()), KIND, Beginning(place=place), pushes=True)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", new_store(here, f"{there}.db"))
    if there == "other":
        MlflowClient().create_experiment("theirs")
    for name, text in now.items():
        monkeypatch.setenv(name, text)
    if goes_to is None:
        badly(here / "out", "^the store has no (experiment banking|model m-77): set (another by )?")
    else:
        run_id = pushed(here / "out", a_run())
        (run,) = stored(goes_to)
        assert run.info.run_id == run_id
        assert "mlflow.parentRunId" not in run.data.tags


LONG = "word " * 20_001


@pytest.mark.parametrize(
    ("agent", "words", "prompt"),
    [
        ("cot", "Think.", "bank-cot"),
        ("cot", "Fill {{this}}.", "bank-cot"),
        ("裁判", "Judge.", "bank--u88c1-u5224"),
        ("cot", LONG, None),
    ],
)
def test_what_mlflow_takes_for_a_prompt_is_registered(
    here: Path, agent: str, words: str, prompt: str | None
) -> None:
    """With a version whose prompts an earlier push did not come to, too."""
    program, client = here / "program", MlflowClient()
    fm.SingleAgent("cot").save(program)
    saved = json.loads((program / "program.json").read_text())
    (predictor,) = saved["predictors"].values()
    predictor |= {"seat": agent, "instructions": words}
    (program / "program.json").write_text(json.dumps(saved))
    run = client.get_run(pushed(here / "out", a_run()))
    with pytest.MonkeyPatch.context() as patch, suppress(SystemExit):
        patch.setattr(MlflowClient, "load_prompt", lambda *_, **__: sys.exit())
        log_model(client, run, ModelEntry(program, registered="bank"))
    log_model(client, run, ModelEntry(program, registered="bank"))
    (version,) = client.search_model_versions("name = 'bank'")
    assert [found.name for found in client.search_prompts()] == ([prompt] if prompt else [])
    left_out = f"that of {agent} is in the model alone." in version.description
    assert left_out == (prompt is None)


MOVED = "UPDATE experiments SET artifact_location = '{}' WHERE name = 'toy'"
RUNS_MOVED = "UPDATE runs SET artifact_uri = '{}'"
ELSEWHERE: dict[str, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    "experiment": (MOVED, lambda run: {}),
    "experiment by its id": (MOVED, lambda run: {"mlflow_experiment_id": run.info.experiment_id}),
    "run above": (RUNS_MOVED, lambda run: {"mlflow_parent_id": run.info.run_id}),
    "experiment of the run above": (MOVED, lambda run: {"mlflow_parent_id": run.info.run_id}),
    "new run": (
        "CREATE TRIGGER t AFTER INSERT ON runs BEGIN UPDATE runs SET artifact_uri = '{}'; END",
        lambda run: {},
    ),
    "run that goes on": (RUNS_MOVED, lambda run: {}),
}


@pytest.mark.parametrize("what", some_by_day(ELSEWHERE))
def test_a_store_found_in_the_folder_sends_nothing_out_of_it(
    here, tmp_path_factory, monkeypatch, what
):
    pushed(here / "out", a_run())
    (run,) = stored()
    outside, (doctor, named_by) = tmp_path_factory.mktemp("outside"), ELSEWHERE[what]
    with closing(sqlite3.connect("mlflow.db")) as database:
        database.execute(doctor.format(outside))
        database.commit()
    folder = here / ("out" if what == "run that goes on" else "new")
    place = {**NOWHERE, **named_by(run)}
    began = Beginning(place=place)  # type: ignore[arg-type]
    note_beginning(written(folder, a_run()), KIND, began, pushes=True)
    stopped = a_run(program_hash="e" * 64)  # so that there is something to send
    badly(folder, f"would send files to {outside}", stopped)
    refused = add_to_runs([run.info.run_id], folder / KIND)
    assert (refused is not None) == ("runs SET" in doctor)
    assert not list(outside.iterdir())
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{here}/mlflow.db")  # as it is told
    assert push(folder).missing == {}
    # MLflow remembers where a run's files went
    assert list(outside.iterdir()) or "runs SET" in doctor


@pytest.mark.parametrize(
    "place", ["http://h/x", "s3://x", "file://h/{0}", "{0}/../x", "file://{0}/%2e%2e/x"]
)
@pytest.mark.parametrize("named", ["", "sqlite:///mlflow.db", "mlruns", "file:mlruns"])
def test_a_place_elsewhere_takes_a_store_with_a_full_address(tmp_path, monkeypatch, place, named):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", named)
    check_place((tmp_path / "mlruns").as_uri())
    with pytest.raises(UserError, match="MLFLOW_TRACKING_URI="):
        check_place(place.format(tmp_path))
    for named in (f"sqlite:///{tmp_path}/mlflow.db", "http://h", str(tmp_path), "databricks"):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", named)
        check_place(place.format(tmp_path))


def test_a_command_that_fails_ends_its_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("folkmoot.pipelines.tracking.live.FIRST_SECONDS", 0.0)
    monkeypatch.setattr("folkmoot.pipelines.tracking.live.MOST_CPU", 99.0)
    tracking = Tracking(written(here / "out", a_run()), KIND)
    wait_until(lambda: tracking.run_id)
    tracking.stop("FAILED")
    assert MlflowClient().get_run(str(tracking.run_id)).info.status == "FAILED"


NOBODY = b'{"error_code": "UNAUTHENTICATED", "message": "Who are you?"}'
SERVERS = {
    "refuses": ((401, {}, b"Who are you?"), r"^the server answers 401: Who are you\?; set MLFLOW_"),
    "knows nobody": (
        (401, {}, NOBODY),
        "^UNAUTHENTICATED: Who are you.; set MLFLOW_TRACK",
    ),
    "has nothing": ((404, {}, b"no\x1b[2J\n<b>such page"), r": no\[2J such page; MLFLOW_TRACK"),
    "is a page": ((200, {}, b"<p>Sign in</p>"), "^the server answers with a page: Sign in; MLFLOW"),
    # As MLflow says it before 3.18, and from then on.
    "fails": ((500, {}, b""), r"cannot be used: too many 500 error resp|^the server answers 500$"),
    "is off": (b"HTTP/1.1 ", r"^http://127.0.0.1:\d+ cannot be used: Connection aborted\.$"),
}


@pytest.mark.parametrize("server", SERVERS)
def test_the_servers_own_reason(here: Path, monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    said, reason = SERVERS[server]
    with Server(lambda _: said) as running:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", running.origin)
        badly(here / "out", reason)


def test_an_experiment_that_one_may_not_make(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = MlflowException("no", PERMISSION_DENIED)
    monkeypatch.setattr(MlflowClient, "create_experiment", Mock(side_effect=refused))
    badly(here / "out", "^you may not create the experiment toy there: set MLFLOW_EXPERIMENT_NAME")


@pytest.mark.parametrize("address", ["h:port/x", "[::1/x"])
def test_a_malformed_address_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"mysql+pymysql://u:{CANARY}@{address}")
    with pytest.raises(UserError, match=r"write it as mysql\+pymysql://USER:") as refused:
        Tracking(Path("out"), KIND)
    assert CANARY not in str(refused.value)


UNUSABLE = ["tables of another MLflow", "no database", "no folder", "a locked database"]
UNUSABLE += [
    "an unknown store",
    "a folder",
    "one in memory",
    "no server",
    "no database server",
    "no socket",
]


@pytest.mark.parametrize("kind", some_by_day(UNUSABLE))
def test_a_store_that_cannot_be_used_is_told_soon(here, monkeypatch, capfd, kind):
    (here / "file").write_bytes(b"no database at all " * 100)
    shutil.copy(here / "mlflow.db", here / "other.db")
    with closing(sqlite3.connect(here / "other.db")) as database, database:
        database.execute("UPDATE alembic_version SET version_num = 'f00'")
    uri = {
        "tables of another MLflow": f"sqlite:///{here}/other.db",
        "no folder": f"sqlite:///{here}/file/below/mlflow.db",
        "no database": f"sqlite:///{here}/file",
        "a locked database": f"sqlite:///{here}/mlflow.db",
        "a folder": (here / "runs").as_uri(),
        "an unknown store": "nonsense://somewhere",
        "one in memory": "sqlite://",
        "no socket": f"postgresql+psycopg://u:{CANARY}@/x?host={here}",
        "no database server": f"postgresql://u:{CANARY}@127.0.0.1:{closed_port()}/x",
        "no server": f"http://me:{CANARY}@127.0.0.1:{closed_port()}",
    }[kind]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setattr("folkmoot.pipelines.tracking.store.CONNECT_SECONDS", 0.1)
    holder = sqlite3.connect(here / "mlflow.db")
    holder.execute("BEGIN EXCLUSIVE")
    began = time.monotonic()
    reason = badly(here / "out", ".")
    assert CANARY not in reason
    assert ("mlflow db upgrade" in reason) == (kind == "tables of another MLflow")
    assert ("mlflow migrate-filestore` puts" in reason) == (kind == "a folder")
    assert ("write it as http:" in reason) == (kind == "an unknown store")
    assert time.monotonic() - began < 60
    assert "".join(capfd.readouterr()) == ""
    holder.close()
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert push(here / "out").missing == {}
    assert stored()[0].data.metrics["questions"] == 4


LOGGED_AS_JSON = ("details.json", "run.json", "summary.json")


def test_a_file_that_fails_does_not_keep_a_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(evaluation, "drawings", lambda name, report: {name: Drawing(full, "")})
    monkeypatch.setattr(evaluation, "dialogues_page", lambda *_: 1 / 0)
    answer = Response()
    answer.status_code = 413  # of a server's artifacts
    refused = HTTPError(
        "413 Client Error: Large for url: http://h. Response text: <b>Too large", response=answer
    )
    monkeypatch.setattr(MlflowClient, "log_dict", Mock(side_effect=refused))
    done = push(written(here / "out", a_run()))
    reasons = {"dialogues.html": "division by zero", "deliberation.png": "no space left"}
    large = dict.fromkeys(LOGGED_AS_JSON, "the server answers 413: Too large")
    assert done.missing == {**reasons, **large}
    assert not done.outage
    assert stored()[0].info.status == "FINISHED"
    assert (artifacts(here, done.run_ids[KIND]) / "results.jsonl").is_file()


def test_no_key_is_written_anywhere(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    hidden: Any = {"api_key": CANARY, "extra_headers": {"Authorization": CANARY}}
    hidden |= dict.fromkeys(("OPENAI_API_KEY", "x-api-key", "authToken", "password"), CANARY)
    address = f"openai/small at https://me:{CANARY}@host/v1?api_key={CANARY}"
    lm = {"name": "openai/small", "endpoint": address, "settings": {**hidden, "max_tokens": 7}}
    settings = {"data": "toy", "hf_token": CANARY}
    run_id = pushed(here / "out", a_run(lms={"*": lm}, settings=settings))
    details = json.loads((artifacts(here, run_id) / "details.json").read_text())
    assert details["settings"]["lm.settings.max_tokens"] == "7"
    (here / "out" / KIND).unlink()  # written by this test, with the canary in it
    (here / "out" / "summary.json").unlink()
    files = [path for path in here.rglob("*") if path.is_file()]
    assert artifacts(here, run_id) / "run.json" in files
    assert [path for path in files if CANARY.encode() in path.read_bytes()] == []


COT = {"program": "single", "strategy": "cot"}


@pytest.mark.parametrize(
    ("run", "score", "name"),
    [
        (a_run(), "72%", "72% · 2 agents + judge · small…"),
        (a_run(program=COT), "72%", "72% · 1 agent: cot · small…"),
        (a_run(settings={"run_name": "my own"}), "72%", "my own"),
        (a_run(settings={"run_name": " "}), "72%", "72% · 2 agents + judge · small…"),
        (a_run(settings={"label": "before bootstrap_rs light with words"}), "f1 0.5", None),
        (a_run(lms={"*": {"name": "local/qwen2.5-coder-1.5b-instruct"}}), None, None),
    ],
)
def test_a_title_has_a_score_fits(run: dict[str, Any], score: str | None, name: str | None) -> None:
    made = title(run, score)
    assert made == (name or made)
    assert len(made) <= 40
    assert made.startswith(score or "2 agents + judge · ") or name == "my own"


@pytest.mark.parametrize("uri", [None, "http://127.0.0.1:1", "sqlite:///a%20b.db", "old"])
def test_the_store_is_the_one_that_mlflow_would_name(tmp_path, monkeypatch, uri):
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


def test_a_run_waits_for_its_workspace(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_WORKSPACE", "ours")
    note_pushed(written(here / "out", a_run()), current_store(), whole=False)
    assert waiting(current_store()) == [here / "out"]
    monkeypatch.setenv("MLFLOW_WORKSPACE", "theirs")
    assert waiting(current_store()) == []


def test_a_long_name_of_an_experiment_has_a_folder(here: Path) -> None:
    pushed(here / "out", a_run(settings={"data": "問" * 300}))
    (folder,) = (here / "mlruns").glob("問*")
    assert list(folder.iterdir())


def test_runs_on_equal_questions_are_together(here: Path, scripted: ScriptedServer) -> None:
    """However a run is started, the name of the file is the name of its experiment."""
    rows = [{"id": f"q{n}", "question": f"Which {n}?", "choices": ["a", "b"]} for n in range(6)]
    lines = "\n".join(json.dumps({**row, "answer": "A"}) for row in rows)
    (here / "bank.jsonl").write_text(lines)
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    quietly: Any = {"lm": lm, "progress": False}
    fm.evaluate("single:simple", "bank.jsonl", **quietly)
    fm.evaluate(fm.SingleAgent("cot"), fm.load("bank.jsonl")[:4], **quietly)
    fm.contest(fm.load("bank.jsonl"), field=[fm.SingleAgent("simple")], **quietly)
    own = [run for run in stored("bank") if "mlflow.parentRunId" not in run.data.tags]
    assert [run.data.tags["folkmoot.kind"] for run in own] == ["evaluate", "evaluate", "try"]
    whole, part, contest = [run.inputs.dataset_inputs[0].dataset for run in own]
    assert whole.digest == contest.digest != part.digest, "whatever order a contest draws"
    places = [json.loads(each.source)["data"] for each in (whole, part, contest)]
    assert places == ["bank.jsonl"] * 3
