"""The call cache: complete answers of hosted LMs over runs and processes, and nothing else."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from completions import completion
from mortal import questions

import folkmoot as fm
from folkmoot.pipelines.lms.endpoint import Reply
from folkmoot.pipelines.lms.ledger import totals
from folkmoot.pipelines.lms.store import BATCH, CallCache
from folkmoot.pipelines.testing.server import ScriptedServer

REPLY = Reply("x" * 500, "stop", 3, 1)


@pytest.fixture(autouse=True)
def _cached(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOLKMOOT_CALLS_MB", "50")


def run(
    server: ScriptedServer, out: Path, n: int = 5, lm: dict[str, Any] | None = None, **options: Any
) -> Any:
    used = fm.lm("openai/scripted", api_base=server.url, **(lm or {}))
    return fm.evaluate(fm.SingleAgent(), questions(n), lm=used, out=out, tracking=False, **options)


def key(number: int) -> str:
    return f"{number:064x}"


def test_a_warm_rerun_makes_no_call(scripted: ScriptedServer, tmp_path: Path) -> None:
    first = run(scripted, tmp_path / "a")
    second = run(scripted, tmp_path / "b")
    assert len(scripted.bodies) == 5
    assert second.summary.usage["cached_calls"] == 5
    assert second.summary.paid["calls"] == 0
    assert [row["answer"] for row in second.rows] == [row["answer"] for row in first.rows]
    # The second run's own record is whole, too.
    replay = fm.lm(f"replay/{tmp_path / 'b'}")
    again = fm.evaluate(fm.SingleAgent(), questions(5), lm=replay, tracking=False)
    assert again.summary.counts == second.summary.counts


def test_cache_and_record_are_private(scripted: ScriptedServer, tmp_path: Path) -> None:
    secret, folder = "sk-canary-5e0c1a", tmp_path / "cache" / "calls"
    folder.mkdir(parents=True, mode=0o755)
    scripted.reply = lambda _: json.dumps({"answer": "A", "heard": f"Bearer {secret}"})
    run(scripted, tmp_path / "a", lm={"api_key": secret}, record=tmp_path / "r")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    kept = [*folder.iterdir(), tmp_path / "r" / "calls.jsonl"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    assert scripted.requests[0]["headers"]["Authorization"] == f"Bearer {secret}"
    assert b"Bearer" in kept[-1].read_bytes()
    assert not [path for path in kept if secret.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    ("text", "reason"),
    [('{"answer": "', "length"), ("I will not", "content_filter"), ("  ", "stop")],
)
def test_cut_off_refused_and_empty_answers_are_not_kept(scripted, tmp_path, text, reason):
    scripted.reply = lambda _: (200, {}, completion(text, reason))
    run(scripted, tmp_path / "a", n=1)
    asked = len(scripted.bodies)
    scripted.reply = lambda _: '{"answer": "A"}'
    assert run(scripted, tmp_path / "b", n=1).rows[0]["answer"] == "A"
    assert len(scripted.bodies) == asked + 1


def test_it_can_be_left_out(scripted, tmp_path, monkeypatch):
    for name in ("a", "b"):
        run(scripted, tmp_path / name, cache=False)
    assert len(scripted.bodies) == 10
    assert not (tmp_path / "cache").exists()
    monkeypatch.setenv("FOLKMOOT_CALLS_MB", "0")
    for name in ("c", "d"):
        run(scripted, tmp_path / name)
    assert len(scripted.bodies) == 20
    assert not (tmp_path / "cache").exists()


def test_cached_answers_are_free(scripted: ScriptedServer, tmp_path: Path) -> None:
    run(scripted, tmp_path / "a", n=5)
    result = run(scripted, tmp_path / "b", n=8, budget="3 calls")
    assert (result.summary.counts.rows, result.summary.stopped) == (8, None)
    assert totals(tmp_path / "b").calls == 3


def test_its_size_is_bounded_and_the_oldest_go_first(tmp_path: Path) -> None:
    most, n = 400_000, 40 * BATCH
    cache = CallCache(tmp_path, most)
    for number in range(n):
        cache.put(key(number), "m", REPLY)
    assert cache.path.stat().st_size < 1.3 * most
    kept = [number for number in range(n) if cache.get(key(number)) is not None]
    assert kept == list(range(kept[0], n))
    assert 0.5 * most < len(kept) * 500 < most
    cache.close()


CALLS = Path("cache", "calls")
POISONED: dict[str, Callable[[pytest.MonkeyPatch], object]] = {
    "damaged": lambda patch: (CALLS / "calls.sqlite").write_bytes(b"no database " * 1000),
    "no folder": lambda patch: patch.setenv("FOLKMOOT_CACHE", "file"),
    "another user's": lambda patch: patch.setattr("os.geteuid", lambda: CALLS.stat().st_uid + 1),
    "writable by others": lambda patch: CALLS.chmod(0o722),
    "a linked folder": lambda patch: linked(CALLS),
    "a linked file": lambda patch: linked(CALLS / "calls.sqlite"),
}


def linked(path: Path) -> None:
    path.rename("elsewhere")
    path.symlink_to(Path("elsewhere").absolute())


@pytest.mark.parametrize("what", POISONED)
def test_a_cache_that_is_damaged_or_somebody_elses_costs_only_calls(
    what, scripted, tmp_path, monkeypatch
):
    (tmp_path / "file").write_text("")
    run(scripted, tmp_path / "a")
    POISONED[what](monkeypatch)
    with pytest.warns(RuntimeWarning, match="call cache") as told:
        assert run(scripted, tmp_path / "b").summary.counts.rows == 5
    assert len([one for one in told if "call cache" in str(one.message)]) == 1
    assert len(scripted.bodies) == 10
