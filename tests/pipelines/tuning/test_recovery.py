"""Workers that are killed at every point of a trial's life, on real databases: nothing is lost or
stuck.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from mortal import Forked
from postgres import server
from tuned import critic_first, killed_at, proxy, scripted_by, settings_of, study_at

from folkmoot.optimizers.structure.search import SeededSampler
from folkmoot.pipelines.lms.ledger import read_ledger
from folkmoot.pipelines.testing.server import ScriptedServer
from folkmoot.pipelines.tuning import recovery, worker
from folkmoot.pipelines.tuning.trial import Scorer

TRIALS = 3
POINTS: dict[str, tuple[Any, str, int]] = {
    "before the first beat": (SeededSampler, "before_trial", 2),
    "before it is named": (recovery.Crew, "claim", 2),
    "before its setting is drawn": (worker, "suggested", 2),
    "once its setting is drawn": (worker.StudyWorker, "_scored", 2),
    "between two rungs": (Scorer, "measured", 6),
    "before its result is noted": (worker, "_note", 2),
    "before its replays are added": (worker.StudyWorker, "_add_replayed", 2),
}


def kill(point: str, url: str, out: Path, storage: str | None, name: str) -> None:
    """A worker that is killed there, in a process of its own."""
    owner, function, count = POINTS[point]
    killed_at(owner, function, count)
    study_at(url, out, storage=storage, study=name, trials=TRIALS)


def kill_between_fail_and_retry(url: str, out: Path, storage: str, name: str) -> None:
    recovery.GRACE_SECONDS = 1
    killed_at(recovery, "retry", 1)
    study_at(url, out, storage=storage, study=name, trials=TRIALS)


def die(function: Any, *arguments: Any) -> None:
    child = Forked(target=function, args=arguments)
    child.start()
    child.join(120)
    assert child.exitcode == -9


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    with server() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return database(request.param, request, tmp_path)


@pytest.fixture(params=["journal", "sqlite", "postgresql"])
def any_storage(request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    return None if request.param == "journal" else database(request.param, request, tmp_path)


def database(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if kind == "sqlite":
        return f"sqlite:///{tmp_path / 'study.db'}"
    url: str = request.getfixturevalue("postgresql")
    return url


@pytest.fixture(scope="module")
def planted() -> Iterator[ScriptedServer]:
    with ScriptedServer(scripted_by(critic_first)) as running:
        yield running


@pytest.fixture(scope="module")
def undisturbed(planted: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return settings_of(study_at(planted.url, tmp_path_factory.mktemp("undisturbed"), trials=TRIALS))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "BEAT_SECONDS", 1)
    monkeypatch.setattr(recovery, "GRACE_SECONDS", 1)


def has_lost_nothing(study: Any, lost: int) -> None:
    """Every place has one finished trial, with the setting of the one that was lost if that was
    drawn.
    """
    done = {e["place"]: e["setting"] for e in study.trials if e["state"] in ("complete", "pruned")}
    assert sorted(done) == list(range(TRIALS))
    assert study.report["trials"]["complete"] + study.report["trials"]["pruned"] == TRIALS
    assert study.report["trials"]["running"] == study.report["trials"]["waiting"] == 0
    given_back = [entry for entry in study.trials if "lost" in entry]
    assert len(given_back) == lost
    assert all(e["setting"] is None or e["setting"] == done[e["place"]] for e in given_back)


BY_DAY = [(point, "sqlite") for point in ("before the first beat", "between two rungs")]
BY_DAY += [("before the first beat", "journal"), ("between two rungs", "postgresql")]
"""The points that are tried by day, and on which storage; at night each is tried on all."""


@pytest.mark.parametrize(
    ("point", "any_storage"),
    [
        pytest.param(point, kind, marks=[] if (point, kind) in BY_DAY else [pytest.mark.nightly])
        for point in POINTS
        for kind in ("journal", "sqlite", "postgresql")
    ],
    indirect=["any_storage"],
)
def test_a_killed_worker_gives_its_trial_back(
    point: str,
    any_storage: str | None,
    planted: ScriptedServer,
    undisturbed: list[Any],
    tmp_path: Path,
) -> None:
    out, name = tmp_path / "out", f"here {point}"
    die(kill, point, planted.url, out, any_storage, name)
    study = study_at(planted.url, out, storage=any_storage, study=name, trials=TRIALS)
    has_lost_nothing(study, lost=0 if "replays" in point else 1)
    assert settings_of(study) == undisturbed
    keys = [record["key"] for record in read_ledger(out)]
    assert len(keys) == len(set(keys))


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("point", "storage"),
    [
        pytest.param(point, kind, marks=[] if (point, kind) == BY_DAY[0] else [pytest.mark.nightly])
        for point in list(POINTS)[:-1]
        for kind in ("sqlite", "postgresql")
    ],
    indirect=["storage"],
)
def test_a_worker_killed_on_another_machine_gives_its_trial_back(
    point: str, storage: str, planted: ScriptedServer, tmp_path: Path
) -> None:
    name = f"there {point}"
    die(kill, point, planted.url, tmp_path / "there", storage, name)
    study = study_at(planted.url, tmp_path / "here", storage=storage, study=name, trials=TRIALS)
    has_lost_nothing(study, lost=1)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("folder", "storage"),
    [
        ("here", "sqlite"),
        *(
            pytest.param(*where, marks=pytest.mark.nightly)
            for where in (("there", "sqlite"), ("there", "postgresql"), ("here", "postgresql"))
        ),
    ],
    indirect=["storage"],
)
def test_a_worker_killed_after_it_closed_a_trial_and_before_it_queued_it_again(
    folder: str, storage: str, planted: ScriptedServer, tmp_path: Path
) -> None:
    name = f"swept {folder}"
    die(kill, "between two rungs", planted.url, tmp_path / "there", storage, name)
    time.sleep(recovery.GRACE_SECONDS + 1)  # the lost trial's pulse is old by then
    die(kill_between_fail_and_retry, planted.url, tmp_path / folder, storage, name)
    kept = optuna.load_study(
        study_name=name, storage=storage.replace("postgresql:", "postgresql+psycopg:")
    )
    assert kept.get_trials()[-1].state == optuna.trial.TrialState.FAIL
    study = study_at(planted.url, tmp_path / "here", storage=storage, study=name, trials=TRIALS)
    has_lost_nothing(study, lost=1)


@pytest.mark.parametrize(
    "any_storage",
    ["journal", "sqlite", pytest.param("postgresql", marks=pytest.mark.nightly)],
    indirect=True,
)
def test_a_study_that_ends_early_leaves_no_trial_of_a_dead_worker_running(
    any_storage: str | None, planted: ScriptedServer, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    die(kill, "between two rungs", planted.url, out, any_storage, "early")
    study = study_at(
        planted.url, out, storage=any_storage, study="early", trials=TRIALS, budget="1 call"
    )
    assert study.report["stopped"]
    assert study.report["trials"]["running"] == 0


@pytest.mark.parametrize("point", ["before the first beat", "between two rungs"])
@pytest.mark.nightly
def test_a_worker_at_the_grpc_proxy_is_missed_when_its_pulse_stops(
    point: str, planted: ScriptedServer, tmp_path: Path
) -> None:
    pytest.importorskip("grpc")
    address = proxy(optuna.storages.get_storage(f"sqlite:///{tmp_path / 'study.db'}"))
    die(kill, point, planted.url, tmp_path / "there", address, "proxied")
    study = study_at(
        planted.url, tmp_path / "here", storage=address, study="proxied", trials=TRIALS
    )
    has_lost_nothing(study, lost=1)
