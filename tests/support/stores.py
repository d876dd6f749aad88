"""MLflow stores for tests: copies of an empty one, since making its tables takes seconds."""

import fcntl
import os
import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing, suppress
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any


def new_store(folder: Path, name: str = "mlflow.db") -> str:
    """The address of a store of its own in this folder, with all tables and nothing in them."""
    shutil.copyfile(_template(), folder / name)
    return f"sqlite:///{folder / name}"


def read_migrations_once() -> None:
    """Optuna and MLflow read all migrations again for each store, most of a small study's time."""
    script = sys.modules.get("alembic.script")
    if script is None or getattr(script.ScriptDirectory, "read_once", False):
        return
    of_config, known = script.ScriptDirectory.from_config, dict[str, Any]()

    def from_config(config: Any) -> Any:
        place = config.get_main_option("script_location")
        if place not in known:
            known[place] = of_config(config)
        return known[place]

    script.ScriptDirectory.from_config, script.ScriptDirectory.read_once = from_config, True


def leave_out_syncs() -> None:
    """No test waits until the disk has what is written, which only a power failure would show."""
    os.fsync = lambda _file: None
    if (engine := sys.modules.get("sqlalchemy.engine")) is None:
        return
    event = import_module("sqlalchemy.event")
    if not event.contains(engine.Engine, "connect", _unsynced):
        event.listen(engine.Engine, "connect", _unsynced)


def _unsynced(connection: Any, _record: Any) -> None:
    if isinstance(connection, sqlite3.Connection):
        with suppress(sqlite3.Error):  # what is no store is found out by who asks it something
            connection.execute("PRAGMA synchronous=OFF")


@cache
def _template() -> Path:
    """Made once on a machine for each version of MLflow, by the first process that asks."""
    kept = Path(tempfile.gettempdir(), f"folkmoot-test-stores-{os.getuid()}")
    kept.mkdir(mode=0o700, exist_ok=True)
    path = kept / f"mlflow-{version('mlflow')}.db"
    if path.exists():
        return path
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _make(path)
    return path


def _make(path: Path) -> None:
    from mlflow import MlflowClient

    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    MlflowClient(f"sqlite:///{fresh}").search_experiments()
    # The default experiment names the folder that it was made in; MLflow makes one where there is
    # none.
    with closing(sqlite3.connect(fresh)) as database, database:
        database.execute("DELETE FROM experiments")
    os.replace(fresh, path)
