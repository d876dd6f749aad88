"""Where a study lives: a journal file beside its results, a database, or Optuna's gRPC proxy, by URL."""

from __future__ import annotations

import fcntl
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import optuna
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.storages.journal._file import BaseJournalFileLock

from ...modules.base.errors import UserError

JOURNAL = "study.journal"
GRPC_PORT = 13000
READY_SECONDS = 20.0
_DRIVERS = {"postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg", "mysql": "mysql+pymysql"}
_INSTALL = {
    "psycopg": "pip install 'folkmoot[postgres]'",
    "pymysql": "pip install pymysql",
    "grpc": "pip install 'folkmoot[postgres]'",
}
_FORMS = (
    "postgresql://USER:PASSWORD@HOST/DATABASE, mysql://…, sqlite:///FILE or grpc://HOST:PORT, or leave it "
    "out for a file in --out"
)


class _FileLock(BaseJournalFileLock):
    """A lock that goes with its process: Optuna's own is a file that a killed process leaves behind."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def acquire(self) -> bool:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        fcntl.flock(file, fcntl.LOCK_EX)
        self._file = file
        return True

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def open_storage(url: str | None, folder: Path) -> BaseStorage:
    """Optuna's storage for a URL; None is a journal file in the folder.

    Raises UserError, without the password, for a URL that is none, a missing driver, and a server that does
    not answer.
    """
    if url is None:
        return _journal(folder / JOURNAL)
    return _proxy(url) if url.startswith("grpc://") else _database(url)


def is_local(url: str | None) -> bool:
    """Whether only processes of this machine can be at the study."""
    return url is None or url.startswith("sqlite:")


def shown(url: str | None) -> str:
    """The URL as it may be seen: without user, password and query."""
    if url is None:
        return JOURNAL
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        return urlunsplit((parts.scheme, host, parts.path, "", ""))
    except ValueError:
        return url.partition(":")[0] + ":…"


def _journal(path: Path) -> BaseStorage:
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = _FileLock(path.with_name(path.name + ".lock"))
    lock.acquire()
    try:
        with open(path, "a+b") as file:  # the last line of a process that was killed while it wrote
            file.seek(0)
            file.truncate(sum(len(line) for line in file if line.endswith(b"\n")))
    finally:
        lock.release()
    try:
        return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))
    except (ValueError, KeyError, AssertionError):
        raise UserError(f"{path} is damaged: choose another --out, or delete the folder") from None


def _proxy(url: str) -> BaseStorage:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or GRPC_PORT
    except ValueError:
        raise UserError(f"{shown(url)} is no address of a proxy: give grpc://HOST:PORT") from None
    if not host:
        raise UserError(f"{shown(url)} is no address of a proxy: give grpc://HOST:PORT")
    try:
        storage = optuna.storages.GrpcStorageProxy(host=host, port=port)
        storage.wait_server_ready(timeout=READY_SECONDS)
    except ImportError as problem:
        raise _missing(problem, url) from None
    except (ConnectionError, TimeoutError):
        raise UserError(
            f"no storage proxy answers at {host}:{port}: start one there, or correct --storage"
        ) from None
    return storage


def _database(url: str) -> BaseStorage:
    from sqlalchemy.exc import SQLAlchemyError

    scheme, colon, rest = url.partition("://")
    if not colon:
        raise UserError(f"--storage {shown(url)!r} is no URL: give {_FORMS}")
    engine: dict[str, Any] = {}
    if scheme.partition("+")[0] in ("postgresql", "postgres", "mysql"):
        engine = {"pool_pre_ping": True, "connect_args": {"connect_timeout": int(READY_SECONDS)}}
    try:
        full = f"{_DRIVERS.get(scheme, scheme)}://{rest}"
        rdb = optuna.storages.RDBStorage(full, engine_kwargs=engine)
        return optuna.storages._CachedStorage(rdb)
    except ImportError as problem:
        raise _missing(problem, url) from None
    except (SQLAlchemyError, ValueError, OSError, RuntimeError) as problem:
        why = _why(problem, url)
        raise UserError(
            f"the storage {shown(url)} cannot be used ({why}): start it, or correct --storage"
        ) from None


def _missing(problem: ImportError, url: str) -> UserError:
    text = f"{problem} {problem.__cause__ or ''}"
    name = next((name for name in _INSTALL if name in text.casefold()), None)
    advice = _INSTALL.get(name or "", "install its driver")
    return UserError(f"the storage {shown(url)} needs {name or 'a driver'}, which is not installed: {advice}")


def _why(problem: Exception, url: str) -> str:
    """The reason in a line, without what the URL keeps secret."""
    text = " ".join(str(problem.__cause__ or problem).split())
    text = text.replace(url, shown(url))
    try:
        secrets = [urlsplit(url).password, urlsplit(url).query]
    except ValueError:
        return type(problem).__name__
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    return re.sub(r"//[^/@\s]+@", "//***@", text)[:200]
