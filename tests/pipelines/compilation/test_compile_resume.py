"""A compilation that is killed or interrupted goes on unchanged and asks nothing twice."""

import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from completions import completion
from mortal import Forked
from planted import compiled, digest, of_instructions

import folkmoot as fm
from folkmoot.optimizers.prompts.candidates import prompts_of
from folkmoot.pipelines.testing.server import ScriptedServer


def compile_in(url: str, out: Path, name: str, concurrency: int = 4) -> Any:
    """What the child processes run: a compilation of a small deliberation."""
    program = fm.Deliberation(["intuitive", "reasoner"], tie_break="majority", max_rounds=1)
    given = {"program": program, "optimizer": name, "out": out, "concurrency": concurrency}
    return compiled(url, train=8, validation=4, **given)


def outcome(out: Path) -> dict[str, Any]:
    """All of a result but times, and what it took."""
    result = json.loads((out / "compile.json").read_text())["result"]
    for name in ("out", "seconds", "calls_made", "calls_saved", "paid", "lost", "comparison"):
        result.pop(name)
    for phase in ("before", "after"):
        result[phase].pop("usage")
    prompts = json.loads((out / "prompts.json").read_text())
    rows = [json.loads(line) for line in (out / "candidates.jsonl").read_text().splitlines()]
    candidates = sorted(rows, key=lambda row: row["key"])
    return {"result": result, "prompts": prompts, "candidates": candidates}


def repeated(bodies: list[dict[str, Any]]) -> int:
    return sum(count - 1 for count in Counter(digest(body) for body in bodies).values())


def killed_and_resumed(server: ScriptedServer, out: Path, name: str, kills: list[int]) -> int:
    """Kill a child process for each of `kills`, so many requests after it began, then finish.

    From that request on no reply is sent, so that no child ends before its kill.
    """
    died = 0
    for requests in kills:
        enough = len(server.bodies) + requests
        server.delay = lambda enough=enough: 0.005 if len(server.bodies) < enough else 60.0
        process = Forked(target=compile_in, args=(server.url, out, name))
        process.start()
        while len(server.bodies) < enough and process.is_alive():
            time.sleep(0.001)
        if process.is_alive():
            os.kill(process.pid or 0, signal.SIGKILL)
            died += 1
        process.join(60)
    server.delay = 0.005
    compile_in(server.url, out, name)
    return died


def check_kills(tmp_path: Path, name: str, times: int) -> None:
    """Kills at random, early enough that all but a few of them hit."""
    draw = random.Random(name)
    with ScriptedServer(of_instructions(), delay=0.005) as server:
        compile_in(server.url, tmp_path / "undisturbed", name, concurrency=1)
        alone = {digest(body) for body in server.bodies}
        proposals_alone = repeated(server.bodies)
        apart = len(server.bodies) // times
        server.requests.clear()
        kills = [draw.randint(1, max(1, apart)) for _ in range(times)]
        died = killed_and_resumed(server, tmp_path / "killed", name, kills)
        # the others ended by themselves
        assert died >= times * 3 / 4, f"only {died} children were killed"
        # Four questions are under way at once, and both agents of each.
        assert repeated(server.bodies) <= proposals_alone + 8 * died
        assert {digest(body) for body in server.bodies} == alone
    # The LM's address is part of what a folder is of, so both runs had the same server.
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "undisturbed")


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name", ["bootstrap_rs", "copro", "mipro", "gepa", "infer_rules", "simba", "better_together"]
)
def test_many_kills_change_nothing(tmp_path: Path, name: str) -> None:
    check_kills(tmp_path, name, 20)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["bootstrap_rs", "mipro", "gepa"])
def test_concurrency_changes_nothing(scripted: Any, tmp_path: Path, name: str) -> None:
    scripted.reply = of_instructions()
    draw = random.Random(1)
    scripted.delay = lambda: draw.random() / 100
    alone = compile_in(scripted.url, tmp_path / "1", name, concurrency=1)
    scripted.requests.clear()
    crowd = compile_in(scripted.url, tmp_path / "16", name, concurrency=16)
    assert prompts_of(alone) == prompts_of(crowd)
    assert outcome(tmp_path / "1") == outcome(tmp_path / "16")


@pytest.mark.nightly
@pytest.mark.parametrize("ending", ["length", "stop"])
def test_unrecorded_proposals_are_the_same(scripted: Any, tmp_path: Path, ending: str) -> None:
    """A record of calls has no cut-off or empty replies; with others the run is another one."""
    count = iter(range(10**6))
    right = of_instructions()

    def reply(body: dict[str, Any]) -> Any:
        if "response_format" in body:
            return right(body)
        number = next(count)
        said = f"Be number {number}." if ending == "length" or number % 2 else ""
        return 200, {}, completion(said, ending if said else "stop")

    scripted.reply = reply
    first = compiled(scripted.url, optimizer="copro", out=tmp_path)
    scripted.requests.clear()
    again = compiled(scripted.url, optimizer="copro", out=tmp_path)
    assert not scripted.bodies
    assert first.compilation.candidates == again.compilation.candidates > 2


def test_an_interrupted_compilation_keeps_the_best_so_far(scripted: Any, tmp_path: Path) -> None:
    scripted.reply = of_instructions()

    def interrupt(state: Any) -> None:
        if state.phase == "optimize" and state.scorings > 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compiled(scripted.url, optimizer="copro", out=tmp_path, progress=interrupt, concurrency=1)
    result = json.loads((tmp_path / "compile.json").read_text())["result"]
    assert result["stopped"] == "interrupted"
    assert fm.load_program(tmp_path / "program") is not None
    asked = len(scripted.bodies)
    whole = compiled(scripted.url, optimizer="copro", out=tmp_path)
    assert whole.compilation.stopped is None
    assert whole.compilation.winner == "compiled"
    assert asked < len(scripted.bodies) == whole.compilation.calls_made
