"""The engine ray: the rows of the engine asyncio, whatever dies, and no key on the way to the
workers.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import rows_of
from mortal import questions

import folkmoot as fm
from folkmoot.pipelines.testing.server import ScriptedServer

ray = pytest.importorskip("ray", reason="the extra `ray` is not installed: make test-ray")
pytestmark = pytest.mark.nightly  # every run starts two processes, which import all they need

CANARY = "sk-canary-5b1e0c77f2a94d"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A cluster of two workers on this machine, which the tests below join."""
    # before Ray's processes start, which hand it to the workers
    os.environ["OPENAI_API_KEY"] = CANARY
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    before = os.environ["PYTHONPATH"]
    # of the programs below
    os.environ["PYTHONPATH"] = before + os.pathsep + str(Path(__file__).parent)
    ray.init(
        "local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR"
    )
    try:
        yield ray
    finally:
        ray.shutdown()
        del os.environ["OPENAI_API_KEY"]
        os.environ["PYTHONPATH"] = before


def deliberation() -> fm.Deliberation:
    return fm.Deliberation(["intuitive", "reasoner"], max_rounds=2)


def run(
    server: ScriptedServer, asked: list[fm.Question], program: Any = None, **arguments: Any
) -> Any:
    lm = fm.lm("openai/scripted", api_base=server.url)
    settings = {"tracking": False, "engine": "ray", "workers": 2, **arguments}
    return fm.evaluate(program or deliberation(), asked, lm=lm, **settings)


def without_seconds(rows: Any) -> list[dict[str, Any]]:
    return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]


def by_question(body: dict[str, Any]) -> Any:
    """Two agents that agree or not depending on the question; one question the endpoint refuses."""
    text = body["messages"][-1]["content"]
    number = int(text.split("Question: Question ")[1].split("?")[0])
    if number == 7:
        return 400, {}, {"error": {"message": "too long"}}
    return json.dumps({"explanation": "so", "answer": "ABC"[(number + len(text)) % 3]})


def worker_pids() -> list[int]:
    """The processes of the engine's workers on this machine."""
    found = []
    for place in Path("/proc").iterdir():
        try:
            if place.name.isdigit() and b"ray::Worker" in (place / "cmdline").read_bytes():
                found.append(int(place.name))
        except OSError:
            continue  # it has ended in the meantime
    return found


def test_rows_and_scores_are_those_of_asyncio(
    cluster: Any, scripted: ScriptedServer, tmp_path: Path
) -> None:
    scripted.reply = by_question
    asked = questions(24, subject=lambda i: "odd" if i % 2 else "even")
    told: list[tuple[int, int]] = []
    spread = run(
        scripted,
        asked,
        out=tmp_path / "ray",
        progress=lambda state: told.append((state.done, state.errors)),
    )
    here = run(scripted, asked, out=tmp_path / "asyncio", engine="asyncio", workers=None)
    assert without_seconds(rows_of(tmp_path / "ray")) == without_seconds(
        rows_of(tmp_path / "asyncio")
    )
    for name in ("scores", "counts", "usage", "takes", "report", "forensics"):
        assert getattr(spread.summary, name) == getattr(here.summary, name), name
    assert spread.summary.counts["errors"] == 1
    assert (told[0], told[-1]) == ((0, 0), (24, 1))
    calls = [
        {
            json.loads(line)["key"]
            for line in (tmp_path / name / "calls.jsonl").read_text().splitlines()
        }
        for name in ("ray", "asyncio")
    ]
    assert calls[0] == calls[1]


def test_a_run_goes_on_under_the_other_engine_without_a_call_made_twice(
    cluster: Any, scripted: ScriptedServer, tmp_path: Path
) -> None:
    asked = questions(12)
    run(scripted, asked, out=tmp_path, engine="asyncio", workers=None)
    made = len(scripted.requests)
    kept = (tmp_path / "results.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "results.jsonl").write_text("".join(kept[:5]))
    result = run(scripted, asked, out=tmp_path)
    assert [row["id"] for row in result.rows] == [question.id for question in asked]
    assert len(scripted.requests) == made


def test_a_killed_worker_loses_nothing(cluster: Any, tmp_path: Path) -> None:
    in_flight = 8
    asked = questions(60)
    killed: list[int] = []
    with ScriptedServer(delay=0.05) as server:

        def kill_one(state: Any) -> None:
            if state.done >= 20 and not killed:
                killed.append(worker_pids()[0])
                os.kill(killed[0], signal.SIGKILL)

        result = run(server, asked, out=tmp_path, concurrency=in_flight, progress=kill_one)
        made = Counter(json.dumps(body, sort_keys=True) for body in server.bodies)
    assert killed
    assert [row["id"] for row in result.rows] == [question.id for question in asked]
    counts = result.summary.counts
    assert (counts["rows"], counts["correct"], counts["errors"]) == (60, 20, 0)
    assert sum(made.values()) - len(made) <= in_flight
    assert server.most_at_once <= in_flight + in_flight // 2  # those of the dead end on their own


def test_concurrency_is_shared_among_the_workers(cluster: Any) -> None:
    with ScriptedServer(delay=0.05) as server:
        run(server, questions(24), fm.SingleAgent(), concurrency=5)
        assert server.most_at_once <= 5
        assert {request["headers"]["Authorization"] for request in server.requests} == {
            f"Bearer {CANARY}"
        }


def test_no_key_travels(cluster: Any, scripted: ScriptedServer, tmp_path: Path) -> None:
    lm = fm.lm("openai/scripted", api_base=scripted.url)
    program = deliberation()
    program.assign(
        {"reasoner": fm.lm("anthropic/claude-sonnet-4-5", api_base="http://127.0.0.1:9")}
    )
    sent = ray.cloudpickle.dumps((program, lm))
    assert b"scripted" in sent
    assert CANARY.encode() not in sent
    run(scripted, questions(4), out=tmp_path)
    session = Path(ray._private.worker._global_node.get_session_dir_path())
    files = [path for folder in (session, tmp_path) for path in folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert not [path for path in files if CANARY.encode() in path.read_bytes()]


def test_a_fatal_failure_stops_the_run_in_one_sentence(cluster: Any, tmp_path: Path) -> None:
    with ScriptedServer(lambda _: (401, {}, {"error": {"message": "bad key"}})) as server:
        with pytest.raises(fm.UserError, match="refused the key"):
            run(server, questions(8), out=tmp_path)
        server.reply = lambda _: (400, {}, {"error": {"message": "no"}})
        with pytest.raises(fm.UserError, match="stopped after 2 failed"):
            run(server, questions(8), out=tmp_path, max_failures=2)
    time.sleep(0.5)
    assert not worker_pids()


def test_an_interrupt_keeps_what_is_finished(cluster: Any, tmp_path: Path) -> None:
    asked = questions(40)
    with ScriptedServer(delay=0.1) as server:

        def interrupt() -> None:
            while not (tmp_path / "results.jsonl").exists() or len(rows_of(tmp_path)) < 4:
                time.sleep(0.02)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        soon = threading.Thread(target=interrupt)
        soon.start()
        with pytest.raises(KeyboardInterrupt):
            run(server, asked, out=tmp_path, concurrency=4)
        soon.join()
        kept = len(rows_of(tmp_path))
        assert 4 <= kept < 40
        result = run(server, asked, out=tmp_path)
        made = Counter(json.dumps(body, sort_keys=True) for body in server.bodies)
    assert result.summary.counts["rows"] == 40
    assert sum(made.values()) - len(made) <= 4


def test_the_command_line_starts_a_cluster_of_its_own_and_stops_it(
    scripted: ScriptedServer, tmp_path: Path
) -> None:
    rows = [
        {"id": f"q{i}", "question": f"Which {i}?", "kind": "boolean", "answer": "yes"}
        for i in range(6)
    ]
    (tmp_path / "asked.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = (
        "evaluate single:cot --data asked.jsonl --engine ray --workers 2 --no-track --json "
        "--out run"
    )
    where = ["--lm", "openai/scripted", "--api-base", scripted.url]
    main = [sys.executable, "-c", "from folkmoot.pipelines.cli import main; main()"]
    known = {"OPENAI_API_KEY": CANARY, "FOLKMOOT_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(
        [*main, *command.split(), *where],
        cwd=tmp_path,
        env={**os.environ, **known},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"]["rows"] == 6
    assert CANARY.encode() not in done.stdout + done.stderr
    assert not worker_pids()
