"""Where a study lives: a journal file beside its results, a database, or Optuna's gRPC proxy, by
URL.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

from ...modules.base.address import read_address
from ...modules.base.errors import UserError
from ...modules.base.extras import missing_extra
from ...modules.base.files import cut_torn_line, locked
from . import recovery

JOURNAL = "study.journal"
GRPC_PORT = 13000
READY_SECONDS = 20.0
_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
}
_FORMS = (
    "postgresql://USER:PASSWORD@HOST/DATABASE, mysql://…, sqlite:///FILE or grpc://HOST:PORT, or "
    "leave it "
    "out for a file in --out"
)


class _FileLock(JournalFileOpenLock):
    """A lock that goes with its process: Optuna's own is a file that a killed process leaves
    behind.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: AbstractContextManager[None] | None = None

    def acquire(self) -> bool:
        held = locked(self._path)
        held.__enter__()
        self._held = held
        return True

    def release(self) -> None:
        if self._held is not None:
            held, self._held = self._held, None
            held.__exit__(None, None, None)


def open_storage(url: str | None, folder: Path) -> BaseStorage:
    """Optuna's storage for a URL; None is a journal file in the folder.

    Raises UserError, without the password, for a URL that is none, a missing driver, and a server
    that does not answer.
    """
    if url is None:
        return _journal(folder / JOURNAL)
    return _proxy(url) if url.startswith("grpc://") else _database(url)


def is_local(url: str | None) -> bool:
    """Whether only processes of this machine can be at the study."""
    return url is None or url.startswith("sqlite:")


def safe_url(url: str | None) -> str:
    """The URL as it may be seen: without user, password and query."""
    if url is None:
        return JOURNAL
    try:
        parts = urlsplit(url)
    except ValueError:
        return url.partition(":")[0] + ":…"
    # the scheme was left out, and the user's name stands there
    if not parts.netloc and "@" in parts.path:
        return "…@" + parts.path.rpartition("@")[2]
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _journal(path: Path) -> BaseStorage:
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(path.name + ".lock")
    with locked(lock):
        path.touch()
        cut_torn_line(path)
    try:
        return JournalStorage(JournalFileBackend(str(path), lock_obj=_FileLock(lock)))
    except (ValueError, KeyError, AssertionError):
        raise UserError(f"{path} is damaged: choose another --out, or delete the folder") from None


def _proxy(url: str) -> BaseStorage:
    parts = read_address(url, ("grpc",), "--storage as grpc://HOST:PORT")
    host, port = str(parts.hostname), parts.port or GRPC_PORT
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
        raise UserError(f"--storage {safe_url(url)!r} is no URL: give {_FORMS}")
    engine: dict[str, Any] = {}
    if scheme.partition("+")[0] in ("postgresql", "postgres", "mysql"):
        if not rest.startswith("/"):  # which is a socket of this machine
            read_address(url, (scheme,), f"--storage as {_FORMS}")
        engine = {"pool_pre_ping": True, "connect_args": {"connect_timeout": int(READY_SECONDS)}}
    try:
        return RDBStorage(
            f"{_DRIVERS.get(scheme, scheme)}://{rest}",
            engine_kwargs=engine,
            heartbeat_interval=recovery.BEAT_SECONDS,
            grace_period=recovery.GRACE_SECONDS,
            heartbeat_stale_trial_callback=recovery.retry,
        )
    except ImportError as problem:
        raise _missing(problem, url) from None
    except (SQLAlchemyError, ValueError, OSError, RuntimeError) as problem:
        why = _why(problem, url)
        raise UserError(
            f"the storage {safe_url(url)} cannot be used ({why}): start it, or correct --storage"
        ) from None


def _missing(problem: ImportError, url: str) -> UserError:
    feature = f"the storage {safe_url(url)}"
    name = str(getattr(problem.__cause__, "name", problem.name)).partition(".")[0]
    if name in ("psycopg", "grpc"):
        return missing_extra(feature, "postgres")
    return UserError(f"{feature} needs the package {name}: pip install {name}")


def _why(problem: Exception, url: str) -> str:
    """The reason in a line, without the URL's secrets."""
    text = " ".join(str(problem.__cause__ or problem).split())
    text = text.replace(url, safe_url(url))
    try:
        secrets = [urlsplit(url).password, urlsplit(url).query]
    except ValueError:
        return type(problem).__name__
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    return re.sub(r"//[^/@\s]+@", "//***@", text)[:200]
