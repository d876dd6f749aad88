"""Begins runs in the sinks that are in use: MLflow's, and an OTLP endpoint where the environment
has one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from .mlflow_sink import MlflowTracker, attach, experiments_of
from .otlp import OtlpTracker, otlp_endpoint
from .store import store_uri
from .uploads import Tracker

LOCAL_UI = "http://127.0.0.1:5000"
"""Where `folkmoot ui` shows a store that has no server."""


def start_tracking(
    run: Mapping[str, Any],
    folder: Path | None = None,
    *,
    traces: int = 0,
    keep: Any = None,
    key: str | None = None,
) -> Tracker:
    """Begin a run, or go on with the one that `run` names.

    Args: run: what the run is of: `program`, `program_hash`, `prompt_hash`, `lms`,
        `data_fingerprint`, `questions`, `settings`, `versions`, `git_commit`.
        folder: that of an evaluation. Its `run.json` names the run as soon as there is one, and
            what the store does not take is noted there, to be pushed later.
        traces: how many traces are to come.
        keep: for a folder that is temporary, what it goes with.
        key: the key of an earlier attempt, which may have begun the run.

    Waits a few seconds for a store that does not answer; what fails is tried again at the end.
    """
    tracker = MlflowTracker(run, folder, traces=traces, keep=keep, key=key)
    tracker.open()
    endpoint = otlp_endpoint() if folder is not None else None
    if folder is None or endpoint is None:
        return tracker
    return OtlpTracker(
        tracker, endpoint, folder, str(run.get("tracking_key") or run["program_hash"]), keep
    )


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


def add_to_runs(run_ids: Sequence[str], path: Path) -> str | None:
    """Add a file to runs that were tracked earlier. Returns what went wrong, in a line, or None."""
    return attach(run_ids, path)
