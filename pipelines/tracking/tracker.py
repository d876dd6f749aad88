"""Looks up runs of the store that were pushed earlier, and adds files to them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from .store import check_place, missing_store, open_client, quiet, store_uri
from .values import problem_line

if TYPE_CHECKING:
    from mlflow import MlflowClient

LOCAL_UI = "http://127.0.0.1:5000"
"""Where `folkmoot ui` shows a store that has no server."""


def trace_pages(run_ids: Sequence[str]) -> dict[str, str]:
    """The address of each run's traces in MLflow's UI, without credentials, to be followed by a
    trace's id. A run that the store does not show has none.
    """
    uri = urlsplit(store_uri())
    place = (
        uri._replace(netloc=uri.netloc.rpartition("@")[2], query="", fragment="")
        .geturl()
        .rstrip("/")
    )
    server = place if uri.scheme in ("http", "https") else LOCAL_UI
    found = experiments_of(run_ids)
    return {
        run_id: f"{server}/#/experiments/{experiment}/traces/"
        for run_id, experiment in found.items()
    }


def add_to_runs(run_ids: Sequence[str], path: Path, seconds: float = 60.0) -> str | None:
    """Add a file to runs as an artifact. Returns what went wrong, in a line, or None.

    A run that this store does not have is passed over if another one was found. Waits at most so
    long.
    """

    def add(client: MlflowClient, run_id: str) -> None:
        check_place(client.get_run(run_id).info.artifact_uri)
        client.log_artifact(run_id, str(path))

    done, problem = _each(run_ids, add, seconds)
    return problem if not done else None


def experiments_of(run_ids: Sequence[str], seconds: float = 10.0) -> dict[str, str]:
    """The experiment that each run is in; a run that the store does not show in time is
    left out.
    """
    done, _ = _each(
        run_ids, lambda client, run_id: str(client.get_run(run_id).info.experiment_id), seconds
    )
    return done


_T = TypeVar("_T")


def _each(
    run_ids: Sequence[str], work: Callable[[MlflowClient, str], _T], seconds: float
) -> tuple[dict[str, _T], str | None]:
    """What something gives for each run that this store has, and what went wrong first, in a line.

    A store that is not there is not made. Waits at most so long.
    """
    problems: list[str] = []
    done: dict[str, _T] = {}

    def do() -> None:
        try:
            with quiet():
                if missing := missing_store():  # runs of another store are no reason to make one
                    problems.append(f"there is no store {missing}")
                    return
                client = open_client()
                for run_id in run_ids:
                    try:
                        done[run_id] = work(client, run_id)
                    except Exception as problem:
                        problems.append(problem_line(problem))
        except Exception as problem:  # of MLflow, a driver or the network
            problems.append(problem_line(problem))

    thread = threading.Thread(target=do, name="folkmoot-mlflow", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        return {}, "it does not answer in time"
    return done, problems[0] if problems else None
