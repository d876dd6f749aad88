"""Tuning strategy networks: each setting is trained once, scored on other questions, and kept as it
is.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from children import command
from children import run as run_child
from cli_helpers import folkmoot, write
from mortal import Forked
from outcome_tables import words_of
from stores import new_store
from tuned import lm_at, questions, settings_of, without_numbers

import folkmoot as fm
from folkmoot.modules.base.space import grid_settings, options
from folkmoot.optimizers.policy.settings import configured
from folkmoot.pipelines.data.embeddings import Embedder
from folkmoot.pipelines.lms.ledger import read_ledger
from folkmoot.pipelines.testing.server import ScriptedServer
from folkmoot.pipelines.tuning.network import Networks, halves
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


def training_at(url: str, out: Path) -> Callable[[], Any]:
    """What trains the network of the default setting, unless it is."""
    space = space_of({**NETWORK, "strategies": ["cot", "zero_shot"]})
    learnt, _ = halves(questions(0, FIT + SCORE))
    return partial(Networks(out, learnt, lm_at(url), False).trained, space.default()[1])


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


@pytest.mark.nightly
def test_the_planted_strategy_is_found(whole: Any) -> None:
    best = whole.report["best"]
    assert best["setting"]["strategies"] == ["cot"]
    assert best["scores"]["accuracy"] == {**best["scores"]["accuracy"], "value": 1.0, "n": SCORE}
    assert best["scores"]["calls"]["value"] == 3  # of answering, without what training took
    assert whole.report["questions"] == {"train": 40, "scored": SCORE, "validation": 20}
    assert whole.validation.accuracy == 1.0
    assert whole.default.accuracy < 0.3
    accuracy = {
        tuple(entry["setting"]["strategies"]): entry["scores"]["accuracy"]["value"]
        for entry in whole.trials
    }
    assert accuracy["zero_shot", "self_ask"] <= 0.3 < accuracy["cot", "zero_shot"]


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


def test_the_winner_answers_the_same_in_a_new_process(
    whole: Any, server: ScriptedServer, tmp_path: Path
) -> None:
    winner = whole.folder / "winner"
    assert fm.load_program(winner).describe() == whole.best.describe()
    rows = [
        {"id": q.id, "question": q.question, "choices": q.choices, "answer": q.answer}
        for q in questions(40, 60)
    ]
    data = write(tmp_path / "questions.jsonl", *rows)
    lm = [
        "--lm",
        "openai/scripted",
        "--api-base",
        server.url,
        "--no-track",
        "--out",
        tmp_path / "out",
    ]
    done = run_child(command, "evaluate", winner, "--data", data, *lm)
    assert done.returncode == 0, done.stderr

    def said(folder: Path) -> list[Any]:
        return [
            [row["id"], row["answer"], [turn["strategy"] for turn in row["transcript"]]]
            for row in sorted(rows_of(folder), key=lambda row: str(row["id"]))
        ]

    assert said(tmp_path / "out") == said(whole.folder / "validation" / "winner")


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


@pytest.mark.nightly
def test_a_budget_stops_in_training_and_a_larger_one_goes_on(
    whole: Any, server: ScriptedServer, tmp_path: Path
) -> None:
    before = len(server.requests)
    fewer = {**NETWORK, "strategies": SETS[1:2]}
    study = study_of(server.url, tmp_path / "out", fewer, budget="40 calls")
    assert "budget 32 calls spent" in study.report["stopped"]
    assert study.report["verdict"] == "no trial has finished"
    assert len(server.requests) - before <= 40
    gone_on = study_of(server.url, tmp_path / "out", fewer, budget="100k calls")
    assert gone_on.report["stopped"] is None
    same = next(entry for entry in whole.trials if entry["setting"]["strategies"] == SETS[1])
    assert gone_on.report["best"]["scores"] == same["scores"]


@pytest.mark.nightly
def test_who_wants_the_network_that_another_trains_waits(
    server: ScriptedServer, tmp_path: Path
) -> None:
    alone, before = tmp_path / "alone", len(server.requests)
    training_at(server.url, alone)()
    made = len(server.requests) - before
    assert made >= FIT * 3
    both = [training_at(server.url, tmp_path / "both") for _ in range(2)]
    with ThreadPoolExecutor() as pool:
        one, other = [end.result() for end in [pool.submit(train) for train in both]]
    assert one.describe() == other.describe()
    assert len(server.requests) - before == 2 * made
    tensors = [
        next(out.glob("networks/*/tensors.safetensors")) for out in (alone, tmp_path / "both")
    ]
    assert tensors[0].read_bytes() == tensors[1].read_bytes()


def test_a_network_beside_a_single_agent(server: ScriptedServer, tmp_path: Path) -> None:
    network = {**NETWORK, "strategies": [["cot", "zero_shot"]]}
    single = {"program": "single", "strategy": ["cot", "simple"], "sampling": {"temperature": None}}
    study = study_of(server.url, tmp_path / "out", {"programs": [single, network]}, trials=9)
    found = {
        (entry["setting"]["program"], entry["setting"].get("single/strategy")): entry
        for entry in study.trials
    }
    assert found.keys() == {("single", "cot"), ("single", "simple"), ("network", None)}
    assert study.report["best"]["setting"] == {
        "program": "single",
        "single/strategy": "cot",
        "single/sampling.temperature": None,
    }
    learnt = halves(range(FIT + SCORE))[0]  # type: ignore[arg-type]
    assert len(learnt) == FIT
    assert found["single", "cot"]["questions"] == SCORE


@pytest.mark.nightly
def test_a_question_that_nobody_answers_fails_the_training_alone(tmp_path: Path) -> None:
    def reply(body: dict[str, Any]) -> Any:
        fields = body["response_format"]["json_schema"]["schema"]["properties"]
        if "reasoning" not in fields and "Question: Question 7?" in body["messages"][-1]["content"]:
            return 400, {}, {"error": {"message": "too hard"}}
        return by_strategy(body)

    seven = next(
        seed
        for seed in range(9)
        if any(q.id == "q7" for q in halves_of(tmp_path / str(seed), seed)[0])
    )
    with ScriptedServer(reply) as server:
        space = {**NETWORK, "strategies": [["cot"], ["zero_shot"]]}
        study = study_of(server.url, tmp_path / "out", space, trials=2, seed=seven)
    assert [entry["state"] for entry in study.trials] == ["complete", "failed"]
    assert "question 'q7' could not be answered" in study.trials[1]["failed"]
    assert study.report["verdict"] == "no setting was better than the default, which is the winner"


@pytest.mark.nightly
def test_trainings_are_runs_under_the_study_with_curves_and_models(
    server: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri := new_store(tmp_path))
    space = {**NETWORK, "strategies": [["cot"], ["zero_shot"]]}
    study_of(
        server.url, tmp_path / "out", space, trials=2, tracking=True, settings={"data": "nets"}
    )
    client = MlflowClient(uri)
    (experiment,) = [one for one in client.search_experiments() if one.name == "nets"]
    runs = client.search_runs([experiment.experiment_id])
    (parent,) = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    assert {run.data.tags["mlflow.parentRunId"] for run in runs if run is not parent} == {
        parent.info.run_id
    }
    trainings = {
        r.info.run_id: r for r in runs if r.data.tags.get("folkmoot.program") == "network training"
    }
    trials = [run for run in runs if run.data.tags.get("folkmoot.kind") == "trial"]
    networks = {path.name for path in (tmp_path / "out" / "networks").iterdir() if path.is_dir()}
    assert {run.data.tags["folkmoot.network"] for run in trials} == networks
    assert len(trainings) == 2
    for run_id, run in trainings.items():
        assert run.info.status == "FINISHED"
        assert len(client.get_metric_history(run_id, "consensus")) == 2 * FIT / 5
        assert len(run.outputs.model_outputs) == 1


def halves_of(out: Path, seed: int) -> tuple[list[fm.Question], list[fm.Question]]:
    """The questions that a study with that seed trains on, and those that it scores on."""
    from folkmoot.pipelines.tuning.job import Job

    job = Job(
        space_of({**NETWORK, "strategies": ["cot"]}),
        questions(0, 40), None, ["accuracy"], out, None, "s", 1,
        "grid", seed, None, 4, False,
    )  # fmt: skip
    asked, learnt = job.questions
    scored = {question.id for question in asked}
    assert {question.id for question in learnt} == {q.id for q in job.train if q.id not in scored}
    return learnt, asked


@pytest.mark.nightly
def test_the_declared_space_holds_the_paper_and_all_of_it_can_be_built() -> None:
    space = space_of({"program": "network", "embedding": MODEL})
    setting, program = space.default()
    assert setting is not None
    config, _ = configured({})
    known = program.describe()
    for name, value in setting.items():
        # None, and left out, as the program is
        if name not in ("sampling.temperature", "prompt_layout", "tie_break"):
            assert (
                known[name]
                == value
                == json.loads(json.dumps(config.to_dict() | {"lr": 0.001}))[name]
            )
    assert space.program({**setting, "tie_break": "weight"}).describe()["tie_break"] == "weight"
    assert setting == space_of("network", {"embedding": MODEL}).default()[0]
    three = [one for one in grid_settings(space.point) if one["agents"] == 3]
    assert three
    assert not any({"k", "p"} & one.keys() for one in three)
    assert all(len(options(one.values) or []) <= 6 for one in space.branches[0].space.values())  # type: ignore[arg-type]


def test_the_embedding_is_chosen_once_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from folkmoot.pipelines.tuning import yaml_space as tune_yaml

    monkeypatch.setattr(tune_yaml, "default_embedding", lambda: (MODEL, "the other is not here"))
    with pytest.warns(UserWarning, match="the other is not here"):
        space = space_of({"program": "network", "agents": 3, "strategies": ["cot"]})
    assert space.branches[0].fixed["embedding"] == MODEL


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"nonsense": 3}, "network has no parameter 'nonsense'"),
        ({"agents": [3, 0]}, "network: agents: agents is 0"),
        ({"strategies": [["cot"], ["telepathy"]]}, "there is no strategy 'telepathy'"),
        ({"gamma": "much"}, "gamma is 'much'"),
        ({"p": {"from": 0.5, "to": 1.5}, "agents": 5}, "p is 1.5"),
        ({"epochs": [2, "auto"]}, "epochs auto ask every agent"),
        ({"full_information": True}, "full_information and epochs auto ask every agent"),
        ({"lr": {"from": 0.1}}, "lr is"),
        ({"sampling": {"warmth": 1}}, "no sampling setting 'warmth'"),
        ({"lms": {"judge": "openai/a"}}, "no setting has a seat 'judge'"),
        ({"program": "network:"}, "names no folder"),
        ({"program": "network:nowhere"}, "there is no folder nowhere|network has no parameter"),
    ],
)
def test_a_wrong_space_is_named_in_one_sentence(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(fm.UserError, match=why) as said:
        space_of({**NETWORK, "strategies": ["cot"], **changed})
    assert "\n" not in str(said.value)


def test_too_few_questions_are_refused(scripted: ScriptedServer, tmp_path: Path) -> None:
    with pytest.raises(fm.UserError, match="at least 20 training questions, half to learn from"):
        fm.tune(
            NETWORK,
            questions(0, 19),
            questions(40, 60),
            lm=lm_at(scripted.url),
            out=tmp_path,
            tracking=False,
        )
    with pytest.raises(fm.UserError, match=r"there is no folder \./nowhere"):
        study_of(scripted.url, tmp_path, {**NETWORK, "embedding": "./nowhere/to-be-found"})
    assert not scripted.requests


def test_a_dry_run_counts_training(scripted: ScriptedServer, tmp_path: Path) -> None:
    rows = [
        {"id": q.id, "question": q.question, "choices": q.choices, "answer": q.answer}
        for q in questions(0, 60)
    ]
    train, validation = (
        write(tmp_path / "train.jsonl", *rows[:40]),
        write(tmp_path / "validation.jsonl", *rows[40:]),
    )
    words = [
        "tune",
        "network",
        "--train",
        train,
        "--validation",
        validation,
        "--lm",
        "openai/scripted",
    ]
    words += ["--set", "agents=3", "--set", "strategies=[cot, zero_shot]", "--set", "epochs=5"]
    words += [
        "--set",
        f"embedding={MODEL}",
        "--trials",
        "4",
        "--out",
        tmp_path / "out",
        "--dry-run",
    ]
    done = folkmoot(*words, "--api-base", scripted.url, "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["most_training_calls"] == 20 * 3 * 2  # no agent is asked the same twice
    assert found["most_calls"] == 3 * (20 * 4 + 2 * 20) + 120 * 5
    assert "20 more to train networks on: at most 120 calls per setting" in done.stderr
    assert not scripted.requests
    assert not (tmp_path / "out").exists()
