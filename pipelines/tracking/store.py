"""The MLflow store: its address, whether it can be used, a quiet client with short time-outs, and
look-ups of runs that were pushed earlier.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import sqlite3
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit
from urllib.request import pathname2url, url2pathname

from ...modules.base.errors import UserError
from ...modules.base.fence import one_line
from ...modules.base.files import locked
from ..base.address import VERSIONS, check_database, check_tables, read_address
from ..runs.garbage import seldom_collected
from .context import CallerPlace, caller_place
from .values import problem_line, scrubbed

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment
    from sqlalchemy import URL

T = TypeVar("T")

CONNECT_SECONDS = 5.0
ARTIFACTS = "mlruns"
LONGEST_FOLDER = 60  # characters, of up to 4 bytes; a file system takes 255 bytes
# MLflow reads these on import or with each request; values set by the user are kept. Its own
# defaults wait minutes for a server that is down, print a link to standard output, and send
# telemetry.
ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_MODE": "PRODUCTION",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "5",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
# A server, or a path that is valid from every folder.
_NAMED = re.compile(r"databricks|/|file:/|sqlite[+\w]*:////|(?!file:|sqlite)[+\w]+:")
_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}


def open_client() -> MlflowClient:
    """Return a client of the store that MLflow itself would use here: MLFLOW_TRACKING_URI, else its
    default.

    A missing database is created. Raises whatever MLflow, SQLAlchemy or the operating system raise
    when the store cannot be used; an unreachable or locked database is noticed within
    CONNECT_SECONDS.
    """
    uri = store_uri()
    with seldom_collected():
        from mlflow import MlflowClient

        with quiet(), _one_at_a_time(uri):
            _check(uri)
            return MlflowClient(tracking_uri=uri)


def store_file() -> Path | None:
    """Return the SQLite file of the tracking store; None if the store is not a file."""
    return _sqlite_file(store_uri())


def missing_store() -> Path | None:
    """Return the SQLite file that `open_client` would create; None if it exists or is not a
    file.
    """
    path = store_file()
    return path if path is not None and not path.exists() else None


def of_this_mlflow(path: Path | None) -> bool:
    """Return whether a store is a file that can be written, with the tables of the installed
    MLflow. This is told without MLflow, which takes seconds to import.
    """
    home = find_spec("mlflow")
    if path is None or home is None:
        return False
    folder = Path(str(home.origin)).parent / "store" / "db_migrations" / "versions"
    steps, last = "".join(file.read_text() for file in folder.glob("*.py")), ""
    with suppress(sqlite3.Error), closing(sqlite3.connect(path, timeout=CONNECT_SECONDS)) as file:
        file.execute("BEGIN IMMEDIATE")
        ((last,),) = file.execute("SELECT version_num FROM alembic_version")
    return f'\nrevision = "{last}"' in steps and f'down_revision = "{last}"' not in steps


def push_words(registered: str | None = None) -> str:
    """Return the message of a command before it sends its run, whose program may enter the
    registry.
    """
    words = "logging to MLflow"
    if path := missing_store():
        words = f"making a new MLflow store in {path}, which takes some seconds, and logging to it"
    if registered:
        words += f", as models:/{registered}/latest for mlflow.pyfunc.load_model"
    return words


def store_uri() -> str:
    """Return the address of the tracking store: MLFLOW_TRACKING_URI, else MLflow's default in this
    folder.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    # computed without MLflow, which takes seconds to import and gives the same address
    if "mlflow" not in sys.modules:
        if named := os.environ.get("MLFLOW_TRACKING_URI"):
            return named
        # the file store of earlier MLflow versions
        if not any(path.name.isdigit() for path in Path(ARTIFACTS).glob("*")):
            place = str(Path("mlflow.db").absolute())
            # Before 3.18, MLflow wrote a blank in the folder's name as %20, also on disk.
            if list(map(int, version("mlflow").split(".")[:2])) < [3, 18]:
                place = pathname2url(place)
            return f"sqlite:///{place}"
    from mlflow import get_tracking_uri

    return str(get_tracking_uri())


def current_store() -> str:
    """Return the name of the store that MLflow itself would use here (see `store_name`), and of the
    workspace in it, which has its own experiments, runs and models.
    """
    name, workspace = store_name(store_uri()), os.environ.get("MLFLOW_WORKSPACE", "").strip()
    return f"{name}, workspace {workspace}" if workspace else name


def store_name(uri: str) -> str:
    """Return the name of a store on this machine: its address without a password, or the full path
    of a file.
    """
    path = _sqlite_file(uri)
    return f"sqlite:///{path}" if path is not None else str(scrubbed(uri))


def artifact_location(uri: str, experiment: str) -> str | None:
    """Return the place of artifacts: `mlruns/EXPERIMENT` beside an SQLite file; None lets any other
    store decide.
    """
    path = _sqlite_file(uri)
    if path is None:
        return None
    folder = re.sub(r"[^\w.-]", "-", experiment)[:LONGEST_FOLDER]
    return (path.parent / ARTIFACTS / (folder.strip(".") or "-")).as_uri()


def check_place(location: str) -> None:
    """Check the file location of an experiment, run or model of the store. A database or `mlruns`
    in the working folder may come from somebody else, so its files must stay in that folder. A
    store that the user named may keep files anywhere. Raises UserError for other files.
    """
    if _NAMED.match(os.environ.get("MLFLOW_TRACKING_URI", "")):
        return
    parts = urlsplit(location)
    path = Path(url2pathname(parts.path if parts.scheme else location)).resolve()
    local = parts.scheme in ("", "file") and not parts.netloc
    if local and path.is_relative_to(Path.cwd().resolve()):
        return
    raise UserError(
        f"the MLflow store found here would send files to {one_line(str(scrubbed(location)))}, "
        f"out of this folder: if you trust it, set MLFLOW_TRACKING_URI={store_name(store_uri())}"
    )


def _find_or_create(client: MlflowClient, name: str) -> str:
    """Return the id of the experiment of that name, which is created if missing."""
    from mlflow import MlflowException

    experiment = client.get_experiment_by_name(name)
    if experiment is None:
        try:
            # The kind makes MLflow's UI open on the table of runs.
            return client.create_experiment(
                name,
                artifact_location=artifact_location(client.tracking_uri, name),
                tags={"mlflow.experimentKind": "custom_model_development"},
            )
        except MlflowException as problem:
            if problem.error_code == "PERMISSION_DENIED":
                raise UserError(
                    f"you may not create the experiment {one_line(name)} there: set "
                    "MLFLOW_EXPERIMENT_NAME to one that you may log to"
                ) from None
            if problem.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
            experiment = client.get_experiment_by_name(name)  # another process has just created it
            assert experiment is not None
    return _active(client, experiment)


def experiment_at(client: MlflowClient, place: CallerPlace, name: str) -> str:
    """Return the id of the experiment that the user has set, or else of the one of that name. It is
    created if missing and restored if deleted. Raises UserError where hers is gone and she has set
    no other, and where her active model is gone, to which MLflow adds all metrics.
    """
    from mlflow import MlflowException

    if model := os.environ.get("MLFLOW_ACTIVE_MODEL_ID"):
        try:
            client.get_logged_model(model)
        except MlflowException:
            raise UserError(
                f"the store has no model {one_line(model)}: set MLFLOW_ACTIVE_MODEL_ID to another, "
                "or unset it"
            ) from None
    # `mlflow gc` may have removed hers: then what is set at the moment counts.
    for where in (place, caller_place()):
        number = where["mlflow_experiment_id"]
        if not number:
            return _find_or_create(client, where["mlflow_experiment"] or name)
        try:
            return _active(client, client.get_experiment(number))
        except MlflowException as problem:
            if problem.error_code not in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
                raise
    raise UserError(
        f"the store has no experiment {number}: set another by mlflow.set_experiment or "
        "MLFLOW_EXPERIMENT_ID, or none"
    )


def _active(client: MlflowClient, experiment: Experiment) -> str:
    """Return the id of an experiment, which is restored if deleted. Raises UserError as
    `check_place` does.
    """
    check_place(experiment.artifact_location)
    if experiment.lifecycle_stage != "active":
        client.restore_experiment(experiment.experiment_id)
    return str(experiment.experiment_id)


@contextmanager
def quiet() -> Iterator[None]:
    """Hide this thread's log messages of MLflow, Alembic and urllib3; errors still raise."""
    import mlflow  # its handlers exist only after the import

    thread = threading.get_ident()

    def of_others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    # MLflow's one handler serves its own loggers and Alembic's.
    places: list[logging.Filterer] = [
        *logging.getLogger(mlflow.__name__).handlers,
        logging.getLogger("urllib3.connectionpool"),
    ]
    for place in places:
        place.addFilter(of_others)
    try:
        yield
    finally:
        for place in places:
            place.removeFilter(of_others)


def _url(uri: str) -> URL | None:
    """Return the parts of a database's address; None for a server or a folder. Raises UserError for
    one that is not well-formed.
    """
    scheme = uri.partition("://")[0]
    if scheme.partition("+")[0] not in ("sqlite", *_PORTS):
        return None
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        return make_url(uri)
    except (ValueError, ArgumentError):
        raise UserError(
            "MLFLOW_TRACKING_URI is not the address of a database: write it as "
            f"{scheme}://USER:PASSWORD@HOST:PORT/NAME"
        ) from None


def _sqlite_file(uri: str) -> Path | None:
    url = _url(uri)
    if url is None or url.get_backend_name() != "sqlite" or url.database in (None, "", ":memory:"):
        return None
    return Path(str(url.database)).absolute()


def _check(uri: str) -> None:
    """Check that a database can be reached, since MLflow itself tries ten times, for 100
    seconds.
    """
    path, url = _sqlite_file(uri), _url(uri)
    if urlsplit(uri).scheme in ("http", "https"):
        read_address(uri, ("http", "https"), "MLFLOW_TRACKING_URI as http://HOST:PORT")
    if path is None and url is not None and url.get_backend_name() == "sqlite":
        raise UserError(
            f"{uri} ends with this process: set MLFLOW_TRACKING_URI to a file or server"
        )
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=CONNECT_SECONDS)) as database:
            # Takes the lock for writing, which shows that no other process keeps it.
            database.execute("BEGIN IMMEDIATE")
            database.rollback()
        check_database(path, "experiments", "MLflow", "set MLFLOW_TRACKING_URI to another file")
    elif url is not None:
        port = url.port or _PORTS.get(url.get_backend_name())
        if url.host and port is not None:
            socket.create_connection((url.host, port), timeout=CONNECT_SECONDS).close()
        # Whether a login or a socket of this machine is refused, is told by a first connection.
        from mlflow.store.db.utils import create_sqlalchemy_engine
        from sqlalchemy import inspect

        engine = create_sqlalchemy_engine(uri)  # type: ignore[no-untyped-call]
        try:
            tables = inspect(engine).get_table_names()
        finally:
            engine.dispose()
        if VERSIONS in tables:
            instead = "set MLFLOW_TRACKING_URI to another database"
            check_tables(store_name(uri), tables, "experiments", "MLflow", instead)


@contextmanager
def _one_at_a_time(uri: str) -> Iterator[None]:
    """Let one process at a time create the tables of a new SQLite file. The lock is on the folder:
    opening and closing the database file itself would drop SQLite's own locks.
    """
    path = _sqlite_file(uri)
    if path is None:
        yield
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.parent, needed=False):
        yield


def add_to_runs(run_ids: Sequence[str], path: Path) -> str | None:
    """Add a file to runs as an artifact. Returns the last error in one line, or None. Runs that are
    not in this store are skipped, unless none of them is. A missing store is not created, and one
    that cannot be opened is tried once.
    """
    if missing := missing_store():  # do not create a store because of runs in another one
        return f"there is no store {missing}"
    done, problem = False, None
    with quiet():
        try:
            client = open_client()
            client.search_experiments(max_results=1)
        except Exception as error:  # any error of MLflow, a driver or the network
            return problem_line(error)
        for run_id in run_ids:
            try:
                check_place(client.get_run(run_id).info.artifact_uri)
                client.log_artifact(run_id, str(path))
                done = True
            except Exception as error:
                problem = problem_line(error)
                if getattr(error, "error_code", None) == "RESOURCE_DOES_NOT_EXIST":
                    problem = "it does not have the run, which `folkmoot push FOLDER` sends"
    return None if done else problem
