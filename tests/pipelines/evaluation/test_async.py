"""`fm.aevaluate`, cancelled and not, and `fm.evaluate` where a loop is running."""

import asyncio
import inspect
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import dspy
import pytest
from mortal import questions

import folkmoot as fm
from folkmoot.pipelines.testing.server import ScriptedServer


def lm_of(server: ScriptedServer) -> Any:
    return fm.lm("openai/scripted", api_base=server.url)


def test_it_takes_what_evaluate_takes_and_gives_the_same(scripted: ScriptedServer) -> None:
    assert inspect.signature(fm.aevaluate) == inspect.signature(fm.evaluate)
    assert inspect.iscoroutinefunction(fm.aevaluate)
    assert fm.aevaluate.__name__ == "aevaluate"
    program, asked = fm.SingleAgent("cot"), questions(6)

    async def both() -> tuple[fm.Evaluation, ...]:
        lm, ticks = lm_of(scripted), 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.005)

        ticking = asyncio.create_task(tick())
        scripted.delay = 0.1
        with dspy.context(lm=lm):  # the caller's context goes along
            found = await asyncio.gather(
                fm.aevaluate(program, asked, tracking=False),
                fm.aevaluate(program, asked[:3], tracking=False, cache=False),
            )
        ticking.cancel()
        assert ticks > 5  # the caller's loop went on
        return (*found, fm.evaluate(program, asked, lm=lm, tracking=False))  # inside a running loop

    one, part, other = asyncio.run(both())
    assert [row["answer"] for row in one.rows] == [row["answer"] for row in other.rows]
    assert len(part.rows) == 3


def test_a_cancelled_one_keeps_what_is_done(scripted: ScriptedServer, tmp_path: Path) -> None:
    program, asked, lm = fm.SingleAgent("cot"), questions(40), lm_of(scripted)
    scripted.delay = 0.05
    states: list[int] = []

    async def started() -> None:
        def note(state: Any) -> None:
            states.append(state.done)

        given: Any = {"out": tmp_path, "tracking": False, "concurrency": 4, "progress": note}
        running = asyncio.create_task(fm.aevaluate(program, asked, lm=lm, **given))
        while not states or states[-1] < 5:
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    began = time.monotonic()
    asyncio.run(started())
    assert time.monotonic() - began < 60
    kept = len((tmp_path / "results.jsonl").read_text().splitlines())
    assert 5 <= kept < 40
    assert '"stopped":"interrupted"' in (tmp_path / "summary.json").read_text().replace(": ", ":")
    calls = len(scripted.bodies)
    result = fm.evaluate(program, asked, lm=lm, out=tmp_path, tracking=False)
    assert len(result.rows) == 40
    assert len(scripted.bodies) - calls <= 40 - kept


def test_runs_go_to_the_call(scripted: ScriptedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    def active_run() -> Any:  # MLflow's own belongs to a thread
        info = types.SimpleNamespace(run_id=threading.current_thread().name)
        return types.SimpleNamespace(info=info)

    monkeypatch.setitem(sys.modules, "mlflow", types.SimpleNamespace(active_run=active_run))
    given: Any = {"lm": lm_of(scripted), "tracking": False}
    result = asyncio.run(fm.aevaluate(fm.SingleAgent("cot"), questions(1), **given))
    assert result.summary.run["mlflow_parent_id"] == threading.current_thread().name
