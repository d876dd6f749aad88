"""Tasks on a real Ray cluster: rows and bill are as without it, whatever happens to workers."""

import importlib.util
import socket
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from acting import REPAIRED, add_task, no_bwrap
from children import BARE, wait_until
from cli_helpers import closed_port
from completions import completion

import folkmoot as fm
from folkmoot.pipelines.meter.server import Endpoint
from folkmoot.pipelines.tasks.cluster import join_cluster
from folkmoot.pipelines.testing.server import ScriptedServer

NO_RAY = "Ray is not installed: pip install 'folkmoot[ray]'"
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason=NO_RAY)
HOST = "127.0.0.2"
CHECK = f"{BARE} -c 'import sys, add; sys.exit(add.add(2, 3) != 5)'"
ASKS = f"""
import json, os, signal, sys, time, urllib.request

def ask(text, url):
    body = json.dumps({{"model": "m", "messages": [{{"role": "user", "content": text}}]}})
    sent = urllib.request.Request(url + "/chat/completions", body.encode(),
        {{"Content-Type": "application/json"}})
    return json.load(urllib.request.urlopen(sent))["choices"][0]["message"]["content"]

def repair(folder):
    with open(os.path.join(folder, "add.py"), "w") as file:
        file.write({REPAIRED!r})

def parent(process):
    with open(f"/proc/{{process}}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])
"""
CREW = """
asked, url = json.load(sys.stdin), os.environ["OPENAI_BASE_URL"]
first = ask(asked["id"], url)
{between}
second = ask(first, url)
repair(".") if second.startswith("hello") else sys.exit("no reply")
"""
KILLS = """
if asked["id"] == "t1" and not os.path.exists({mark!r}):
    with open({mark!r}, "w") as file:
        file.write(str(os.getpid()))
    os.kill(parent(os.getppid()), signal.SIGKILL)
    time.sleep(60)
"""
STAYS = """
if asked["id"] == "t0":
    with open({mark!r}, "w") as file:
        file.write(str(os.getpid()))
    try:
        ask("more", url) and ask("and more", url)
    except OSError:
        time.sleep(60)
"""
DIES = """
def dies(question, folder, endpoint):
    question.id == "t0" and os.kill(os.getpid(), signal.SIGKILL)
"""
FUNCTION = """
def solve(question, folder, endpoint):
    said = ask(question.id, endpoint.base_url)
    if question.id == "t2":
        raise LookupError(f"{said} {os.getppid() > 1}")
    repair(folder)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cluster for four programs or checks at once, in a folder with a file named as a module."""
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("planted"))
        Path("dspy.py").write_text("raise SystemExit('planted')\n")
        patch.setattr(ray, "init", partial(ray.init, address="local", num_cpus=2))
        join_cluster("127.0.0.1")
    yield
    ray.shutdown()


def crew(folder: Path, between: str = "", name: str = "crew") -> fm.Command:
    script = folder / f"{name}.py"
    script.write_text(ASKS + CREW.format(between=between))
    return fm.Command(f"{BARE} {script}")


class Runs:
    """Evaluations of four tasks, with an LM that counts its calls."""

    def __init__(self, folder: Path, server: ScriptedServer) -> None:
        self.folder, self.server = folder, server
        self.lm = fm.lm("openai/m", api_base=server.url, price=(1e-6, 1e-5))
        self.tasks = [add_task(f"t{number}") for number in range(4)]
        for task in self.tasks:
            task.question = f"{task.id}: {task.question}"
        given = {"check": CHECK, "sandbox": "none", "tracking": False}
        self.options: dict[str, Any] = {"lm": self.lm, **given}

    def __call__(self, program: Any, name: str, **options: Any) -> tuple[list[Any], Any, int]:
        """Rows without times, the summary, and how many calls the LM got."""
        before = len(self.server.bodies)
        common = {**self.options, "out": self.folder / name, "cache": False, "concurrency": 3}
        run = fm.evaluate(program, self.tasks, **{**common, **options})
        rows: list[Any] = list(run.rows)
        for row in rows:
            row.pop("seconds")
            (row.get("check") or {}).pop("seconds", None)
        return rows, run.summary, len(self.server.bodies) - before


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    with ScriptedServer(
        lambda body: (200, {}, completion(f"hello {body['messages'][-1]['content']}"))
    ) as server:
        yield Runs(tmp_path, server)


@pytest.mark.nightly
@needs_ray
def test_rows_and_bill_are_equal_on_workers(cluster: None, tmp_path: Path, runs: Runs) -> None:
    sandbox = "none" if no_bwrap() else "bwrap"
    here, summary, calls = runs(crew(tmp_path), "here", sandbox=sandbox)
    ray: Any = {"sandbox": sandbox, "engine": "ray", "meter_host": HOST}
    there, billed, asked = runs(crew(tmp_path), "there", **ray)
    assert there == here
    assert [row["correct"] for row in there] == [True] * 4
    assert (calls, asked) == (8, 8)
    assert billed.paid == summary.paid
    assert not (tmp_path / "there" / "tasks").exists()


@needs_ray
@pytest.mark.nightly
def test_a_worker_that_dies_costs_nothing_twice(cluster: None, tmp_path: Path, runs: Runs) -> None:
    mark = tmp_path / "killed"
    kills = crew(tmp_path, KILLS.format(mark=str(mark)))
    there, billed, asked = runs(kills, "there", engine="ray")
    here, summary, _ = runs(kills, "here")  # the mark is there: nothing is killed
    assert there == here
    assert (asked, billed.paid) == (8, summary.paid)
    assert not Path(f"/proc/{mark.read_text()}").exists()


@pytest.mark.nightly
@needs_ray
def test_a_budget_ends_it_which_goes_on_here(cluster: None, tmp_path: Path, runs: Runs) -> None:
    waits = crew(tmp_path, "time.sleep(0.2)")
    rows, summary, asked = runs(waits, "run", engine="ray", budget="5 calls")
    assert (asked, summary.paid["calls"]) == (5, 5)
    assert len(rows) < 4
    assert "5 calls" in str(summary.stopped)
    rows, summary, asked = runs(waits, "run")
    assert (asked, summary.paid["calls"]) == (3, 8)
    assert [row["usage"]["calls"] for row in rows] == [2] * 4
    assert [row["usage"]["cached_calls"] for row in rows] == [0] * 4


@pytest.mark.nightly
@needs_ray
def test_a_task_is_ended_on_its_worker(cluster: None, tmp_path: Path, runs: Runs) -> None:
    mark = tmp_path / "stays"
    program = crew(tmp_path, STAYS.format(mark=str(mark)))
    began = time.monotonic()
    rows, _, asked = runs(program, "run", engine="ray", max_calls_per_task=2)
    assert asked == 8
    assert [row["error"] for row in rows] == ["over its limit of 2 calls", None, None, None]
    assert time.monotonic() - began < 50
    assert not Path(f"/proc/{mark.read_text()}").exists()


@pytest.mark.nightly
@needs_ray
def test_functions_run_by_their_names(cluster, tmp_path, runs, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("crew_on_workers.py").write_text(ASKS + FUNCTION + DIES)
    here, *_ = runs("crew_on_workers:solve", "here")
    there, *_ = runs("crew_on_workers:solve", "there", engine="ray")
    assert there == here
    assert there[2]["error"] == "LookupError: hello t2 True"
    rows, *_ = runs("crew_on_workers:dies", "dies", engine="ray")
    assert [bool(row["error"]) for row in rows] == [True, False, False, False]
    assert rows[0]["error"].startswith("its worker died (")
    assert rows[0]["error"].endswith("), as did 2 before it")


@pytest.mark.nightly
@needs_ray
def test_a_contest_has_the_same_standings(cluster: None, tmp_path: Path, runs: Runs) -> None:
    solo = crew(tmp_path, "sys.exit(0)", "solo")
    common: dict[str, Any] = {**runs.options, "baseline": solo, "added": [crew(tmp_path)]}
    here = fm.contest(runs.tasks, **common, out=tmp_path / "here")
    there = fm.contest(runs.tasks, **common, out=tmp_path / "there", engine="ray")
    assert there.result["standings"] == here.result["standings"]
    assert there.result["paid"] == here.result["paid"]


@needs_ray
@pytest.mark.parametrize(
    ("program", "options", "sentence"),
    [
        ("single:cot", {}, "others wait for their LM, which needs no cluster"),
        (lambda question, folder, endpoint: "", {}, "functions module:attr with the parameters"),
        (None, {"engine": "dask"}, "there is no engine 'dask': give ray, or leave it out"),
        (None, {"engine": None, "meter_host": HOST}, "--meter-host is for workers"),
        (None, {"meter_host": "0.0.0.0"}, "it names no machine"),
        (None, {"meter_host": "203.0.113.7"}, "--meter-host 203.0.113.7 cannot be used"),
        (None, {"meter_host": "here"}, "give this machine's IPv4 address"),
    ],
)
def test_what_no_worker_can_do_is_refused(tmp_path, runs, program, options, sentence):
    with pytest.raises(fm.UserError, match=sentence):
        runs(program or crew(tmp_path), "run", **{"engine": "ray", **options})


def test_questions_that_are_no_tasks_and_a_missing_extra_are_refused(tmp_path, runs, monkeypatch):
    asked = [fm.Question(id="q", question="Why?", answer="yes")]
    with pytest.raises(fm.UserError, match="--engine ray is for tasks"):
        fm.evaluate(crew(tmp_path), asked, lm=runs.lm, engine="ray", tracking=False)
    monkeypatch.setattr("folkmoot.pipelines.tasks.cluster.find_spec", lambda name: None)
    with pytest.raises(fm.UserError, match=r"pip install 'folkmoot\[ray\]'"):
        runs(crew(tmp_path), "run", engine="ray")


@needs_ray
def test_machines_that_cannot_reach_the_meter_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    nodes = [{"NodeManagerAddress": f"10.0.0.{number}", "Alive": True} for number in (1, 2)]
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    with pytest.raises(fm.UserError, match="the 2 machines of the Ray cluster cannot reach"):
        join_cluster("127.0.0.1")
    join_cluster("10.0.0.1")
    monkeypatch.setattr(ray, "nodes", lambda: 1 / 0)
    with pytest.raises(fm.UserError, match=r"Ray cannot be used \(division by zero\)"):
        join_cluster("127.0.0.1")


@needs_ray
def test_an_address_where_nothing_listens_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{closed_port()}")
    began = time.monotonic()
    with pytest.raises(fm.UserError, match=r"Ray cannot be used .*refused.*correct RAY_ADDRESS"):
        join_cluster("127.0.0.1")
    assert time.monotonic() - began < 120


def test_a_socket_of_another_machine_leads_to_the_meter(tmp_path: Path, runs: Runs) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        threading.Thread(target=upper, args=(server,), daemon=True).start()
        before = threading.active_count()
        far = Endpoint(f"http://127.0.0.1:{port}/q/token/v1", "token", "m")
        with far.near(tmp_path) as near, socket.socket(socket.AF_UNIX) as client:
            assert (near.base_url, near.socket) == (far.base_url, tmp_path / "meter")
            client.connect(str(near.socket))
            client.sendall(b"asked")
            assert client.recv(100) == b"ASKED"
        wait_until(lambda: threading.active_count() <= before)


def upper(server: socket.socket) -> None:
    near, _ = server.accept()
    with near:
        near.sendall(near.recv(100).upper())
