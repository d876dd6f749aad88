"""Stores that are down, slow, or back: no question is lost or held up, and all is sent."""

import gc
import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from cli_helpers import folkmoot, free_port
from faulty_proxy import Fault, FaultyProxy
from mlflow import MlflowClient
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mortal import Forked, questions
from planted import compiled, of_demos
from stores import new_store
from tuned import killed_at

import folkmoot as fm
from folkmoot.pipelines.base.run_files import BOOKS
from folkmoot.pipelines.evaluation import card as evaluation
from folkmoot.pipelines.testing.server import first_option
from folkmoot.pipelines.tracking import live as running
from folkmoot.pipelines.tracking import stored_run
from folkmoot.pipelines.tracking.cursor import CURSOR, Cursor, waiting
from folkmoot.pipelines.tracking.push import push
from folkmoot.pipelines.tracking.stored_run import StoredRun
from folkmoot.pipelines.tracking.ui_server import SERVER_ENV, STORE, server_command


class Server:
    """A real `mlflow server` that can be killed, stopped for a while, and started again."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._store = new_store(folder)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        destination = ["--artifacts-destination", str(self._folder / "artifacts")]
        command = [*server_command("127.0.0.1", self.port), *destination]
        kept = {name: text for name, text in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
        env = {**SERVER_ENV, **kept, STORE: self._store}
        with open(self._folder / "server.log", "ab") as log:
            given: Any = {"stdout": log, "stderr": log, "start_new_session": True}
            self._process = subprocess.Popen(command, env=env, **given)
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            with suppress(OSError), urlopen(f"{self.url}/health", timeout=2):
                return
            time.sleep(0.1)
        raise AssertionError((self._folder / "server.log").read_text()[-2000:])

    def send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(10)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = Server(tmp_path_factory.mktemp("server"))
    made.start()
    yield made
    made.send(signal.SIGCONT)
    made.kill()


@pytest.fixture(autouse=True)
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLKMOOT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(evaluation, "drawings", lambda program, report: {})


class At:
    """Replies as the scripted server does, and does things as certain requests arrive."""

    def __init__(self, **acts: Callable[[], Any]) -> None:
        self.acts = {int(name.removeprefix("request_")): act for name, act in acts.items()}
        self.times: dict[int, float] = {}
        self.count = 0

    def __call__(self, body: dict[str, Any]) -> str:
        self.count += 1
        if act := self.acts.get(self.count):
            act()
        self.times[self.count] = time.monotonic()
        return first_option(body)


def evaluated(url: str, out: Path | None, n: int, **more: Any) -> fm.Evaluation:
    program = fm.Deliberation(["intuitive", "reasoner"], max_rounds=1, tie_break="majority")
    lm = fm.lm("openai/scripted", api_base=url)
    settings = {"data": "outage"}
    given: Any = {"concurrency": 4, "settings": settings, **more}
    return fm.evaluate(program, questions(n), lm=lm, out=out, **given)


def check_complete(out: Path, n: int, traces: int) -> None:
    client = MlflowClient()
    run_id = json.loads((out / "run.json").read_text())["mlflow_run_id"]
    run = client.get_run(run_id)
    assert (run.info.status, run.data.metrics["questions"]) == ("FINISHED", n)
    assert len(run.outputs.model_outputs) == 1
    names = {item.path for item in client.list_artifacts(run_id)}
    assert {"results.jsonl", "rows.json", "dialogues.html", "run.json", "summary.json"} <= names
    page = client.search_traces(locations=[run.info.experiment_id], run_id=run_id, max_results=500)
    assert len(page) == len({trace.info.tags["folkmoot.question"] for trace in page}) == traces
    named = f"tags.`folkmoot.key` = '{run.data.tags['folkmoot.key']}'"
    same = client.search_runs([run.info.experiment_id], named)
    assert len(same) == 1
    assert json.loads((out / BOOKS / CURSOR).read_text())["clean"] is True


@pytest.fixture
def proxy(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyProxy]:
    """Between the runs and the server."""
    with FaultyProxy(server.url) as running:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", running.origin)
        yield running


def pushed() -> tuple[int, list[dict[str, Any]]]:
    told = folkmoot("push", "--json")
    return told.exit_code, json.loads(told.stdout)["runs"]


@pytest.mark.nightly
def test_traces_that_only_their_endpoints_fail_to_take_stay_marked_until_the_store_shows_them(
    proxy, scripted, tmp_path
):
    out, n = tmp_path / "out", 60
    proxy.rule = lambda method, path, number: "500" if "trace" in path else None
    with pytest.warns(RuntimeWarning, match="did not take the run .*folkmoot push"):
        evaluated(scripted.url, out, n, traces=1)
    assert waiting() == [out]
    assert pushed()[0] == 1
    proxy.rule = lambda *_: None
    assert pushed() == (0, [{"folder": str(out), "missing": [], "problem": None}])
    check_complete(out, n, traces=n)


@pytest.mark.nightly
def test_a_store_that_fails_every_other_request_gets_everything_in_the_end(
    proxy, scripted, tmp_path
):
    out, dice = tmp_path / "out", random.Random(0)
    proxy.rule = lambda *_: "500" if dice.random() < 0.5 else None
    began = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        evaluated(scripted.url, out, 60, traces=1)
    assert time.monotonic() - began < 180
    proxy.rule = lambda *_: None
    pushed()
    check_complete(out, 60, traces=60)


@pytest.mark.nightly
def test_a_run_whose_creation_was_answered_into_a_cut_connection_is_made_once(
    proxy, scripted, tmp_path, monkeypatch
):
    monkeypatch.setattr(running, "PATIENCE", 60.0)  # a busy machine needs three attempts, too
    cut: list[str] = []

    def once(method: str, path: str, number: int) -> Fault:
        if not path.endswith(("runs/create", "logged-models")) or path in cut or method != "POST":
            return None
        cut.append(path)
        return "reset"

    proxy.rule = once
    out = tmp_path / "out"
    evaluated(scripted.url, out, 3, traces=1)
    assert len(cut) == 2
    check_complete(out, 3, traces=3)
    client = MlflowClient()
    id = json.loads((out / "run.json").read_text())["mlflow_run_id"]
    experiment = client.get_run(id).info.experiment_id
    mine = [run for run in client.search_runs([experiment]) if run.data.params["rounds"] == "1"]
    assert all("accuracy" in run.data.metrics for run in mine)
    assert all(model.status == "READY" for model in client.search_logged_models([experiment]))


@pytest.mark.nightly
def test_a_server_killed_and_started_again_during_a_run_gets_everything(
    server, scripted, tmp_path, monkeypatch
):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    monkeypatch.setattr(running, "FIRST_SECONDS", 0.05)
    monkeypatch.setattr(running, "LIVE_SECONDS", 0.05)
    monkeypatch.setattr(running, "MOST_CPU", 9.0)
    scripted.reply = at = At(request_10=server.kill, request_50=server.start)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        result = evaluated(scripted.url, tmp_path / "out", 40, traces=0.5)
    assert result.summary.counts.rows == 40
    assert at.times[49] - at.times[10] < 60  # nobody waits for the store
    check_complete(tmp_path / "out", 40, traces=20)


@pytest.mark.nightly
def test_a_server_that_is_down_all_the_time_gets_the_run_from_the_next_one(
    server, scripted, tmp_path, monkeypatch
):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)
    server.kill()
    try:
        with pytest.warns(RuntimeWarning, match="folkmoot push"):
            evaluated(scripted.url, tmp_path / "out", 10, traces=1)
        assert waiting() == [tmp_path / "out"]
    finally:
        server.start()
    evaluated(scripted.url, tmp_path / "later", 2)
    assert waiting() == []
    check_complete(tmp_path / "out", 10, traces=10)
    check_complete(tmp_path / "later", 2, traces=2)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty store."""
    return Path(new_store(tmp_path_factory.mktemp("tables")).removeprefix("sqlite:///"))


@pytest.fixture
def back(away: Path, tables: Path) -> Callable[[], None]:
    """Makes the store that is away one that can be used."""

    def usable() -> None:
        away.unlink()
        away.mkdir()
        shutil.copy(tables, away)

    return usable


@pytest.fixture
def away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store that cannot be used as long as the file is there."""
    blocked = tmp_path / "blocked"
    blocked.write_text("no folder")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{blocked}/mlflow.db")
    return blocked


def test_what_a_store_could_not_take_is_marked_and_pushed(back, scripted, tmp_path):
    out = tmp_path / "out"
    with pytest.warns(RuntimeWarning, match="did not take the run .*folkmoot push"):
        result = evaluated(scripted.url, out, 6, traces=1)
    assert result.summary.counts.rows == 6
    store = json.loads((out / BOOKS / CURSOR).read_text())["store"]
    assert waiting(store) == waiting() == [out]
    assert waiting("sqlite:////elsewhere/mlflow.db") == []
    assert json.loads(folkmoot("push", "--json", code=1).stdout)["ok"] is False
    back()
    assert pushed() == (0, [{"folder": str(out), "missing": [], "problem": None}])
    check_complete(out, 6, traces=6)
    assert waiting() == []
    assert "nothing waits" in folkmoot("push").stderr


@pytest.mark.nightly
def test_the_next_run_sends_what_earlier_ones_could_not_even_without_a_folder(
    back, scripted, tmp_path
):
    with pytest.warns(RuntimeWarning, match="folkmoot push"):
        evaluated(scripted.url, tmp_path / "out", 3)
    with pytest.warns(RuntimeWarning, match="has everything"):
        evaluated(scripted.url, None, 4)  # whose folder is deleted with its result
    copy = next(path for path in waiting() if path != tmp_path / "out")
    back()
    evaluated(scripted.url, tmp_path / "later", 2)
    assert waiting() == []
    assert not copy.exists()
    check_complete(tmp_path / "out", 3, traces=3)
    client = MlflowClient()
    experiment = client.get_experiment_by_name("outage")
    runs = client.search_runs([experiment.experiment_id])
    assert sorted(run.data.metrics["questions"] for run in runs) == [2, 3, 4]


def test_a_run_without_a_folder_outlives_a_store_that_hangs(back, scripted, monkeypatch):
    answers = threading.Event()
    monkeypatch.setattr("folkmoot.pipelines.tracking.push.open_client", answers.wait)
    monkeypatch.setattr(running, "FINISH_SECONDS", 0.5)
    with pytest.warns(RuntimeWarning, match="does not answer in time.* has everything"):
        found = evaluated(scripted.url, None, 2)
    answers.set()
    deleted = found.folder
    del found
    gc.collect()
    assert not deleted.exists()
    assert [(copy / "run.json").exists() for copy in waiting()] == [True]


def test_the_same_command_sends_it_too(back, tables, scripted, tmp_path, monkeypatch):
    """What a store could not take, and all of it to a store that was named only later."""
    with pytest.warns(RuntimeWarning):
        evaluated(scripted.url, tmp_path / "out", 3)
    back()
    evaluated(scripted.url, tmp_path / "out", 3)
    check_complete(tmp_path / "out", 3, traces=3)
    shutil.copy(tables, tmp_path / "another.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/another.db")
    calls = len(scripted.bodies)
    found = evaluated(scripted.url, tmp_path / "out", 3)
    check_complete(tmp_path / "out", 3, traces=3)
    assert MlflowClient().get_run(found.run_id).info.status == "FINISHED"
    assert len(scripted.bodies) == calls


def test_the_same_contest_sends_what_the_store_lacks(back, scripted, tmp_path):
    back()
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    field = [fm.SingleAgent("simple"), fm.SingleAgent("cot")]
    quietly: Any = {"lm": lm, "progress": False, "out": tmp_path / "out", "field": field}
    fm.contest(questions(20), tracking=False, **quietly)
    calls = len(scripted.bodies)
    found = fm.contest(questions(20), **quietly)
    experiment = MlflowClient().get_run(str(found.run_id)).info.experiment_id
    stored = MlflowClient().search_runs([experiment])
    kinds = {run.data.tags["folkmoot.kind"] for run in stored}
    assert kinds == {"try", "evaluate"}
    assert fm.contest(questions(20), **quietly).run_id == found.run_id
    assert len(scripted.bodies) == calls


@pytest.mark.nightly
def test_a_disk_that_is_full_keeps_nothing_from_the_store(back, scripted, tmp_path, monkeypatch):
    back()
    out = tmp_path / "out"
    monkeypatch.setattr(Cursor, "save", lambda *_, **__: None)
    result = evaluated(scripted.url, out, 60, traces=1)
    place = [MlflowClient().get_run(str(result.run_id)).info.experiment_id]
    shown = MlflowClient().search_traces(locations=place, run_id=result.run_id, max_results=100)
    assert len(shown) == 60


KILLED_IN: dict[str, tuple[Any, str, int]] = {
    "when it has made the run": (StoredRun, "send_figures", 1),
    "before the run ends": (StoredRun, "_end", 1),
    "before it sends the model": (stored_run, "log_model", 1),
    "while it sends traces": (SqlAlchemyStore, "log_spans", 2),
}


def killed(when: str, store: str, cache: str, url: str, out: Path) -> None:
    """An evaluation in a process of its own, which is killed on its way."""
    os.environ.update(MLFLOW_TRACKING_URI=store, FOLKMOOT_CACHE=cache)
    killed_at(*KILLED_IN[when])
    evaluated(url, out, 45, traces=1)


@pytest.mark.parametrize("when", KILLED_IN)
@pytest.mark.nightly
def test_a_push_that_is_killed_is_completed_by_the_next_one(back, scripted, tmp_path, when):
    back()
    out = tmp_path / "out"
    there = os.environ["MLFLOW_TRACKING_URI"], os.environ["FOLKMOOT_CACHE"]
    child = Forked(target=killed, args=(when, *there, scripted.url, out))
    child.start()
    child.join(120)
    assert child.exitcode == -9
    assert waiting() == [out]
    assert pushed()[0] == 0
    push(out)
    check_complete(out, 45, traces=45)
    assert waiting() == []


def test_mlflow_remembers_the_version_of_a_server_as_when_this_was_written() -> None:
    """Checked with MLflow 3.17.2: a server that once hid its version is unknown in the process."""
    from mlflow.store.tracking.rest_store import RestStore
    from mlflow.utils.rest_utils import MlflowHostCreds

    there = MlflowHostCreds("http://127.0.0.1:1")
    RestStore._get_server_version.cache_clear()
    assert RestStore._get_server_version(there) is None
    assert RestStore._get_server_version.cache_info().currsize == 1


@pytest.mark.nightly
def test_a_compilation_that_the_store_could_not_take_is_pushed_with_all_its_runs(
    back, scripted, tmp_path
):
    scripted.reply = of_demos()
    out = tmp_path / "out"
    given: Any = {"optimizer": "labeled_few_shot", "tracking": True, "out": out}
    with pytest.warns(RuntimeWarning, match="did not take the run .*folkmoot push"):
        first = compiled(scripted.url, **given).compilation
    back()
    done = push(out)
    assert done.missing == {}
    client = MlflowClient()
    run = client.get_run(done.run_ids["compile.json"])
    assert run.info.status == "FINISHED"
    assert run.data.metrics["accuracy"] == first.after["scores"]["accuracy"]["value"]

    def others() -> list[Any]:
        runs = client.search_runs([run.info.experiment_id])
        return [one for one in runs if one.info.run_id != run.info.run_id]

    assert {one.data.tags.get("mlflow.parentRunId") for one in others()} == {run.info.run_id}
    kinds = [one.data.tags["folkmoot.kind"] for one in others()]
    assert kinds == ["evaluate", "evaluate"], "before and after; the candidates are a table"
    push(out)
    assert len(others()) == len(kinds), "nothing is sent twice"
