"""Where studies live: real PostgreSQL, Optuna's proxy and the journal; workers that die;
passwords.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from children import WARM, Forked
from postgres import PASSWORD, server
from tuned import critic_first, killed_at, proxy, scripted_by, study_at, work_at

import folkmoot as fm
from folkmoot.pipelines.testing.server import ScriptedServer
from folkmoot.pipelines.tuning import recovery, workers
from folkmoot.pipelines.tuning.storage import open_storage, safe_url
from folkmoot.pipelines.tuning.worker import StudyWorker

TRIALS = 8


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with server() as url:
        yield url


@pytest.fixture
def planted() -> Iterator[ScriptedServer]:
    with ScriptedServer(scripted_by(critic_first), delay=0.02) as running:
        yield running


def accounted_for(study: Any, lost: int | None = None) -> None:
    """Every place has one finished trial, nothing is open, and what was lost was tried again."""
    table = study.trials
    done = [entry["place"] for entry in table if entry["state"] in ("complete", "pruned")]
    assert sorted(done) == list(range(TRIALS))
    assert study.report["trials"]["running"] == study.report["trials"]["waiting"] == 0
    if lost is not None:
        assert sum("lost" in entry for entry in table) == lost


def kill_one_mid_trial(
    url: str, storage: str | None, folders: list[Path], planted: ScriptedServer
) -> None:
    """Two workers; the first is killed while it has calls in flight."""
    workers = [Forked(target=work_at, args=(url, folder, storage, TRIALS)) for folder in folders]
    workers[0].start()
    while len(planted.requests) < 10:
        time.sleep(0.01)
    workers[1].start()
    workers[0].kill()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [-9, 0]


@pytest.mark.nightly
def test_a_worker_killed_on_postgresql_loses_nothing(
    database: str, planted: ScriptedServer, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    kill_one_mid_trial(planted.url, database, [out, out], planted)
    study = study_at(planted.url, out, storage=database, study="study", trials=TRIALS)
    accounted_for(study, lost=1)
    assert study.report["best"]["setting"]["roles"] == ["critic", "reasoner"]
    everything = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
    assert PASSWORD.encode() not in everything
    assert study.report["storage"].startswith("postgresql://127.0.0.1:")


@pytest.mark.nightly
def test_a_machine_that_died_is_noticed_by_its_silence(
    database: str, planted: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "silent"
    child = Forked(target=_other_machine, args=(planted.url, tmp_path / "other", database, name))
    child.start()
    while len(planted.requests) < 10:
        time.sleep(0.01)
    child.kill()
    child.join()
    monkeypatch.setattr(recovery, "GRACE_SECONDS", 1)
    study = study_at(planted.url, tmp_path / "mine", storage=database, study=name, trials=TRIALS)
    accounted_for(study, lost=1)


def _other_machine(url: str, out: Path, storage: str, name: str) -> None:
    study_at(url, out, storage=storage, study=name, trials=TRIALS)


@pytest.mark.nightly
def test_machines_with_folders_of_their_own_share_a_study(
    database: str, planted: ScriptedServer, tmp_path: Path
) -> None:
    name = "joined"
    child = Forked(target=_other_machine, args=(planted.url, tmp_path / "other", database, name))
    child.start()
    study = study_at(planted.url, tmp_path / "mine", storage=database, study=name, trials=TRIALS)
    child.join(120)
    assert child.exitcode == 0
    accounted_for(study, lost=0)
    assert [(tmp_path / name / "validation").exists() for name in ("mine", "other")].count(
        True
    ) == 1
    homes = {path.parent.name for path in tmp_path.glob("*/ledger.jsonl")}
    assert homes == {"mine", "other"}


@pytest.mark.nightly
def test_the_grpc_proxy_is_a_storage(planted: ScriptedServer, tmp_path: Path) -> None:
    pytest.importorskip("grpc")
    kept = optuna.storages.get_storage(f"sqlite:///{tmp_path / 'study.db'}")
    study = study_at(
        planted.url, tmp_path / "out", storage=proxy(kept), study="study", trials=TRIALS
    )
    accounted_for(study, lost=0)
    assert len(optuna.load_study(study_name="study", storage=kept).trials) == len(study.trials)


@pytest.mark.nightly
def test_worker_processes_share_a_journal_and_one_that_dies_is_replaced(
    planted: ScriptedServer, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    kill_one_mid_trial(planted.url, None, [out, out], planted)
    study = study_at(planted.url, out, study="study", trials=TRIALS)
    accounted_for(study, lost=1)


@pytest.mark.nightly
def test_workers_give_the_same_best_and_pay_once(
    planted: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "CONTEXT", WARM)
    planted.delay = 0.0
    study = study_at(planted.url, tmp_path / "out", trials=TRIALS, workers=2)
    accounted_for(study, lost=0)
    assert study.report["best"]["setting"]["roles"] == ["critic", "reasoner"]
    assert len(planted.requests) == study.report["paid"]["calls"]


@pytest.mark.parametrize("when", ["before it is scored", "before its result is told"])
@pytest.mark.nightly
def test_a_worker_that_was_only_slow_does_not_finish_a_trial_twice(
    planted: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    planted.delay = 0.0
    closed: list[int] = []
    scored = StudyWorker._scored

    def too_slow(self: Any, trial: Any, setting: Any) -> Any:
        def close() -> None:
            if not closed:
                closed.append(trial.number)
                self._crew.close(trial.number)

        if when == "before it is scored":
            close()
        found = scored(self, trial, setting)
        close()
        return found

    monkeypatch.setattr(StudyWorker, "_scored", too_slow)
    study = study_at(planted.url, tmp_path / "out", trials=TRIALS)
    accounted_for(study, lost=1)


@pytest.mark.nightly
def test_a_trial_that_kills_its_workers_is_given_up(
    planted: ScriptedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "ATTEMPTS", 2)
    planted.delay = 0.0
    out = tmp_path / "out"
    for _ in range(recovery.ATTEMPTS):
        child = Forked(target=_deadly, args=(planted.url, out))
        child.start()
        child.join(60)
        assert child.exitcode == -9
    study = study_at(planted.url, out, trials=2)
    assert [entry["place"] for entry in study.trials if entry["state"] == "complete"] == [1]
    assert sum("lost" in entry for entry in study.trials) == recovery.ATTEMPTS


def _deadly(url: str, out: Path) -> None:
    killed_at(StudyWorker, "_scored", 1)
    study_at(url, out, trials=2)


def test_a_torn_last_line_of_the_journal_is_dropped(
    planted: ScriptedServer, tmp_path: Path
) -> None:
    planted.delay = 0.0
    out = tmp_path / "out"
    first = study_at(planted.url, out, trials=2)
    with open(out / "study.journal", "ab") as file:
        file.write(b'{"op_code": 5, "worker')
    assert study_at(planted.url, out, trials=2).report == first.report


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (
            "postgresql://me:s3cret-canary@127.0.0.1:1/db",
            r"the storage postgresql://127.0.0.1:1/db cannot be used",
        ),
        ("mysql://me:s3cret-canary@127.0.0.1:1/db", "needs the package pymysql|cannot be used"),
        ("oracle+x://me:s3cret-canary@host/db", "oracle"),
        ("grpc://", "grpc:// is not a usable address"),
        ("sqlite:////no/such/folder/x.db", "cannot be used"),
    ],
)
def test_unusable_storages_are_named_without_their_password(
    tmp_path: Path, url: str, why: str
) -> None:
    with pytest.raises(fm.UserError, match=why) as problem:
        open_storage(url, tmp_path)
    assert PASSWORD not in str(problem.value)
    assert "\n" not in str(problem.value)


def test_shown_addresses_hold_no_secret() -> None:
    assert (
        safe_url("postgresql://me:pw@db.example:5432/moot?sslpassword=x")
        == "postgresql://db.example:5432/moot"
    )
    assert safe_url(None) == "study.journal"
    assert safe_url("u:PW@h/x") == safe_url("PW@h/x") == "…@h/x"


def test_an_address_without_its_scheme_is_refused_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(fm.UserError, match=r"--storage '…@h/x' is no URL") as problem:
        open_storage("u:PW@h/x", tmp_path)
    assert "PW" not in str(problem.value)
