"""Runs of a command that are killed: the same command goes on, and no row is lost or doubled."""

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from children import BARE
from mortal import Forked

import folkmoot as fm
from folkmoot.pipelines.lms.ledger import totals
from folkmoot.pipelines.testing.server import ScriptedServer

CREW = Path(__file__).parents[2] / "support" / "crew.py"
IN_FLIGHT = 4
CALLS = 2
"""The calls that the crew makes on each question, by equal requests."""


def evaluated(url: str, out: Path, count: int) -> fm.Evaluation:
    """The evaluation that is killed and goes on; named here, so that a child finds it."""
    known: Any = {"question": "Where?", "choices": {"A": "bank", "B": "mall"}, "answer": "B"}
    questions = [fm.Question(id=f"q{n}", **known) for n in range(count)]
    lm = fm.lm("openai/m", api_base=url, price=(1e-6, 1e-6))
    command = fm.Command(f"{BARE} -I {CREW}")
    options: Any = {"concurrency": IN_FLIGHT, "cache": False, "tracking": False}
    return fm.evaluate(command, questions, lm=lm, out=out, **options)


def killed_often(out: Path, kills: int, count: int, seed: int) -> None:
    """Kill the run at random moments, let it end, and compare with what one without a stop has."""
    dice = random.Random(seed)
    with ScriptedServer(lambda body: "B", delay=lambda: dice.random() * 0.03) as server:
        survived = 0
        for _ in range(kills):
            # Some are killed before their first call, some in the middle of several.
            stop = len(server.requests) + dice.randint(0, 2 * IN_FLIGHT)
            child = Forked(target=evaluated, args=(server.url, out, count))
            child.start()
            deadline = time.monotonic() + 60
            while child.is_alive() and len(server.requests) < stop:
                assert time.monotonic() < deadline, "the child asks nothing"
                time.sleep(0.002)
            time.sleep(dice.random() * 0.1)
            survived += child.exitcode == 0
            child.kill()
            child.join()
        assert survived == 0, "the run ended before its last kill: give it more questions"
        result = evaluated(server.url, out, count)
        asked = len(server.requests)
    assert Counter(row["id"] for row in result.rows) == {f"q{n}": 1 for n in range(count)}
    assert result.score == 1.0
    # A question that was under way gets its calls from the record, and its bill is the same.
    assert {row["usage"]["calls"] for row in result.rows} == {CALLS}
    again = asked - CALLS * count
    print(f"{kills} kills, {count} rows, {asked} requests, of them {again} that a kill had lost")
    assert 0 <= again <= IN_FLIGHT * kills
    assert asked <= totals(out).calls <= asked + IN_FLIGHT * kills


def test_killed_a_run_of_a_command_goes_on(tmp_path: Path) -> None:
    killed_often(tmp_path / "run", 1, 12, seed=1)


@pytest.mark.nightly
def test_killed_a_hundred_times(tmp_path: Path) -> None:
    killed_often(tmp_path / "run", 100, 900, seed=2)
