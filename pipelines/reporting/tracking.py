"""Adds a report to the MLflow runs of the evaluations that it is about; waits for a store only so long."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from ..tracking.store import missing_store, open_client, quiet
from ..tracking.values import masked

SECONDS = 60.0


def log_to_runs(run_ids: Sequence[str], path: Path) -> str | None:
    """Add the file to each run as an artifact. Returns what went wrong, in a line, or None.

    A run that this store does not have is passed over if another one was found.
    """
    problems: list[str] = []
    done: list[str] = []

    def work() -> None:
        try:
            with quiet():
                if missing := missing_store():  # runs of another store are no reason to make one
                    problems.append(f"there is no store {missing}")
                    return
                client = open_client()
                for run_id in run_ids:
                    _log(client, run_id, path, done, problems)
        except Exception as problem:  # of MLflow, a driver or the network
            problems.append(_line(problem))

    thread = threading.Thread(target=work, name="folkmoot-report", daemon=True)
    thread.start()
    thread.join(SECONDS)
    if thread.is_alive():
        return "it does not answer in time"
    return None if done or not problems else problems[0]


def _log(client: object, run_id: str, path: Path, done: list[str], problems: list[str]) -> None:
    from mlflow import MlflowClient

    assert isinstance(client, MlflowClient)
    try:
        client.log_artifact(run_id, str(path))
        done.append(run_id)
    except Exception as problem:
        problems.append(_line(problem))


def _line(problem: Exception) -> str:
    return masked(" ".join(str(problem).split()) or type(problem).__name__)[:300]
