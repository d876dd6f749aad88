"""MLflow's own UI on the tracking store: a server that runs during a block."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from ...modules.base.errors import UserError, system_errors
from ..base.settings import SAFE_PATH
from .store import ENVIRONMENT, missing_store, open_client, quiet

STDERR = 2
START_SECONDS = 120.0
STOP_SECONDS = 10.0
# Without MLflow's background jobs, which the UI does not need.
STORE = "MLFLOW_BACKEND_STORE_URI"
SERVER_ENV = {
    **ENVIRONMENT,
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "PYTHONWARNINGS": "ignore",  # of packages that the server imports
}
# The same as MLflow's button "Share": a tag of the experiment holds the view, the address its key.
VIEW_TAG, VIEW_KEY, VIEW = "mlflow.sharedViewState.", "viewStateShareKey", "folkmoot"
# Widths that fit a screen of 1,440 pixels; figures that no run has get no column.
COLUMNS = {
    "metrics.`accuracy`": 88,
    "metrics.`accuracy_low`": 102,
    "metrics.`accuracy_high`": 108,
    "metrics.`difference`": 90,
    "metrics.`cost_per_1000`": 115,
    "metrics.`tokens_per_question`": 145,
    "metrics.`questions`": 80,
    "params.`program`": 120,
    "params.`lm`": 120,
}
CARD = {"metricSectionId": VIEW, "deleted": False, "isGenerated": False}
# The charts show the differences between the runs, and accuracy against cost.
CARDS: list[dict[str, object]] = [
    {
        **CARD,
        "uuid": f"{VIEW}-DIFFERENCE",
        "type": "DIFFERENCE",
        "chartName": "Runs difference view",
        "compareGroups": ["Model metrics", "Parameters"],
        "showChangeFromBaseline": False,
        "showDifferencesOnly": True,
        "baselineColumnUuid": "",
        "runsCountToCompare": 10,
    },
    {
        **CARD,
        "uuid": f"{VIEW}-SCATTER",
        "type": "SCATTER",
        "xaxis": {"key": "cost_per_1000", "type": "METRIC"},
        "yaxis": {"key": "accuracy", "type": "METRIC"},
        "runsCountToCompare": 100,
    },
    {
        **CARD,
        "uuid": f"{VIEW}-PARALLEL",
        "type": "PARALLEL",
        "selectedParams": ["program", "rounds", "tie_break", "optimizer"],
        "selectedMetrics": ["accuracy", "cost_per_1000"],
        "runsCountToCompare": 100,
    },
]
SECTION = {
    "uuid": VIEW,
    "name": "What differs",
    "display": True,
    "isReordered": True,
    "columns": 1,
    "cardHeight": 420,
}


def serve(uri: str, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Run the server until it is interrupted; `ready` gets the page to open once it answers.

    Raises UserError when the port is in use or the server does not start, KeyboardInterrupt on
    Ctrl-C.
    """
    check_port(host, port)
    with _running(server_command(host, port), uri) as process:
        here = {"0.0.0.0": "127.0.0.1", "::": "127.0.0.1"}.get(host, host)
        page = newest_runs(f"http://{f'[{here}]' if ':' in here else here}:{port}")
        _wait_until_up(process, here, port)
        ready(page)
        code = process.wait()
        raise UserError(
            f"MLflow's server ended by itself (exit code {code}): its messages are above"
        )


def newest_runs(address: str) -> str:
    """Return the page with the runs of the last used experiment, with their scores and bill as
    columns. Without an experiment, the address itself; in a store that does not accept the tag,
    MLflow's own columns.
    """
    page = address
    if missing_store() is None:  # else its server makes it, and two at once would fail
        with suppress(Exception), quiet():  # any error of MLflow, a database driver or the network
            client = open_client()
            (newest,) = client.search_experiments(max_results=1, order_by=["last_update_time DESC"])
            page += f"/#/experiments/{newest.experiment_id}/runs"
            view = json.dumps(shared_view())
            client.set_experiment_tag(newest.experiment_id, f"{VIEW_TAG}{VIEW}", view)
            page += f"?{VIEW_KEY}={VIEW}"
    return page


def shared_view() -> dict[str, object]:
    """Return the state of MLflow's table and charts of runs; MLflow's defaults hold for what is
    left out.
    """
    widths = {"attributes.`Run Name`": 285, "runDateAndNestInfo": 130, **COLUMNS}
    return {
        "selectedColumns": list(COLUMNS),
        "columnOrder": list(widths),
        "columnWidths": widths,
        "compareRunSections": [SECTION],
        "compareRunCharts": CARDS,
    }


def server_command(host: str, port: int) -> list[str]:
    """Return the command of MLflow's server, which reads its store's address from STORE, since
    every user of the machine can read command lines.
    """
    where = ["--host", host, "--port", str(port)]
    # uvicorn puts a folder first on the path, by default the working folder, whose modules are not
    # to be run.
    first = shlex.quote(sysconfig.get_path("stdlib"))
    quiet = ["--workers", "1", "--uvicorn-opts", f"--log-level warning --app-dir {first}"]
    return [sys.executable, "-m", "mlflow", "server", *where, *quiet]


def check_port(host: str, port: int) -> None:
    """Raise UserError if nothing can listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        # Like the server: a port that only waits for old connections to close counts as free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with system_errors(f"{host} port {port}", "choose another --port or --host", "is not free"):
            probe.bind((host, port))


@contextmanager
def _running(command: Sequence[str], uri: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command in its own process group, which is stopped at the end of the block."""
    # The server's output goes to standard error.
    env = {**SERVER_ENV, **os.environ, STORE: uri, **SAFE_PATH}
    process = subprocess.Popen(
        command, env=env, stdout=STDERR, stderr=STDERR, start_new_session=True
    )
    # Without a handler a closed terminal would end this process alone, and leave the server
    # running.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        yield process
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, number)
                process.wait(STOP_SECONDS)


def _wait_until_up(process: subprocess.Popen[bytes], host: str, port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise UserError(
                f"MLflow's server did not start (exit code {process.returncode}): its messages are "
                "above"
            )
        with suppress(OSError), socket.create_connection((host, port), timeout=5):
            return  # it listens once it is ready
        time.sleep(0.2)
    raise UserError(
        f"MLflow's server gave no answer within {START_SECONDS:g} s: try again, or run "
        "`mlflow server`"
    )
