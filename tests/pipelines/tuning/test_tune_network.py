"""Tuning strategy networks: each setting is trained once, scored on other questions, and kept as it
is.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import folkmoot, write
from mortal import Forked
from outcome_tables import words_of
from tuned import lm_at, questions, settings_of, without_numbers

import folkmoot as fm
from folkmoot.pipelines.data.embeddings import Embedder
from folkmoot.pipelines.lms.ledger import read_ledger
from folkmoot.pipelines.testing.server import ScriptedServer
from folkmoot.pipelines.tuning.yaml_space import space_of

MODEL = "planted"  # no such model is anywhere: all vectors are in the cache
SETS = [["zero_shot", "self_ask"], ["cot", "zero_shot"], ["cot"]]
NETWORK: dict[str, Any] = {
    "program": "network",
    "agents": 3,
    "strategies": SETS,
    "gamma": 0.1,
    "alpha": 0.1,
    "k": 2,
    "choice": "sample",
    "weight": "mean_trust",
    "lr": 0.01,
    "epochs": 2,
    "batch": 5,
    "checkpoint_every": 1,
    "hidden": 4,
    "heads": 1,
    "embedding": MODEL,
    "sampling": {"temperature": None},
}
FIT = SCORE = 20


def by_strategy(body: dict[str, Any]) -> str:
    """Right with `cot`; with any other strategy on one question of five."""
    fields = body["response_format"]["json_schema"]["schema"]["properties"]
    number = int(re.findall(r"Question: Question (\d+)\?", body["messages"][-1]["content"])[-1])
    right = set(fields) == {"reasoning", "answer"} or number % 5 == 0
    answer = "ABC"[(number + (0 if right else 1)) % 3]
    return json.dumps({name: answer if name == "answer" else "so" for name in fields})


def study_of(url: str, out: Path, space: Any = NETWORK, **options: Any) -> Any:
    """A study of networks; in a process of its own, too."""
    given: dict[str, Any] = {
        "lm": lm_at(url),
        "trials": 4,
        "sampler": "grid",
        "out": out,
        "tracking": False,
    }
    return fm.tune(space, questions(0, FIT + SCORE), questions(40, 60), **{**given, **options})


@pytest.fixture(scope="module", autouse=True)
def _embedded(_own_cache: None) -> None:
    """The vectors of all questions, where every process finds them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Embedder, "_encode", lambda self, texts: words_of(texts))
        embed = Embedder(MODEL)
        assert embed.width == 32
        embed([question.question for question in questions(0, 80)])


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(by_strategy) as running:
        yield running


@pytest.fixture(scope="module")
def whole(server: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An undisturbed study of three settings, and how many calls it made."""
    study = study_of(server.url, tmp_path_factory.mktemp("whole") / "out")
    study.made = len(server.requests)
    return study


def test_the_planted_strategy_is_found(whole: Any) -> None:
    best = whole.report["best"]
    assert best["setting"]["strategies"] == ["cot"]
    assert best["scores"]["accuracy"] == {**best["scores"]["accuracy"], "value": 1.0, "n": SCORE}
    assert best["scores"]["calls"]["value"] == 3  # of answering, without what training took
    assert whole.report["questions"] == {"train": 40, "scored": SCORE, "validation": 20}
    assert whole.validation.accuracy == 1.0
    assert fm.load_program(whole.folder / "winner").describe() == whole.best.describe()


def test_every_answer_is_paid_for_once(whole: Any, server: ScriptedServer) -> None:
    keys = [record["key"] for record in read_ledger(whole.folder)]
    assert len(keys) == len(set(keys)) == whole.made
    distinct = {json.dumps(body, sort_keys=True) for body in server.bodies[: whole.made]}
    assert whole.made <= 3 * len(distinct)  # each agent asks for an answer of its own, once
    calls = whole.report["calls"]
    assert calls["made"] == whole.made - 2 * 3 * 20
    assert calls["saved"] == calls["used"] - calls["made"] > FIT


def test_each_setting_is_trained_once_on_questions_that_do_not_score(whole: Any) -> None:
    folders = [path for path in (whole.folder / "networks").iterdir() if path.is_dir()]
    assert len(folders) == len(SETS)
    scored = {row["id"] for run in (whole.folder / "runs").iterdir() for row in rows_of(run)}
    assert len(scored) == SCORE
    for folder in folders:
        about = json.loads((folder / "training.json").read_text())
        assert about["questions"] == FIT
        assert about["training"]["epochs"] == 2
        log = json.loads((folder / "training_log.json").read_text())
        assert len(log["steps"]) == 2 * FIT / 5


def rows_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]


def test_the_same_call_again_trains_nothing(whole: Any, server: ScriptedServer) -> None:
    before = len(server.requests)
    logs = {
        path: path.stat().st_mtime_ns for path in whole.folder.glob("networks/*/training_log.json")
    }
    again = study_of(server.url, whole.folder)
    assert again.report == whole.report
    assert len(server.requests) == before
    assert all(path.stat().st_mtime_ns == known for path, known in logs.items())


def test_a_trained_network_is_taken_as_it_is(
    whole: Any, server: ScriptedServer, tmp_path: Path
) -> None:
    learned = next(path for path in (whole.folder / "networks").iterdir() if path.is_dir())
    study = study_of(server.url, tmp_path / "out", f"network:{learned}", trials=1)
    assert study.trials[0]["questions"] == FIT + SCORE
    assert not (tmp_path / "out" / "networks").exists()
    assert "scored" not in study.report["questions"]


def killed_at(moments: tuple[int, ...], whole: Any, server: ScriptedServer, out: Path) -> None:
    """Kill a study after so many calls each time, let it end, and compare it with the undisturbed
    one.
    """
    before = len(server.requests)
    server.delay = 0.01
    try:
        for calls in moments:
            process = Forked(target=study_of, args=(server.url, out))
            process.start()
            end = time.monotonic() + 90
            while (
                process.is_alive()
                and len(server.requests) < before + calls
                and time.monotonic() < end
            ):
                time.sleep(0.002)
            assert process.is_alive()
            process.kill()
            process.join()
    finally:
        server.delay = 0.0
    study = study_of(server.url, out)
    assert settings_of(study) == settings_of(whole)
    for name in ("best", "validation", "verdict"):
        assert without_homes(study.report[name]) == without_homes(whole.report[name])
    assert study.best.describe() == whole.best.describe()
    in_flight = 64
    assert len(server.requests) - before <= whole.made + in_flight * len(moments)


@pytest.mark.nightly
def test_killed_in_training_a_study_goes_on_to_the_same_result(
    whole: Any, server: ScriptedServer, tmp_path: Path
) -> None:
    killed_at((25,), whole, server, tmp_path / "killed")


def without_homes(value: Any) -> Any:
    text = json.dumps(without_numbers(value))
    return json.loads(
        text, object_hook=lambda found: {k: v for k, v in found.items() if k != "home"}
    )


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"nonsense": 3}, "network has no parameter 'nonsense'"),
        ({"agents": [3, 0]}, "network: agents: agents is 0"),
        ({"strategies": [["cot"], ["telepathy"]]}, "there is no strategy 'telepathy'"),
        ({"p": {"from": 0.5, "to": 1.5}, "agents": 5}, "p is 1.5"),
        ({"full_information": True}, "full_information and epochs auto ask every agent"),
        ({"lms": {"judge": "openai/a"}}, "no setting has a seat 'judge'"),
        ({"program": "network:"}, "names no folder"),
        ({"program": "network:nowhere"}, "there is no folder nowhere|network has no parameter"),
    ],
)
def test_a_wrong_space_is_named_in_one_sentence(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(fm.UserError, match=why) as said:
        space_of({**NETWORK, "strategies": ["cot"], **changed})
    assert "\n" not in str(said.value)


def test_a_dry_run_counts_training(scripted: ScriptedServer, tmp_path: Path) -> None:
    rows = [
        {"id": q.id, "question": q.question, "choices": q.choices, "answer": q.answer}
        for q in questions(0, 60)
    ]
    train = write(tmp_path / "train.jsonl", *rows[:40])
    validation = write(tmp_path / "validation.jsonl", *rows[40:])
    words = ["tune", "network", "--train", train, "--validation", validation, "--trials", "4"]
    words += ["--set", "agents=3", "--set", "strategies=[cot, zero_shot]", "--set", "epochs=5"]
    words += ["--set", f"embedding={MODEL}", "--lm", "openai/scripted"]
    words += ["--out", tmp_path / "out", "--dry-run"]
    done = folkmoot(*words, "--api-base", scripted.url, "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["most_training_calls"] == 20 * 3 * 2  # no agent is asked the same twice
    assert found["most_calls"] == 3 * (20 * 4 + 2 * 20) + 120 * 5
    assert "20 more to train networks on: at most 120 calls per setting" in done.stderr
    assert not scripted.requests
    assert not (tmp_path / "out").exists()
