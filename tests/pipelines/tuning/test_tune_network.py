"""Tuning networks: each setting is trained once, scored on other questions, and kept."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import rows_of
from outcome_tables import words_of
from tuned import lm_at, questions, reasoned

import folkmoot as fm
from folkmoot.pipelines.data.embeddings import Embedder
from folkmoot.pipelines.lms.ledger import read_ledger
from folkmoot.pipelines.testing.server import ScriptedServer
from folkmoot.pipelines.tuning.yaml_space import space_of

pytestmark = pytest.mark.usefixtures("quick_rivals", "no_figures")
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


def study_of(url: str, out: Path, space: Any = NETWORK, **options: Any) -> Any:
    """A study of networks; in a process of its own, too."""
    given: dict[str, Any] = {"lm": lm_at(url), "trials": 4, "sampler": "grid"}
    given |= {"out": out, "tracking": False}
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
    with ScriptedServer(reasoned(5)) as running:
        yield running


@pytest.fixture(scope="module")
def whole(server: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An undisturbed study of three settings, and how many calls it made."""
    study = study_of(server.url, tmp_path_factory.mktemp("whole") / "out")
    study.made = len(server.requests)
    return study


@pytest.mark.nightly
def test_the_planted_strategy_is_found(whole: Any) -> None:
    best = whole.report.best
    assert best.setting["strategies"] == ["cot"]
    assert best.scores["accuracy"] == {**best.scores["accuracy"], "value": 1.0, "n": SCORE}
    assert best.value("calls") == 3  # of answering, without what training took
    assert whole.report.questions == {"train": 40, "scored": SCORE, "validation": 20}
    assert whole.validation.accuracy == 1.0
    assert fm.load_program(whole.folder / "winner").describe() == whole.best.describe()


@pytest.mark.nightly
def test_every_answer_is_paid_for_once(whole: Any, server: ScriptedServer) -> None:
    keys = [record["key"] for record in read_ledger(whole.folder)]
    assert len(keys) == len(set(keys)) == whole.made
    distinct = {json.dumps(body, sort_keys=True) for body in server.bodies[: whole.made]}
    assert whole.made <= 3 * len(distinct)  # each agent asks for an answer of its own, once
    calls = whole.report.calls
    assert calls["made"] == whole.made - 2 * 3 * 20
    assert calls["saved"] == calls["used"] - calls["made"] > FIT


@pytest.mark.nightly
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


@pytest.mark.nightly
def test_the_same_call_again_trains_nothing(whole: Any, server: ScriptedServer) -> None:
    before = len(server.requests)
    paths = whole.folder.glob("networks/*/training_log.json")
    logs = {path: path.stat().st_mtime_ns for path in paths}
    again = study_of(server.url, whole.folder)
    assert again.report == whole.report
    assert len(server.requests) == before
    assert all(path.stat().st_mtime_ns == known for path, known in logs.items())


@pytest.mark.nightly
def test_a_trained_one_is_taken(whole: Any, server: ScriptedServer, tmp_path: Path) -> None:
    learned = next(path for path in (whole.folder / "networks").iterdir() if path.is_dir())
    study = study_of(server.url, tmp_path / "out", f"network:{learned}", trials=1)
    assert study.trials[0].questions == FIT + SCORE
    assert not (tmp_path / "out" / "networks").exists()
    assert "scored" not in study.report.questions


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"nonsense": 3}, "network has no parameter 'nonsense'"),
        ({"agents": [3, 0]}, "network: agents: agents is 0"),
        ({"strategies": [["cot"], ["telepathy"]]}, "there is no strategy 'telepathy'"),
        ({"p": {"from": 0.5, "to": 1.5}, "agents": 5}, "p is 1.5"),
        ({"full_information": True}, "full_information and epochs auto ask every agent"),
        ({"lms": {"judge": "openai/a"}}, "no setting has an agent 'judge'"),
        ({"program": "network:"}, "names no folder"),
        ({"program": "network:nowhere"}, "there is no folder nowhere|network has no parameter"),
    ],
)
def test_a_wrong_space_is_named_in_one_sentence(changed: dict[str, Any], why: str) -> None:
    with pytest.raises(fm.UserError, match=why) as said:
        space_of({**NETWORK, "strategies": ["cot"], **changed})
    assert "\n" not in str(said.value)
