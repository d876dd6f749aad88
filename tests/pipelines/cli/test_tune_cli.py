"""`folkmoot tune` on the command line: plan, result, JSON, resuming, wrong input, Ctrl-C."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from children import WARM, Child, command, wait_for_requests
from cli_helpers import KEY, folkmoot, lm, write
from tuned import critic_first, questions, scripted_by

from folkmoot.pipelines.testing.server import ScriptedServer
from folkmoot.pipelines.tuning import workers


@pytest.fixture(autouse=True)
def _files(home: Path) -> None:
    for name, first, last in (("train", 0, 24), ("validation", 24, 40)):
        write(home / f"{name}.jsonl", *(dict(one.to_row()) for one in questions(first, last)))
    (home / "space.yaml").write_text(
        "program: deliberation\nroles: [[critic, reasoner], [reasoner, critic]]\nmax_rounds: 1\n"
        "tie_break: strongest\nsampling: {temperature: null}\n"
    )


def words(
    server: ScriptedServer, *more: Any, space: str = "space.yaml", out: str = "out"
) -> list[Any]:
    given = ["tune", space, "--train", "train.jsonl", "--validation", "validation.jsonl"]
    return [*given, *lm(server), "--no-track", "--trials", "2", "--out", out, *more]


def test_the_result_in_words_and_the_same_command_as_json(scripted: ScriptedServer) -> None:
    scripted.reply = scripted_by(critic_first)
    same = words(scripted, "--objective", "accuracy,calls", "--sampler", "grid")
    done = folkmoot(*same, code=0)
    shown = ("Winner: roles=critic,reasoner", "On validation: the winner 100.0%")
    for text in (*shown, "Pareto-optimal 1:"):
        assert text in done.stdout
    assert "at most" in done.stderr
    made = len(scripted.requests)
    again = folkmoot(*same, "--json", code=0)
    found = json.loads(again.stdout)
    assert found["best"]["setting"]["roles"] == ["critic", "reasoner"]
    assert found["best"]["scores"]["accuracy"]["low"] < 1.0
    assert set(found["calls"]) == {"made", "used", "saved"}
    listed = {run["folder"]: run for run in json.loads(folkmoot("runs", "out", "--json").stdout)}
    study = listed["out"]
    assert (study["lm"], study["data"]) == ("openai/scripted", "validation.jsonl")
    assert found["validation"]["winner"]["value"] == 1.0
    assert found["calls"]["made"] + 16 * 2 * 2 == made == len(scripted.requests)


def test_a_dry_run_asks_nobody(scripted: ScriptedServer, tmp_path: Path) -> None:
    storage = "postgresql://me:pw@host/db"
    done = folkmoot(*words(scripted, "--dry-run", "--json", "--storage", storage), code=0)
    assert json.loads(done.stdout)["most_calls"] == 2 * 2 * (24 * 2 + 2 * 16)
    assert "pw" not in done.stdout + done.stderr
    assert not scripted.requests
    assert not (tmp_path / "out").exists()


def test_a_study_whose_calls_all_fail_says_why_and_fails(scripted: ScriptedServer) -> None:
    scripted.reply = lambda body: (400, {}, {"error": {"message": "not so"}})
    done = folkmoot(*words(scripted, "--json"), code=1)
    found = json.loads(done.stdout)
    assert found["best"] is None
    shown = json.loads(folkmoot("show", found["out"], "--json").stdout)
    assert shown["state"] == "failed"
    for said in (found["verdict"], done.stderr, shown["problem"]):
        assert "no trial has finished: in 2 of 2, " in said
        assert "not so" in said


@pytest.mark.nightly
def test_ctrl_c_keeps_what_is_done_and_no_key_is_written(scripted, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    scripted.reply = scripted_by(critic_first)
    scripted.delay = 0.05
    storage = f"sqlite:///{tmp_path / 's.db'}"
    given = words(scripted, "--concurrency", "1", "--workers", "2", "--storage", storage)
    running = Child(command, *given)
    wait_for_requests(scripted, 5)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=120)
    assert running.returncode == 130, told
    assert "interrupted: finished work is kept" in told
    scripted.delay = 0.0
    monkeypatch.setattr(workers, "CONTEXT", WARM)
    done = folkmoot(*given, "--json")
    trials = json.loads(done.stdout)["trials"]
    # the second is hopeless once the first is known
    assert trials["complete"] + trials["pruned"] == 2
    everything = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert KEY.encode() not in everything
