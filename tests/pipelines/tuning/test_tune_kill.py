"""Studies that are killed: the same command reaches the same result, nothing is paid twice."""

import random
import time
from pathlib import Path
from typing import Any

import pytest
from mortal import Forked
from tuned import critic_first, scripted_by, settings_of, study_at, without_numbers

from folkmoot.pipelines.lms.ledger import read_ledger
from folkmoot.pipelines.testing.server import ScriptedServer


def start(url: str, out: Path) -> Any:
    child = Forked(target=study_at, args=(url, out))
    child.start()
    return child


def killed_often(tmp_path: Path, kills: int, seed: int) -> None:
    """Kill a study at random numbers of calls, let it end, and compare with one left alone."""
    dice = random.Random(seed)
    with ScriptedServer(scripted_by(critic_first), delay=0.002) as server:
        whole = study_at(server.url, tmp_path / "whole")
        calls = len(server.requests)
        out = tmp_path / "killed"
        for _ in range(kills):
            before = len(server.requests)
            stop = before + dice.randint(1, max(1, calls // kills))
            child = start(server.url, out)
            deadline = time.monotonic() + 60
            while child.is_alive() and len(server.requests) < stop and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(dice.random() * 0.05)
            child.kill()
            child.join()
        study = study_at(server.url, out)
        asked = len(server.requests) - calls
    assert settings_of(study) == settings_of(whole)
    for name in ("best", "front", "validation", "verdict"):
        assert without_numbers(study, name) == without_numbers(whole, name)
    assert study.report.trials["running"] == study.report.trials["waiting"] == 0
    assert study.report.trials["given back"] <= kills
    keys = [record["key"] for record in read_ledger(out)]
    in_flight = 4
    assert len(keys) - len(set(keys)) <= in_flight * kills
    assert asked <= calls + in_flight * kills


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [7])
def test_killed_twenty_times(tmp_path: Path, seed: int) -> None:
    killed_often(tmp_path, 20, seed)
