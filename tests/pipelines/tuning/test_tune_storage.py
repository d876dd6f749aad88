"""Where studies live: files, PostgreSQL, Optuna's proxy; workers killed anywhere; passwords."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from children import WARM, Forked
from postgres import PASSWORD, server
from tuned import critic_first, killed_at, scripted_by, settings_of, study_at

import folkmoot as fm
from folkmoot.pipelines.lms.ledger import read_ledger
from folkmoot.pipelines.testing.server import ScriptedServer
from folkmoot.pipelines.tracking.store import open_client
from folkmoot.pipelines.tuning import recovery, worker, workers
from folkmoot.pipelines.tuning.report import calls_of
from folkmoot.pipelines.tuning.storage import open_storage, safe_url
from folkmoot.pipelines.tuning.trial import Scorer

TRIALS = 3
POINTS: dict[str, tuple[Any, str, int]] = {
    "before it is claimed": (recovery.Crew, "claim", 2),
    "before its setting is drawn": (worker, "suggested", 2),
    "between two rungs": (Scorer, "measured", 4),
    "before its result is noted": (worker, "_note", 2),
    "before its replays are added": (worker.StudyWorker, "_add_replayed", 2),
}


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    with server() as url:
        yield url


@pytest.fixture
def storage(request: pytest.FixtureRequest) -> str | None:
    url: str = request.param if request.param == "own" else request.getfixturevalue("postgresql")
    return None if url == "own" else url


@pytest.fixture(scope="module")
def planted() -> Iterator[ScriptedServer]:
    with ScriptedServer(scripted_by(critic_first)) as running:
        yield running


@pytest.fixture(scope="module")
def undisturbed(planted: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return settings_of(study_at(planted.url, tmp_path_factory.mktemp("undisturbed"), trials=TRIALS))


def kill(point: str, url: str, out: Path, storage: str | None, name: str) -> None:
    """A worker that is killed there, in a process of its own."""
    owner, function, count = POINTS[point]
    killed_at(owner, function, count)
    study_at(url, out, storage=storage, study=name, trials=TRIALS)


def die(function: Any, *arguments: Any) -> None:
    child = Forked(target=function, args=arguments)
    child.start()
    child.join(120)
    assert child.exitcode == -9


def has_lost_nothing(study: Any, lost: int, trials: int = TRIALS) -> None:
    """Every place has a finished trial, with a lost one's setting if drawn; nothing is open."""
    done = {e.place: e.setting for e in study.trials if e.state in ("complete", "pruned")}
    counts = study.report.trials
    assert sorted(done) == list(range(trials))
    assert counts["complete"] + counts["pruned"] == trials
    assert counts["running"] == counts["waiting"] == 0
    given_back = [entry for entry in study.trials if entry.lost]
    assert len(given_back) == lost
    assert all(e.setting is None or e.setting == done[e.place] for e in given_back)


@pytest.mark.nightly
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("storage", ["own", "postgresql"], indirect=True)
def test_a_killed_worker_gives_its_trial_back(point, storage, planted, undisturbed, tmp_path):
    out, name = tmp_path / "out", f"here {point}"
    die(kill, point, planted.url, out, storage, name)
    study = study_at(planted.url, out, storage=storage, study=name, trials=TRIALS)
    has_lost_nothing(study, lost=0 if "replays" in point else 1)
    assert settings_of(study) == undisturbed
    keys = [record["key"] for record in read_ledger(out)]
    assert len(keys) == len(set(keys))
    everything = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
    assert PASSWORD.encode() not in everything


@pytest.mark.nightly
@pytest.mark.parametrize("point", list(POINTS)[:-1])
@pytest.mark.parametrize("storage", ["postgresql"], indirect=True)
def test_a_worker_killed_on_another_machine_is_missed_when_its_heartbeat_stops(
    point, storage, planted, tmp_path
):
    name = f"there {point}"
    die(kill, point, planted.url, tmp_path / "there", storage, name)
    study = study_at(planted.url, tmp_path / "here", storage=storage, study=name, trials=TRIALS)
    has_lost_nothing(study, lost=1)


@pytest.mark.nightly
@pytest.mark.parametrize("storage", ["postgresql"], indirect=True)
def test_machines_share_a_study(storage: str, planted: ScriptedServer, tmp_path: Path) -> None:
    there = {"storage": storage, "study": "joined", "trials": 8}
    child = Forked(target=study_at, args=(planted.url, tmp_path / "other"), kwargs=there)
    child.start()
    study = study_at(planted.url, tmp_path / "mine", **there)
    child.join(120)
    assert child.exitcode == 0
    has_lost_nothing(study, lost=0, trials=8)
    judged = [(tmp_path / name / "validation").exists() for name in ("mine", "other")]
    assert judged.count(True) == 1
    homes = {path.parts[-3] for path in tmp_path.glob("*/*/ledger.jsonl")}
    assert homes == {"mine", "other"}
    assert study.report.calls["used"] < calls_of(study.report.table, 0)["used"], "only its own"


@pytest.mark.nightly
def test_mlflow_and_optuna_need_a_database_each(postgresql, tmp_path, monkeypatch):
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(postgresql, autocommit=True) as database:
        database.execute("CREATE DATABASE of_mlflow")
    other = f"{postgresql.rpartition('/')[0]}/of_mlflow"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", other)
    open_client()
    with pytest.raises(
        fm.UserError, match=r"of_mlflow is .* not of Optuna .*: give --storage another database$"
    ):
        open_storage(other, tmp_path)
    open_storage(postgresql, tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", postgresql)
    with pytest.raises(fm.UserError, match=r"not of MLflow .*: set MLFLOW_TRACKING_URI"):
        open_client()


@pytest.mark.nightly
def test_workers_find_the_same_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "CONTEXT", WARM)
    with ScriptedServer(scripted_by(critic_first)) as fresh:
        study = study_at(fresh.url, tmp_path / "out", trials=8, workers=2)
        has_lost_nothing(study, lost=0, trials=8)
        assert study.report.best.setting["roles"] == ["critic", "reasoner"]
        assert len(fresh.requests) == study.report.paid["calls"]


@pytest.mark.nightly
def test_two_commands_at_one_folder_end_alike(planted: ScriptedServer, tmp_path: Path) -> None:
    child = Forked(target=study_at, args=(planted.url, tmp_path / "out"))
    child.start()
    study = study_at(planted.url, tmp_path / "out")
    child.join(120)
    assert child.exitcode == 0
    has_lost_nothing(study, lost=0, trials=8)
    assert study.report.validation is not None


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (
            "postgresql://me:s3cret-canary@127.0.0.1:1/db",
            r"the storage postgresql://127.0.0.1:1/db cannot be used",
        ),
        ("mysql://me:s3cret-canary@127.0.0.1:1/db", "needs the package pymysql|cannot be used"),
        ("sqlite:////no/such/folder/x.db", "cannot be used"),
        ("u:s3cret-canary@h/x", r"--storage '…@h/x' is not a URL"),
        (
            "postgresql://me:s3cret-canary@s3cret-canary/x@h/db",
            "'postgresql://h/db' is an address with an @",
        ),
        ("postgresql://me:x?s3cret-canary@h/db", "'postgresql://h/db' is an address with an @"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
    ],
)
def test_unusable_storages_hide_passwords(tmp_path: Path, url: str, why: str) -> None:
    with pytest.raises(fm.UserError, match=why) as problem:
        open_storage(url, tmp_path)
    assert PASSWORD not in str(problem.value)
    assert "\n" not in str(problem.value)
    assert PASSWORD not in safe_url(url)
    file = "sqlite:////home/me@work/study.db"  # whose name is no user's
    assert safe_url(f"{file}?mode=ro") == file
